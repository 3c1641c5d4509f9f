// Random graphs over the whole op table but gradients: views in chains, reductions over any axes,
// composites, products with batches, gather and scatter, random numbers, every dtype, odd and empty
// sizes, state with guarded updates. The same seed gives the same graph.
//
// A value is *loose* if backends may differ in it within bounds (docs/numerics.md): sums, products
// of matrices, transcendental functions, and what is computed from them. Ops that could make a
// small difference large (comparisons, conversions to integers, quotients) never read loose values.
#ifndef DUOTONE_TESTS_DUOTONE_RANDOM_GRAPH_H_
#define DUOTONE_TESTS_DUOTONE_RANDOM_GRAPH_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/interpreter.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace duotone {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed);

  // The module's only graph is @g.
  ir::Module& module() { return module_; }
  ir::Graph& graph() { return *graph_; }
  // Names of outputs and state entries whose values are loose.
  const llvm::StringSet<>& loose() const { return loose_names_; }
  // Whether it should be run with NaN, infinities and the ends of types among its inputs.
  bool special() const { return special_; }
  // Whether every node is rounded. If not, 16-bit types are autocast's, and all values are loose.
  bool exact() const { return exact_; }

 private:
  size_t Pick(size_t count) { return random_() % count; }
  bool OneIn(size_t count) { return Pick(count) == 0; }
  template <typename T>
  T Any(std::initializer_list<T> choices) {
    return *(choices.begin() + Pick(choices.size()));
  }
  int64_t Size();
  ir::Shape RandomShape(int min_rank = 0);
  DType FloatType();
  DType AnyType();

  // A value that a predicate takes, recent ones more often; empty if there is none.
  template <typename F>
  ir::Value Find(F&& fits);
  ir::Value Input(const ir::Type& type, bool index = false);
  // A value of that type, made from others where that is possible.
  ir::Value Like(const ir::Type& type, bool strict = false);
  ir::Value Convert(ir::Value value, const ir::Type& type);
  ir::Value Floats(int min_rank = 0, bool strict = false);
  ir::Value Indices(const ir::Shape& shape);
  bool IsLoose(ir::Value value) const { return loose_.lookup({value.node, value.index}); }

  ir::Value Add(ir::Op op, std::vector<ir::Value> operands, ir::Attrs attrs = {});
  void AddNode();
  void AddUnary();
  void AddBinary();
  void AddView();
  void AddReduction();
  void AddComposite();
  void AddMatMul();
  void AddIndexed();
  void AddSource();
  void AddOptimizer();
  void AddRoots();

  std::mt19937 random_;
  ir::Module module_;
  ir::Graph* graph_ = nullptr;
  std::vector<ir::Value> values_;
  llvm::DenseMap<std::pair<ir::Node*, int>, bool> loose_;
  llvm::StringSet<> loose_names_;
  ir::Shape base_;  // many values have this shape
  bool special_ = false;
  bool exact_ = true;
};

// Pseudo-random values for the inputs of a graph and the state of a module; inputs called index*
// are in [0, 3).
ir::ArrayMap RandomInputs(const ir::Graph& graph, uint32_t seed, bool special);
ir::ArrayMap RandomState(const ir::Module& module, uint32_t seed);

}  // namespace duotone

#endif  // DUOTONE_TESTS_DUOTONE_RANDOM_GRAPH_H_
