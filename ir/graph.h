// The IR: a Module owns a state table and graphs; a Graph is SSA, functional and multi-result. See
// docs/ir.md.
//
// A graph's node list is always in topological order, so passes walk it forwards or backwards
// without sorting. Passes collect first and edit afterwards; Node pointers stay valid until the
// node is erased.
#ifndef DUOTONE_IR_GRAPH_H_
#define DUOTONE_IR_GRAPH_H_

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/attrs.h"
#include "ir/op_def.h"
#include "ir/op_list.h"
#include "ir/type.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

namespace duotone::ir {

class Graph;
class Module;
class Node;

// Result `index` of `node`.
struct Value {
  Node* node = nullptr;
  int index = 0;

  explicit operator bool() const { return node != nullptr; }
  const Type& type() const;
  const std::string& name() const;  // without the '%'
  friend bool operator==(const Value&, const Value&) = default;
};

// A precision region the user put a node in: outside any, autocast off, or a 16-bit type.
enum class Region : uint8_t { kNone, kOff, kF16, kBF16 };
std::string_view RegionName(Region region);  // "", "off", "f16", "bf16"

// What a node carries beside its meaning. All of it prints, parses and survives passes.
struct NodeInfo {
  std::string loc;           // "mlp.cc:14", where the builder was called
  std::string scope;         // "encoder/0/attn"
  std::string forward;       // backward nodes: the name of the forward node they come from
  std::string dtype_origin;  // "" if the dtype is the user's, else "autocast:<rule>"
  Region region = Region::kNone;
};

class Node {
 public:
  Op op() const { return op_; }
  const OpDef& def() const { return DefOf(op_); }
  const Attrs& attrs() const { return attrs_; }
  template <typename T>
  const T& attrs_as() const {
    return std::get<T>(attrs_);
  }

  llvm::ArrayRef<Value> operands() const { return operands_; }
  Value operand(int i) const { return operands_[i]; }
  int operand_count() const { return static_cast<int>(operands_.size()); }

  int result_count() const { return static_cast<int>(types_.size()); }
  Value result(int i = 0) { return {this, i}; }
  const Type& type(int i = 0) const { return types_[i]; }
  llvm::ArrayRef<Type> types() const { return types_; }
  const std::string& name(int i = 0) const { return names_[i]; }

  // The stable id that random numbers key on: the FNV-1a hash of the first name, unless given
  // otherwise.
  uint64_t id() const { return id_; }
  void set_id(uint64_t id) { id_ = id; }

  NodeInfo& info() { return info_; }
  const NodeInfo& info() const { return info_; }
  Graph* graph() const { return graph_; }

  // Fusions only: the graph that the kernel computes. Its inputs stand for the operands and its
  // outputs for the results, by position; it has no state and no updates, and belongs to no module.
  // Immutable, so that copies of the node share it.
  const Graph* body() const { return body_.get(); }
  const std::shared_ptr<const Graph>& shared_body() const { return body_; }

  // The nodes that read a result of this node, once per operand.
  llvm::ArrayRef<Node*> users() const { return users_; }

  // "(mlp.cc:14, node %h)", or "(node %h)" without a location: the place at the end of an error
  // message.
  std::string Place() const;

 private:
  friend class Graph;
  Op op_ = Op::kInput;
  Attrs attrs_;
  llvm::SmallVector<Value, 3> operands_;
  llvm::SmallVector<Type, 1> types_;
  llvm::SmallVector<std::string, 1> names_;
  llvm::SmallVector<Node*, 2> users_;
  NodeInfo info_;
  uint64_t id_ = 0;
  std::shared_ptr<const Graph> body_;
  Graph* graph_ = nullptr;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

// How a state entry gets its first value; the kinds and their arguments are the table in
// ir/initializer.h.
struct Initializer {
  std::string kind = "zeros";
  llvm::SmallVector<std::pair<std::string, double>, 2>
      args;            // in the kind's order; defaults left out
  std::string source;  // kind cast_of (derived state): the entry it is a copy of
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

enum class StateKind : uint8_t {
  kParam,    // trained; an fp32 master by default
  kState,    // moments, loss scale, counters: saved, not trained
  kDerived,  // recomputed from its source on load, never saved
};
std::string_view StateKindName(StateKind kind);  // "param", "state", "derived"

struct StateEntry {
  std::string name;
  StateKind kind = StateKind::kParam;
  Type type;  // static
  Initializer init;
  std::string loc;
};

struct Output {
  std::string name;
  Value value;
};

// `update %entry = %next guard=%ok`: the entry's value after the graph has run. All reads in the
// graph see the old value. With a guard (bool[]), nothing happens where it is false.
struct Update {
  const StateEntry* entry = nullptr;
  Value next;
  Value guard;  // may be empty
};

class Graph {
 public:
  using NodeList = std::list<std::unique_ptr<Node>>;

