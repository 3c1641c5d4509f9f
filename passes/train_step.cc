#include "passes/train_step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "ir/emitter.h"
#include "passes/autodiff.h"
#include "passes/training_module.h"

namespace duotone::passes {
namespace {

using ir::Emitter;
using ir::Graph;
using ir::Module;
using ir::Node;
using ir::NodeInfo;
using ir::Op;
using ir::Value;

absl::StatusOr<Graph*> FindForward(const Module& module, const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& graph : module.graphs()) names.push_back(absl::StrCat("@", graph->name()));
  const std::string known = absl::StrJoin(names, ", ");
  if (!wanted.empty()) {
    if (Graph* graph = module.FindGraph(wanted)) return graph;
    return InvalidArgument("there is no graph @%s to train; module @%s has: %s", wanted,
                           module.name(), known);
  }
  if (module.graphs().empty()) {
    return InvalidArgument("module @%s has no graph to train", module.name());
  }
  if (module.graphs().size() == 1) return module.graphs()[0].get();
  Graph* loss = module.FindGraph("loss");
  Graph* main = module.FindGraph("main");
  if ((loss == nullptr) == (main == nullptr)) {
    return InvalidArgument("module @%s has several graphs (%s): say which one is trained",
                           module.name(), known);
  }
  return loss != nullptr ? loss : main;
}

absl::StatusOr<std::vector<Value>> FindLosses(const Graph& graph,
                                              const std::vector<std::string>& names) {
  if (names.empty()) return InvalidArgument("no output of @%s is named as the loss", graph.name());
  std::vector<Value> losses;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) {
      return InvalidArgument("the loss %s is named twice", *name);
    }
    const ir::Output* output = graph.FindOutput(*name);
    if (output == nullptr) {
      std::vector<std::string> known;
      for (const ir::Output& other : graph.outputs()) known.push_back(other.name);
      return InvalidArgument("@%s has no output called %s to minimise; it has: %s", graph.name(),
                             *name, absl::StrJoin(known, ", "));
    }
    const ir::Type& type = output->value.type();
    if (!type.is_scalar() || !type.is_float()) {
      return InvalidArgument("the loss %s is %s, but must be a floating-point scalar %s", *name,
                             type.ToString(), output->value.node->Place());
    }
    losses.push_back(output->value);
  }
  return losses;
}

// The parameters to differentiate, in the order of the state table.
absl::StatusOr<std::vector<const ir::StateEntry*>> FindTrained(
    const Module& module, Graph& graph, llvm::ArrayRef<Value> losses,
    llvm::ArrayRef<OptimizerOptions> optimizers, PassContext& ctx) {
  DUOTONE_ASSIGN_OR_RETURN(ParameterOwners owners, ParameterOwners::Of(module, optimizers));
  for (size_t i = 0; i < optimizers.size(); ++i) {
    if (owners.OwnsAny(i)) continue;
    ctx.Warn(absl::StrFormat("optimizer '%s' owns no parameter: none is left that '%s' matches",
                             optimizers[i].name, optimizers[i].params));
  }
  std::vector<const ir::StateEntry*> read;
  std::vector<Value> values;
  auto keeps_its_value = [&](const ir::StateEntry& entry, std::string_view why) {
    ctx.Warn(absl::StrFormat("%%%s keeps its value: %s", entry.name, why));
  };
  for (const auto& entry : module.state()) {
    if (entry->kind != ir::StateKind::kParam) continue;
    if (!optimizers.empty() && !owners.Find(entry->name)) continue;
    const Value value = graph.Find(entry->name);
    if (!entry->type.is_float()) {
      keeps_its_value(*entry, absl::StrFormat("%s has no gradient", entry->type.ToString()));
    } else if (!value) {
      keeps_its_value(*entry, "the loss does not depend on it");
    } else {
      read.push_back(entry.get());
      values.push_back(value);
    }
  }
  const std::vector<bool> reached = HasDifferentiablePath(graph, losses, values);
  std::vector<const ir::StateEntry*> trained;
  for (size_t i = 0; i < read.size(); ++i) {
    if (reached[i]) {
      trained.push_back(read[i]);
    } else {
      keeps_its_value(*read[i], "the loss does not depend on it");
    }
  }
  if (trained.empty()) {
    return InvalidArgument("@%s: the loss depends on no parameter that an optimizer owns",
                           graph.name());
  }
  return trained;
}

