// PTX as plain data: what the parser makes of a module's text. Names follow the PTX ISA.
//
//   DUOTONE_ASSIGN_OR_RETURN(PtxModule module, ParsePtx(text));
//   module.functions[0].body[3].op == Op::kFma
//
// Every instruction here has been checked against the table in runtime/emulator/isa.h: its
// modifiers are known, its operands have the right number and types.
#ifndef DUOTONE_RUNTIME_EMULATOR_PTX_H_
#define DUOTONE_RUNTIME_EMULATOR_PTX_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace duotone::emulator {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kF16x2,
  kBf16x2,
};
// Bytes of one value; a predicate has none.
inline int TypeBytes(Type type) {
  // In enum order.
  constexpr int8_t kBytes[] = {0, 0, 1, 2, 4, 8, 16, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 4, 8, 4, 4};
  static_assert(std::size(kBytes) == static_cast<size_t>(Type::kBf16x2) + 1);
  return kBytes[static_cast<size_t>(type)];
}
bool IsFloat(Type type);                   // kF16 to kBf16x2
bool IsPair(Type type);                    // kF16x2, kBf16x2
bool IsSigned(Type type);                  // kS8 to kS64
std::string_view TypeName(Type type);      // "f32"
Type TypeFromName(std::string_view name);  // kNone: there is no such type

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

// The first words of instructions.
enum class Op : uint8_t {
  kAbs,
  kActivemask,
  kAdd,
  kAddc,
  kAnd,
  kAtom,
  kBar,
  kBarWarpSync,
  kBfe,
  kBfi,
  kBfind,
  kBra,
  kBrev,
  kCall,
  kClz,
  kCnot,
  kCopysign,
  kCos,
  kCpAsync,
  kCpAsyncCommitGroup,
  kCpAsyncWaitAll,
  kCpAsyncWaitGroup,
  kCvt,
  kCvta,
  kDiv,
  kEx2,
  kExit,
  kFence,
  kFma,
  kIsspacep,
  kLd,
  kLdmatrix,
  kLg2,
  kLop3,
  kMad,
  kMadc,
  kMatch,
  kMax,
  kMembar,
  kMin,
  kMma,
  kMov,
  kMul,
  kMul24,
  kNanosleep,
  kNeg,
  kNot,
  kOr,
  kPopc,
  kPrefetch,
  kPrmt,
  kRcp,
  kRed,
  kRedux,
  kRem,
  kRet,
  kRsqrt,
  kSad,
  kSelp,
  kSet,
  kSetp,
  kShf,
  kShfl,
  kShl,
  kShr,
  kSin,
  kSlct,
  kSqrt,
  kSt,
  kStmatrix,
  kSub,
  kSubc,
  kTanh,
  kTestp,
  kTrap,
  kVote,
  kXor,
};

enum class Rounding : uint8_t {
  kNone,
  kRn,
  kRz,
  kRm,
  kRp,
  kRna,  // of a result that is a float
  kRni,
  kRzi,
  kRmi,
  kRpi,  // to an integer (also f32 to f32)
};

enum class Compare : uint8_t {
  kNone,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLo,
  kLs,
  kHi,
  kHs,  // unsigned, as kLt to kGe
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,  // true for NaN
  kNum,
  kNan,
};
enum class BoolOp : uint8_t { kNone, kAnd, kOr, kXor };  // setp.lt.and: with a further predicate

// Which half of a product: mul.lo, mul.hi, mul.wide.
enum class Product : uint8_t { kNone, kLo, kHi, kWide };

enum class Mode : uint8_t {
  kNone,
  // atom, red, redux, bar.red
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExch,
  kCas,
  kInc,
  kDec,
  kPopc,
  // shfl
  kUp,
  kDown,
  kBfly,
  kIdx,
  // vote, match
  kAll,
  kAny,
  kUni,
  kBallot,
  // bar; bar.red has kAnd, kOr or kPopc
  kSync,
  kArrive,
  // shf, with kWrap or kClamp below
  kL,
  kR,
  // prmt
  kF4e,
  kB4e,
  kRc8,
  kEcl,
  kEcr,
  kRc16,
  // testp
  kFinite,
  kInfinite,
  kNumber,
  kNotANumber,
  kNormal,
  kSubnormal,
};

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLt,
  kLanemaskLe,
  kLanemaskGt,
  kLanemaskGe,
  kClock,
  kClockHi,
  kClock64,
  kGlobaltimer,
  kTotalSmemSize,
  kDynamicSmemSize,
};

