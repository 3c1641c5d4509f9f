// The verifier. A module is well formed if and only if:
//
// Module
//   [1]  State entries and graphs are found under their own names, each name once.
//   [2]  The type of a state entry has numbers for sizes.
//   [3]  The initialiser of a state entry fits it: known kind, arguments in range; derived state,
//        and only that, is a cast_of of an entry of the same shape that is not derived itself.
// Nodes
//   [4]  Every name in a graph is found under itself, once; only a state read has the name of a
//        state entry.
//   [5]  An operand is a result of a node of the same graph that stands before its reader.
//   [6]  A node's users are its readers, once per operand.
//   [7]  A node's attributes and types are those that inference gives for its operands.
//   [8]  Sizes: named sizes are identifiers, at most 16 axes, at most 2^56 elements.
//   [9]  A state read has the type of its entry.
//   [10] Random nodes of a graph have different ids: their numbers would be the same.
//   [11] Node fields: `forward` is not a name of the node itself; `origin` is empty or
//        autocast:<rule>.
//   [12] Inputs and state reads, and they alone, are the sources of a graph.
// Updates
//   [13] An update's entry is one of the module. A derived one is updated only beside its source:
//        in the same graph, under the same guard, with a cast of the source's next value. Inside a
//        fusion the cast is an output of the body.
//   [14] An update's value belongs to the graph and has the entry's type exactly.
//   [15] A guard belongs to the graph and is bool[].
//   [16] An entry has at most one update in a graph.
// Outputs
//   [17] An output's value belongs to the graph.
//   [18] Output names are not empty, and each occurs once.
// Fusions
//   [19] A fusion has a body, and no other node has one.
//   [20] The inputs of the body have the types of the operands, and its outputs those of the
//        results, by position; there is an output.
//   [21] A body belongs to no module: it reads and updates no state. It holds no fusion.
//   [22] The family is one of those in ir/op_rows_fusion.h.
// What stands above about nodes and outputs holds inside a body too, but for the names of its
// outputs, which mean nothing. Random nodes of different bodies may have the same id: the same
// numbers are made in two kernels.
#include "ir/verify.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "ir/initializer.h"
#include "ir/lexer.h"
#include "ir/op_rows_fusion.h"
#include "ir/text.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace duotone::ir {
namespace {

// A name in a message.
std::string ValueName(std::string_view name) { return absl::StrCat("%", Shown(name)); }

// What is wrong with the sizes of a type, or "".
std::string SizeProblem(const Type& type) {
  if (type.rank() > kMaxRank) {
    return absl::StrFormat("%d axes; at most %d are possible", type.rank(), kMaxRank);
  }
  for (const Dim& dim : type.shape) {
    if (dim.coefficient() < 0) return absl::StrFormat("the size %d is negative", dim.coefficient());
    for (const std::string& name : dim.names()) {
      if (!IsIdentifier(name)) {
        return absl::StrFormat("the named size '%s' is no identifier", Shown(name));
      }
    }
  }
  const absl::StatusOr<Dim> count = ElementCount(type.shape);
  return count.ok() ? "" : std::string(count.status().message());
}

// Checks one graph. The order of the methods is that of the invariants.
class GraphVerifier {
 public:
  // `entries`: the module's state table. `fusion`: the node whose body the graph is, or null.
  GraphVerifier(const Graph& graph, const llvm::DenseSet<const StateEntry*>& entries,
                std::vector<Violation>& violations, const Node* fusion = nullptr)
      : graph_(graph), entries_(entries), violations_(violations), fusion_(fusion) {}

  void Run();

 private:
  template <typename... Args>
  void Report(int invariant, Violation where, const absl::FormatSpec<Args...>& format,
              const Args&... args) {
    where.invariant = invariant;
    where.message = absl::StrFormat(format, args...);
    where.graph = &graph_;
    where.fusion = fusion_;
    violations_.push_back(std::move(where));
  }

