#include "tests/codegen/cuda/run_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "runtime/program.h"
#include "tests/codegen/cuda/guarded_buffer.h"
#include "tests/codegen/cuda/host_kernel.h"
#include "tests/codegen/run_program.h"

namespace duotone::codegen::cuda {
namespace {

using Buffers = std::vector<std::shared_ptr<GuardedBuffer>>;

std::shared_ptr<GuardedBuffer> BufferOf(const ir::Array& array) {
  auto buffer = std::make_shared<GuardedBuffer>(array.type().bytes());
  std::memcpy(buffer->data(), array.view().data, static_cast<size_t>(array.type().bytes()));
  return buffer;
}

// One run of a fusion with memory of its own.
class Runner {
 public:
  Runner(const ir::Node& fusion, const GeneratedKernel& kernel, const CodegenOptions& codegen,
         const FusionOptions& options, bool reverse)
      : fusion_(fusion),
        kernel_(kernel),
        codegen_(codegen),
        options_(options),
        reverse_(reverse),
        random_{options.random.seed, options.random.step, options.random.micro_batch} {}

  absl::Status Run(llvm::ArrayRef<ir::Array> operands);
  std::vector<ir::Array> Results() const;
  const runtime::ErrorRecord& error() const { return error_; }

 private:
  void Allocate(llvm::ArrayRef<ir::Array> operands);
  absl::Status RunFinishes();
  struct Lists {
    const Buffers& operands;
    const Buffers& results;
    const Buffers& temporaries;
  };
  absl::Status Launch(const GeneratedKernel& kernel, const Lists& lists);
  void* AddressOf(const Argument& argument, const Lists& lists) const;
  bool IsTest(int result) const;

  const ir::Node& fusion_;
  const GeneratedKernel& kernel_;
  const CodegenOptions& codegen_;
  const FusionOptions& options_;
  const bool reverse_;
  runtime::RandomState random_;
  runtime::ErrorRecord error_;
  Buffers operands_, results_, temporaries_;
};

// True for results that kernels gather in a word that is 1 before.
bool Runner::IsTest(int result) const {
  const auto& tests = kernel_.finite_results;
  return std::find(tests.begin(), tests.end(), result) != tests.end() ||
         std::any_of(kernel_.finishes.begin(), kernel_.finishes.end(),
                     [&](const Finish& finish) { return finish.finite_result == result; });
}

void Runner::Allocate(llvm::ArrayRef<ir::Array> operands) {
  for (const ir::Array& operand : operands) operands_.push_back(BufferOf(operand));
  for (int i = 0; i < fusion_.result_count(); ++i) {
    auto place = std::find_if(options_.in_place.begin(), options_.in_place.end(),
                              [&](const auto& pair) { return pair.first == i; });
    if (place != options_.in_place.end()) {
      results_.push_back(operands_[place->second]);
    } else if (IsTest(i)) {
      results_.push_back(std::make_shared<GuardedBuffer>(4));
      const int32_t one = 1;
      std::memcpy(results_.back()->data(), &one, sizeof(one));
    } else {
      results_.push_back(std::make_shared<GuardedBuffer>(fusion_.type(i).bytes()));
    }
  }
  for (const Temporary& temporary : kernel_.temporaries) {
    temporaries_.push_back(std::make_shared<GuardedBuffer>(temporary.bytes));
  }
  if (options_.guard) {
    operands_.push_back(std::make_shared<GuardedBuffer>(1));
    *operands_.back()->data() = *options_.guard ? 1 : 0;
  }
}

void* Runner::AddressOf(const Argument& argument, const Lists& lists) const {
  switch (argument.kind) {
    case Argument::Kind::kOperand:
      return lists.operands.at(argument.index)->data();
    case Argument::Kind::kResult:
      return lists.results.at(argument.index)->data();
    case Argument::Kind::kTemporary:
      return lists.temporaries.at(argument.index)->data();
    default:
      return nullptr;
  }
}

absl::Status Runner::Launch(const GeneratedKernel& kernel, const Lists& lists) {
  DUOTONE_ASSIGN_OR_RETURN(std::shared_ptr<const HostKernel> compiled,
                           HostKernel::Compile("kernel", kernel.source, KernelHeaders()));
  // Every value has 8 bytes of its own; an int is read from the first 4.
  std::vector<std::vector<void*>> tables;
  std::vector<uint64_t> values;
  for (const Argument& argument : kernel.arguments) {
    void* pointer = nullptr;
    switch (argument.kind) {
      case Argument::Kind::kTable:
        tables.emplace_back();
        for (const Argument& entry : argument.table) {
          tables.back().push_back(AddressOf(entry, lists));
        }
        pointer = tables.back().data();
        break;
      case Argument::Kind::kRandom:
        pointer = &random_;
        break;
      case Argument::Kind::kErrors:
        pointer = &error_;
        break;
      case Argument::Kind::kStep:
        values.push_back(0);
        continue;
      case Argument::Kind::kInt:
        values.push_back(static_cast<uint64_t>(argument.value));
        continue;
      default:
        pointer = AddressOf(argument, lists);
    }
    values.push_back(reinterpret_cast<uint64_t>(pointer));
  }
  if (compiled->parameters() != static_cast<int>(values.size())) {
    return Internal("the kernel has %d parameters, %d arguments are passed:\n%s",
                    compiled->parameters(), values.size(), kernel.source);
  }
  std::vector<void*> arguments;
  for (uint64_t& value : values) arguments.push_back(&value);
  DUOTONE_RETURN_IF_ERROR(compiled->Launch({.grid = kernel.grid,
                                            .block = kernel.block,
                                            .shared_bytes = kernel.shared_bytes,
                                            .reverse = reverse_},
                                           arguments.data()))
      .With("the %s kernel", kernel.family);
  for (const Buffers* list : {&lists.operands, &lists.results, &lists.temporaries}) {
    for (size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i]->Intact()) continue;
      return Internal("the %s kernel writes outside %s %d of %d bytes:\n%s", kernel.family,
                      list == &lists.operands  ? "operand"
                      : list == &lists.results ? "result"
                                               : "temporary",
                      i, (*list)[i]->bytes(), kernel.source);
    }
  }
  return absl::OkStatus();
}

