#include "duotone/feeds.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status.h"

namespace duotone::internal {
namespace {

std::string DescribeInputs(const ir::Graph& graph) {
  return absl::StrJoin(graph.inputs(), ", ", [](std::string* out, const ir::Node* input) {
    absl::StrAppend(out, input->name(), ": ", input->type().ToString());
  });
}

absl::Status Mismatch(const ir::Node& input, const TensorRef& value, std::string_view why = "") {
  return InvalidArgument("input %s: expected %s, given %s%s", input.name(), input.type().ToString(),
                         value.ToString(), why);
}

// "size == value", from one axis of a feed or from the number of its elements.
struct Equation {
  ir::Dim size;
  int64_t value = 0;
  const ir::Node* input = nullptr;
  const TensorRef* given = nullptr;
};

// A size that has been found, and where.
struct Found {
  int64_t value = 0;
  const Equation* from = nullptr;
};

class SizeSolver {
 public:
  explicit SizeSolver(std::vector<Equation> equations) : equations_(std::move(equations)) {}

  // Solves for one size after the other until nothing new follows; then all equations hold.
  absl::Status Solve() {
    std::vector<bool> done(equations_.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t i = 0; i < equations_.size(); ++i) {
        if (done[i]) continue;
        DUOTONE_ASSIGN_OR_RETURN(bool solved, SolveOne(equations_[i]));
        done[i] = solved;
        progress = progress || solved;
      }
    }
    return absl::OkStatus();
  }

  const Found* Find(const std::string& name) const {
    auto it = found_.find(name);
    return it == found_.end() ? nullptr : &it->second;
  }

 private:
  // True if the equation is used up: it gave a size, or held.
  absl::StatusOr<bool> SolveOne(const Equation& equation) {
    // Sizes are bounded by the memory that the caller has filled, but their product in a wrong
    // equation is not.
    __int128 known = equation.size.coefficient();
    std::string unknown;
    int unknown_count = 0;
    for (const std::string& name : equation.size.names()) {
      if (const Found* found = Find(name)) {
        known *= found->value;
        if (known > ir::kMaxElements) return Contradiction(equation);
      } else {
        unknown = name;
        ++unknown_count;
      }
    }
    if (unknown_count == 0) {
      if (known != equation.value) return Contradiction(equation);
      return true;
    }
    if (unknown_count > 1) return false;
    if (known == 0) {  // says nothing about the unknown size
      if (equation.value != 0) return Contradiction(equation);
      return true;
    }
    if (equation.value % known != 0) return Contradiction(equation);
    found_[unknown] = {equation.value / static_cast<int64_t>(known), &equation};
    return true;
  }

  // The error of an equation that does not hold: names the size and the other feed that fixed it.
  absl::Status Contradiction(const Equation& equation) const {
    for (const std::string& name : equation.size.names()) {
      const Found* found = Find(name);
      if (found == nullptr || found->from->input == equation.input) continue;
      return Mismatch(*equation.input, *equation.given,
                      absl::StrFormat(", but %s is %d by input %s, given %s", name, found->value,
                                      found->from->input->name(), found->from->given->ToString()));
    }
    return Mismatch(*equation.input, *equation.given);
  }

  std::vector<Equation> equations_;
  llvm::StringMap<Found> found_;
};

// The feed of each input, in the graph's order, with dtypes checked.
absl::StatusOr<std::vector<const TensorRef*>> MatchNames(const ir::Graph& graph,
                                                         absl::Span<const Feed> feeds) {
  std::vector<const TensorRef*> matched(graph.inputs().size(), nullptr);
  for (const Feed& feed : feeds) {
    auto input = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                              [&](const ir::Node* node) { return node->name() == feed.name; });
    if (input == graph.inputs().end()) {
      return InvalidArgument("there is no input '%s'; the model has %s", feed.name,
                             DescribeInputs(graph));
    }
    const TensorRef*& slot = matched[input - graph.inputs().begin()];
    if (slot != nullptr) return InvalidArgument("input %s is fed twice", feed.name);
    if (feed.value.dtype() != (*input)->type().dtype) return Mismatch(**input, feed.value);
    if (feed.value.data() == nullptr && feed.value.elements() != 0) {
      return InvalidArgument("input %s: the data pointer is null", feed.name);
    }
    slot = &feed.value;
  }
  for (size_t i = 0; i < matched.size(); ++i) {
    if (matched[i] != nullptr) continue;
    return InvalidArgument("input %s (%s) is not fed", graph.inputs()[i]->name(),
                           graph.inputs()[i]->type().ToString());
  }
  return matched;
}

absl::Status AddEquations(const ir::Node& input, const TensorRef& value,
                          std::vector<Equation>& equations) {
  const ir::Shape& shape = input.type().shape;
  if (!value.shape()) {
    DUOTONE_ASSIGN_OR_RETURN(ir::Dim count, ir::ElementCount(shape));
    equations.push_back({std::move(count), value.elements(), &input, &value});
    return absl::OkStatus();
  }
  if (value.shape()->size() != shape.size()) return Mismatch(input, value);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = (*value.shape())[i];
    if (size < 0) return Mismatch(input, value);
    equations.push_back({shape[i], size, &input, &value});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BoundFeeds> BindFeeds(const ir::Graph& graph, absl::Span<const Feed> feeds) {
  DUOTONE_ASSIGN_OR_RETURN(std::vector<const TensorRef*> matched, MatchNames(graph, feeds));
  std::vector<Equation> equations;
  for (size_t i = 0; i < matched.size(); ++i) {
    DUOTONE_RETURN_IF_ERROR(AddEquations(*graph.inputs()[i], *matched[i], equations));
  }
  SizeSolver solver(std::move(equations));
  DUOTONE_RETURN_IF_ERROR(solver.Solve());
  BoundFeeds bound;
  for (const std::string& name : ir::NamedSizes(graph)) {
    const Found* found = solver.Find(name);
    if (found == nullptr) {
      return InvalidArgument(
          "the size %s does not follow from the number of elements fed: give the feeds' shapes",
          name);
    }
    bound.sizes[name] = found->value;
    bound.key.push_back(found->value);
  }
  for (const TensorRef* value : matched) bound.data.push_back(value->data());
  return bound;
}

}  // namespace duotone::internal
