#include "codegen/cuda/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "codegen/cuda/schedule.h"
#include "codegen/program_builder.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace duotone::codegen::cuda {
namespace {

using runtime::KernelLaunch;
using runtime::LaunchArgument;

class Lowering final : public ProgramBuilder {
 public:
  Lowering(const ir::Graph& graph, const LowerOptions& options)
      : ProgramBuilder(graph, options.rng_position), options_(options) {
    program().headers = KernelHeaders();
    for (const auto& node : graph.nodes()) CollectFlags(node.get());
  }

 private:
  absl::Status CheckNode(const ir::Node& node) const override;
  absl::Status AddNode(ir::Node* node) override;
  absl::Status AfterNodes() override;
  absl::Status EmitGuardedCopy(runtime::Copy copy, int guard) override;

  // Results of tests that a later all_finite combines: they share its word.
  void CollectFlags(ir::Node* node);
  // The word in which `value`, a test's result, is gathered; set to true when first asked for.
  int FlagWord(ir::Value value);
  absl::Status AddFusion(ir::Node* fusion);
  // The operands whose memory a result takes.
  std::vector<int> OperandsInPlace(const ir::Node& fusion) const;
  // The buffers that a generated kernel's arguments stand for.
  struct Operands {
    std::vector<int> operands;  // the guard last, if there is one
    std::vector<double> read;   // bytes of the first operands that the kernel reads, if not all
    std::vector<int> results;
    std::vector<int> temporaries;
  };
  KernelLaunch MakeLaunch(const GeneratedKernel& kernel, const Operands& buffers, std::string node);
  LaunchArgument MakeArgument(const Argument& argument, const Operands& buffers) const;
  // The index of the kernel in the program; equal ones are one.
  int KernelIndex(const GeneratedKernel& kernel);
  // Second stages whose results nothing has read yet.
  bool IsPending(int buffer);
  absl::Status FlushFinishes();

  struct PendingFinish {
    FinishJob job;
    int partials = -1;
    int result = -1;
    int flag = -1;
    std::string label;
  };

  const LowerOptions& options_;
  llvm::DenseMap<ValueKey, ir::Node*> gathered_;  // by test: the all_finite that combines it
  llvm::DenseMap<const ir::Node*, int> words_;    // by that all_finite
  std::vector<PendingFinish> pending_;
  llvm::StringMap<int> kernels_;  // by source
  llvm::StringSet<> schedules_;   // that some kernel has
};

// A schedule for a kernel that is not there would be ignored in silence.
absl::Status CheckSchedules(const ir::Graph& graph, const std::vector<std::string>& schedules) {
  for (const std::string_view entry : schedules) {
    const std::string_view name = entry.substr(0, entry.find('='));
    const bool known =
        name == "*" || std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& n) {
          return n->def().lower == ir::Lower::kFused && n->name() == name;
        });
    if (known) continue;
    std::string names;
    for (const auto& node : graph.nodes()) {
      if (node->def().lower != ir::Lower::kFused) continue;
      absl::StrAppend(&names, names.empty() ? "" : ", ", node->name());
    }
    return InvalidArgument("schedule override '%s': no kernel is of a node '%s'; there are %s",
                           entry, name, names);
  }
  return absl::OkStatus();
}

bool IsTestOfTests(const ir::Node& node) {
  return node.op() == ir::Op::kAllFinite &&
         std::all_of(node.operands().begin(), node.operands().end(), [](ir::Value operand) {
           return operand.type().dtype == DType::kBool &&
                  operand.node->def().lower == ir::Lower::kFused;
         });
}

absl::Status Lowering::CheckNode(const ir::Node& node) const {
  const bool known = node.def().lower == ir::Lower::kFused || IsConstant(node) ||
                     IsTestOfTests(node) || RootOf({const_cast<ir::Node*>(&node), 0}).node != &node;
  if (known) return absl::OkStatus();
  return InvalidArgument("%s: stands outside a fusion; run passes/fuse before code generation %s",
                         node.def().name, node.Place());
}