struct Operand {
  enum class Kind : uint8_t {
    kRegister,       // `index` in PtxFunction::registers; `negated`: !%p1
    kImmediate,      // `bits`, as `type` wants them: 0f3F800000 and 1.0 of an f32 are 0x3f800000
    kSpecial,        // `special`: %tid.x
    kSymbol,         // the address of variable `index`, plus `offset`
    kAddress,        // [base + offset]: `index` is the base register, or -1: only the offset
    kSymbolAddress,  // [symbol + offset]: `index` is the variable
    kLabel,          // `index` in PtxFunction::body, which may be its size
    kFunction,       // `index` in PtxModule::functions
    // _: a result that nobody wants, or a predicate that is not there. Only of setp, shfl, match,
    // ld, atom and the parts of mov.
    kSink,
  };
  Kind kind = Kind::kSink;
  Type type = Type::kNone;           // as which the instruction takes it
  Type register_type = Type::kNone;  // declared; wider than `type` in some loads, stores and cvts
  bool negated = false;
  Special special = Special::kTidX;
  int index = -1;
  uint64_t bits = 0;  // those of the type, zeros above; integers in two's complement
  int64_t offset = 0;
};
// Bytes of one lane's value in the operand's row: those of the register, which may be wider than
// the type, or of the type.
inline int RowBytes(const Operand& operand) {
  return TypeBytes(operand.kind == Operand::Kind::kRegister ? operand.register_type : operand.type);
}
// One operand as written: a scalar has one element, {%f1, %f2} two.
using OperandGroup = std::vector<Operand>;

struct Instruction {
  Op op = Op::kMov;
  // add.f32: type. cvt.rn.f16.f32, set.eq.u32.f32: type f16, source_type f32.
  // mma...f32.f16.f16.f32: type f32 (D and C), source_type f16 (A and B).
  Type type = Type::kNone;
  Type source_type = Type::kNone;
  Space space = Space::kGeneric;  // ld, st, atom, red, ldmatrix, cvta, isspacep
  Rounding rounding = Rounding::kNone;
  Compare compare = Compare::kNone;
  BoolOp combine = BoolOp::kNone;
  Product product = Product::kNone;
  Mode mode = Mode::kNone;
  bool ftz = false, sat = false, approx = false, full = false, relu = false, noftz = false;
  bool nan = false;          // min.NaN, max.NaN
  bool carry_out = false;    // add.cc
  bool wrap = false;         // shf.l.wrap
  bool shiftamt = false;     // bfind.shiftamt
  bool to = false;           // cvta.to
  bool nc = false;           // ld.global.nc
  bool is_volatile = false;  // and .relaxed, .acquire, .release, .mmio
  bool releases = false;     // .release, .acq_rel
  bool is_narrow = false;    // .cta, .cluster: of no reach beyond
  bool uni = false;          // bra.uni
  bool sync = false, aligned = false;
  bool trans = false;                    // ldmatrix, stmatrix
  bool bypass_l1 = false;                // cp.async.cg
  int vector = 1;                        // ld.v4; matrices of ldmatrix .x4
  int bytes = 0;                         // of cp.async; its groups left of wait_group
  std::array<int, 3> shape = {0, 0, 0};  // of mma: m, n, k

  int guard = -1;  // the register of @%p1; -1: always
  bool guard_negated = false;
  int results = 0;  // how many of the operands are written
  // In the order of the text. setp, shfl and match with one result get a kSink as their second. The
  // bytes of cp.async and the groups of wait_group are `bytes` and no operands. call: its results,
  // the function, its arguments.
  std::vector<OperandGroup> operands;

  int line = 0;         // of the PTX text, from 1
  int column = 0;       // where in the line it begins, from 0
  int source_file = 0;  // .loc: PtxModule::files; 0: none
  int source_line = 0;
};

struct Register {
  std::string name;
  Type type = Type::kNone;
};

// A variable of any state space.
struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  int64_t alignment = 1;
  int64_t bytes = 0;  // 0 for .extern .shared x[]
  bool is_extern = false;
  std::vector<uint8_t> initial;  // empty: zeros; else `bytes` of them
  // A module variable whose initial value holds addresses: {at, variable}. The variable's address
  // is added to the 8 bytes that are there.
  std::vector<std::pair<int64_t, int>> address_at;
};

struct PtxFunction {
  std::string name;
  bool is_entry = false;
  bool is_declaration = false;
  std::vector<int> results;     // PtxModule::variables, of space kParam
  std::vector<int> parameters;  // likewise
  std::vector<Register> registers;
  std::vector<Instruction> body;
  std::array<int, 3> max_threads = {0, 0, 0};       // .maxntid; 0: not given
  std::array<int, 3> required_threads = {0, 0, 0};  // .reqntid
  int line = 0;
};

struct PtxModule {
  int version = 0;                  // 90 for .version 9.0
  std::string target;               // "sm_80"
  int compute = 0;                  // 80 for sm_80
  bool is_for_one = false;          // sm_90a, sm_100f: later architectures do not run it
  std::vector<Variable> variables;  // of the module and of all its functions
  std::vector<PtxFunction> functions;
  std::vector<std::string> files;  // .file by number; [0] is empty
  std::vector<std::string> lines;  // the text, for messages; [0] is line 1

  // "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", without what surrounds it.
  std::string TextOf(const Instruction& instruction) const;
  // The function of this name with a body; null if there is none.
  const PtxFunction* Find(std::string_view name) const;
};

// Errors are sentences with the line and its text: "PTX line 12: 'wgmma.fence...': there is no such
// instruction in the emulator". No text crashes it.
absl::StatusOr<PtxModule> ParsePtx(std::string_view text);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_PTX_H_
