#include "codegen/cuda/row_plan.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "llvm/ADT/DenseSet.h"

namespace duotone::codegen::cuda {

using ir::Op;
using ir::Value;
using Kind = RowReduction::Kind;

namespace {

// The ops that reduce, and how.
struct ReducingOp {
  Op op;
  Combine combine;
};
constexpr ReducingOp kReducingOps[] = {
    {Op::kReduceSum, Combine::kSum},
    {Op::kReduceMax, Combine::kMax},
    {Op::kReduceMin, Combine::kMin},
    {Op::kArgMax, Combine::kArgMax},
};
const ReducingOp* ReducingOpOf(const ir::Node* node) {
  const auto* found = std::find_if(std::begin(kReducingOps), std::end(kReducingOps),
                                   [&](const ReducingOp& row) { return row.op == node->op(); });
  return found == std::end(kReducingOps) ? nullptr : found;
}

// Ops whose results are better kept than computed again.
constexpr Op kExpensiveOps[] = {Op::kExp,           Op::kLog,          Op::kTanh,  Op::kSigmoid,
                                Op::kSoftplus,      Op::kErf,          Op::kGelu,  Op::kSilu,
                                Op::kGeluGrad,      Op::kSiluGrad,     Op::kPow,   Op::kDropout,
                                Op::kRandomUniform, Op::kRandomNormal, Op::kGather};
bool IsExpensive(const ir::Node* node) {
  return std::find(std::begin(kExpensiveOps), std::end(kExpensiveOps), node->op()) !=
         std::end(kExpensiveOps);
}

llvm::SmallVector<int64_t, 4> ReducedAxes(const ir::Node* node) {
  if (node->op() == Op::kArgMax) return {node->attrs_as<ir::AxisAttrs>().axis};
  const auto& axes = node->attrs_as<ir::ReduceAttrs>().axes;
  return {axes.begin(), axes.end()};
}

bool IsReduced(llvm::ArrayRef<int64_t> axes, size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
}

// Element i of each result depends on elements i of the operands alone.
bool IsElementwise(const ir::Node* node) {
  const bool renames = node->op() == Op::kStopGradient ||
                       (node->op() == Op::kSlice && node->type() == node->operand(0).type());
  return node->def().lower == ir::Lower::kElementwise || node->op() == Op::kDropout || renames;
}
bool IsCopy(const ir::Node* node) {
  return node->op() == Op::kCast || node->op() == Op::kReshape || node->op() == Op::kStopGradient;
}

Index LineariseIn(const Coordinates& at, Value value) {
  return Linearise(at, SizesOf(value.type()));
}

// The coordinates of a reduction's result: those of its operand on the axes that stay.
Coordinates KeptOf(const ir::Node* node, const Coordinates& operand_at) {
  const auto axes = ReducedAxes(node);
  const bool keep_dims = node->op() != Op::kArgMax && node->attrs_as<ir::ReduceAttrs>().keep_dims;
  Coordinates kept;
  for (size_t i = 0; i < operand_at.size(); ++i) {
    if (!IsReduced(axes, i)) kept.push_back(operand_at[i]);
    if (IsReduced(axes, i) && keep_dims) kept.push_back(0);
  }
  return kept;
}

class Planner {
 public:
  Planner(const ir::Graph& body, RowAxis axis) : body_(body), axis_(axis) {}

  absl::StatusOr<RowPlan> Run() {
    DUOTONE_RETURN_IF_ERROR(ChooseRows());
    Spread();
    for (const ir::Output& output : body_.outputs()) PlaceByPosition(output.value);
    for (const auto& node : body_.nodes()) {
      if (node->op() != Op::kAllFinite) continue;
      for (Value operand : node->operands()) PlaceByPosition(operand);
    }
    Spread();
    DUOTONE_RETURN_IF_ERROR(Classify());
    ComputePhases();
    DUOTONE_RETURN_IF_ERROR(PlaceReductions());
    DUOTONE_RETURN_IF_ERROR(PlaceOutputs());
    PlaceHoisted();
    FindRepeated();
    return std::move(plan_);
  }

