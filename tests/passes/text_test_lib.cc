#include "tests/passes/text_test_lib.h"

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/FileCheck/FileCheck.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace duotone::passes {
namespace {

absl::Status CheckRoundTrip(const std::string& text) {
  absl::StatusOr<std::unique_ptr<ir::Module>> again = ir::Parse(text, "<printed>");
  DUOTONE_RETURN_IF_ERROR(again).With("the printed module does not parse:\n%s", text);
  const std::string printed = ir::Print(**again);
  if (printed == text) return absl::OkStatus();
  return Internal("printing the re-parsed module gives another text:\n%s\nfrom:\n%s", printed,
                  text);
}

// Runs `pass` on a module it has already been run on.
absl::Status CheckSecondRun(const Pass& pass, ir::Module& module, const std::string& expected) {
  PassContext ctx;
  absl::StatusOr<bool> changed = pass.Run(module, ctx);
  DUOTONE_RETURN_IF_ERROR(changed).With("the second run");
  const std::string text = ir::Print(module);
  if (!*changed && text == expected) return absl::OkStatus();
  return Internal(
      "the second run changed something (it said %s); after the first:\n%s\nafter the second:\n%s",
      *changed ? "true" : "false", expected, text);
}

// One pass with everything that must hold for any pass.
absl::StatusOr<bool> RunChecked(const Pass& pass, ir::Module& module, PassContext& ctx) {
  const std::string before = ir::Print(module);
  DUOTONE_ASSIGN_OR_RETURN(const bool changed, pass.Run(module, ctx));
  const std::string after = ir::Print(module);
  DUOTONE_RETURN_IF_ERROR(ir::Verify(module)).With("the result is invalid:\n%s", after);
  if (changed != (before != after)) {
    return Internal("it said %s, but the text %s:\n%s", changed ? "true" : "false",
                    before != after ? "changed" : "did not change", after);
  }
  DUOTONE_RETURN_IF_ERROR(CheckRoundTrip(after));
  DUOTONE_RETURN_IF_ERROR(CheckSecondRun(pass, module, after));
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> again, ir::Parse(after, "<printed>"));
  DUOTONE_RETURN_IF_ERROR(CheckSecondRun(pass, *again, after)).With("on the re-parsed module");
  return changed;
}

// Values for a comparison. A tolerance of zero promises equality for all values, so the values no
// rule may assume away are among the operands.
ir::Array RandomArray(const ir::Type& type, bool special, std::mt19937_64& engine) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kSpecial[] = {0.0,  -0.0,  1.0,   -1.0, kInf, -kInf, kNan,
                                 6e-8, -6e-8, 1e-40, 6e4,  7e4,  -3e38, 65504.0};
  std::normal_distribution<double> normal;
  ir::Array array(type);
  for (int64_t i = 0; i < array.elements(); ++i) {
    if (!type.is_float()) {
      array.Set(i, static_cast<double>(engine() % 2));
    } else if (special && engine() % 2 == 0) {
      array.Set(i, kSpecial[engine() % std::size(kSpecial)]);
    } else {
      array.Set(i, normal(engine));
    }
  }
  return array;
}

