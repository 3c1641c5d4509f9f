#include "tests/runtime/emulator/lane_testing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/integer.h"
#include "gtest/gtest.h"

namespace duotone::emulator {
namespace {

// The rows of one test: those of the registers by index, then those of immediates as they come.
class RegisterFile {
 public:
  explicit RegisterFile(const PtxFunction& function) {
    for (const Register& declared : function.registers) rows_.push_back(Add(declared.type));
  }

  uint32_t Add(Type type) {
    const auto row = static_cast<uint32_t>(bytes_.size());
    const int64_t bytes = type == Type::kPred ? 4 : int64_t{TypeBytes(type)} * kLanes;
    bytes_.resize(bytes_.size() + static_cast<size_t>(RoundUp(bytes, 64)), 0);
    return row;
  }

  void Set(uint32_t row, Type type, const Lanes& lanes) {
    for (int i = 0; i < kLanes; ++i) {
      if (type == Type::kPred) {
        const auto bit = static_cast<uint8_t>(1 << (i % 8));
        uint8_t& byte = bytes_[row + i / 8];
        byte = static_cast<uint8_t>((lanes[i] & 1) != 0 ? byte | bit : byte & ~bit);
      } else {
        std::memcpy(&bytes_[row + i * TypeBytes(type)], &lanes[i], TypeBytes(type));
      }
    }
  }

  Lanes Get(uint32_t row, Type type) const {
    Lanes lanes = {};
    for (int i = 0; i < kLanes; ++i) {
      if (type == Type::kPred) {
        lanes[i] = bytes_[row + i / 8] >> (i % 8) & 1;
      } else {
        std::memcpy(&lanes[i], &bytes_[row + i * TypeBytes(type)], TypeBytes(type));
      }
    }
    return lanes;
  }

  uint32_t row(int index) const { return rows_[index]; }
  uint8_t* bytes() { return bytes_.data(); }