  // A body of a fusion has no module.
  Graph(Module* module, std::string name) : module_(module), name_(std::move(name)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Module* module() const { return module_; }
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Inputs, in order of declaration. The name must be free.
  absl::StatusOr<Value> AddInput(std::string_view name, Type type, std::string_view loc = "");
  llvm::ArrayRef<Node*> inputs() const { return inputs_; }
  // Gives every input named in `types` (by position) a new type; used when sizes are bound.
  void SetInputType(Node* input, Type type) { input->types_[0] = std::move(type); }

  // The value of a state entry before the step; one node per entry, made when first asked for.
  Value ReadState(const StateEntry* entry);
  // The entry a kState node reads.
  const StateEntry* EntryOf(const Node* node) const;
  llvm::ArrayRef<Node*> state_reads() const { return state_reads_; }

  // The computing nodes in topological order; inputs and state reads are not among them.
  const NodeList& nodes() const { return nodes_; }
  size_t node_count() const { return nodes_.size(); }
  // The nodes as plain pointers, for passes that edit while walking.
  std::vector<Node*> NodePointers() const;

  // Where new nodes go: before a node, or at the end (null).
  struct Spec {
    Op op;
    llvm::SmallVector<Value, 3> operands;
    Attrs attrs;  // default: DefaultAttrs of the op
    llvm::SmallVector<std::string, 1>
        names;  // one per result; missing ones are made from the op's name
    NodeInfo info;
    std::optional<uint64_t> id;
    std::shared_ptr<const Graph> body;  // fusions only
  };
  // Infers types, checks that names are free and inserts. Errors name op, values and place.
  absl::StatusOr<Node*> Add(Spec spec, Node* before = nullptr);

  // A name that is free: `hint`, else hint.1, hint.2, ...
  std::string UniqueName(std::string_view hint) const;
  // The value called `name` (without '%'), or an empty one.
  Value Find(std::string_view name) const;
  // Renames a result; the id stays.
  absl::Status Rename(Value value, std::string_view name);

  // Replaces operand i.
  void SetOperand(Node* node, int i, Value value);
  // Every reader of `from` (operands, outputs, updates) reads `to` instead.
  void ReplaceAllUses(Value from, Value to);
  // Replaces the attributes of a node and infers its types again.
  absl::Status SetAttrs(Node* node, Attrs attrs);
  // Replaces the body of a fusion and infers its types again.
  absl::Status SetBody(Node* node, std::shared_ptr<const Graph> body);
  // Infers the types of a node again after its operands' types have changed.
  absl::Status Reinfer(Node* node);
  // True if an output or update reads a result of `node`.
  bool IsRoot(const Node* node) const;
  // Removes a node without users that is no root.
  void Erase(Node* node);
  // Removes a state read without users.
  void EraseStateRead(Node* node);
  // Moves a node in front of another; the caller keeps the order topological.
  void MoveBefore(Node* node, Node* before);

  std::vector<Output>& outputs() { return outputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // The output called `name`, or null.
  const Output* FindOutput(std::string_view name) const;
  std::vector<Update>& updates() { return updates_; }
  const std::vector<Update>& updates() const { return updates_; }
  const Update* FindUpdate(const StateEntry* entry) const;

 private:
  bool IsStateName(std::string_view name) const;
  void AddUses(Node* node);
  void DropUse(Value value, Node* user);
  Node* NewNode(Op op);

  Module* module_;
  std::string name_;
  std::vector<Node*> inputs_;
  std::vector<Node*> state_reads_;
  llvm::StringMap<Node*> state_nodes_;  // by entry name
  NodeList sources_;                    // inputs and state reads
  NodeList nodes_;
  std::vector<Output> outputs_;
  std::vector<Update> updates_;
  llvm::StringMap<Value> by_name_;
};

class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(Module&&) = delete;  // graphs point to their module

  const std::string& name() const { return name_; }

  // Adds an entry; the name must be free among the state entries and unused as a value name in
  // every graph.
  absl::StatusOr<const StateEntry*> AddState(StateEntry entry);
  const StateEntry* FindState(std::string_view name) const;
  const std::vector<std::unique_ptr<StateEntry>>& state() const { return state_; }
  // A free name: `hint`, else hint.1, ...
  std::string UniqueStateName(std::string_view hint) const;

  absl::StatusOr<Graph*> AddGraph(std::string_view name);
  Graph* FindGraph(std::string_view name) const;
  void RemoveGraph(std::string_view name);
  const std::vector<std::unique_ptr<Graph>>& graphs() const { return graphs_; }

  std::unique_ptr<Module> Clone() const;
  // A copy of `graph` (of any module with the same state names) under another name in this module.
  absl::StatusOr<Graph*> CloneGraph(const Graph& graph, std::string_view name);

 private:
  std::string name_;
  std::vector<std::unique_ptr<StateEntry>> state_;
  llvm::StringMap<StateEntry*> state_by_name_;
  std::vector<std::unique_ptr<Graph>> graphs_;
};

// A copy of a fusion's body that may be edited before it becomes one itself.
std::shared_ptr<Graph> CloneBody(const Graph& body);

// Replaces named sizes by numbers in all types and attributes of the graph and of the bodies in it.
// Every named size must be bound to a size of at least 0; names that do not occur are ignored.
absl::Status BindSizes(Graph& graph, const SizeBinding& binding);
// The named sizes that occur in the graph's inputs, sorted.
std::vector<std::string> NamedSizes(const Graph& graph);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_GRAPH_H_
