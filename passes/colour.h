// Colouring: for each node the type in which it reads its floating-point operands, and why. A pure
// function of the graph; passes/autocast.h carries it out.
//
//   graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
//     %h = matmul(%x, %w) : f32[8, 8]   // f16: allow op: products of f16 numbers ...
//     %e = exp(%h) : f32[8, 8]          // fp32: deny op: e^x leaves f16's range above 11.09
//     %s = sigmoid(%e) : f32[8, 8]      // fp32: infer op, downstream of exp (%e)
//
// Policy `optimal` paints by the op table's tones (passes/paint.h). Policy `pytorch` gives node by
// node the dtypes of torch.autocast, by the table's PyTorch categories. docs/mixed_precision.md has
// all rules.
//
// A graph that autocast has been through may be coloured too, to explain it: its casts are looked
// through, so that the causes are those of the graph before.
#ifndef DUOTONE_PASSES_COLOUR_H_
#define DUOTONE_PASSES_COLOUR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "passes/options.h"

namespace duotone::passes {

// Why a node has its types. The codes are part of the text form ("autocast:allow").
enum class Rule : uint8_t {
  kAllow,         // low: worth it and safe
  kBetween,       // low: on a path between allow-listed ops
  kFollow,        // low: an infer op that reads 16-bit values
  kClear,         // low: a clear op next to a 16-bit one
  kDeny,          // f32: unsafe in 16 bits
  kDownstream,    // f32: behind a denied op
  kConstant,      // f32: reads a constant that the 16-bit type cannot hold
  kAttribute,     // f32: an attribute is outside the 16-bit type's range
  kAlone,         // f32: an infer or clear op without a 16-bit neighbour
  kNone,          // f32: no op of the graph is allow-listed
  kMixed,         // f32: f16 and bf16 operands promote
  kNoLowForm,     // f32: the op does not take 16-bit operands here
  kOff,           // as before autocast: the user's region says so
  kUser,          // as before autocast: the user's own 16-bit types
  kFixed,         // as before autocast: casts, constants, integer ops, optimizers
  kNotFloat,      // as before autocast: no f32 operand that may be narrowed
  kTorchLower,    // torch: operands cast to the 16-bit type
  kTorchFp32,     // torch: operands cast to f32
  kTorchFp32Out,  // torch: operands as they are, f32 result
  kTorchPromote,  // torch: operands cast to the widest of them and the 16-bit type
  kTorchNative,   // torch: not listed; the widest operand decides, scalars do not count
  kOutput,        // of casts: an output, an update or a node that keeps its types reads the value
};
struct RuleInfo {
  Rule rule;
  std::string_view code;
  std::string_view doc;  // what the rule means, for a node of which nothing else is known
};
llvm::ArrayRef<RuleInfo> AllRules();  // in enum order
std::string_view RuleCode(Rule rule);
std::optional<Rule> RuleFromCode(std::string_view code);

// NodeInfo::dtype_origin of what autocast made by `rule`, and back.
std::string OriginOf(Rule rule);
std::optional<Rule> RuleOfOrigin(std::string_view dtype_origin);

struct NodeColour {
  Rule rule = Rule::kFixed;
  ir::Tone tone = ir::Tone::kFixed;   // after overrides
  DType low_dtype = DType::kF16;      // the 16-bit type in force at the node
  int override_index = -1;            // into AutocastOptions::overrides, where one decided
  const ir::Node* via = nullptr;      // one step towards the cause: the denied or the 16-bit node
  const ir::Node* towards = nullptr;  // kBetween: one step towards the second
  const ir::Node* cause = nullptr;    // where the steps of `via` end, after `distance` of them
  const ir::Node* second = nullptr;   // where the steps of `towards` end
  int distance = 0;
  std::string detail;  // kConstant, kAttribute: which value does not fit

  llvm::SmallVector<DType, 3> reads;   // for each operand
  llvm::SmallVector<DType, 1> writes;  // for each result
  std::optional<DType> out;            // value for the op's `out` attribute, if it is to be set
};

struct Colouring {
  llvm::DenseMap<const ir::Node*, NodeColour> nodes;  // one for each computing node
  std::vector<bool> override_used;                    // for each override: it decided a node's tone
  bool has_allowed = false;   // some node reads 16-bit operands by rule kAllow or a PyTorch rule
  bool was_coloured = false;  // autocast has been through; reads, writes and out are not filled in
};

// Checks the overrides alone: patterns compile, no op has two tones, no override names an op that
// autocast never touches.
absl::Status CheckOverrides(const AutocastOptions& options);

// Colours a graph; options.dtype must be a 16-bit type.
absl::StatusOr<Colouring> Colour(const ir::Graph& graph, const AutocastOptions& options);

// The causes of a node's colour: the nearest steps (at most kMaxPath) and the op that decided.
inline constexpr size_t kMaxPath = 4;
std::vector<const ir::Node*> PathOf(const Colouring& colouring, const ir::Node* node);
// "fp32: infer op, downstream of exp (%e) via %r".
std::string ReasonFor(const Colouring& colouring, const AutocastOptions& options,
                      const ir::Node* node);

// True if autocast has been through the graph: some dtype is of its making.
bool IsColoured(const ir::Graph& graph);
// The value behind casts of autocast's making, and the dtype it had before autocast.
ir::Value BehindCasts(ir::Value value);
DType OriginalDType(ir::Value value);
// True for operands that autocast may narrow or widen: f32 or 16-bit, and not kept in f32 by the
// op.
bool IsCastable(const ir::Node& node, int operand);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_COLOUR_H_
