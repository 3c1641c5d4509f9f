#include "ir/graph.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/initializer.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace duotone::ir {
namespace {

// The first of hint, hint.1, hint.2, ... for which `taken` is false. From the 16th on it is one
// whose predecessor is taken, found by doubling: thousands of values may have the same hint.
template <typename Taken>
std::string FirstFree(std::string_view hint, Taken taken) {
  if (std::string name(hint); !taken(name)) return name;
  auto numbered = [&](int i) { return absl::StrFormat("%s.%d", hint, i); };
  int last_taken = 0, free = 1;
  while (taken(numbered(free))) {
    last_taken = free;
    free = free < 16 ? free + 1 : 2 * free;
  }
  while (free - last_taken > 1) {
    const int middle = last_taken + (free - last_taken) / 2;
    (taken(numbered(middle)) ? last_taken : free) = middle;
  }
  return numbered(free);
}

// The result types of a fusion, whose body says them.
absl::StatusOr<Types> TypesOfBody(Op op, const Graph& body, llvm::ArrayRef<Type> operands) {
  if (op != Op::kFusion) return InvalidArgument("%s: only a fusion has a body", OpName(op));
  if (operands.size() != body.inputs().size()) {
    return InvalidArgument("fusion: %d operands, but its body has %d inputs", operands.size(),
                           body.inputs().size());
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const Node* input = body.inputs()[i];
    if (operands[i] == input->type()) continue;
    return InvalidArgument("fusion: operand %d is %s, but input %%%s of its body is %s", i,
                           operands[i].ToString(), input->name(), input->type().ToString());
  }
  if (body.outputs().empty()) return InvalidArgument("fusion: its body returns nothing");
  Types types;
  for (const Output& output : body.outputs()) types.push_back(output.value.type());
  return types;
}

}  // namespace

const Type& Value::type() const { return node->type(index); }
const std::string& Value::name() const { return node->name(index); }

std::string_view RegionName(Region region) {
  switch (region) {
    case Region::kNone:
      return "";
    case Region::kOff:
      return "off";
    case Region::kF16:
      return "f16";
    case Region::kBF16:
      return "bf16";
  }
  return "";
}

std::string_view StateKindName(StateKind kind) {
  switch (kind) {
    case StateKind::kParam:
      return "param";
    case StateKind::kState:
      return "state";
    case StateKind::kDerived:
      return "derived";
  }
  return "";
}

std::string Node::Place() const {
  if (info_.loc.empty()) return absl::StrFormat("(node %%%s)", name());
  return absl::StrFormat("(%s, node %%%s)", info_.loc, name());
}

Node* Graph::NewNode(Op op) {
  auto* node = new Node();
  node->op_ = op;
  node->graph_ = this;
  return node;
}

absl::StatusOr<Value> Graph::AddInput(std::string_view name, Type type, std::string_view loc) {
  if (Find(name) || IsStateName(name)) {
    return InvalidArgument("input %%%s: the name is taken", name);
  }
  DUOTONE_RETURN_IF_ERROR(ElementCount(type.shape)).With("input %%%s", name);
  Node* node = sources_.emplace_back(NewNode(Op::kInput)).get();
  node->position_ = std::prev(sources_.end());
  node->types_.push_back(std::move(type));
  node->names_.emplace_back(name);
  node->info_.loc = loc;
  node->id_ = Fnv1a(name);
  by_name_[name] = node->result();
  inputs_.push_back(node);
  return node->result();
}

Value Graph::ReadState(const StateEntry* entry) {
  Node*& node = state_nodes_[entry->name];
  if (node == nullptr) {
    node = sources_.emplace_back(NewNode(Op::kState)).get();
    node->position_ = std::prev(sources_.end());
    node->types_.push_back(entry->type);
    node->names_.push_back(entry->name);
    node->info_.loc = entry->loc;
    node->id_ = Fnv1a(entry->name);
    by_name_[entry->name] = node->result();
    state_reads_.push_back(node);
  }
  return node->result();
}

const StateEntry* Graph::EntryOf(const Node* node) const {
  return node->op() == Op::kState ? module_->FindState(node->name()) : nullptr;
}

std::vector<Node*> Graph::NodePointers() const {
  std::vector<Node*> pointers;
  pointers.reserve(nodes_.size());
  for (const auto& node : nodes_) pointers.push_back(node.get());
  return pointers;
}