// The sum of the losses in f32, whatever autocast would say of an addition: what is reported and
// differentiated is not rounded to 16 bits.
Value TotalLoss(Graph& graph, llvm::ArrayRef<Value> losses) {
  Value total;
  for (Value loss : losses) {
    const NodeInfo& info = loss.node->info();
    Emitter emit(graph, nullptr,
                 {.loc = info.loc, .scope = info.scope, .region = ir::Region::kOff});
    const Value wide = emit.Cast(loss, DType::kF32, absl::StrCat(loss.name(), ".f32"));
    total = total ? emit.Emit(Op::kAdd, {total, wide}, "total_loss") : wide;
  }
  return total;
}

absl::Status AddGradients(Graph& step, llvm::ArrayRef<Value> losses,
                          llvm::ArrayRef<const ir::StateEntry*> trained) {
  Graph::Spec spec{.op = Op::kGradient};
  spec.operands.push_back(TotalLoss(step, losses));
  spec.info.loc = losses[0].node->info().loc;
  for (const ir::StateEntry* entry : trained) {
    spec.operands.push_back(step.ReadState(entry));
    spec.names.push_back(step.UniqueName(absl::StrCat("gradient.", entry->name)));
  }
  DUOTONE_ASSIGN_OR_RETURN(Node * gradient, step.Add(std::move(spec)));
  for (size_t i = 0; i < trained.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(AddTrainingOutput(step, absl::StrCat(kGradPrefix, trained[i]->name),
                                              gradient->result(static_cast<int>(i))));
  }
  return absl::OkStatus();
}

// Random numbers of the next step must differ, also after a skipped one: no guard.
absl::Status AdvanceRngPosition(Module& module, Graph& step) {
  const ir::Type type{DType::kI64, {}};
  DUOTONE_ASSIGN_OR_RETURN(const ir::StateEntry* entry, TrainingState(module, kRngPosition, type));
  if (step.FindUpdate(entry) != nullptr) return absl::OkStatus();
  Emitter emit(step);
  const Value one = emit.Constant(type, 1, "rng_position.one");
  const Value next = emit.Emit(Op::kAdd, {step.ReadState(entry), one}, "rng_position.next");
  step.updates().push_back({.entry = entry, .next = next});
  return absl::OkStatus();
}

// Evaluation is deterministic: every dropout passes its operand on and keeps everything.
void RemoveDropout(Graph& eval) {
  for (Node* node : eval.NodePointers()) {
    if (node->op() != Op::kDropout) continue;
    eval.ReplaceAllUses(node->result(0), node->operand(0));
    for (int i = 1; i < node->result_count(); ++i) {
      Emitter emit(eval, node, node->info());
      eval.ReplaceAllUses(node->result(i),
                          emit.Constant(node->type(i), 1, absl::StrCat(node->name(), ".keep")));
    }
    eval.Erase(node);
  }
}

}  // namespace

absl::StatusOr<bool> TrainStep::Run(Module& module, PassContext& ctx) const {
  if (module.FindGraph(kStepGraph) != nullptr) return false;
  DUOTONE_ASSIGN_OR_RETURN(Graph * forward, FindForward(module, graph_));
  if (forward->name() != kEvalGraph && module.FindGraph(kEvalGraph) != nullptr) {
    return InvalidArgument("@%s cannot become @%s: the module has a graph of that name",
                           forward->name(), kEvalGraph);
  }
  DUOTONE_RETURN_IF_ERROR(CheckOutputNamesAreFree(*forward));
  DUOTONE_ASSIGN_OR_RETURN(std::vector<Value> losses, FindLosses(*forward, losses_));
  DUOTONE_ASSIGN_OR_RETURN(std::vector<const ir::StateEntry*> trained,
                           FindTrained(module, *forward, losses, optimizers_, ctx));

  DUOTONE_ASSIGN_OR_RETURN(Graph * step, module.CloneGraph(*forward, kStepGraph));
  DUOTONE_ASSIGN_OR_RETURN(losses, FindLosses(*step, losses_));
  DUOTONE_RETURN_IF_ERROR(AddGradients(*step, losses, trained));
  DUOTONE_RETURN_IF_ERROR(AdvanceRngPosition(module, *step));

  forward->set_name(std::string(kEvalGraph));
  forward->updates().clear();
  RemoveDropout(*forward);
  return true;
}

}  // namespace duotone::passes