 private:
  // ---- Rows and places

  // Rows and columns are those of the reduction that says most: over the most elements, read
  // inside, of the highest rank, over the last axis.
  absl::Status ChooseRows() {
    ir::Node* best = nullptr;
    std::tuple<int64_t, bool, int, bool> best_score;
    for (const auto& node : body_.nodes()) {
      if (ReducingOpOf(node.get()) == nullptr) continue;
      const ir::Type& type = node->operand(0).type();
      const auto axes = ReducedAxes(node.get());
      const bool last = IsReduced(axes, type.rank() - 1);
      const bool inside = axis_ == RowAxis::kReduced && IsReadInside(node.get());
      const bool fits = (last || axis_ == RowAxis::kKept) && node->type().elements() != 1;
      const auto score = std::make_tuple(type.elements(), inside, type.rank(), fits);
      if (best != nullptr && score <= best_score) continue;
      best = node.get();
      best_score = score;
    }
    if (best == nullptr) return ChooseRowsOfResults(0);
    if (IsPartOfRows(best)) return ChooseRowsOfResults(best->operand(0).type().elements());
    const auto sizes = SizesOf(best->operand(0).type());
    const auto axes = ReducedAxes(best);
    if (axes.size() == sizes.size() && !IsReadInside(best) && best->op() != Op::kArgMax) {
      return ChooseRowsOfAll(best->operand(0));
    }
    llvm::SmallVector<int64_t, 6> row_sizes;
    llvm::SmallVector<int64_t, 6> column_sizes;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool column = IsReduced(axes, i) == (axis_ == RowAxis::kReduced);
      (column ? column_sizes : row_sizes).push_back(sizes[i]);
      (column ? plan_.columns : plan_.rows) *= sizes[i];
    }
    plan_.row = Index::Variable("row", plan_.rows);
    plan_.column = Index::Variable("column", plan_.columns);
    const Coordinates row_at = Delinearise(plan_.row, row_sizes);
    const Coordinates column_at = Delinearise(plan_.column, column_sizes);
    Coordinates at;
    size_t next_row = 0;
    size_t next_column = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool column = IsReduced(axes, i) == (axis_ == RowAxis::kReduced);
      at.push_back(column ? column_at[next_column++] : row_at[next_row++]);
    }
    Place(best->operand(0), std::move(at));
    return absl::OkStatus();
  }

  // True of a number that larger results read, such as how many labels count: the results say what
  // rows are.
  bool IsPartOfRows(const ir::Node* node) const {
    if (node->op() == Op::kArgMax || node->type().elements() != 1 || !IsReadInside(node)) {
      return false;
    }
    return LargestResult().elements() > node->operand(0).type().elements();
  }

  // A reduction over everything has no rows of its own: pieces of at most 4096 elements in memory
  // order, of whole vectors if they can be.
  absl::Status ChooseRowsOfAll(Value value) {
    const int64_t elements = value.type().elements();
    int64_t columns = 1;
    for (int64_t size = std::min<int64_t>(elements, 4096); size > 1; --size) {
      if (elements % size != 0) continue;
      if (columns == 1) columns = size;
      if (size % 8 == 0) {
        columns = size;
        break;
      }
    }
    plan_.columns = columns;
    plan_.rows = elements / columns;
    plan_.row = Index::Variable("row", plan_.rows);
    plan_.column = Index::Variable("column", plan_.columns);
    Place(value, Delinearise(plan_.row * columns + plan_.column, SizesOf(value.type())));
    return absl::OkStatus();
  }

  // The type of the largest value that is stored or tested; a scalar if none has elements.
  ir::Type LargestResult() const {
    ir::Type largest{DType::kBool, {}};
    const auto look_at = [&](Value value) {
      if (value.type().elements() > largest.elements()) largest = value.type();
    };
    for (const ir::Output& output : body_.outputs()) {
      look_at(output.value);
      if (output.value.node->op() != Op::kAllFinite) continue;
      for (Value tested : output.value.node->operands()) look_at(tested);
    }
    return largest;
  }

