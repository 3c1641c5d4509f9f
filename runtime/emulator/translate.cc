// Translate: from parsed PTX to codes over rows; see runtime/emulator/code.h.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/gpu_target.h"
#include "base/integer.h"
#include "base/status.h"
#include "runtime/emulator/code.h"
#include "runtime/emulator/control_flow.h"

namespace duotone::emulator {
namespace {

constexpr int64_t kRowAlignment = 64;
constexpr int64_t kMaxRegisterBytes = 16 << 20;  // of a warp
constexpr int64_t kMaxLocalBytes = 512 << 10;    // of a thread, as on hardware
constexpr int64_t kMaxParameterBytes = 32764;    // of an entry
constexpr int64_t kMaxSharedBytes = 1 << 20;
constexpr int64_t kDynamicSharedAlignment = 16;

bool IsClock(Special special) {
  return special == Special::kClock || special == Special::kClockHi ||
         special == Special::kClock64 || special == Special::kGlobaltimer;
}

Flow FlowOf(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kBra:
      return Flow::kBranch;
    case Op::kCall:
      return Flow::kCall;
    case Op::kRet:
      return Flow::kReturn;
    case Op::kExit:
      return Flow::kExit;
    case Op::kTrap:
      return Flow::kTrap;
    case Op::kBar:
      return Flow::kBarrier;
    case Op::kBarWarpSync:
    case Op::kShfl:
    case Op::kVote:
    case Op::kMatch:
    case Op::kRedux:
      return Flow::kMembers;
    case Op::kMma:
    case Op::kLdmatrix:
    case Op::kStmatrix:
      return Flow::kAligned;
    case Op::kLd:
      return instruction.is_volatile ? Flow::kPoll : Flow::kNext;
    case Op::kAtom:
      return Flow::kPoll;
    default:
      return Flow::kNext;
  }
}

// The executor does these by itself.
bool NeedsHandler(const Instruction& instruction, Flow flow) {
  return flow == Flow::kNext || flow == Flow::kPoll || flow == Flow::kAligned ||
         (flow == Flow::kMembers && instruction.op != Op::kBarWarpSync);
}

Handler FindHandler(const Instruction& instruction, const HandlerOptions& options) {
  // Clocks are moves too: the warp's own instructions come first.
  constexpr Handler (*kFinders[])(const Instruction&, const HandlerOptions&) = {
      FindSyncHandler, FindIntegerHandler, FindMoveHandler,   FindConvertHandler, FindFloatHandler,
      FindHalfHandler, FindSharedHandler,  FindGlobalHandler, FindTensorHandler};
  for (const auto find : kFinders) {
    if (const Handler handler = find(instruction, options)) return handler;
  }
  return nullptr;
}

class Translator {
 public:
  Translator(const PtxModule& module, const std::vector<uint64_t>& addresses,
             const EmulatorOptions& options)
      : module_(module), addresses_(addresses), options_(options) {}

  absl::StatusOr<std::unique_ptr<Executable>> Run(const std::string& name);

 private:
  struct Function {
    const PtxFunction* ptx = nullptr;
    int first_code = 0;
    std::vector<uint32_t> rows;  // by register
    std::vector<bool> is_read;   // by register
  };

  absl::Status Error(const Instruction& instruction, std::string_view what) const;
  absl::Status Collect(int index, std::vector<int>& path);
  absl::Status PlaceParameters(const PtxFunction& entry);
  absl::Status PlaceCallFrames();
  absl::Status BindArgument(const Instruction& call, int argument, int formal);
  absl::Status PlaceVariables();
  absl::Status CheckSizes() const;
  absl::Status TranslateFunction(Function& function);
  absl::Status TranslateInstruction(const Function& function, const Instruction& instruction);
  absl::Status AddOperand(const Function& function, const Operand& operand,
                          const Instruction& instruction, size_t& next, Code& code);
  absl::Status AddAddress(const Function& function, const Operand& operand,
                          const Instruction& instruction, size_t& next, Code& code);
  void FindJoins(const Function& function);