absl::StatusOr<Node*> Graph::Add(Spec spec, Node* before) {
  const OpDef& def = DefOf(spec.op);
  if (spec.attrs.index() == 0) spec.attrs = DefaultAttrs(def.attrs);
  DUOTONE_CHECK(spec.attrs.index() == def.attrs) << def.name;
  llvm::SmallVector<Type, 4> operand_types;
  for (Value operand : spec.operands) operand_types.push_back(operand.type());
  const std::string shown = spec.names.empty() ? std::string(def.name) : spec.names[0];
  auto place = [&] {
    if (spec.info.loc.empty()) return absl::StrFormat("(node %%%s)", shown);
    return absl::StrFormat("(%s, node %%%s)", spec.info.loc, shown);
  };
  absl::StatusOr<Types> types = spec.body == nullptr
                                    ? InferTypes(spec.op, operand_types, spec.attrs)
                                    : TypesOfBody(spec.op, *spec.body, operand_types);
  if (!types.ok()) {
    return absl::Status(types.status().code(),
                        absl::StrCat(types.status().message(), " ", place()));
  }
  if (spec.names.size() > types->size()) {
    return InvalidArgument("%s: %d names, but %d result%s %s", def.name, spec.names.size(),
                           types->size(), types->size() == 1 ? "" : "s", place());
  }
  llvm::StringSet<> own_names;
  for (const std::string& name : spec.names) {
    if (!own_names.insert(name).second || Find(name) || IsStateName(name)) {
      return InvalidArgument("%s: the name %%%s is taken %s", def.name, name, place());
    }
  }
  auto position = before == nullptr ? nodes_.end() : before->position_;
  position = nodes_.emplace(position, NewNode(spec.op));
  Node* node = position->get();
  node->position_ = position;
  node->attrs_ = std::move(spec.attrs);
  node->operands_ = std::move(spec.operands);
  node->types_.assign(types->begin(), types->end());
  node->info_ = std::move(spec.info);
  node->body_ = std::move(spec.body);
  for (size_t i = 0; i < types->size(); ++i) {
    std::string name = i < spec.names.size() ? spec.names[i]
                       : i == 0              ? UniqueName(def.name)
                                             : UniqueName(absl::StrCat(node->names_[0], ".", i));
    by_name_[name] = {node, static_cast<int>(i)};
    node->names_.push_back(std::move(name));
  }
  node->id_ = spec.id.value_or(Fnv1a(node->names_[0]));
  AddUses(node);
  return node;
}

bool Graph::IsStateName(std::string_view name) const {
  return module_ != nullptr && module_->FindState(name) != nullptr;
}

std::string Graph::UniqueName(std::string_view hint) const {
  return FirstFree(
      hint, [&](const std::string& name) { return by_name_.contains(name) || IsStateName(name); });
}

Value Graph::Find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? Value{} : it->second;
}

absl::Status Graph::Rename(Value value, std::string_view name) {
  if (value.name() == name) return absl::OkStatus();
  if (Find(name) || IsStateName(name)) {
    return InvalidArgument("cannot rename %%%s: the name %%%s is taken", value.name(), name);
  }
  by_name_.erase(value.name());
  value.node->names_[value.index] = std::string(name);
  by_name_[name] = value;
  return absl::OkStatus();
}

void Graph::AddUses(Node* node) {
  for (Value operand : node->operands_) operand.node->users_.push_back(node);
}

void Graph::DropUse(Value value, Node* user) {
  auto& users = value.node->users_;
  auto it = std::find(users.begin(), users.end(), user);
  DUOTONE_CHECK(it != users.end()) << value.name();
  users.erase(it);
}

void Graph::SetOperand(Node* node, int i, Value value) {
  DropUse(node->operands_[i], node);
  node->operands_[i] = value;
  value.node->users_.push_back(node);
}

void Graph::ReplaceAllUses(Value from, Value to) {
  const llvm::SmallVector<Node*, 8> users(from.node->users_.begin(), from.node->users_.end());
  for (Node* user : users) {
    for (int i = 0; i < user->operand_count(); ++i) {
      if (user->operands_[i] == from) SetOperand(user, i, to);
    }
  }
  for (Output& output : outputs_) {
    if (output.value == from) output.value = to;
  }
  for (Update& update : updates_) {
    if (update.next == from) update.next = to;
    if (update.guard == from) update.guard = to;
  }
}