void Lowering::CollectFlags(ir::Node* node) {
  if (!IsTestOfTests(*node)) return;
  for (ir::Value test : node->operands()) {
    const bool is_read_elsewhere = std::any_of(
        test.node->users().begin(), test.node->users().end(), [&](const ir::Node* user) {
          return user != node && std::find(user->operands().begin(), user->operands().end(),
                                           test) != user->operands().end();
        });
    const bool is_root =
        std::any_of(graph().outputs().begin(), graph().outputs().end(),
                    [&](const ir::Output& output) { return output.value == test; });
    if (!is_read_elsewhere && !is_root) gathered_[KeyOf(test)] = node;
  }
}

int Lowering::FlagWord(ir::Value value) {
  ir::Node* const combined = gathered_.lookup(KeyOf(value));
  auto word = combined == nullptr ? words_.end() : words_.find(combined);
  if (word != words_.end()) {
    Touch(word->second, now());
    SetBuffer(value, word->second);
    return word->second;
  }
  const int buffer = Write(combined == nullptr ? value : combined->result());
  Emit(runtime::Fill{buffer, {1}});
  if (combined != nullptr) words_[combined] = buffer;
  SetBuffer(value, buffer);
  return buffer;
}

absl::Status Lowering::AddNode(ir::Node* node) {
  if (node->def().lower == ir::Lower::kFused) return AddFusion(node);
  if (node->op() == ir::Op::kAllFinite) {
    // Its word has been written by the fusions before it.
    for (ir::Value test : node->operands()) {
      if (gathered_.lookup(KeyOf(test)) != node) {
        return Unimplemented("all_finite: %%%s is also read elsewhere %s", test.name(),
                             node->Place());
      }
    }
    Touch(words_.lookup(node), now());
    return absl::OkStatus();
  }
  return Internal("%s: is a constant of %d bytes, too large to be kept %s", node->def().name,
                  node->type().bytes(), node->Place());
}

// Elements of `value`, in a fusion's body, that are read: slices and gathers may leave some out.
double ElementsRead(const ir::Graph& body, ir::Value value) {
  const auto all = static_cast<double>(value.type().elements());
  for (const ir::Output& output : body.outputs()) {
    if (output.value == value) return all;
  }
  double read = 0;
  for (ir::Node* user : value.node->users()) {
    if (user->def().lower == ir::Lower::kView) {
      read += ElementsRead(body, user->result(0));
    } else if (user->op() == ir::Op::kGather && user->operand(0) == value) {
      read += static_cast<double>(user->type(0).elements());
    } else {
      return all;
    }
  }
  return std::min(all, read);
}

absl::Status Lowering::AddFusion(ir::Node* fusion) {
  // Results without elements need no kernel: it would have nothing of its own to read or write.
  bool is_empty = true;
  for (int i = 0; i < fusion->result_count(); ++i) {
    is_empty = is_empty && fusion->type(i).elements() == 0;
  }
  if (is_empty) {
    for (int i = 0; i < fusion->result_count(); ++i) Write(fusion->result(i));
    return absl::OkStatus();
  }
  const ir::Value guard = storage().GuardOf(fusion);
  DUOTONE_ASSIGN_OR_RETURN(
      const GeneratedKernel kernel,
      GenerateKernel(*fusion, {.present = bool(guard), .in_place = OperandsInPlace(*fusion)},
                     options_.codegen));
  Operands buffers;
  for (int i = 0; i < fusion->operand_count(); ++i) {
    buffers.operands.push_back(Read(fusion->operand(i)));
    const ir::Value inside = fusion->body()->inputs()[static_cast<size_t>(i)]->result();
    buffers.read.push_back(ElementsRead(*fusion->body(), inside) * ByteSize(inside.type().dtype));
  }
  if (guard) buffers.operands.push_back(Read(guard));
  const bool waits = std::any_of(buffers.operands.begin(), buffers.operands.end(),
                                 [&](int buffer) { return IsPending(buffer); });
  if (waits) {
    DUOTONE_RETURN_IF_ERROR(FlushFinishes());
  }

  llvm::SmallVector<int, 4> tests(kernel.finite_results.begin(), kernel.finite_results.end());
  for (const Finish& finish : kernel.finishes) {
    if (finish.finite_result >= 0) tests.push_back(finish.finite_result);
  }
  for (int i = 0; i < fusion->result_count(); ++i) {
    const bool is_test = std::find(tests.begin(), tests.end(), i) != tests.end();
    buffers.results.push_back(is_test ? FlagWord(fusion->result(i)) : Write(fusion->result(i)));
  }
  for (const Temporary& temporary : kernel.temporaries) {
    buffers.temporaries.push_back(NewTemporary(absl::StrCat(fusion->name(), ": ", temporary.what),
                                               DType::kU8, {temporary.bytes}));
  }
  Emit(MakeLaunch(kernel, buffers, fusion->name()));
  for (const Finish& finish : kernel.finishes) {
    pending_.push_back(
        {.job = {finish, fusion->type(finish.result).dtype},
         .partials = buffers.temporaries[finish.temporary],
         .result = buffers.results[finish.result],
         .flag = finish.finite_result < 0 ? -1 : buffers.results[finish.finite_result],
         .label = absl::StrCat("%", fusion->name(finish.result))});
  }
  return absl::OkStatus();
}