  // The instruction itself, or a copy of it in local memory where it accesses a function's
  // parameters.
  const Instruction* WithFrames(const Instruction& instruction);
  uint32_t NewRow(int64_t bytes);
  uint32_t ConstantRow(int bytes, uint64_t bits);
  uint32_t SpecialRow(int bytes, Special special);
  int64_t PlaceLocal(const Variable& variable);
  bool IsEntryParameter(int variable) const { return entry_parameters_.contains(variable); }

  const PtxModule& module_;
  const std::vector<uint64_t>& addresses_;
  const EmulatorOptions& options_;
  HandlerOptions handlers_;
  std::unique_ptr<Executable> result_ = std::make_unique<Executable>();
  std::vector<Function> functions_;          // the entry first
  std::map<int, size_t> index_;              // of functions_, by index in the module
  std::map<int, int64_t> entry_parameters_;  // by variable: offset
  std::map<int, int64_t> places_;            // of shared and local variables: offset
  std::map<std::pair<int, uint64_t>, uint32_t> constants_;
  std::map<std::pair<int, Special>, uint32_t> specials_;
};

absl::Status Translator::Error(const Instruction& instruction, std::string_view what) const {
  return InvalidArgument("PTX line %d '%s': %s", instruction.line, module_.TextOf(instruction),
                         what);
}

// ---- Functions and their frames

absl::StatusOr<std::unique_ptr<Executable>> Translator::Run(const std::string& name) {
  const PtxFunction* entry = module_.Find(name);
  if (entry == nullptr || !entry->is_entry) return NotFound("the PTX has no kernel '%s'", name);
  DUOTONE_ASSIGN_OR_RETURN(const GpuTarget* target, FindGpuTarget(options_.architecture));
  handlers_ = {.compute = target->compute,
               .perturb = options_.perturb_approximations,
               .turing_group = options_.turing_group};
  result_->name = name;
  result_->function = entry;
  for (const std::array<int, 3>& threads : {entry->max_threads, entry->required_threads}) {
    if (threads[0] == 0) continue;
    const int64_t product = int64_t{threads[0]} * threads[1] * threads[2];
    result_->max_threads = static_cast<int>(std::min<int64_t>(result_->max_threads, product));
  }
  std::vector<int> path;
  DUOTONE_RETURN_IF_ERROR(Collect(static_cast<int>(entry - module_.functions.data()), path));
  DUOTONE_RETURN_IF_ERROR(PlaceParameters(*entry));
  DUOTONE_RETURN_IF_ERROR(PlaceCallFrames());
  DUOTONE_RETURN_IF_ERROR(PlaceVariables());

  int next_code = 0;
  for (Function& function : functions_) {
    function.first_code = next_code;
    next_code += static_cast<int>(function.ptx->body.size()) + 1;
    for (const Register& reg : function.ptx->registers) {
      function.rows.push_back(
          NewRow(reg.type == Type::kPred ? 4 : int64_t{TypeBytes(reg.type)} * kLanes));
    }
  }
  DUOTONE_RETURN_IF_ERROR(CheckSizes());
  for (Function& function : functions_) DUOTONE_RETURN_IF_ERROR(TranslateFunction(function));
  DUOTONE_RETURN_IF_ERROR(CheckSizes());
  return std::move(result_);
}

// The functions that are called, each once; the parser has seen that they have bodies and take what
// they are given. Their frames have fixed places, so none may be in itself.
absl::Status Translator::Collect(int index, std::vector<int>& path) {
  const PtxFunction& function = module_.functions[static_cast<size_t>(index)];
  path.push_back(index);
  if (!index_.contains(index)) {
    index_[index] = functions_.size();
    functions_.push_back({.ptx = &function});
  }
  for (const Instruction& instruction : function.body) {
    if (instruction.op != Op::kCall) continue;
    const Operand& callee = instruction.operands[static_cast<size_t>(instruction.results)].front();
    if (std::count(path.begin(), path.end(), callee.index) > 0) {
      return Error(instruction, "the emulator does not run functions that call themselves");
    }
    if (index_.contains(callee.index)) continue;
    DUOTONE_RETURN_IF_ERROR(Collect(callee.index, path));
  }
  path.pop_back();
  return absl::OkStatus();
}

absl::Status Translator::PlaceParameters(const PtxFunction& entry) {
  int64_t offset = 0;
  for (const int index : entry.parameters) {
    const Variable& variable = module_.variables[static_cast<size_t>(index)];
    offset = RoundUp(offset, variable.alignment);
    entry_parameters_[index] = offset;
    result_->parameters.push_back({offset, variable.bytes});
    offset += variable.bytes;
    if (offset > kMaxParameterBytes) {
      return InvalidArgument("kernel %s has more than %d bytes of parameters", entry.name,
                             kMaxParameterBytes);
    }
  }
  result_->parameter_bytes = offset;
  return absl::OkStatus();
}

int64_t Translator::PlaceLocal(const Variable& variable) {
  const int64_t offset = RoundUp(result_->local_bytes, variable.alignment);
  result_->local_bytes = offset + variable.bytes;
  return offset;
}

// Parameters and results of functions lie in local memory, and the arguments of a call where the
// callee looks for them.
absl::Status Translator::PlaceCallFrames() {
  for (const Function& function : functions_) {
    if (function.ptx->is_entry) continue;
    for (const std::vector<int>* group : {&function.ptx->results, &function.ptx->parameters}) {
      for (const int index : *group) {
        places_[index] = PlaceLocal(module_.variables[static_cast<size_t>(index)]);
      }
    }
  }
  for (const Function& function : functions_) {
    for (const Instruction& call : function.ptx->body) {
      if (call.op != Op::kCall) continue;
      const auto results = static_cast<size_t>(call.results);
      const PtxFunction& callee =
          module_.functions[static_cast<size_t>(call.operands[results].front().index)];
      for (size_t i = 0; i < call.operands.size(); ++i) {
        if (i == results) continue;
        const int formal = i < results ? callee.results[i] : callee.parameters[i - results - 1];
        DUOTONE_RETURN_IF_ERROR(BindArgument(call, call.operands[i].front().index, formal));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Translator::BindArgument(const Instruction& call, int argument, int formal) {
  const Variable& given = module_.variables[static_cast<size_t>(argument)];
  const Variable& wanted = module_.variables[static_cast<size_t>(formal)];
  if (given.bytes != wanted.bytes) {
    return Error(call, absl::StrFormat("'%s' has %d bytes, the function takes %d", given.name,
                                       given.bytes, wanted.bytes));
  }
  const auto [place, is_new] = places_.try_emplace(argument, places_[formal]);
  if (!is_new && place->second != places_[formal]) {
    return Error(call, absl::StrFormat("'%s' is passed to several functions; the emulator wants "
                                       "one .param variable for each call",
                                       given.name));
  }
  return absl::OkStatus();
}

// Shared and local variables that the functions name. Dynamic shared memory begins behind the
// static one.
absl::Status Translator::PlaceVariables() {
  std::vector<int> dynamic;
  for (const Function& function : functions_) {
    for (const Instruction& instruction : function.ptx->body) {
      for (const OperandGroup& group : instruction.operands) {
        for (const Operand& operand : group) {
          if (operand.kind != Operand::Kind::kSymbol &&
              operand.kind != Operand::Kind::kSymbolAddress) {
            continue;
          }
          const Variable& variable = module_.variables[static_cast<size_t>(operand.index)];
          if (places_.contains(operand.index) || IsEntryParameter(operand.index)) continue;
          if (variable.space == Space::kShared && variable.is_extern) {
            dynamic.push_back(operand.index);
          } else if (variable.space == Space::kShared) {
            const int64_t offset = RoundUp(result_->static_shared_bytes, variable.alignment);
            places_[operand.index] = offset;
            result_->static_shared_bytes = offset + variable.bytes;
          } else if (variable.space == Space::kLocal || variable.space == Space::kParam) {
            places_[operand.index] = PlaceLocal(variable);
          }
          DUOTONE_RETURN_IF_ERROR(CheckSizes());
        }
      }
    }
  }
  int64_t alignment = kDynamicSharedAlignment;
  for (const int index : dynamic) {
    alignment = std::max(alignment, module_.variables[static_cast<size_t>(index)].alignment);
  }
  if (!dynamic.empty()) {
    result_->static_shared_bytes = RoundUp(result_->static_shared_bytes, alignment);
  }
  for (const int index : dynamic) places_[index] = result_->static_shared_bytes;
  // Every thread's local memory begins as aligned as any variable may ask.
  result_->local_bytes = RoundUp(result_->local_bytes, 16);
  return absl::OkStatus();
}

absl::Status Translator::CheckSizes() const {
  const std::tuple<std::string_view, int64_t, int64_t> kSizes[] = {
      {"bytes of local memory", result_->local_bytes, kMaxLocalBytes},
      {"bytes of shared memory", result_->static_shared_bytes, kMaxSharedBytes},
      {"bytes of registers in a warp", result_->register_bytes, kMaxRegisterBytes}};
  for (const auto& [what, bytes, limit] : kSizes) {
    if (bytes > limit) {
      return InvalidArgument("kernel %s needs more than %d %s", result_->name, limit, what);
    }
  }
  return absl::OkStatus();
}

// ---- Rows

uint32_t Translator::NewRow(int64_t bytes) {
  const int64_t row = result_->register_bytes;
  result_->register_bytes += RoundUp(bytes, kRowAlignment);
  return static_cast<uint32_t>(row);
}

uint32_t Translator::ConstantRow(int bytes, uint64_t bits) {
  const auto [found, is_new] = constants_.try_emplace({bytes, bits}, 0);
  if (is_new) {
    found->second = NewRow(bytes == 0 ? 4 : int64_t{bytes} * kLanes);
    result_->constants.push_back({found->second, bytes, bits});
  }
  return found->second;
}

uint32_t Translator::SpecialRow(int bytes, Special special) {
  const auto [found, is_new] = specials_.try_emplace({bytes, special}, 0);
  if (is_new) {
    found->second = NewRow(int64_t{bytes} * kLanes);
    result_->specials.push_back({found->second, bytes, special});
  }
  return found->second;
}

// ---- Instructions

const Instruction* Translator::WithFrames(const Instruction& instruction) {
  if (instruction.space != Space::kParam ||
      (instruction.op != Op::kLd && instruction.op != Op::kSt)) {
    return &instruction;
  }
  for (const OperandGroup& group : instruction.operands) {
    for (const Operand& operand : group) {
      const bool is_entry = operand.kind == Operand::Kind::kSymbolAddress &&
                            IsEntryParameter(operand.index) && instruction.op == Op::kLd;
      if (is_entry) return &instruction;
    }
  }
  auto made = std::make_unique<Instruction>(instruction);
  made->space = Space::kLocal;
  result_->made.push_back(std::move(made));
  return result_->made.back().get();
}

absl::Status Translator::AddAddress(const Function& function, const Operand& operand,
                                    const Instruction& instruction, size_t& next, Code& code) {
  // cp.async has two: the first in shared memory, the second in global memory.
  const bool is_second = instruction.op == Op::kCpAsync && next > 0;
  const auto add = [&](uint32_t row, int bytes) {
    code.row[next++] = row;
    (is_second ? code.second_address_bytes : code.address_bytes) = static_cast<uint8_t>(bytes);
    (is_second ? code.second_offset : code.offset) = operand.offset;
  };
  if (operand.kind == Operand::Kind::kAddress) {
    if (operand.index < 0) {
      add(ConstantRow(8, 0), 8);
    } else {
      add(function.rows[static_cast<size_t>(operand.index)], TypeBytes(operand.register_type));
    }
    return absl::OkStatus();
  }
  const Variable& variable = module_.variables[static_cast<size_t>(operand.index)];
  uint64_t base = 0;
  if (IsEntryParameter(operand.index)) {
    if (instruction.space != Space::kParam || instruction.op != Op::kLd) {
      return Error(instruction, "a kernel's parameters can only be read");
    }
    base = static_cast<uint64_t>(entry_parameters_.at(operand.index));
  } else if (places_.contains(operand.index)) {
    base = static_cast<uint64_t>(places_.at(operand.index));
    if (instruction.space == Space::kGeneric) {
      base += variable.space == Space::kShared ? kSharedWindow : kLocalWindow;
    }
  } else {
    base = addresses_[static_cast<size_t>(operand.index)];
  }
  add(ConstantRow(8, base), 8);
  return absl::OkStatus();
}

absl::Status Translator::AddOperand(const Function& function, const Operand& operand,
                                    const Instruction& instruction, size_t& next, Code& code) {
  if (operand.kind == Operand::Kind::kLabel || operand.kind == Operand::Kind::kFunction) {
    return absl::OkStatus();
  }
  if (next >= code.row.size()) return Error(instruction, "it has too many operands");
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      code.row[next++] = function.rows[static_cast<size_t>(operand.index)];
      break;
    case Operand::Kind::kImmediate:
      code.row[next++] = ConstantRow(TypeBytes(operand.type), operand.bits);
      break;
    case Operand::Kind::kSpecial:
      if (IsClock(operand.special)) {
        if (instruction.op != Op::kMov) return Error(instruction, "clocks can only be moved");
        code.row[next++] = kNoRow;
        break;
      }
      code.row[next++] = SpecialRow(TypeBytes(operand.type), operand.special);
      break;
    case Operand::Kind::kSymbol: {
      if (instruction.op == Op::kCall) break;
      if (IsEntryParameter(operand.index)) {
        return Error(instruction, "the emulator gives kernel parameters no address");
      }
      const auto place = places_.find(operand.index);
      const uint64_t address = place != places_.end()
                                   ? static_cast<uint64_t>(place->second)
                                   : addresses_[static_cast<size_t>(operand.index)];
      code.row[next++] =
          ConstantRow(TypeBytes(operand.type), address + static_cast<uint64_t>(operand.offset));
      break;
    }
    case Operand::Kind::kAddress:
    case Operand::Kind::kSymbolAddress:
      return AddAddress(function, operand, instruction, next, code);
    case Operand::Kind::kSink:
      code.row[next++] = kNoRow;
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

absl::Status Translator::TranslateInstruction(const Function& function,
                                              const Instruction& written) {
  const Instruction& instruction = *WithFrames(written);
  Code code;
  code.instruction = &instruction;
  code.index = static_cast<int32_t>(result_->codes.size());
  code.flow = FlowOf(instruction);
  code.row.fill(kNoRow);
  if (instruction.guard >= 0) {
    code.guard = static_cast<int32_t>(function.rows[static_cast<size_t>(instruction.guard)]);
    code.guard_negated = instruction.guard_negated;
  }
  size_t next = 0;
  for (const OperandGroup& group : instruction.operands) {
    for (const Operand& operand : group) {
      DUOTONE_RETURN_IF_ERROR(AddOperand(function, operand, instruction, next, code));
    }
  }
  if (instruction.op == Op::kAtom) {
    // Compilers name a register also where nobody wants the old value; with a sink the atomic tells
    // its thread nothing of others.
    const Operand& result = instruction.operands.front().front();
    if (result.kind == Operand::Kind::kRegister &&
        !function.is_read[static_cast<size_t>(result.index)]) {
      code.row[0] = kNoRow;
    }
  }
  if (code.flow == Flow::kMembers) code.members = code.row[next - 1];
  if (code.flow == Flow::kBranch) {
    code.target = function.first_code + instruction.operands.front().front().index;
  }
  if (code.flow == Flow::kCall) {
    const Operand& callee = instruction.operands[static_cast<size_t>(instruction.results)].front();
    code.target = functions_[index_.at(callee.index)].first_code;
  }
  if (NeedsHandler(instruction, code.flow)) {
    code.run = FindHandler(instruction, handlers_);
    if (code.run == nullptr) {
      return Error(written, absl::StrFormat("the emulator does not execute it on %s",
                                            options_.architecture));
    }
  }
  result_->codes.push_back(code);
  return absl::OkStatus();
}

// The registers that some instruction takes a value or an address from, by number.
std::vector<bool> RegistersRead(const PtxFunction& function) {
  std::vector<bool> is_read(function.registers.size());
  for (const Instruction& instruction : function.body) {
    if (instruction.guard >= 0) is_read[static_cast<size_t>(instruction.guard)] = true;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      for (const Operand& operand : instruction.operands[i]) {
        const bool is_value = operand.kind == Operand::Kind::kRegister &&
                              i >= static_cast<size_t>(instruction.results);
        const bool is_base = operand.kind == Operand::Kind::kAddress && operand.index >= 0;
        if (is_value || is_base) is_read[static_cast<size_t>(operand.index)] = true;
      }
    }
  }
  return is_read;
}

absl::Status Translator::TranslateFunction(Function& function) {
  function.is_read = RegistersRead(*function.ptx);
  for (const Instruction& instruction : function.ptx->body) {
    DUOTONE_RETURN_IF_ERROR(TranslateInstruction(function, instruction));
  }
  // Behind the last instruction the function returns.
  auto ret = std::make_unique<Instruction>();
  ret->op = Op::kRet;
  ret->line = function.ptx->body.empty() ? function.ptx->line : function.ptx->body.back().line;
  DUOTONE_RETURN_IF_ERROR(TranslateInstruction(function, *ret));
  result_->made.push_back(std::move(ret));
  FindJoins(function);
  return absl::OkStatus();
}

void Translator::FindJoins(const Function& function) {
  const size_t count = function.ptx->body.size() + 1;
  Code* const codes = result_->codes.data() + function.first_code;
  std::vector<Successors> successors(count, Successors{-1, -1});
  for (size_t i = 0; i < count; ++i) {
    const Code& code = codes[i];
    const int after = i + 1 < count ? static_cast<int>(i) + 1 : -1;
    const bool leaves =
        code.flow == Flow::kReturn || code.flow == Flow::kExit || code.flow == Flow::kTrap;
    // Lanes that leave are nobody's to wait for: only the others count.
    if (leaves && code.guard < 0) continue;
    const bool jumps_always = code.flow == Flow::kBranch && code.guard < 0;
    if (!jumps_always) successors[i][0] = after;
    if (code.flow == Flow::kBranch) successors[i][1] = code.target - function.first_code;
  }
  const std::vector<int> joins = ImmediatePostDominators(successors);
  for (size_t i = 0; i < count; ++i) {
    if (joins[i] < 0) continue;
    // Lanes that only meet to exit need not wait: others may be at a barrier that counts on it.
    const Code& meeting = codes[joins[i]];
    const bool exits =
        meeting.flow == Flow::kExit || (meeting.flow == Flow::kReturn && function.ptx->is_entry);
    if (!exits || meeting.guard >= 0) codes[i].join = function.first_code + joins[i];
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executable>> Translate(const PtxModule& module,
                                                      const std::string& name,
                                                      const std::vector<uint64_t>& addresses,
                                                      const EmulatorOptions& options) {
  return Translator(module, addresses, options).Run(name);
}

}  // namespace duotone::emulator