absl::Status Graph::SetAttrs(Node* node, Attrs attrs) {
  DUOTONE_CHECK(attrs.index() == node->def().attrs) << node->name();
  node->attrs_ = std::move(attrs);
  return Reinfer(node);
}

absl::Status Graph::SetBody(Node* node, std::shared_ptr<const Graph> body) {
  DUOTONE_CHECK(node->op() == Op::kFusion && body != nullptr) << node->name();
  node->body_ = std::move(body);
  return Reinfer(node);
}

absl::Status Graph::Reinfer(Node* node) {
  llvm::SmallVector<Type, 4> operand_types;
  for (Value operand : node->operands_) operand_types.push_back(operand.type());
  absl::StatusOr<Types> types = node->body_ == nullptr
                                    ? InferTypes(node->op(), operand_types, node->attrs_)
                                    : TypesOfBody(node->op(), *node->body_, operand_types);
  if (!types.ok()) {
    return absl::Status(types.status().code(),
                        absl::StrCat(types.status().message(), " ", node->Place()));
  }
  DUOTONE_CHECK(types->size() == node->types_.size()) << node->name();
  node->types_.assign(types->begin(), types->end());
  return absl::OkStatus();
}

bool Graph::IsRoot(const Node* node) const {
  for (const Output& output : outputs_) {
    if (output.value.node == node) return true;
  }
  for (const Update& update : updates_) {
    if (update.next.node == node || update.guard.node == node) return true;
  }
  return false;
}

void Graph::Erase(Node* node) {
  DUOTONE_CHECK(node->users_.empty()) << node->name() << " has users";
  for (Value operand : node->operands_) DropUse(operand, node);
  for (const std::string& name : node->names_) by_name_.erase(name);
  nodes_.erase(node->position_);
}

void Graph::EraseStateRead(Node* node) {
  DUOTONE_CHECK(node->op() == Op::kState && node->users_.empty()) << node->name();
  by_name_.erase(node->name());
  state_nodes_.erase(node->name());
  state_reads_.erase(std::find(state_reads_.begin(), state_reads_.end(), node));
  sources_.erase(node->position_);
}

void Graph::MoveBefore(Node* node, Node* before) {
  nodes_.splice(before == nullptr ? nodes_.end() : before->position_, nodes_, node->position_);
}

const Output* Graph::FindOutput(std::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return &output;
  }
  return nullptr;
}

const Update* Graph::FindUpdate(const StateEntry* entry) const {
  for (const Update& update : updates_) {
    if (update.entry == entry) return &update;
  }
  return nullptr;
}

absl::StatusOr<const StateEntry*> Module::AddState(StateEntry entry) {
  const std::string name = entry.name;
  auto describe = [&] { return absl::StrFormat("%s %%%s", StateKindName(entry.kind), name); };
  if (FindState(name) != nullptr) return InvalidArgument("%s: the name is taken", describe());
  for (const auto& graph : graphs_) {
    if (graph->Find(name)) {
      return InvalidArgument("%s: graph @%s has a value of that name", describe(), graph->name());
    }
  }
  DUOTONE_RETURN_IF_ERROR(ElementCount(entry.type.shape)).With("%s", describe());
  if (!entry.type.is_static()) {
    return InvalidArgument("%s: the type %s has a named size; state needs numbers", describe(),
                           entry.type.ToString());
  }
  DUOTONE_RETURN_IF_ERROR(CheckInitializer(entry)).With("%s", describe());
  DUOTONE_RETURN_IF_ERROR(CheckSource(entry, FindState(entry.init.source))).With("%s", describe());
  NormaliseInitializer(entry.init);
  state_.push_back(std::make_unique<StateEntry>(std::move(entry)));
  state_by_name_[name] = state_.back().get();
  return state_.back().get();
}

const StateEntry* Module::FindState(std::string_view name) const {
  auto it = state_by_name_.find(name);
  return it == state_by_name_.end() ? nullptr : it->second;
}

std::string Module::UniqueStateName(std::string_view hint) const {
  return FirstFree(hint, [&](const std::string& name) {
    return FindState(name) != nullptr ||
           std::any_of(graphs_.begin(), graphs_.end(),
                       [&](const auto& graph) { return bool(graph->Find(name)); });
  });
}

absl::StatusOr<Graph*> Module::AddGraph(std::string_view name) {
  if (FindGraph(name) != nullptr) return InvalidArgument("graph @%s: the name is taken", name);
  graphs_.push_back(std::make_unique<Graph>(this, std::string(name)));
  return graphs_.back().get();
}

