#include "passes/fuse_build.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "passes/fuse_reason.h"
#include "passes/value_map.h"

namespace duotone::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

// A body while it is made.
struct Body {
  std::shared_ptr<Graph> graph;
  llvm::DenseMap<const Node*, Node*> clones;  // members and what is computed again
  ValueMap<Value> inputs;
  std::vector<Value> operands;  // of the fusion, as values of the unfused graph
};

class Builder {
 public:
  Builder(Graph& graph, const FusionPlan& plan) : graph_(graph), plan_(plan) {}
  absl::Status Run();

 private:
  absl::Status MakeBody(int group);
  void MarkNeeded();
  absl::Status AddOutputs(int group);
  absl::Status AddTest(int group, const FiniteTest& test);
  absl::Status AddKept(int group, int update);
  absl::StatusOr<Value> InBody(int group, Value value);
  bool IsRead(int group, Value value) const;
  Value ReadAs(Body& body, Value value);
  absl::Status Clone(int group, const Node& node);
  // A name for a result that the unfused graph does not have.
  std::string NewName(const std::string& hint);

  // What the graph becomes is collected by name, for names outlive the nodes.
  struct Outer {
    Graph::Spec spec;
    std::vector<std::string> operands;
  };
  absl::Status AddFusion(int group);
  void AddCombined(int group);
  std::string RootName(Value value);
  absl::Status Rebuild();

  Graph& graph_;
  const FusionPlan& plan_;
  std::vector<Body> bodies_;
  std::vector<std::vector<std::string>> result_names_;  // by group
  ValueSet needed_;
  std::vector<Outer> outer_;
  // By all_finite: the flags of the groups that test for it.
  llvm::DenseMap<const Node*, std::vector<std::string>> flags_;
  llvm::StringSet<> aliases_;  // reshapes that stay outside fusions
  llvm::StringSet<> new_names_;
  llvm::StringMap<int> next_number_;       // by hint
  llvm::DenseMap<int, std::string> kept_;  // by update: what it becomes
};

// True if the group reads `value` from memory.
bool Builder::IsRead(int group, Value value) const {
  const int home = plan_.GroupOf(value.node);
  if (home >= 0) return home != group;
  if (WorkKindOf(*value.node) == WorkKind::kSource) return true;
  // Scalars that every element of an optimizer's update would compute are read instead.
  auto stored = plan_.stored_by.find(value.node);
  return plan_.groups[group].family == Family::kOptimizer && stored != plan_.stored_by.end() &&
         stored->second < group && value.type().is_scalar() && value.node->operand_count() > 0;
}

Value Builder::ReadAs(Body& body, Value value) {
  Value& input = body.inputs[value];
  if (!input) {
    absl::StatusOr<Value> added = body.graph->AddInput(value.name(), value.type());
    DUOTONE_CHECK(added.ok()) << added.status();
    input = *added;
    body.operands.push_back(value);
  }
  return input;
}

absl::StatusOr<Value> Builder::InBody(int group, Value value) {
  Body& body = bodies_[group];
  if (IsRead(group, value)) return ReadAs(body, value);
  if (!body.clones.contains(value.node)) {
    DUOTONE_RETURN_IF_ERROR(Clone(group, *value.node));
  }
  return Value{body.clones.lookup(value.node), value.index};
}

// Clones a node after what it computes from; a stack of our own, for chains of views may be long.
absl::Status Builder::Clone(int group, const Node& last) {
  Body& body = bodies_[group];
  llvm::SmallVector<const Node*, 8> open = {&last};
  while (!open.empty()) {
    const Node* node = open.back();
    if (body.clones.contains(node)) {
      open.pop_back();
      continue;
    }
    // One operand at a time, so that the fusion's operands come in the order of reading.
    const size_t size = open.size();
    for (Value operand : node->operands()) {
      if (IsRead(group, operand)) {
        ReadAs(body, operand);
      } else if (!body.clones.contains(operand.node)) {
        open.push_back(operand.node);
        break;
      }
    }
    if (open.size() > size) continue;
    open.pop_back();
    Graph::Spec spec{
        .op = node->op(), .attrs = node->attrs(), .info = node->info(), .id = node->id()};
    for (Value operand : node->operands()) {
      spec.operands.push_back(IsRead(group, operand)
                                  ? ReadAs(body, operand)
                                  : Value{body.clones.lookup(operand.node), operand.index});
    }
    for (int i = 0; i < node->result_count(); ++i) spec.names.push_back(node->name(i));
    DUOTONE_ASSIGN_OR_RETURN(body.clones[node], body.graph->Add(std::move(spec)));
  }
  return absl::OkStatus();
}