  void CheckSource(const Node& node, Op op);
  void CheckNames(const Node& node);
  void CheckOperands(const Node& node);
  void CheckUsers(const Node& node);
  void CheckTypes(const Node& node);
  void CheckSizes(const Node& node);
  void CheckId(const Node& node);
  void CheckInfo(const Node& node);
  void CheckUpdate(int index);
  void CheckDerivedUpdate(const Update& update, Violation where);
  void CheckOutput(int index);
  void CheckFusion(const Node& node);
  // What is wrong with reading `value` here, or "". Only values without a problem may be looked
  // into.
  std::string UseProblem(Value value) const;

  const Graph& graph_;
  const llvm::DenseSet<const StateEntry*>& entries_;
  std::vector<Violation>& violations_;
  const Node* fusion_;
  llvm::DenseMap<const Node*, int> reads_;  // of the nodes seen so far: how often each is read
  llvm::DenseMap<uint64_t, const Node*> random_;  // random nodes by id
  llvm::StringSet<> outputs_;
  llvm::DenseMap<const StateEntry*, int> updated_;
  llvm::DenseMap<const StateEntry*, const Update*> updates_;  // the first of each entry
};

std::string GraphVerifier::UseProblem(Value value) const {
  if (!value) return "no value";
  if (value.node->graph() != &graph_) {
    return absl::StrFormat("a value of another graph (%s)", ValueName(value.node->name()));
  }
  if (!reads_.contains(value.node)) {
    return absl::StrFormat("%s, which is defined only later", ValueName(value.node->name()));
  }
  if (value.index < 0 || value.index >= value.node->result_count()) {
    return absl::StrFormat("result %d of %s, which has %d", value.index,
                           ValueName(value.node->name()), value.node->result_count());
  }
  return "";
}

void GraphVerifier::Run() {
  const auto visit = [&](const Node& node) {
    CheckNames(node);
    CheckOperands(node);
    CheckSizes(node);
    CheckInfo(node);
    reads_.try_emplace(&node, 0);
  };
  for (const Node* input : graph_.inputs()) {
    CheckSource(*input, Op::kInput);
    visit(*input);
  }
  for (const Node* read : graph_.state_reads()) {
    CheckSource(*read, Op::kState);
    visit(*read);
  }
  for (const auto& node : graph_.nodes()) {
    visit(*node);
    if (node->op() == Op::kFusion || node->body() != nullptr) {
      CheckFusion(*node);
    } else {
      CheckTypes(*node);
    }
    CheckId(*node);
  }
  for (const Node* input : graph_.inputs()) CheckUsers(*input);
  for (const Node* read : graph_.state_reads()) CheckUsers(*read);
  for (const auto& node : graph_.nodes()) CheckUsers(*node);
  for (const Update& update : graph_.updates()) updates_.try_emplace(update.entry, &update);
  for (size_t i = 0; i < graph_.updates().size(); ++i) CheckUpdate(static_cast<int>(i));
  for (size_t i = 0; i < graph_.outputs().size(); ++i) CheckOutput(static_cast<int>(i));
}

void GraphVerifier::CheckSource(const Node& node, Op op) {
  if (node.op() != op)
    Report(12, {.node = &node}, "%s is no %s", ValueName(node.name()), OpName(op));
  if (op != Op::kState) return;
  if (graph_.module() == nullptr) {
    Report(21, {.node = &node}, "a body reads the state entry %s", ValueName(node.name()));
    return;
  }
  const StateEntry* entry = graph_.module()->FindState(node.name());
  if (entry == nullptr) {
    Report(9, {.node = &node}, "%s reads no state entry of the module", ValueName(node.name()));
  } else if (node.type() != entry->type) {
    Report(9, {.node = &node}, "the read of %s is %s, the entry %s", ValueName(entry->name),
           node.type().ToString(), entry->type.ToString());
  }
}

void GraphVerifier::CheckNames(const Node& node) {
  for (int i = 0; i < node.result_count(); ++i) {
    const Value found = graph_.Find(node.name(i));
    if (found.node != &node || found.index != i) {
      Report(4, {.node = &node}, "%s is not found under its name", ValueName(node.name(i)));
    }
    if (node.op() != Op::kState && graph_.module() != nullptr &&
        graph_.module()->FindState(node.name(i)) != nullptr) {
      Report(4, {.node = &node}, "%s has the name of a state entry", ValueName(node.name(i)));
    }
  }
}

void GraphVerifier::CheckOperands(const Node& node) {
  for (Value operand : node.operands()) {
    if (const std::string problem = UseProblem(operand); !problem.empty()) {
      Report(5, {.node = &node}, "%s reads %s", node.def().name, problem);
    } else {
      ++reads_[operand.node];
    }
  }
}

void GraphVerifier::CheckUsers(const Node& node) {
  llvm::DenseMap<const Node*, int>
      missing;  // per user: operands that read `node`, less entries in the list
  for (const Node* user : node.users()) {
    if (--missing[user] == -1) {
      for (Value operand : user->operands()) missing[user] += operand.node == &node;
    }
  }
  const bool each_reads = llvm::all_of(missing, [](const auto& user) { return user.second == 0; });
  const int reads = reads_.lookup(&node);
  if (!each_reads || reads != static_cast<int>(node.users().size())) {
    Report(6, {.node = &node},
           "%s is read %d times, but its list of users, with %d entries, disagrees",
           ValueName(node.name()), reads, node.users().size());
  }
}

void GraphVerifier::CheckTypes(const Node& node) {
  if (node.def().lower == Lower::kSource) {
    Report(12, {.node = &node}, "%s stands among the computing nodes", node.def().name);
    return;
  }
  llvm::SmallVector<Type, 4> operands;
  for (Value operand : node.operands()) {
    if (!UseProblem(operand).empty()) return;  // reported as [5]
    operands.push_back(operand.type());
  }
  Attrs attrs = node.attrs();
  const absl::StatusOr<Types> types = InferTypes(node.op(), operands, attrs);
  if (!types.ok()) {
    Report(7, {.node = &node}, "%s", std::string(types.status().message()));
    return;
  }
  if (!AttrsEqual(attrs, node.attrs())) {
    Report(7, {.node = &node}, "%s: the attributes are not in their normal form", node.def().name);
  }
  if (llvm::ArrayRef<Type>(*types) != node.types()) {
    const auto text = [](llvm::ArrayRef<Type> list) {
      return absl::StrJoin(list, ", ",
                           [](std::string* out, const Type& type) { *out += type.ToString(); });
    };
    Report(7, {.node = &node}, "%s: the type is %s, but the operands give %s", node.def().name,
           text(node.types()), text(*types));
  }
}

void GraphVerifier::CheckSizes(const Node& node) {
  for (const Type& type : node.types()) {
    if (const std::string problem = SizeProblem(type); !problem.empty()) {
      Report(8, {.node = &node}, "%s: %s", ValueName(node.name()), problem);
    }
  }
}

void GraphVerifier::CheckId(const Node& node) {
  if (node.def().lower != Lower::kRandom) return;
  const auto [other, is_new] = random_.try_emplace(node.id(), &node);
  if (!is_new) {
    Report(10, {.node = &node},
           "%s and %s have the same id %d: their random numbers would be the same",
           ValueName(node.name()), ValueName(other->second->name()), node.id());
  }
}

void GraphVerifier::CheckInfo(const Node& node) {
  const NodeInfo& info = node.info();
  for (int i = 0; i < node.result_count(); ++i) {
    if (info.forward == node.name(i)) {
      Report(11, {.node = &node}, "%s names itself as its forward node", ValueName(node.name(i)));
    }
  }
  constexpr std::string_view kAutocast = "autocast:";
  if (!info.dtype_origin.empty() &&
      (info.dtype_origin.size() == kAutocast.size() ||
       std::string_view(info.dtype_origin).substr(0, kAutocast.size()) != kAutocast)) {
    Report(11, {.node = &node}, "%s: the origin '%s' is not autocast:<rule>",
           ValueName(node.name()), Shown(info.dtype_origin));
  }
}

// True if `low` is a cast of `value`, both results of one fusion or of nodes outside any.
bool IsCastOf(Value low, Value value) {
  const Node& node = *low.node;
  if (node.op() == Op::kCast) return node.operand(0) == value;
  if (node.body() == nullptr) return false;
  const auto returned = [&](int index) {
    const std::vector<Output>& outputs = node.body()->outputs();
    return index < static_cast<int>(outputs.size()) ? outputs[index].value : Value{};
  };
  const Value cast = returned(low.index);
  if (!cast || cast.node->op() != Op::kCast) return false;
  const Value wide = cast.node->operand(0);
  if (value.node == &node) return returned(value.index) == wide;
  for (const auto& [operand, input] : llvm::zip(node.operands(), node.body()->inputs())) {
    if (operand == value && wide == input->result()) return true;
  }
  return false;
}

void GraphVerifier::CheckDerivedUpdate(const Update& update, Violation where) {
  const std::string name = ValueName(update.entry->name);
  const std::string source_name = ValueName(update.entry->init.source);
  const Update* source = updates_.lookup(graph_.module()->FindState(update.entry->init.source));
  if (source == nullptr) {
    Report(13, where,
           "update %s: the entry is derived and follows its source %s, which has no "
           "update here",
           name, source_name);
    return;
  }
  if (source->guard != update.guard) {
    Report(13, where, "update %s: its guard is not that of its source %s", name, source_name);
  }
  if (!UseProblem(update.next).empty() || !UseProblem(source->next).empty()) return;  // [14]
  if (!IsCastOf(update.next, source->next)) {
    Report(13, where, "update %s: the value %s is no cast of %s, the next value of its source %s",
           name, ValueName(update.next.name()), ValueName(source->next.name()), source_name);
  }
}

void GraphVerifier::CheckUpdate(int index) {
  const Update& update = graph_.updates()[index];
  const Violation where{.update = index};
  if (fusion_ != nullptr) {
    Report(21, where, "a body updates state");
    return;
  }
  if (!entries_.contains(update.entry)) {
    Report(13, where, "an update of an entry that is not in the module's state table");
    return;
  }
  const std::string name = ValueName(update.entry->name);
  if (update.entry->kind == StateKind::kDerived) CheckDerivedUpdate(update, where);
  if (const std::string problem = UseProblem(update.next); !problem.empty()) {
    Report(14, where, "update %s reads %s", name, problem);
  } else if (update.next.type() != update.entry->type) {
    Report(14, where, "update %s: the value %s is %s, but the entry is %s", name,
           ValueName(update.next.name()), update.next.type().ToString(),
           update.entry->type.ToString());
  }
  if (update.guard) {
    if (const std::string problem = UseProblem(update.guard); !problem.empty()) {
      Report(15, where, "the guard of update %s reads %s", name, problem);
    } else if (update.guard.type() != Type{DType::kBool, {}}) {
      Report(15, where, "update %s: the guard %s is %s, not bool[]", name,
             ValueName(update.guard.name()), update.guard.type().ToString());
    }
  }
  if (++updated_[update.entry] > 1) Report(16, where, "%s is updated twice", name);
}

void GraphVerifier::CheckOutput(int index) {
  const Output& output = graph_.outputs()[index];
  const Violation where{.output = index};
  if (const std::string problem = UseProblem(output.value); !problem.empty()) {
    Report(17, where, "output '%s' reads %s", Shown(output.name), problem);
  }
  if (fusion_ != nullptr) return;
  if (output.name.empty()) Report(18, where, "an output without a name");
  if (!outputs_.insert(output.name).second) {
    Report(18, where, "output '%s' occurs twice", Shown(output.name));
  }
}

void GraphVerifier::CheckFusion(const Node& node) {
  const Violation where{.node = &node};
  if (node.op() != Op::kFusion || node.body() == nullptr) {
    Report(19, where, "%s has %s body", node.def().name, node.body() == nullptr ? "no" : "a");
    return;
  }
  if (fusion_ != nullptr) {
    Report(21, where, "a body holds the fusion %s", ValueName(node.name()));
    return;
  }
  const std::string& family = node.attrs_as<FusionAttrs>().family;
  if (!llvm::is_contained(kFusionFamilies, family)) {
    Report(22, where, "fusion: the family '%s' is none of %s", Shown(family),
           absl::StrJoin(kFusionFamilies, ", ",
                         [](std::string* out, std::string_view name) { out->append(name); }));
  }
  const Graph& body = *node.body();
  if (body.module() != nullptr) {
    Report(21, where, "fusion: its body belongs to module @%s", Shown(body.module()->name()));
    return;
  }
  GraphVerifier(body, entries_, violations_, &node).Run();
  if (body.inputs().size() != node.operands().size()) {
    Report(20, where, "fusion: %d operands, but its body has %d inputs", node.operands().size(),
           body.inputs().size());
  }
  for (const auto& [operand, input] : llvm::zip(node.operands(), body.inputs())) {
    if (!UseProblem(operand).empty() || operand.type() == input->type()) continue;
    Report(20, where, "fusion: the operand %s is %s, but the input %s of its body is %s",
           ValueName(operand.name()), operand.type().ToString(), ValueName(input->name()),
           input->type().ToString());
  }
  if (body.outputs().empty() || body.outputs().size() != node.types().size()) {
    Report(20, where, "fusion: %d results, but its body returns %d", node.result_count(),
           body.outputs().size());
    return;
  }
  for (int i = 0; i < node.result_count(); ++i) {
    const Value output = body.outputs()[i].value;
    const bool exists = output && output.index >= 0 && output.index < output.node->result_count();
    if (!exists || output.type() == node.type(i)) continue;  // if not, reported as [17]
    Report(20, where, "fusion: the result %s is %s, but its body returns %s",
           ValueName(node.name(i)), node.type(i).ToString(), output.type().ToString());
  }
}

void CheckModule(const Module& module, std::vector<Violation>& violations) {
  const auto report = [&](int invariant, const StateEntry* entry, const Graph* graph,
                          std::string message) {
    violations.push_back(
        {.invariant = invariant, .message = std::move(message), .graph = graph, .entry = entry});
  };
  for (const auto& entry : module.state()) {
    const std::string name =
        absl::StrFormat("%s %s", StateKindName(entry->kind), ValueName(entry->name));
    if (module.FindState(entry->name) != entry.get()) {
      report(1, entry.get(), nullptr, absl::StrCat(name, " is not found under its name"));
    }
    if (const std::string problem = SizeProblem(entry->type); !problem.empty()) {
      report(8, entry.get(), nullptr, absl::StrCat(name, ": ", problem));
    }
    if (!entry->type.is_static()) {
      report(2, entry.get(), nullptr,
             absl::StrCat(name, ": the type ", entry->type.ToString(), " has a named size"));
      continue;
    }
    absl::Status status = CheckInitializer(*entry);
    if (status.ok()) status = CheckSource(*entry, module.FindState(entry->init.source));
    if (!status.ok()) report(3, entry.get(), nullptr, absl::StrCat(name, ": ", status.message()));
  }
  for (const auto& graph : module.graphs()) {
    if (module.FindGraph(graph->name()) != graph.get()) {
      report(1, nullptr, graph.get(),
             absl::StrFormat("graph @%s is not found under its name", Shown(graph->name())));
    }
  }
}

}  // namespace