Graph* Module::FindGraph(std::string_view name) const {
  for (const auto& graph : graphs_) {
    if (graph->name() == name) return graph.get();
  }
  return nullptr;
}

void Module::RemoveGraph(std::string_view name) {
  std::erase_if(graphs_, [&](const auto& graph) { return graph->name() == name; });
}

std::unique_ptr<Module> Module::Clone() const {
  auto copy = std::make_unique<Module>(name_);
  for (const auto& entry : state_) DUOTONE_CHECK(copy->AddState(*entry).ok()) << entry->name;
  for (const auto& graph : graphs_) {
    DUOTONE_CHECK(copy->CloneGraph(*graph, graph->name()).ok()) << graph->name();
  }
  return copy;
}

namespace {

// Copies everything of `graph` into the empty graph `copy`; state by name.
absl::Status CopyGraph(const Graph& graph, Graph* copy) {
  llvm::DenseMap<const Node*, Node*> copies;
  for (const Node* input : graph.inputs()) {
    DUOTONE_ASSIGN_OR_RETURN(Value value, copy->AddInput(input->name(), input->type()));
    value.node->info() = input->info();
    value.node->set_id(input->id());
    copies[input] = value.node;
  }
  for (const Node* read : graph.state_reads()) {
    copies[read] = copy->ReadState(copy->module()->FindState(read->name())).node;
  }
  auto map = [&](Value value) {
    return value ? Value{copies.lookup(value.node), value.index} : value;
  };
  for (const auto& node : graph.nodes()) {
    Graph::Spec spec{.op = node->op(),
                     .attrs = node->attrs(),
                     .info = node->info(),
                     .id = node->id(),
                     .body = node->shared_body()};
    for (Value operand : node->operands()) spec.operands.push_back(map(operand));
    for (int i = 0; i < node->result_count(); ++i) spec.names.push_back(node->name(i));
    DUOTONE_ASSIGN_OR_RETURN(copies[node.get()], copy->Add(std::move(spec)));
  }
  for (const Output& output : graph.outputs()) {
    copy->outputs().push_back({output.name, map(output.value)});
  }
  for (const Update& update : graph.updates()) {
    copy->updates().push_back(
        {copy->module()->FindState(update.entry->name), map(update.next), map(update.guard)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph*> Module::CloneGraph(const Graph& graph, std::string_view name) {
  DUOTONE_ASSIGN_OR_RETURN(Graph * copy, AddGraph(name));
  DUOTONE_RETURN_IF_ERROR(CopyGraph(graph, copy));
  return copy;
}

std::shared_ptr<Graph> CloneBody(const Graph& body) {
  auto copy = std::make_shared<Graph>(nullptr, body.name());
  const absl::Status status = CopyGraph(body, copy.get());
  DUOTONE_CHECK(status.ok()) << status.ToString();
  return copy;
}

absl::Status BindSizes(Graph& graph, const SizeBinding& binding) {
  for (Node* input : graph.inputs()) {
    absl::StatusOr<Shape> shape = BindShape(input->type().shape, binding);
    DUOTONE_RETURN_IF_ERROR(shape).With("input %%%s", input->name());
    graph.SetInputType(input, {input->type().dtype, *std::move(shape)});
  }
  for (const auto& node : graph.nodes()) {
    if (node->body() != nullptr) {
      // Other nodes may share the body.
      std::shared_ptr<Graph> body = CloneBody(*node->body());
      DUOTONE_RETURN_IF_ERROR(BindSizes(*body, binding))
          .With("%s %s", node->def().name, node->Place());
      DUOTONE_RETURN_IF_ERROR(graph.SetBody(node.get(), std::move(body)));
      continue;
    }
    Attrs attrs = node->attrs();
    DUOTONE_RETURN_IF_ERROR(BindAttrs(attrs, binding))
        .With("%s %s", node->def().name, node->Place());
    DUOTONE_RETURN_IF_ERROR(graph.SetAttrs(node.get(), std::move(attrs)));
  }
  return absl::OkStatus();
}

std::vector<std::string> NamedSizes(const Graph& graph) {
  std::set<std::string> names;
  for (const Node* input : graph.inputs()) {
    for (const Dim& dim : input->type().shape) names.insert(dim.names().begin(), dim.names().end());
  }
  return {names.begin(), names.end()};
}

}  // namespace duotone::ir