absl::Status CompareArrays(const ir::Array& before, const ir::Array& after, double tolerance) {
  if (!(before.type().shape == after.type().shape)) {
    return Internal("the shape was %s and is %s", before.type().ToString(),
                    after.type().ToString());
  }
  for (int64_t i = 0; i < before.elements(); ++i) {
    const double a = before.Get(i);
    const double b = after.Get(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    const bool equal = tolerance == 0 ? a == b && std::signbit(a) == std::signbit(b)
                                      : a == b || std::abs(a - b) <= tolerance * (1 + std::abs(a));
    if (!equal) return Internal("element %d was %.9g and is %.9g", i, a, b);
  }
  return absl::OkStatus();
}

absl::StatusOr<ir::ArrayMap> InitialState(const ir::Module& module) {
  ir::ArrayMap state;
  for (const auto& entry : module.state()) {
    const auto source = state.find(entry->init.source);
    DUOTONE_ASSIGN_OR_RETURN(
        state[entry->name],
        ir::Initialise(*entry, /*seed=*/1, source == state.end() ? nullptr : &source->second));
  }
  return state;
}

// Binds the named sizes of both graphs to small different numbers.
absl::Status BindForTest(ir::Graph& before, ir::Graph& after) {
  constexpr int64_t kSizes[] = {3, 2, 5, 4};
  ir::SizeBinding binding;
  const std::vector<std::string> names = ir::NamedSizes(before);
  for (size_t i = 0; i < names.size(); ++i) binding[names[i]] = kSizes[i % std::size(kSizes)];
  DUOTONE_RETURN_IF_ERROR(ir::BindSizes(before, binding));
  return ir::BindSizes(after, binding);
}

absl::Status CompareGraphs(const ir::Graph& before, const ir::Graph& after, double tolerance,
                           uint64_t seed) {
  std::mt19937_64 engine(seed);
  ir::ArrayMap inputs;
  for (const ir::Node* input : before.inputs()) {
    inputs[input->name()] = RandomArray(input->type(), tolerance == 0, engine);
  }
  DUOTONE_ASSIGN_OR_RETURN(const ir::ArrayMap state_before, InitialState(*before.module()));
  DUOTONE_ASSIGN_OR_RETURN(const ir::ArrayMap state_after, InitialState(*after.module()));
  DUOTONE_ASSIGN_OR_RETURN(const ir::InterpreterResult was,
                           ir::Interpret(before, inputs, state_before));
  DUOTONE_ASSIGN_OR_RETURN(const ir::InterpreterResult is,
                           ir::Interpret(after, inputs, state_after));
  for (const auto& [kind, was_map, is_map] : {std::tuple("output", &was.outputs, &is.outputs),
                                              std::tuple("state", &was.state, &is.state)}) {
    for (const auto& item : *was_map) {
      const auto found = is_map->find(item.getKey());
      if (found == is_map->end()) return Internal("%s %s is gone", kind, item.getKey().str());
      DUOTONE_RETURN_IF_ERROR(CompareArrays(item.getValue(), found->second, tolerance))
          .With("%s %s", kind, item.getKey().str());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSameResult(const ir::Module& before_module, const ir::Module& after_module,
                             double tolerance, std::string_view name) {
  constexpr int kRounds = 8;
  const std::unique_ptr<ir::Module> before = before_module.Clone();
  const std::unique_ptr<ir::Module> after = after_module.Clone();
  for (const auto& graph : before->graphs()) {
    ir::Graph* other = after->FindGraph(graph->name());
    if (other == nullptr) return Internal("SAME-RESULT: graph @%s is gone", graph->name());
    DUOTONE_RETURN_IF_ERROR(BindForTest(*graph, *other));
    for (int round = 0; round < kRounds; ++round) {
      DUOTONE_RETURN_IF_ERROR(
          CompareGraphs(*graph, *other, tolerance, HashCombine(Fnv1a(name), round)))
          .With("SAME-RESULT within %g: graph @%s, random inputs %d", tolerance, graph->name(),
                round);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWarnings(const TextTest& test, const std::vector<std::string>& warnings) {
  for (const std::string& expected : test.warnings) {
    if (absl::StrContains(absl::StrJoin(warnings, "\n"), expected)) continue;
    return Internal("no warning says '%s'; given: %s", expected, absl::StrJoin(warnings, "; "));
  }
  return absl::OkStatus();
}

// Status of a run that must fail with a text.
absl::Status CheckError(const TextTest& test, const absl::Status& status) {
  if (status.ok())
    return Internal("expected the error '%s', but every pass succeeded", *test.error);
  if (absl::StrContains(status.message(), *test.error)) return absl::OkStatus();
  return Internal("expected the error '%s', but it is '%s'", *test.error,
                  std::string(status.message()));
}

}  // namespace

absl::Status FileCheckText(std::string_view checks, std::string_view input, std::string_view file) {
  llvm::FileCheckRequest request;
  request.CheckPrefixes = {"CHECK"};
  llvm::FileCheck file_check(request);
  llvm::SourceMgr sources;
  std::string messages;
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic& diagnostic, void* text) {
        llvm::raw_string_ostream stream(*static_cast<std::string*>(text));
        diagnostic.print(nullptr, stream, /*ShowColors=*/false);
      },
      &messages);
  // FileCheck keeps references into both canonical texts.
  auto add = [&](std::string_view text, std::string_view name, llvm::SmallString<1024>& canonical) {
    const auto raw =
        llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(text), llvm::StringRef(name));
    const llvm::StringRef result = file_check.CanonicalizeFile(*raw, canonical);
    sources.AddNewSourceBuffer(
        llvm::MemoryBuffer::getMemBuffer(result, llvm::StringRef(name), false), llvm::SMLoc());
    return result;
  };
  llvm::SmallString<1024> canonical_checks, canonical_input;
  const llvm::StringRef check_text = add(checks, file, canonical_checks);
  if (file_check.readCheckFile(sources, check_text)) {
    return InvalidArgument("the CHECK lines are wrong:\n%s", messages);
  }
  const llvm::StringRef input_text = add(input, "<printed>", canonical_input);
  if (file_check.checkInput(sources, input_text)) return absl::OkStatus();
  return Internal("%s\nthe whole result:\n%s", messages, input);
}

absl::Status RunTextTest(const TextTest& test, const PassMaker& make_passes) {
  DUOTONE_ASSIGN_OR_RETURN(const PassList passes, make_passes(test.run));
  DUOTONE_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ir::Parse(test.text, test.file));
  DUOTONE_RETURN_IF_ERROR(ir::Verify(*module)).With("the input is invalid");
  DUOTONE_RETURN_IF_ERROR(CheckRoundTrip(ir::Print(*module)));
  const std::unique_ptr<ir::Module> before = module->Clone();
  PassContext ctx;
  absl::Status status;
  for (const auto& pass : passes) {
    absl::StatusOr<bool> changed = RunChecked(*pass, *module, ctx);
    if (!changed.ok()) {
      status = StatusBuilder(changed).With("pass %s", pass->name());
      break;
    }
    if (test.unchanged && *changed) {
      return Internal("UNCHANGED: pass %s changed something:\n%s", pass->name(),
                      ir::Print(*module));
    }
  }
  if (test.error) return CheckError(test, status);
  DUOTONE_RETURN_IF_ERROR(status);
  DUOTONE_RETURN_IF_ERROR(CheckWarnings(test, ctx.warnings()));
  if (test.checks.find("CHECK") != std::string::npos) {
    DUOTONE_RETURN_IF_ERROR(FileCheckText(test.checks, ir::Print(*module), test.file));
  }
  if (test.same_result_within) {
    DUOTONE_RETURN_IF_ERROR(CheckSameResult(*before, *module, *test.same_result_within, test.name));
  }
  return absl::OkStatus();
}

}  // namespace duotone::passes