std::string Violation::ToString() const {
  std::vector<std::string> places;
  if (entry != nullptr && !entry->loc.empty()) places.push_back(entry->loc);
  const Graph* named = fusion != nullptr ? fusion->graph() : graph;
  if (named != nullptr) places.push_back(absl::StrFormat("graph @%s", Shown(named->name())));
  if (fusion != nullptr) places.push_back(absl::StrCat("body of ", ValueName(fusion->name())));
  if (node != nullptr && !node->info().loc.empty()) places.push_back(Shown(node->info().loc));
  if (node != nullptr) places.push_back(absl::StrCat("node ", ValueName(node->name())));
  std::string text = absl::StrFormat("[%d] %s", invariant, message);
  if (!places.empty()) absl::StrAppend(&text, " (", absl::StrJoin(places, ", "), ")");
  return text;
}

std::vector<Violation> FindViolations(const Module& module) {
  std::vector<Violation> violations;
  CheckModule(module, violations);
  llvm::DenseSet<const StateEntry*> entries;
  for (const auto& entry : module.state()) entries.insert(entry.get());
  for (const auto& graph : module.graphs()) GraphVerifier(*graph, entries, violations).Run();
  return violations;
}

absl::Status Verify(const Module& module) {
  const std::vector<Violation> violations = FindViolations(module);
  if (violations.empty()) return absl::OkStatus();
  return InvalidArgument(
      "%s", absl::StrJoin(violations, "\n",
                          [](std::string* out, const Violation& v) { *out += v.ToString(); }));
}

}  // namespace duotone::ir