  // Where no reduction says it (those over no elements have gone), the largest result does.
  // `rows` of them if that can be.
  absl::Status ChooseRowsOfResults(int64_t rows) {
    const ir::Type type = LargestResult();
    if (rows > 0 && type.elements() % rows == 0) {
      plan_.columns = type.elements() / rows;
      plan_.rows = rows;
    } else if (type.rank() > 0) {
      plan_.columns = type.shape.back().size();
      plan_.rows = type.elements() / plan_.columns;
    }
    plan_.row = Index::Variable("row", plan_.rows);
    plan_.column = Index::Variable("column", plan_.columns);
    return absl::OkStatus();
  }

  void Place(Value value, Coordinates at) {
    if (at.size() != value.type().shape.size()) return;
    if (plan_.places.try_emplace(KeyOf(value), std::move(at)).second) waiting_.push_back(value);
  }

  // Outputs that nothing ties to the rows are taken in memory order.
  void PlaceByPosition(Value value) {
    if (plan_.PlaceOf(value) != nullptr) return;
    const int64_t elements = value.type().elements();
    if (elements == plan_.rows * plan_.columns) {
      Place(value, Delinearise(plan_.row * plan_.columns + plan_.column, SizesOf(value.type())));
    } else if (elements == plan_.rows) {
      Place(value, Delinearise(plan_.row, SizesOf(value.type())));
    }
  }

  void Spread() {
    while (!waiting_.empty()) {
      const Value value = waiting_.back();
      waiting_.pop_back();
      const Coordinates at = *plan_.PlaceOf(value);
      SpreadToOperands(value, at);
      for (ir::Node* user : value.node->users()) SpreadToUser(value, at, user);
    }
  }

  void SpreadToOperands(Value value, const Coordinates& at) {
    ir::Node* node = value.node;
    if (IsElementwise(node)) {
      for (int i = 0; i < node->result_count(); ++i) Place(node->result(i), at);
      for (Value operand : node->operands()) Place(operand, at);
    } else if (node->op() == Op::kReshape) {
      Place(node->operand(0),
            Delinearise(LineariseIn(at, value), SizesOf(node->operand(0).type())));
    } else if (node->op() == Op::kTranspose) {
      const auto& perm = node->attrs_as<ir::TransposeAttrs>().perm;
      Coordinates operand_at(at.size(), Index(0));
      for (size_t i = 0; i < perm.size(); ++i) operand_at[perm[i]] = at[i];
      Place(node->operand(0), std::move(operand_at));
    } else if (node->op() == Op::kBroadcast) {
      const auto& dims = node->attrs_as<ir::BroadcastAttrs>().dims;
      const auto sizes = SizesOf(node->operand(0).type());
      Coordinates operand_at;
      for (size_t i = 0; i < sizes.size(); ++i) {
        operand_at.push_back(sizes[i] == 1 ? Index(0) : at[dims[i]]);
      }
      Place(node->operand(0), std::move(operand_at));
    }
  }

  void SpreadToUser(Value value, const Coordinates& at, ir::Node* user) {
    if (IsElementwise(user)) {
      for (int i = 0; i < user->result_count(); ++i) Place(user->result(i), at);
      for (Value operand : user->operands()) Place(operand, at);
    } else if (user->op() == Op::kReshape) {
      Place(user->result(), Delinearise(LineariseIn(at, value), SizesOf(user->type())));
    } else if (user->op() == Op::kTranspose) {
      Coordinates result_at;
      for (int64_t axis : user->attrs_as<ir::TransposeAttrs>().perm) {
        result_at.push_back(at[axis]);
      }
      Place(user->result(), std::move(result_at));
    } else if (user->op() == Op::kBroadcast && user->type().elements() == value.type().elements()) {
      const auto& dims = user->attrs_as<ir::BroadcastAttrs>().dims;
      Coordinates result_at(user->type().shape.size(), Index(0));
      for (size_t i = 0; i < dims.size(); ++i) result_at[dims[i]] = at[i];
      Place(user->result(), std::move(result_at));
    } else if (ReducingOpOf(user) != nullptr) {
      Place(user->result(), KeptOf(user, at));
    }
  }

  // ---- Reductions