std::vector<int> Lowering::OperandsInPlace(const ir::Node& fusion) const {
  std::vector<int> operands;
  for (int i = 0; i < fusion.operand_count(); ++i) {
    const ir::StateEntry* entry = graph().EntryOf(RootOf(fusion.operand(i)).node);
    for (int r = 0; entry != nullptr && r < fusion.result_count(); ++r) {
      if (storage().EntryWrittenBy({const_cast<ir::Node*>(&fusion), r}) == entry) {
        operands.push_back(i);
      }
    }
  }
  return operands;
}

LaunchArgument Lowering::MakeArgument(const Argument& argument, const Operands& buffers) const {
  LaunchArgument made;
  switch (argument.kind) {
    case Argument::Kind::kOperand:
      made.address = {buffers.operands[argument.index]};
      break;
    case Argument::Kind::kResult:
      made.address = {buffers.results[argument.index]};
      break;
    case Argument::Kind::kTemporary:
      made.address = {buffers.temporaries[argument.index]};
      break;
    case Argument::Kind::kTable:
      made.kind = LaunchArgument::Kind::kTable;
      for (const Argument& entry : argument.table) {
        made.table.push_back(MakeArgument(entry, buffers).address);
      }
      break;
    case Argument::Kind::kRandom:
      made.kind = LaunchArgument::Kind::kRandom;
      break;
    case Argument::Kind::kErrors:
      made.kind = LaunchArgument::Kind::kErrors;
      break;
    case Argument::Kind::kStep:
    case Argument::Kind::kInt:
      made.kind = LaunchArgument::Kind::kInt;
      made.value = argument.value;
      break;
  }
  return made;
}

KernelLaunch Lowering::MakeLaunch(const GeneratedKernel& kernel, const Operands& buffers,
                                  std::string node) {
  const std::vector<std::string_view> families = KernelFamilies();
  DUOTONE_CHECK(std::find(families.begin(), families.end(), kernel.family) != families.end())
      << kernel.family << " is not in KernelFamilies()";
  KernelLaunch launch{.kernel = KernelIndex(kernel),
                      .node = std::move(node),
                      .family = kernel.family,
                      .grid = kernel.grid,
                      .block = kernel.block,
                      .shared_bytes = kernel.shared_bytes,
                      .labels = kernel.labels,
                      .flops = kernel.flops};
  for (const Argument& argument : kernel.arguments) {
    LaunchArgument made = MakeArgument(argument, buffers);
    if (argument.kind == Argument::Kind::kStep) {
      made.value = static_cast<int64_t>(program().steps.size());
    }
    launch.arguments.push_back(std::move(made));
  }
  std::map<int, double> read, written;  // bytes by root
  const auto add = [&](std::vector<int>& list, std::map<int, double>& bytes, int buffer,
                       double touched) {
    const int root = program().RootOf(buffer);
    if (!bytes.contains(root)) list.push_back(root);
    const auto whole = static_cast<double>(program().buffers[root].bytes);
    bytes[root] = std::min(whole, bytes[root] + touched);
  };
  constexpr double kAll = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < buffers.operands.size(); ++i) {
    const double touched = i < buffers.read.size() ? buffers.read[i] : kAll;
    add(launch.reads, read, buffers.operands[i], touched);
  }
  for (int buffer : buffers.results) add(launch.writes, written, buffer, kAll);
  for (int buffer : buffers.temporaries) add(launch.writes, written, buffer, kAll);
  for (const auto& [root, bytes] : read) launch.bytes_read += bytes;
  for (const auto& [root, bytes] : written) launch.bytes_written += bytes;
  return launch;
}