 private:
  std::vector<uint32_t> rows_;
  std::vector<uint8_t> bytes_;
};

// The operands' rows; of labels and functions none.
void FillRows(const Instruction& instruction, RegisterFile& file, Code& code) {
  int next = 0;
  bool has_address = false;
  for (const OperandGroup& group : instruction.operands) {
    for (const Operand& operand : group) {
      switch (operand.kind) {
        case Operand::Kind::kRegister:
          code.row[next++] = file.row(operand.index);
          break;
        case Operand::Kind::kImmediate: {
          Lanes lanes;
          lanes.fill(operand.bits);
          code.row[next] = file.Add(operand.type);
          file.Set(code.row[next++], operand.type, lanes);
          break;
        }
        case Operand::Kind::kAddress:
          // cp.async has two.
          (has_address ? code.second_offset : code.offset) = operand.offset;
          (has_address ? code.second_address_bytes : code.address_bytes) =
              static_cast<uint8_t>(TypeBytes(operand.register_type));
          has_address = true;
          code.row[next++] = file.row(operand.index);
          break;
        case Operand::Kind::kSink:
          code.row[next++] = kNoRow;
          break;
        default:
          ADD_FAILURE() << "RunLines takes registers, immediates and addresses only";
          code.row[next++] = kNoRow;
      }
    }
  }
}

Handler FindHandler(const Instruction& instruction, const HandlerOptions& options) {
  for (auto find :
       {FindIntegerHandler, FindMoveHandler, FindConvertHandler, FindFloatHandler, FindHalfHandler,
        FindGlobalHandler, FindSharedHandler, FindTensorHandler, FindSyncHandler}) {
    if (Handler handler = find(instruction, options)) return handler;
  }
  return nullptr;
}

}  // namespace

BlockRunner::BlockRunner(const Options& options)
    : options_(options), memory_(options.emulator.memory_bytes, options.emulator.checks) {
  launch_.memory = &memory_;
  launch_.executable = &executable_;
  launch_.options = &options_.emulator;
  launch_.problems = &problems_;
  launch_.block = {int64_t{options.warps} * kLanes, 1, 1};
  block_.launch = &launch_;
  block_.shared.Reset(options.shared_bytes, options.warps, options.emulator.checks);
  block_.warps.resize(static_cast<size_t>(options.warps));
  for (int i = 0; i < options.warps; ++i) {
    Warp& warp = block_.warps[static_cast<size_t>(i)];
    warp.block = &block_;
    warp.index = i;
    warp.lanes = kAllLanes;
  }
}

BlockRunner::~BlockRunner() = default;

bool BlockRunner::Execute(std::string_view text,
                          const std::vector<std::pair<std::string, Type>>& registers, Mask mask,
                          int warp_index, size_t times,
                          const std::function<Lanes(size_t, size_t)>& before,
                          const std::function<void(size_t, size_t, const Lanes&)>& after) {
  std::string declarations;
  for (const auto& [name, type] : registers) {
    absl::StrAppendFormat(&declarations, ".reg .%s %%%s;\n", TypeName(type), name);
  }
  // Of what is executed here nothing depends on the .target, and this one has all.
  absl::StatusOr<PtxModule> module = ParsePtx(PtxEntry("", declarations, text, "sm_90"));
  if (!module.ok()) {
    ADD_FAILURE() << module.status();
    return false;
  }
  modules_.push_back(std::make_unique<PtxModule>(*std::move(module)));
  launch_.module = modules_.back().get();
  const PtxFunction& function = launch_.module->functions[0];
  executable_.function = &function;
  RegisterFile file(function);
  latest_ = executable_.codes.size();
  executable_.codes.resize(latest_ + function.body.size());
  std::vector<Handler> handlers;
  for (size_t i = 0; i < function.body.size(); ++i) {
    Code& code = executable_.codes[latest_ + i];
    code.index = static_cast<int32_t>(latest_ + i);
    code.instruction = &function.body[i];
    FillRows(function.body[i], file, code);
    handlers.push_back(FindHandler(function.body[i], options_.handler));
    if (handlers.back() == nullptr) {
      ADD_FAILURE() << "nobody executes " << launch_.module->TextOf(function.body[i]);
      return false;
    }
  }
  counters_.resize(executable_.codes.size());
  block_.counters = &counters_;
  Warp& warp = block_.warps[static_cast<size_t>(warp_index)];
  warp.registers = file.bytes();
  memory_.BeginLaunch(++launch_.number, nullptr);
  for (size_t time = 0; time < times; ++time) {
    for (size_t r = 0; r < registers.size(); ++r) {
      file.Set(file.row(static_cast<int>(r)), registers[r].second, before(time, r));
    }
    for (size_t i = 0; i < handlers.size(); ++i) {
      const Code& code = executable_.codes[latest_ + i];
      Mask lanes = mask;
      if (code.instruction->guard >= 0) {
        const Mask guard = warp.Predicate(file.row(code.instruction->guard));
        lanes &= code.instruction->guard_negated ? ~guard : guard;
      }
      if (lanes != 0) handlers[i](warp, code, lanes);
    }
    for (size_t r = 0; r < registers.size(); ++r) {
      after(time, r, file.Get(file.row(static_cast<int>(r)), registers[r].second));
    }
  }
  memory_.EndLaunch(/*counted=*/false);
  return true;
}

std::map<std::string, Lanes> BlockRunner::Run(std::string_view text,
                                              const std::vector<TestRegister>& registers, Mask mask,
                                              int warp) {
  std::vector<std::pair<std::string, Type>> declared;
  declared.reserve(registers.size());
  for (const TestRegister& reg : registers) declared.emplace_back(reg.name, reg.type);
  std::map<std::string, Lanes> results;
  Execute(
      text, declared, mask, warp, 1, [&](size_t, size_t r) { return registers[r].bits; },
      [&](size_t, size_t r, const Lanes& lanes) { results[registers[r].name] = lanes; });
  return results;
}

std::map<std::string, std::vector<uint64_t>> BlockRunner::RunColumns(
    std::string_view text, const std::vector<TestColumn>& columns, Mask mask) {
  std::vector<std::pair<std::string, Type>> declared;
  size_t count = 0;
  for (const TestColumn& column : columns) {
    declared.emplace_back(column.name, column.type);
    count = std::max(count, column.bits.size());
  }
  std::vector<std::vector<uint64_t>> results(columns.size(), std::vector<uint64_t>(count));
  const auto lanes_at = [&](size_t warp) {
    return std::min<size_t>(kLanes, count - warp * kLanes);
  };
  const bool done = Execute(
      text, declared, mask, 0, (count + kLanes - 1) / kLanes,
      [&](size_t warp, size_t r) {
        Lanes lanes = {};
        const std::vector<uint64_t>& bits = columns[r].bits;
        if (!bits.empty()) std::copy_n(&bits.at(warp * kLanes), lanes_at(warp), lanes.begin());
        return lanes;
      },
      [&](size_t warp, size_t r, const Lanes& lanes) {
        std::copy_n(lanes.begin(), lanes_at(warp), &results[r][warp * kLanes]);
      });
  std::map<std::string, std::vector<uint64_t>> named;
  for (size_t r = 0; r < columns.size() && done; ++r) {
    named[columns[r].name] = std::move(results[r]);
  }
  return named;
}

void BlockRunner::Barrier() {
  std::vector<int> warps;
  for (const Warp& warp : block_.warps) warps.push_back(warp.index);
  block_.shared.OnBarrier(warps, warps);
}

std::string BlockRunner::ProblemText() const {
  std::string text;
  for (const Problem& problem : problems()) {
    absl::StrAppendFormat(&text, "%s: %s\n", KindName(problem.kind), problem.what);
  }
  return text;
}

InstructionCounters BlockRunner::counters() const {
  InstructionCounters sum;
  for (size_t i = latest_; i < counters_.size(); ++i) sum.Add(counters_[i]);
  return sum;
}

std::map<std::string, Lanes> RunLines(std::string_view text,
                                      const std::vector<TestRegister>& registers,
                                      const LineOptions& options) {
  BlockRunner::Options block_options{.handler = options.handler};
  block_options.emulator.seed = options.seed;
  BlockRunner runner(block_options);
  std::map<std::string, Lanes> results = runner.Run(text, registers, options.mask);
  EXPECT_EQ(runner.ProblemText(), "");
  return results;
}

std::map<std::string, std::vector<uint64_t>> RunColumns(std::string_view text,
                                                        const std::vector<TestColumn>& columns,
                                                        const LineOptions& options) {
  BlockRunner::Options block_options{.handler = options.handler};
  block_options.emulator.seed = options.seed;
  BlockRunner runner(block_options);
  std::map<std::string, std::vector<uint64_t>> results =
      runner.RunColumns(text, columns, options.mask);
  EXPECT_EQ(runner.ProblemText(), "");
  return results;
}

Lanes Repeat(const std::vector<uint64_t>& bits) {
  Lanes lanes = {};
  for (int i = 0; i < kLanes && !bits.empty(); ++i) lanes[i] = bits[i % bits.size()];
  return lanes;
}

Lanes Floats(const std::vector<float>& values) {
  std::vector<uint64_t> bits;
  bits.reserve(values.size());
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return Repeat(bits);
}

Lanes Doubles(const std::vector<double>& values) {
  std::vector<uint64_t> bits;
  bits.reserve(values.size());
  for (double value : values) bits.push_back(std::bit_cast<uint64_t>(value));
  return Repeat(bits);
}

std::string PtxEntry(std::string_view parameters, std::string_view registers, std::string_view body,
                     std::string_view target, std::string_view module_variables) {
  return absl::StrFormat(
      ".version 8.5\n.target %s\n.address_size 64\n%s\n.visible .entry k(%s)\n{\n%s\n%s\n}\n",
      target, module_variables, parameters, registers, body);
}

bool PtxRunner::Load(const std::string& ptx) {
  absl::StatusOr<LoadedModule*> module = machine_.Load(ptx);
  if (!module.ok()) {
    ADD_FAILURE() << module.status();
    return false;
  }
  module_ = *module;
  absl::StatusOr<const Executable*> kernel = machine_.Find(*module_, "k");
  if (!kernel.ok()) {
    ADD_FAILURE() << kernel.status();
    return false;
  }
  kernel_ = *kernel;
  return true;
}

bool PtxRunner::Run(std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
                    const std::vector<uint64_t>& parameters, int64_t shared_bytes,
                    std::shared_ptr<const runtime::LaunchNote> note) {
  if (kernel_ == nullptr) return false;
  LaunchRequest request{.module = module_,
                        .kernel = kernel_,
                        .grid = grid,
                        .block = block,
                        .shared_bytes = shared_bytes,
                        .note = std::move(note)};
  request.parameters.resize(static_cast<size_t>(kernel_->parameter_bytes));
  if (parameters.size() != kernel_->parameters.size()) {
    ADD_FAILURE() << "the kernel takes " << kernel_->parameters.size() << " parameters";
    return false;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Executable::Parameter& place = kernel_->parameters[i];
    std::memcpy(request.parameters.data() + place.offset, &parameters[i],
                std::min<size_t>(8, static_cast<size_t>(place.bytes)));
  }
  const absl::Status status = machine_.Run(request);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok();
}

std::vector<std::string> PtxRunner::problem_kinds() {
  std::vector<std::string> kinds;
  for (const Problem& problem : problems()) kinds.emplace_back(KindName(problem.kind));
  return kinds;
}

InstructionCounters PtxRunner::Counters(std::string_view text_prefix) {
  InstructionCounters sum;
  for (const auto& record : machine_.records()) {
    if (record->kernel != kernel_) continue;
    for (size_t i = 0; i < record->counters.size(); ++i) {
      const std::string text = module_->ptx.TextOf(*kernel_->codes[i].instruction);
      if (std::string_view(text).starts_with(text_prefix)) sum.Add(record->counters[i]);
    }
  }
  return sum;
}

uint64_t PtxRunner::Allocate(const void* from, size_t bytes, std::string name) {
  absl::StatusOr<uint64_t> address =
      machine_.memory().Allocate(static_cast<int64_t>(bytes), std::move(name));
  if (!address.ok()) {
    ADD_FAILURE() << address.status();
    return 0;
  }
  if (from != nullptr && bytes != 0) {
    const absl::Status status =
        machine_.memory().Write(*address, from, static_cast<int64_t>(bytes));
    EXPECT_TRUE(status.ok()) << status;
  }
  return *address;
}

void PtxRunner::ReadBytes(uint64_t address, void* to, size_t bytes) {
  const absl::Status status = machine_.memory().Read(to, address, static_cast<int64_t>(bytes));
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace duotone::emulator