  // True if something but an output, a test, or copies for them reads a result of `node`.
  static bool IsReadInside(const ir::Node* node) {
    return std::any_of(node->users().begin(), node->users().end(), [](const ir::Node* user) {
      if (user->op() == Op::kAllFinite) return false;
      return !IsCopy(user) || IsReadInside(user);
    });
  }

  absl::Status Classify() {
    for (const auto& node : body_.nodes()) {
      const ReducingOp* op = ReducingOpOf(node.get());
      if (op == nullptr) continue;
      RowReduction reduction{.node = node.get(), .combine = op->combine};
      DUOTONE_ASSIGN_OR_RETURN(reduction.kind, KindOf(node.get()));
      reductions_.push_back(reduction);
      by_node_[node.get()] = reductions_.size() - 1;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Kind> KindOf(ir::Node* node) const {
    const Value operand = node->operand(0);
    const int64_t elements = operand.type().elements();
    const int64_t results = node->type().elements();
    const Coordinates* at = plan_.PlaceOf(operand);
    if (at != nullptr) {
      const Coordinates kept = KeptOf(node, *at);
      const Index kept_at = LineariseIn(kept, node->result());
      if (kept_at == plan_.row && results == plan_.rows && elements == plan_.rows * plan_.columns) {
        return Kind::kRow;
      }
      if (node->op() != Op::kArgMax && !IsReadInside(node)) {
        if (kept_at == plan_.column && results == plan_.columns &&
            elements == plan_.rows * plan_.columns) {
          return Kind::kColumn;
        }
        if (results == 1) return Kind::kScalar;
      }
    }
    if (node->op() != Op::kArgMax && results == 1 && elements <= std::max<int64_t>(plan_.rows, 1)) {
      return Kind::kPrologue;
    }
    return Unimplemented(
        "%s of %s does not go along rows of %d elements, nor over all %d of them %s",
        node->def().name, operand.type().ToString(), plan_.columns, plan_.rows, node->Place());
  }

  const RowReduction* ReductionOf(const ir::Node* node) const {
    auto it = by_node_.find(node);
    return it == by_node_.end() ? nullptr : &reductions_[it->second];
  }
  bool IsRowReduction(const ir::Node* node) const {
    const RowReduction* reduction = ReductionOf(node);
    return reduction != nullptr && reduction->kind == Kind::kRow;
  }

  void ComputePhases() {
    int last = 0;
    for (const auto& node : body_.nodes()) {
      int phase = 0;
      for (Value operand : node->operands()) phase = std::max(phase, plan_.PhaseOf(operand));
      if (IsRowReduction(node.get())) ++phase;
      plan_.phase[node.get()] = phase;
      last = std::max(last, phase);
    }
    plan_.phases.resize(static_cast<size_t>(last) + 1);
  }

  // ---- Work of the phases

  bool HasColumn(const Coordinates& at) const {
    return std::any_of(at.begin(), at.end(),
                       [&](const Index& index) { return index.Contains(plan_.column); });
  }
  bool HasRow(const Coordinates& at) const {
    return std::any_of(at.begin(), at.end(),
                       [&](const Index& index) { return index.Contains(plan_.row); });
  }

  absl::Status PlaceReductions() {
    for (RowReduction& reduction : reductions_) {
      const int phase = plan_.PhaseOf(reduction.operand());
      RowPhase& work = plan_.phases[static_cast<size_t>(phase)];
      if (reduction.kind == Kind::kPrologue) {
        if (phase != 0) {
          return Unimplemented("%s combines all rows, and its result is read within rows %s",
                               reduction.node->def().name, reduction.node->Place());
        }
        plan_.prologue.push_back(reduction);
        plan_.once.push_back(reduction.result());
        continue;
      }
      reduction.output = OutputOf(reduction.node);
      if (reduction.kind != Kind::kRow) reduction.finite_output = TestOf(reduction.node);
      if (reduction.kind == Kind::kScalar && PerRow(reduction.operand())) {
        work.row_reductions.push_back(reduction);
      } else {
        work.reductions.push_back(reduction);
      }
    }
    return absl::OkStatus();
  }

  bool PerRow(Value value) const {
    const Coordinates* at = plan_.PlaceOf(value);
    return at != nullptr && !HasColumn(*at) && value.type().elements() == plan_.rows;
  }
  bool PerElement(Value value) const {
    return plan_.PlaceOf(value) != nullptr && value.type().elements() == plan_.rows * plan_.columns;
  }

  // The output that `node`'s result is, perhaps behind copies; -1 if none.
  int OutputOf(const ir::Node* node) const {
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      if (Origin(body_.outputs()[i].value).node == node) return static_cast<int>(i);
    }
    return -1;
  }
  // The all_finite output that tests it; -1 if none.
  int TestOf(const ir::Node* node) const {
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      const ir::Node* test = body_.outputs()[i].value.node;
      if (test->op() != Op::kAllFinite) continue;
      for (Value operand : test->operands()) {
        if (Origin(operand).node == node) return static_cast<int>(i);
      }
    }
    return -1;
  }
  static Value Origin(Value value) {
    while (IsCopy(value.node)) value = value.node->operand(0);
    return value;
  }
  // A result that its finish writes.
  bool IsFinished(Value value) const {
    const RowReduction* reduction = ReductionOf(Origin(value).node);
    return reduction != nullptr &&
           (reduction->kind == Kind::kColumn || reduction->kind == Kind::kScalar);
  }