absl::Status Builder::MakeBody(int index) {
  Body& body = bodies_[index];
  body.graph = std::make_shared<Graph>(nullptr, "");
  std::vector<const Node*> members = plan_.groups[index].members;
  std::sort(members.begin(), members.end(), [&](const Node* a, const Node* b) {
    return plan_.order.lookup(a) < plan_.order.lookup(b);
  });
  for (const Node* member : members) {
    DUOTONE_RETURN_IF_ERROR(Clone(index, *member));
  }
  for (const FiniteTest& test : plan_.groups[index].tests) {
    for (Value value : test.values) {
      DUOTONE_RETURN_IF_ERROR(InBody(index, value));
    }
  }
  for (int update : plan_.groups[index].kept_updates) {
    DUOTONE_RETURN_IF_ERROR(InBody(index, graph_.updates()[update].guard));
  }
  return absl::OkStatus();
}

void Builder::MarkNeeded() {
  for (const Body& body : bodies_) {
    for (Value operand : body.operands) needed_.Insert(operand);
  }
  // A sum over a whole kernel is tested where it is stored: after the kernel.
  for (const FusionGroup& group : plan_.groups) {
    for (const FiniteTest& test : group.tests) {
      for (Value value : test.values) {
        const WorkKind kind = WorkKindOf(*value.node);
        const bool reduces = kind == WorkKind::kRow || kind == WorkKind::kReduce;
        if (reduces && ResultRole(*value.node, value.index) == Role::kAcross) {
          needed_.Insert(value);
        }
      }
    }
  }
  auto root = [&](Value value) {
    if (!value) return;
    needed_.Insert(value);
    needed_.Insert(FlatRoot(value));
  };
  for (const ir::Output& output : graph_.outputs()) root(output.value);
  for (size_t i = 0; i < graph_.updates().size(); ++i) {
    if (kept_.contains(static_cast<int>(i))) continue;
    root(graph_.updates()[i].next);
    root(graph_.updates()[i].guard);
  }
}

std::string Builder::NewName(const std::string& hint) {
  int& next = next_number_[hint];
  while (true) {
    const std::string name = next == 0 ? hint : absl::StrCat(hint, ".", next);
    ++next;
    if (graph_.UniqueName(name) == name && new_names_.insert(name).second) return name;
  }
}

absl::Status Builder::AddTest(int index, const FiniteTest& test) {
  Body& body = bodies_[index];
  const std::string name = absl::StrCat(test.values[0].name(), ".finite");
  Graph::Spec spec{.op = ir::Op::kAllFinite, .info = test.combined->info()};
  for (Value value : test.values) {
    DUOTONE_ASSIGN_OR_RETURN(const Value in_body, InBody(index, value));
    spec.operands.push_back(in_body);
  }
  spec.names = {body.graph->UniqueName(name)};
  DUOTONE_ASSIGN_OR_RETURN(Node* const added, body.graph->Add(std::move(spec)));
  body.graph->outputs().push_back({added->name(), added->result()});
  result_names_[index].push_back(NewName(name));
  flags_[test.combined].push_back(result_names_[index].back());
  return absl::OkStatus();
}

absl::Status Builder::AddKept(int index, int update_index) {
  Body& body = bodies_[index];
  const ir::Update& update = graph_.updates()[update_index];
  DUOTONE_ASSIGN_OR_RETURN(const Value guard, InBody(index, update.guard));
  DUOTONE_ASSIGN_OR_RETURN(const Value next, InBody(index, update.next));
  const Value old = ReadAs(body, graph_.ReadState(update.entry));
  const std::string name = absl::StrCat(update.entry->name, ".kept");
  Graph::Spec spec{.op = ir::Op::kSelect, .operands = {guard, next, old}};
  spec.names = {body.graph->UniqueName(name)};
  DUOTONE_ASSIGN_OR_RETURN(Node* const added, body.graph->Add(std::move(spec)));
  body.graph->outputs().push_back({added->name(), added->result()});
  result_names_[index].push_back(NewName(name));
  kept_[update_index] = result_names_[index].back();
  return absl::OkStatus();
}

absl::Status Builder::AddOutputs(int index) {
  Body& body = bodies_[index];
  for (const auto& node : body.graph->nodes()) {
    for (int i = 0; i < node->result_count(); ++i) {
      const Value original = graph_.Find(node->name(i));
      DUOTONE_CHECK(bool(original)) << node->name(i);
      auto stored = plan_.stored_by.find(original.node);
      const bool is_ours = plan_.GroupOf(original.node) == index ||
                           (stored != plan_.stored_by.end() && stored->second == index);
      if (!is_ours || !needed_.Contains(original)) continue;
      body.graph->outputs().push_back({node->name(i), node->result(i)});
      result_names_[index].push_back(node->name(i));
    }
  }
  for (const FiniteTest& test : plan_.groups[index].tests) {
    DUOTONE_RETURN_IF_ERROR(AddTest(index, test));
  }
  for (int update : plan_.groups[index].kept_updates) {
    DUOTONE_RETURN_IF_ERROR(AddKept(index, update));
  }
  return absl::OkStatus();
}

