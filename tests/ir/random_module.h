// What generators of random graphs share: a module with one graph, and values of a wanted type. The
// same seed gives the same graph.
#ifndef DUOTONE_TESTS_IR_RANDOM_MODULE_H_
#define DUOTONE_TESTS_IR_RANDOM_MODULE_H_

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/graph.h"

namespace duotone::ir {

class RandomModule {
 public:
  explicit RandomModule(int seed) : random_(static_cast<uint32_t>(seed)), module_("random") {}

  Module& module() { return module_; }

 protected:
  size_t Pick(size_t count) { return random_() % count; }

  void AddState(std::string name, const Type& type) {
    StateEntry entry{.name = std::move(name), .kind = StateKind::kState, .type = type};
    DUOTONE_CHECK(module_.AddState(std::move(entry)).ok());
  }

  // A random value of that type; recent ones are as likely as all others together.
  Value OfType(const Type& type) {
    std::vector<Value> found;
    for (Value value : values_) {
      if (value.type() == type) found.push_back(value);
    }
    DUOTONE_CHECK(!found.empty()) << type.ToString();
    return Pick(2) == 0 ? found.back() : found[Pick(found.size())];
  }

  void Add(Op op, std::vector<Value> operands, Attrs attrs = {}) {
    Graph::Spec spec{.op = op, .attrs = std::move(attrs)};
    spec.operands.assign(operands.begin(), operands.end());
    absl::StatusOr<Node*> node = graph_->Add(std::move(spec));
    DUOTONE_CHECK(node.ok()) << node.status();
    for (int i = 0; i < (*node)->result_count(); ++i) values_.push_back((*node)->result(i));
  }

  std::mt19937 random_;
  Module module_;
  Graph* graph_ = nullptr;
  std::vector<Value> values_;
};

}  // namespace duotone::ir

#endif  // DUOTONE_TESTS_IR_RANDOM_MODULE_H_