  absl::Status PlaceOutputs() {
    llvm::DenseSet<const ir::Node*> finished;
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      const Value value = body_.outputs()[i].value;
      const int output = static_cast<int>(i);
      if (value.node->op() == Op::kAllFinite) {
        for (Value operand : value.node->operands()) {
          if (IsFinished(operand)) continue;
          DUOTONE_RETURN_IF_ERROR(PlaceResult({output, operand, true}));
        }
      } else if (IsFinished(value)) {
        if (!finished.insert(Origin(value).node).second) {
          return Unimplemented("two results are one sum over rows %s", value.node->Place());
        }
      } else {
        DUOTONE_RETURN_IF_ERROR(PlaceResult({output, value, false}));
      }
    }
    return absl::OkStatus();
  }

  absl::Status PlaceResult(RowResult result) {
    const size_t phase = static_cast<size_t>(plan_.PhaseOf(result.value));
    if (PerRow(result.value)) {
      plan_.phases[phase].per_row.push_back(result);
    } else if (PerElement(result.value)) {
      plan_.phases[phase].per_element.push_back(result);
    } else if (phase == 0) {
      plan_.others.push_back(result);
    } else {
      return Unimplemented("%%%s %s does not fit rows of %d elements %s", result.value.name(),
                           result.value.type().ToString(), plan_.columns,
                           result.value.node->Place());
    }
    return absl::OkStatus();
  }

  // What is broadcast over the elements of a row is computed once per row, or once at all.
  void PlaceHoisted() {
    llvm::DenseSet<ValueKey> seen;
    for (const RowReduction& reduction : plan_.prologue) seen.insert(KeyOf(reduction.result()));
    for (const auto& node : body_.nodes()) {
      if (node->op() != Op::kBroadcast) continue;
      const Value value = node->operand(0);
      const Coordinates* at = plan_.PlaceOf(value);
      if (at == nullptr || HasColumn(*at) || IsConstant(*value.node)) continue;
      if (IsRowReduction(value.node) || !seen.insert(KeyOf(value)).second) continue;
      const int phase = plan_.PhaseOf(value);
      if (HasRow(*at) || phase > 0) {
        plan_.phases[static_cast<size_t>(phase)].hoisted.push_back(value);
      } else {
        plan_.once.push_back(value);
      }
    }
    SortByNode(plan_.once);
    for (RowPhase& phase : plan_.phases) SortByNode(phase.hoisted);
  }

  void SortByNode(std::vector<Value>& values) const {
    llvm::DenseMap<const ir::Node*, int> order;
    int next = 1;  // inputs come first
    for (const auto& node : body_.nodes()) order[node.get()] = next++;
    std::stable_sort(values.begin(), values.end(),
                     [&](Value a, Value b) { return order.lookup(a.node) < order.lookup(b.node); });
  }

  // ---- What several phases need

  void FindRepeated() {
    for (const RowPhase& phase : plan_.phases) {
      for (Value value : phase.hoisted) stops_.insert(KeyOf(value));
    }
    for (Value value : plan_.once) stops_.insert(KeyOf(value));
    plan_.reread_without = Repeated(/*keep_expensive=*/false);
    plan_.reread = Repeated(/*keep_expensive=*/true);
  }

  // The inputs that are read element by element in several phases.
  std::vector<Value> Repeated(bool keep_expensive) {
    llvm::DenseMap<ValueKey, int> reads;
    llvm::DenseSet<ValueKey> available;
    llvm::DenseSet<ValueKey> kept;
    for (size_t number = 0; number < plan_.phases.size(); ++number) {
      const RowPhase& phase = plan_.phases[number];
      llvm::DenseSet<ValueKey> visited;
      std::vector<Value> stack;
      for (const RowReduction& reduction : phase.reductions) stack.push_back(reduction.operand());
      for (const RowResult& result : phase.per_element) stack.push_back(result.value);
      while (!stack.empty()) {
        const Value value = stack.back();
        stack.pop_back();
        if (stops_.contains(KeyOf(value)) || IsRowReduction(value.node)) continue;
        if (!visited.insert(KeyOf(value)).second) continue;
        if (available.contains(KeyOf(value))) {
          if (kept.insert(KeyOf(value)).second) plan_.expensive.push_back(value);
          continue;
        }
        if (value.node->op() == Op::kInput && IsOfRows(value)) ++reads[KeyOf(value)];
        for (Value operand : value.node->operands()) stack.push_back(operand);
      }
      if (!keep_expensive) continue;
      for (const ValueKey& key : visited) {
        const Value value{key.first, key.second};
        if (IsExpensive(value.node) && IsOfRows(value) && value.type().dtype != DType::kF64 &&
            value.type().is_float()) {
          available.insert(key);
          plan_.first_use.try_emplace(key, static_cast<int>(number));
        }
      }
    }
    SortByNode(plan_.expensive);
    std::vector<Value> repeated;
    for (ir::Node* input : body_.inputs()) {
      if (reads.lookup(KeyOf(input->result())) > 1) repeated.push_back(input->result());
    }
    return repeated;
  }
  // Each row has elements of its own.
  bool IsOfRows(Value value) const {
    return PerElement(value) && (plan_.rows == 1 || HasRow(*plan_.PlaceOf(value)));
  }

  const ir::Graph& body_;
  const RowAxis axis_;
  RowPlan plan_;
  std::vector<Value> waiting_;  // placed, but not spread yet
  std::vector<RowReduction> reductions_;
  llvm::DenseMap<const ir::Node*, size_t> by_node_;
  llvm::DenseSet<ValueKey> stops_;
};

}  // namespace

Coordinates RowPlan::AtVector(Value value, const Index& q, const Index& v, int width) const {
  const Coordinates* at = PlaceOf(value);
  DUOTONE_CHECK(at != nullptr) << value.name();
  Coordinates result;
  for (const Index& index : *at) result.push_back(index.Replace(column, q * width + v));
  return result;
}

bool RowPlan::has_partials() const {
  return has_scalars() || std::any_of(phases.begin(), phases.end(), [](const RowPhase& phase) {
           return std::any_of(phase.reductions.begin(), phase.reductions.end(),
                              [](const RowReduction& r) { return r.kind == Kind::kColumn; });
         });
}

bool RowPlan::has_scalars() const {
  return std::any_of(phases.begin(), phases.end(), [](const RowPhase& phase) {
    return !phase.row_reductions.empty() ||
           std::any_of(phase.reductions.begin(), phase.reductions.end(),
                       [](const RowReduction& r) { return r.kind == Kind::kScalar; });
  });
}

absl::StatusOr<RowPlan> PlanRows(const ir::Graph& body, RowAxis axis) {
  return Planner(body, axis).Run();
}

}  // namespace duotone::codegen::cuda