// The node that a fusion takes its place and scope from: the one that its family is about.
const Node& Anchor(const FusionGroup& group) {
  auto is_anchor = [](const Node* node) {
    const WorkKind kind = WorkKindOf(*node);
    return kind != WorkKind::kElementwise && kind != WorkKind::kFree;
  };
  if (group.members.empty()) return *group.tests[0].combined;
  auto it = std::find_if(group.members.begin(), group.members.end(), is_anchor);
  return it == group.members.end() ? *group.members[0] : **it;
}

absl::Status Builder::AddFusion(int index) {
  const FusionGroup& group = plan_.groups[index];
  Body& body = bodies_[index];
  if (body.graph->outputs().empty()) return absl::OkStatus();
  Outer outer;
  outer.spec.op = ir::Op::kFusion;
  outer.spec.attrs = ir::FusionAttrs{.family = std::string(FamilyName(group.family)),
                                     .reason = FusionReason(*body.graph, group)};
  if (!group.is_control) {
    const ir::NodeInfo& info = Anchor(group).info();
    outer.spec.info = {.loc = info.loc, .scope = info.scope, .forward = info.forward};
  }
  for (const std::string& name : result_names_[index]) outer.spec.names.push_back(name);
  outer.spec.body = body.graph;
  for (Value operand : body.operands) outer.operands.push_back(operand.name());
  outer_.push_back(std::move(outer));
  return absl::OkStatus();
}

void Builder::AddCombined(int index) {
  const Node& node = *plan_.groups[index].members[0];
  Outer outer{.spec = {.op = node.op(), .info = node.info(), .id = node.id()}};
  outer.spec.names = {node.name()};
  outer.operands = flags_.lookup(&node);
  outer_.push_back(std::move(outer));
}

// The name under which an output or update finds its value.
std::string Builder::RootName(Value value) {
  if (plan_.GroupOf(value.node) >= 0 || plan_.stored_by.contains(value.node) ||
      WorkKindOf(*value.node) == WorkKind::kSource) {
    return value.name();
  }
  // The same bytes under another shape need no kernel.
  const Value root = FlatRoot(value);
  if (root.type() == value.type()) return root.name();
  Outer outer{.spec = {.op = ir::Op::kReshape,
                       .attrs = ir::ReshapeAttrs{{value.type().shape}},
                       .info = value.node->info(),
                       .id = value.node->id()}};
  outer.spec.names = {value.name()};
  outer.operands = {root.name()};
  if (aliases_.insert(value.name()).second) outer_.push_back(std::move(outer));
  return value.name();
}

absl::Status Builder::Rebuild() {
  std::vector<std::string> outputs, nexts, guards;
  for (const ir::Output& output : graph_.outputs()) outputs.push_back(RootName(output.value));
  for (size_t i = 0; i < graph_.updates().size(); ++i) {
    const ir::Update& update = graph_.updates()[i];
    auto kept = kept_.find(static_cast<int>(i));
    nexts.push_back(kept != kept_.end() ? kept->second : RootName(update.next));
    const bool is_guarded = update.guard && kept == kept_.end();
    guards.push_back(is_guarded ? RootName(update.guard) : "");
  }
  for (ir::Output& output : graph_.outputs()) output.value = {};
  for (ir::Update& update : graph_.updates()) update.next = update.guard = {};
  const std::vector<Node*> nodes = graph_.NodePointers();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) graph_.Erase(*it);
  for (Outer& outer : outer_) {
    for (const std::string& name : outer.operands) {
      outer.spec.operands.push_back(graph_.Find(name));
      DUOTONE_CHECK(bool(outer.spec.operands.back())) << name;
    }
    DUOTONE_RETURN_IF_ERROR(graph_.Add(std::move(outer.spec)));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph_.outputs()[i].value = graph_.Find(outputs[i]);
  }
  for (size_t i = 0; i < nexts.size(); ++i) {
    graph_.updates()[i].next = graph_.Find(nexts[i]);
    if (!guards[i].empty()) graph_.updates()[i].guard = graph_.Find(guards[i]);
  }
  return absl::OkStatus();
}

absl::Status Builder::Run() {
  const int count = static_cast<int>(plan_.groups.size());
  bodies_.resize(count);
  result_names_.resize(count);
  for (int i = 0; i < count; ++i) {
    for (int update : plan_.groups[i].kept_updates) kept_[update] = "";
    if (plan_.groups[i].family == Family::kCombined) continue;
    DUOTONE_RETURN_IF_ERROR(MakeBody(i));
  }
  MarkNeeded();
  for (int i = 0; i < count; ++i) {
    if (plan_.groups[i].family == Family::kCombined) {
      AddCombined(i);
      continue;
    }
    DUOTONE_RETURN_IF_ERROR(AddOutputs(i));
    DUOTONE_RETURN_IF_ERROR(AddFusion(i));
  }
  return Rebuild();
}

}  // namespace

absl::Status BuildFusions(Graph& graph, const FusionPlan& plan) {
  return Builder(graph, plan).Run();
}

}  // namespace duotone::passes