// As lowering gathers them: operand j is the partial array of job j, result j its result, then come
// the words of the tests.
absl::Status Runner::RunFinishes() {
  if (kernel_.finishes.empty()) return absl::OkStatus();
  std::vector<FinishJob> jobs;
  Buffers partials, results;
  for (const Finish& finish : kernel_.finishes) {
    jobs.push_back({finish, fusion_.type(finish.result).dtype});
    partials.push_back(temporaries_.at(finish.temporary));
    results.push_back(results_.at(finish.result));
  }
  for (const Finish& finish : kernel_.finishes) {
    if (finish.finite_result >= 0) results.push_back(results_.at(finish.finite_result));
  }
  DUOTONE_ASSIGN_OR_RETURN(const GeneratedKernel kernel, GenerateFinish(jobs, codegen_));
  Buffers temporaries;
  for (const Temporary& temporary : kernel.temporaries) {
    temporaries.push_back(std::make_shared<GuardedBuffer>(temporary.bytes));
  }
  return Launch(kernel, {partials, results, temporaries});
}

absl::Status Runner::Run(llvm::ArrayRef<ir::Array> operands) {
  Allocate(operands);
  DUOTONE_RETURN_IF_ERROR(Launch(kernel_, {operands_, results_, temporaries_}));
  return RunFinishes();
}

std::vector<ir::Array> Runner::Results() const {
  std::vector<ir::Array> arrays;
  for (int i = 0; i < fusion_.result_count(); ++i) {
    ir::Array array(fusion_.type(i));
    std::memcpy(array.view().data, results_[i]->data(),
                static_cast<size_t>(fusion_.type(i).bytes()));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// "" or the first place where they differ by more than the tolerance allows.
std::string FirstDifference(const ir::Array& actual, const ir::Array& expected, double tolerance) {
  const bool is_float = IsFloat(expected.type().dtype);
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = actual.Get(i), b = expected.Get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double allowed =
        is_float && std::isfinite(b) ? tolerance * std::max(1.0, std::fabs(b)) : 0;
    if (!(std::fabs(a - b) <= allowed)) {
      return absl::StrFormat("element %d of %d is %.9g instead of %.9g", i, expected.elements(), a,
                             b);
    }
  }
  return "";
}

}  // namespace