// A schedule for all kernels holds where it is a candidate, which must be somewhere.
absl::Status Lowering::AfterNodes() {
  DUOTONE_RETURN_IF_ERROR(FlushFinishes());
  for (const std::string_view entry : options_.codegen.schedules) {
    if (!entry.starts_with("*=")) continue;
    DUOTONE_ASSIGN_OR_RETURN(const Schedule wanted, Schedule::FromString(entry.substr(2)));
    if (!schedules_.contains(wanted.ToString())) {
      return InvalidArgument("schedule override '%s': no kernel has that candidate", entry);
    }
  }
  return absl::OkStatus();
}

int Lowering::KernelIndex(const GeneratedKernel& kernel) {
  schedules_.insert(kernel.schedule);
  const int next = static_cast<int>(program().kernels.size());
  auto [it, inserted] =
      kernels_.try_emplace(absl::StrCat(kernel.contract ? "c" : "-", kernel.source), next);
  if (inserted) {
    program().kernels.push_back({.name = "kernel",
                                 .source = kernel.source,
                                 .contract = kernel.contract,
                                 .schedules = kernel.schedules});
  }
  return it->second;
}

bool Lowering::IsPending(int buffer) {
  const int root = program().RootOf(buffer);
  return std::any_of(pending_.begin(), pending_.end(), [&](const PendingFinish& finish) {
    return program().RootOf(finish.result) == root || finish.flag == root;
  });
}

absl::Status Lowering::FlushFinishes() {
  if (pending_.empty()) return absl::OkStatus();
  std::vector<FinishJob> jobs;
  Operands buffers;
  for (const PendingFinish& finish : pending_) {
    jobs.push_back(finish.job);
    buffers.operands.push_back(finish.partials);
    buffers.results.push_back(finish.result);
    for (int buffer : {finish.partials, program().RootOf(finish.result)}) Touch(buffer, now());
    if (finish.flag >= 0) Touch(finish.flag, now());
  }
  // Results of tests follow the results; GenerateFinish counts them the same way.
  for (const PendingFinish& finish : pending_) {
    if (finish.flag >= 0) buffers.results.push_back(finish.flag);
  }
  DUOTONE_ASSIGN_OR_RETURN(const GeneratedKernel kernel, GenerateFinish(jobs, options_.codegen));
  Emit(MakeLaunch(kernel, buffers, pending_.front().label.substr(1)));
  pending_.clear();
  return absl::OkStatus();
}

absl::Status Lowering::EmitGuardedCopy(runtime::Copy copy, int guard) {
  const int64_t bytes = program().buffers[copy.to].bytes;
  const GeneratedKernel kernel = GenerateGuardedCopy(bytes);
  Emit(MakeLaunch(kernel, {.operands = {copy.from, guard}, .results = {copy.to}},
                  program().buffers[copy.to].name));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<runtime::Program> Lower(const ir::Graph& graph, const LowerOptions& options) {
  DUOTONE_CHECK(options.codegen.target != nullptr);
  DUOTONE_RETURN_IF_ERROR(CheckSchedules(graph, options.codegen.schedules));
  return Lowering(graph, options).Run();
}

}  // namespace duotone::codegen::cuda