FusionModule ParseFusion(std::string_view text, std::string_view family) {
  FusionModule made;
  if (text.find("fusion(") != std::string_view::npos) {
    made.module = cpu::ParseOrDie(text);
    ir::Graph* graph = made.module->FindGraph("main");
    DUOTONE_CHECK(graph != nullptr && graph->node_count() == 1) << "expected @main with one fusion";
    made.fusion = graph->nodes().front().get();
    return made;
  }
  auto parsed = cpu::ParseOrDie(absl::StrFormat("module @body {\n%s\n}", text));
  const std::shared_ptr<ir::Graph> body = ir::CloneBody(*parsed->graphs().front());
  made.module = std::make_unique<ir::Module>("fusion");
  ir::Graph* graph = *made.module->AddGraph("main");
  ir::Graph::Spec spec{
      .op = ir::Op::kFusion, .attrs = ir::FusionAttrs{.family = std::string(family)}, .body = body};
  for (const ir::Node* input : body->inputs()) {
    spec.operands.push_back(*graph->AddInput(input->name(), input->type()));
  }
  for (const ir::Output& output : body->outputs()) {
    spec.names.push_back(graph->UniqueName(absl::StrCat("out.", output.name)));
  }
  absl::StatusOr<ir::Node*> fusion = graph->Add(std::move(spec));
  DUOTONE_CHECK(fusion.ok()) << fusion.status();
  made.fusion = *fusion;
  for (size_t i = 0; i < body->outputs().size(); ++i) {
    graph->outputs().push_back({body->outputs()[i].name, made.fusion->result(static_cast<int>(i))});
  }
  return made;
}

absl::StatusOr<FusionRun> RunFusion(const ir::Node& fusion, llvm::ArrayRef<ir::Array> operands,
                                    const FusionOptions& options) {
  CodegenOptions codegen{.exact = options.exact, .schedules = options.schedules};
  DUOTONE_ASSIGN_OR_RETURN(codegen.target, FindGpuTarget(options.target));
  FusionRun run;
  GuardOption guard{.present = options.guard.has_value()};
  for (const auto& [result, operand] : options.in_place) guard.in_place.push_back(operand);
  DUOTONE_ASSIGN_OR_RETURN(run.kernel, GenerateKernel(fusion, guard, codegen));
  Runner forward(fusion, run.kernel, codegen, options, /*reverse=*/false);
  DUOTONE_RETURN_IF_ERROR(forward.Run(operands));
  run.results = forward.Results();
  run.error = forward.error();
  Runner reverse(fusion, run.kernel, codegen, options, /*reverse=*/true);
  DUOTONE_RETURN_IF_ERROR(reverse.Run(operands));
  const std::vector<ir::Array> again = reverse.Results();
  for (size_t i = 0; i < again.size(); ++i) {
    if (again[i].BitEqual(run.results[i])) continue;
    return Internal("result %d depends on the order of the threads: %s\n%s", i,
                    FirstDifference(again[i], run.results[i], 0), run.kernel.source);
  }
  return run;
}

void ExpectFusionMatches(std::string_view text, const ir::ArrayMap& inputs, double tolerance,
                         const FusionOptions& options) {
  const FusionModule made = ParseFusion(text, options.family);
  const ir::Graph& body = *made.fusion->body();
  ir::ArrayMap arrays = cpu::RandomInputs(body, options.input_seed);
  for (const auto& entry : inputs) arrays[entry.getKey()] = entry.getValue();
  std::vector<ir::Array> operands;
  for (const ir::Node* input : body.inputs()) operands.push_back(arrays[input->name()]);

  absl::StatusOr<ir::InterpreterResult> expected = ir::Interpret(body, arrays, {}, options.random);
  ASSERT_TRUE(expected.ok()) << expected.status();
  absl::StatusOr<FusionRun> run = RunFusion(*made.fusion, operands, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->error.claimed, 0) << "an index was out of range";
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const std::string difference =
        FirstDifference(run->results[i], expected->outputs[body.outputs()[i].name], tolerance);
    EXPECT_EQ(difference, "") << "of result " << i << ", %" << body.outputs()[i].name << "\n"
                              << run->kernel.source;
  }
}

}  // namespace duotone::codegen::cuda
