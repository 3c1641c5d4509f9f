// Matmul kernels: the mainloop of kernels/matmul.cuh between generated functions that fetch
// elements of A and B (the prologues) and take the sums (the epilogue).
//
//   %y = matmul(%x, %w) ; %h = relu(add(%y, %b.broadcast))   ->
//
//   extern "C" __global__ void __launch_bounds__(256, 1)
//   kernel(const half* in0, const half* in1, const half* in2, half* out0) {
//     using Tile = MatMulTile<float, 128, 64, 16, 8, 4>;
//     using Shape = MatMulShape<1, 512, 512, 784>;
//     const auto a = MakeDirectOperand<Along::kInner, 8>(
//         [&](int batch, int row, int q) { return in0 + (784 * row + 8 * q); });
//     const auto b = MakeDirectOperand<Along::kOuter, 8>(...);
//     const auto epilogue = MakeEpilogue<8>(...);
//     MatMulSimt<Tile, Shape>(a, b, epilogue, NoColumnSums());
//   }
//
// Column sums of B (the bias gradient beside a weight's) are taken by the blocks of the first rows,
// which see all of B.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/kernel.h"
#include "codegen/cuda/schedule.h"
#include "codegen/expand.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace duotone::codegen::cuda {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

using Sizes = llvm::SmallVector<int64_t, 6>;

int64_t Product(llvm::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}
Index LaneOf(int vector) { return vector > 1 ? Index::Variable("v", vector) : Index(0); }

// ---- Tiles

struct TileShape {
  int m, n, rows, columns;  // of a block, of a thread
  int threads() const { return m / rows * (n / columns); }
};
// Large tiles read less and compute more per read of shared memory; small ones fill the device
// where the result is small.
constexpr TileShape kTiles[] = {{128, 128, 8, 8}, {128, 64, 8, 4}, {64, 128, 8, 4}, {64, 64, 8, 4},
                                {64, 64, 4, 4},   {128, 32, 8, 4}, {32, 128, 4, 4}, {64, 32, 4, 4},
                                {32, 64, 4, 4},   {32, 32, 4, 4},  {16, 128, 4, 4}, {16, 64, 4, 4}};
constexpr int kTileK = 16;
constexpr int64_t kStaticSharedBytes = 48 << 10;

struct Problem {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool is_double = false;  // sums and operands are f64
};

// Bytes of MatMulTile's shared memory.
int64_t SharedBytes(const TileShape& tile, bool is_double) {
  const int64_t stages = 2 * kTileK * (tile.m + tile.n + 8);
  const int64_t sums = std::min(tile.m, 64) * (tile.n + 4);
  return std::max(stages, sums) * (is_double ? 8 : 4);
}

// `bytes` per element of A, B and the results together.
Work WorkOf(const Problem& problem, const TileShape& tile, double a_bytes, double b_bytes,
            double written) {
  const double row_tiles = static_cast<double>(std::max<int64_t>(1, CeilDiv(problem.m, tile.m)));
  const double column_tiles = static_cast<double>(std::max<int64_t>(1, CeilDiv(problem.n, tile.n)));
  const double batch = static_cast<double>(problem.batch);
  const double k = static_cast<double>(CeilDiv(problem.k, kTileK) * kTileK);
  const double blocks = row_tiles * column_tiles * std::max(1.0, batch);
  const double sums = blocks * tile.m * tile.n;
  const double fetched = blocks * k * (tile.m * a_bytes + tile.n * b_bytes);
  const double per_thread = tile.rows * tile.columns;
  // A warp reads lines of both tiles: 16 bytes per lane, as many different ones as the warp has
  // rows or columns of threads; then the stores of the next tile.
  const int warp_columns = std::min(32, tile.n / tile.columns);
  const int warp_rows = 32 / warp_columns;
  const double lines = std::max(1.0, warp_rows * 16.0 / 128) * tile.rows / 4 +
                       std::max(1.0, warp_columns * 16.0 / 128) * tile.columns / 4;
  const double width = problem.is_double ? 2 : 1;
  const double element = 4 * width;
  return {.bytes_read =
              batch * static_cast<double>(problem.k) *
              (static_cast<double>(problem.m) * a_bytes + static_cast<double>(problem.n) * b_bytes),
          .bytes_written = written,
          .l2_bytes = fetched + written,
          .shared_traffic = width * (sums / per_thread / 32 * k * lines * 128) +
                            blocks * k * (tile.m + tile.n) * element + 2 * sums * element,
          // f64 runs at half the rate of f32 where it is fast.
          .flops = 2 * (width - 1) * sums * k + sums * k,
          .instructions = sums / per_thread * k * (tile.rows + tile.columns) / 4 +
                          blocks * k * (tile.m + tile.n) / 2 + 8 * sums,
          .blocks = static_cast<int64_t>(blocks),
          .registers = static_cast<int>(1.5 * width * per_thread) + 48,
          .shared_bytes = SharedBytes(tile, problem.is_double),
          .bytes_in_flight_per_thread =
              kTileK * (tile.m * a_bytes + tile.n * b_bytes) / tile.threads()};
}

// ---- What of the body is which part of the kernel

// Where elements of values lie that are computed from the product, or from a column sum: by the
// element of it that they are computed from.
struct Elements {
  int source = -1;  // -1: of neither; 0: the product; 1 and more: column sum source - 1
  Coordinates at;
};

class MatMulKernel {
 public:
  MatMulKernel(const Node& fusion, GuardOption guard, const CodegenOptions& options,
               const ir::Graph& body)
      : fusion_(fusion), guard_(guard), options_(options), body_(body), emitter_(body, options) {}

  absl::StatusOr<GeneratedKernel> Generate();

 private:
  struct Operand {
    Value value;
    bool is_a = true;
    bool inner_last = true;   // k is the last axis
    bool along_inner = true;  // vectors run along k
    int vector = 1;
    double bytes = 0;  // per element, from memory
  };

  absl::Status FindProduct();
  Operand OperandOf(Value value, bool is_a, bool inner_last) const;
  Coordinates CoordinatesOf(const Operand& operand) const;
  bool IsColumnSum(const Node& node) const;
  absl::Status PlaceElements(int vector);
  absl::Status ChooseVector();
  absl::StatusOr<Elements> ElementsOf(const Node& node) const;
  absl::StatusOr<std::vector<Prediction>> RankSchedules() const;
  bool IsWhole(int vector);

  std::string SumType() const { return problem_.is_double ? "double" : "float"; }
  std::string SumOf(Value value, const std::string& sum) const;
  Coordinates BatchCoordinates(int rank) const;
  std::optional<std::string> AddressOf(const Operand& operand) const;
  std::string FetchText(const Operand& operand);
  std::string EpilogueText();
  std::string ColumnSumsText();
  void EmitResults(int source);
  std::string Source(const TileShape& tile);

  const Node& fusion_;
  const GuardOption guard_;
  const CodegenOptions& options_;
  const ir::Graph& body_;
  Emitter emitter_;

  Node* product_ = nullptr;
  Problem problem_;
  Operand a_, b_;
  std::vector<Node*> column_sums_;
  llvm::DenseMap<const Node*, Elements> elements_;
  std::vector<int> finite_results_;
  int vector_ = 1;  // of the epilogue
};

// The value that has the same elements in the same order, through reshapes.
Value LinearRoot(Value value) {
  while (value.node->op() == Op::kReshape || value.node->op() == Op::kStopGradient) {
    value = value.node->operand(0);
  }
  return value;
}

// The coordinates in an operand of its element `v` of vector q.
Coordinates MatMulKernel::CoordinatesOf(const Operand& operand) const {
  const int vector = operand.vector;
  const auto size = [](int64_t elements) { return std::max<int64_t>(1, elements); };
  const int64_t outer_size = size(operand.is_a ? problem_.m : problem_.n);
  const int64_t inner_size = size(problem_.k);
  const auto along = [&](int64_t elements) {
    return Index::Variable("q", size(elements / vector)) * vector + LaneOf(vector);
  };
  const Index outer = operand.along_inner
                          ? Index::Variable(operand.is_a ? "row" : "column", outer_size)
                          : along(outer_size);
  const Index inner = operand.along_inner ? along(inner_size) : Index::Variable("k", inner_size);
  Coordinates at = BatchCoordinates(operand.value.type().rank());
  at.push_back(operand.inner_last ? outer : inner);
  at.push_back(operand.inner_last ? inner : outer);
  return at;
}

// Vectors run along the axis that allows the wider ones: the last one, unless the operand is a
// transposed view.
MatMulKernel::Operand MatMulKernel::OperandOf(Value value, bool is_a, bool inner_last) const {
  Operand operand{
      .value = value, .is_a = is_a, .inner_last = inner_last, .along_inner = inner_last};
  int64_t smallest = 16;
  for (int input : emitter_.InputsBehind({value})) {
    const ir::Type& type = body_.inputs()[static_cast<size_t>(input)]->type();
    if (type.elements() > 1) smallest = std::min<int64_t>(smallest, ByteSize(type.dtype));
    operand.bytes += static_cast<double>(type.bytes()) /
                     std::max(1.0, static_cast<double>(value.type().elements()));
  }
  if (value.type().elements() == 0) return operand;
  for (int width = static_cast<int>(std::clamp<int64_t>(16 / smallest, 1, 8)); width > 1;
       width /= 2) {
    operand.vector = width;
    for (bool along_inner : {inner_last, !inner_last}) {
      operand.along_inner = along_inner;
      const int64_t size = along_inner ? problem_.k : is_a ? problem_.m : problem_.n;
      if (size % width != 0) continue;
      const auto reads = emitter_.ReadsOf({value}, CoordinatesOf(operand), LaneOf(width), width);
      if (std::all_of(reads.begin(), reads.end(), [](const auto& read) { return read.whole; })) {
        return operand;
      }
    }
  }
  operand.vector = 1;
  operand.along_inner = inner_last;
  return operand;
}

absl::Status MatMulKernel::FindProduct() {
  for (const auto& node : body_.nodes()) {
    if (node->op() != Op::kMatMul) continue;
    if (product_ != nullptr) {
      return InvalidArgument("a matmul fusion holds two products, %%%s and %%%s", product_->name(),
                             node->name());
    }
    product_ = node.get();
  }
  if (product_ == nullptr) return InvalidArgument("a matmul fusion without a matmul");
  const auto& attrs = product_->attrs_as<ir::MatMulAttrs>();
  const Sizes sizes = SizesOf(product_->type());
  problem_.batch = Product(llvm::ArrayRef<int64_t>(sizes).drop_back(2));
  problem_.m = sizes[sizes.size() - 2];
  problem_.n = sizes[sizes.size() - 1];
  const Sizes a = SizesOf(product_->operand(0).type());
  problem_.k = a[a.size() - (attrs.transpose_a ? 2 : 1)];
  problem_.is_double = product_->operand(0).type().dtype == DType::kF64;
  for (int64_t size : {problem_.batch * CeilDiv(problem_.m, 16) * CeilDiv(problem_.n, 32),
                       problem_.m, problem_.n, problem_.k}) {
    if (size < (int64_t{1} << 30)) continue;
    return Unimplemented(
        "matmul: %d products of %d x %d and %d x %d are more than one kernel counts with 32 bits; "
        "use a smaller batch %s",
        problem_.batch, problem_.m, problem_.k, problem_.k, problem_.n, product_->Place());
  }
  a_ = OperandOf(product_->operand(0), true, !attrs.transpose_a);
  b_ = OperandOf(product_->operand(1), false, attrs.transpose_b);
  for (int input : emitter_.InputsBehind({a_.value, b_.value})) {
    if (llvm::is_contained(guard_.in_place, input)) {
      return Unimplemented("matmul: its result would be written over its operand %%%s %s",
                           body_.inputs()[static_cast<size_t>(input)]->name(), product_->Place());
    }
  }
  return absl::OkStatus();
}

// A sum of B's elements over k, B being stored row by row.
bool MatMulKernel::IsColumnSum(const Node& node) const {
  if (node.op() != Op::kReduceSum || b_.inner_last || b_.value.type().rank() != 2) return false;
  if (LinearRoot(node.operand(0)) != LinearRoot(b_.value)) return false;
  const auto& attrs = node.attrs_as<ir::ReduceAttrs>();
  int64_t rows = 1;
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    if (attrs.axes[i] != static_cast<int64_t>(i)) return false;
    rows *= node.operand(0).type().shape[i].size();
  }
  return rows == problem_.k;
}

absl::StatusOr<Elements> MatMulKernel::ElementsOf(const Node& node) const {
  Elements found;
  for (Value operand : node.operands()) {
    const auto known = elements_.find(operand.node);
    if (known == elements_.end() || known->second.source < 0) continue;
    if (found.source < 0) {
      found = known->second;
    } else if (found.source != known->second.source || !(found.at == known->second.at)) {
      return InvalidArgument("%%%s reads sums of a matmul fusion in two orders", node.name());
    }
  }
  const bool in_place = node.def().lower == ir::Lower::kElementwise ||
                        node.def().lower == ir::Lower::kRandom;  // dropout
  if (found.source < 0 || in_place) return found;
  const Sizes from = SizesOf(node.operand(0).type());
  const Sizes to = SizesOf(node.type());
  const bool keeps_order = node.def().lower == ir::Lower::kView && node.op() != Op::kTranspose &&
                           node.operand_count() == 1 && Product(from) == Product(to);
  if (keeps_order) {
    found.at = Delinearise(Linearise(found.at, from), to);
  } else if (node.op() == Op::kTranspose) {
    const Coordinates before = found.at;
    const auto& perm = node.attrs_as<ir::TransposeAttrs>().perm;
    for (size_t i = 0; i < perm.size(); ++i) found.at[i] = before[perm[i]];
  } else if (node.op() != Op::kAllFinite) {
    return InvalidArgument("%%%s, %s, reads sums of a matmul fusion", node.name(), node.def().name);
  }
  return found;
}

absl::Status MatMulKernel::PlaceElements(int vector) {
  elements_.clear();
  column_sums_.clear();
  for (const auto& node : body_.nodes()) {
    Elements elements;
    if (node.get() == product_) {
      elements = {.source = 0, .at = BatchCoordinates(node->type().rank())};
      elements.at.push_back(Index::Variable("row", std::max<int64_t>(1, problem_.m)));
      elements.at.push_back(Index::Variable("q", std::max<int64_t>(1, problem_.n / vector)) *
                                vector +
                            LaneOf(vector));
    } else if (IsColumnSum(*node)) {
      column_sums_.push_back(node.get());
      elements = {.source = static_cast<int>(column_sums_.size()),
                  .at = Delinearise(Index::Variable("column", std::max<int64_t>(1, problem_.n)),
                                    SizesOf(node->type()))};
    } else if (node->op() == Op::kAllFinite) {
      continue;  // each of its operands has a place of its own
    } else {
      DUOTONE_ASSIGN_OR_RETURN(elements, ElementsOf(*node));
    }
    elements_[node.get()] = elements;
  }
  return absl::OkStatus();
}

// True if the epilogue reads and writes whole vectors of so many columns.
bool MatMulKernel::IsWhole(int vector) {
  const Index lane = LaneOf(vector);
  for (const ir::Output& output : body_.outputs()) {
    const auto known = elements_.find(output.value.node);
    if (known == elements_.end() || known->second.source != 0) continue;
    const Coordinates& at = known->second.at;
    const auto store = Linearise(at, SizesOf(output.value.type())).SplitBy(lane);
    if (!store || store->stride != 1 || store->base.divisor() % vector != 0) return false;
    const auto reads = emitter_.ReadsOf({output.value}, at, lane, vector);
    if (std::any_of(reads.begin(), reads.end(), [](const auto& read) { return !read.whole; })) {
      return false;
    }
  }
  return true;
}

absl::Status MatMulKernel::ChooseVector() {
  emitter_.Bind(product_->result(), [&](const Coordinates&) {
    return SumOf(product_->result(), vector_ > 1 ? "sum[v]" : "sum[0]");
  });
  int64_t smallest = ByteSize(product_->type().dtype);
  for (const ir::Type& type : fusion_.types()) {
    if (type.elements() > 1) smallest = std::min<int64_t>(smallest, ByteSize(type.dtype));
  }
  for (vector_ = static_cast<int>(std::min<int64_t>(8, 16 / smallest)); vector_ > 1; vector_ /= 2) {
    if (problem_.n == 0 || problem_.n % vector_ != 0) continue;
    DUOTONE_RETURN_IF_ERROR(PlaceElements(vector_));
    if (IsWhole(vector_)) return absl::OkStatus();
  }
  return PlaceElements(1);
}

// ---- Schedule

absl::StatusOr<std::vector<Prediction>> MatMulKernel::RankSchedules() const {
  double written = 0;
  for (const ir::Type& type : fusion_.types()) written += static_cast<double>(type.bytes());
  std::vector<Prediction> candidates;
  for (const TileShape& tile : kTiles) {
    if (SharedBytes(tile, problem_.is_double) > kStaticSharedBytes) continue;
    candidates.push_back(Predict(*options_.target,
                                 {.vector = std::max(a_.vector, b_.vector),
                                  .threads = tile.threads(),
                                  .tile_m = tile.m,
                                  .tile_n = tile.n,
                                  .tile_k = kTileK},
                                 WorkOf(problem_, tile, a_.bytes, b_.bytes, written)));
  }
  return Rank(*options_.target, std::move(candidates), options_.schedules, fusion_.name());
}

// ---- Text

// Of an operand or result with this many axes; an operand of rank 2 is shared by the batch.
Coordinates MatMulKernel::BatchCoordinates(int rank) const {
  if (rank == 2) return {};
  const Sizes sizes = SizesOf(product_->type());
  const Index batch = problem_.batch > 1 ? Index::Variable("batch", problem_.batch) : Index(0);
  return Delinearise(batch, llvm::ArrayRef<int64_t>(sizes).drop_back(2));
}

// Where the vectors of an operand lie that needs no computing: a view of a matrix in memory.
std::optional<std::string> MatMulKernel::AddressOf(const Operand& operand) const {
  Value source = operand.value;
  while (source.node->def().lower == ir::Lower::kView && source.node->operand_count() == 1) {
    source = source.node->operand(0);
  }
  if (source.node->op() != Op::kInput) return std::nullopt;
  const Index lane = LaneOf(operand.vector);
  const auto reads =
      emitter_.ReadsOf({operand.value}, CoordinatesOf(operand), lane, operand.vector);
  if (reads.size() != 1 || reads[0].conditional || !reads[0].whole) return std::nullopt;
  Index base = reads[0].position;
  if (operand.vector > 1) {
    const auto split = base.SplitBy(lane);
    if (!split || split->stride != 1) return std::nullopt;
    base = split->base;
  }
  return absl::StrFormat("in%d + %s", reads[0].input, base.ToString());
}

std::string MatMulKernel::FetchText(const Operand& operand) {
  const int vector = operand.vector;
  const std::string outer = operand.is_a ? "row" : "column";
  const std::string type = emitter_.IndexType();
  emitter_.BeginSite({.vector = LaneOf(vector), .width = vector});
  const std::string element = emitter_.Get(operand.value, CoordinatesOf(operand));
  if (const std::optional<std::string> address = AddressOf(operand)) {
    emitter_.EndSite();  // of which only the parameter is wanted
    return absl::StrFormat(
        "  const auto %s = MakeDirectOperand<Along::%s, %d>(\n"
        "      [&](%s batch, %s %s, %s %s) { return %s; });\n",
        operand.is_a ? "a" : "b", operand.along_inner ? "kInner" : "kOuter", vector, type, type,
        operand.along_inner ? outer : "q", type, operand.along_inner ? "q" : "k", *address);
  }
  emitter_.InLoop(absl::StrFormat("to[%s] = %s;", vector > 1 ? "v" : "0", element));
  return absl::StrFormat(
      "  const auto %s = MakeOperand<Along::%s, %d>(\n"
      "      [&](%s batch, %s %s, %s %s, %s (&to)[%d]) {\n%s      });\n",
      operand.is_a ? "a" : "b", operand.along_inner ? "kInner" : "kOuter", vector, type, type,
      operand.along_inner ? outer : "q", type, operand.along_inner ? "q" : "k", SumType(), vector,
      emitter_.EndSite(8));
}

// A sum as an element of `value`, the node that computes it.
std::string MatMulKernel::SumOf(Value value, const std::string& sum) const {
  const std::string type = ComputeType(value.type().dtype);
  std::string element = sum;
  if (problem_.is_double && ByteSize(value.type().dtype) == 2) {
    element = absl::StrFormat("OddFloat(%s)", sum);
  } else if (type != SumType()) {
    element = absl::StrFormat("static_cast<%s>(%s)", type, sum);
  }
  return emitter_.Rounded(value, element);
}

// Stores what is computed from `source`, and tests what all_finite reads of it.
void MatMulKernel::EmitResults(int source) {
  for (size_t i = 0; i < body_.outputs().size(); ++i) {
    const Value value = body_.outputs()[i].value;
    if (value.node->op() == Op::kAllFinite) {
      for (Value operand : value.node->operands()) {
        const Elements& elements = elements_[operand.node];
        if (elements.source != source) continue;
        const std::string element = emitter_.GetStored(operand, elements.at);
        emitter_.InLoop(absl::StrFormat("finite%d &= IsFinite(%s);", i, element));
      }
    } else if (elements_[value.node].source == source) {
      const Coordinates& at = elements_[value.node].at;
      emitter_.Store(static_cast<int>(i), at, emitter_.Get(value, at));
    }
  }
}

std::string MatMulKernel::EpilogueText() {
  emitter_.BeginSite({.vector = LaneOf(vector_), .width = vector_});
  EmitResults(0);
  const std::string type = emitter_.IndexType();
  return absl::StrFormat(
      "  const auto epilogue = MakeEpilogue<%d>(\n"
      "      [&](%s batch, %s row, %s q, const %s (&sum)[%d]) {\n%s      });\n",
      vector_, type, type, type, SumType(), vector_, emitter_.EndSite(8));
}

std::string MatMulKernel::ColumnSumsText() {
  if (column_sums_.empty()) return "";
  std::string text =
      absl::StrFormat("  const auto column_sums = MakeColumnSums([&](%s column, %s sum) {\n",
                      emitter_.IndexType(), SumType());
  for (size_t i = 0; i < column_sums_.size(); ++i) {
    const Value value = column_sums_[i]->result();
    emitter_.Bind(value, [this, value](const Coordinates&) { return SumOf(value, "sum"); });
    emitter_.BeginSite({});
    EmitResults(static_cast<int>(i) + 1);
    absl::StrAppend(&text, emitter_.EndSite(4));
  }
  return absl::StrCat(text, "  });\n");
}

std::string MatMulKernel::Source(const TileShape& tile) {
  const std::string parts =
      absl::StrCat(FetchText(a_), FetchText(b_), EpilogueText(), ColumnSumsText());
  std::string flags, clear;
  for (int result : finite_results_) {
    absl::StrAppendFormat(&flags, "  bool finite%d = true;\n", result);
    absl::StrAppendFormat(&clear, "  MatMulClearUnless(finite%d, %s);\n", result,
                          emitter_.FlagParameter(result));
  }
  const std::string declarations = emitter_.Declarations();
  const std::string line = LineOfLabel(emitter_.AddLabel(LabelOf(*product_)));
  // With a least number of blocks per SM the compiler does not spill to fit more.
  return absl::StrFormat(
      "#include \"duotone/matmul.cuh\"\n\n%s%s"
      "extern \"C\" __global__ void __launch_bounds__(%d, 1)\nkernel(%s) {\n%s"
      "  using Tile = MatMulTile<%s, %d, %d, %d, %d, %d>;\n"
      "  using Shape = MatMulShape<%d, %d, %d, %d>;\n%s%s"
      "%s  MatMulSimt<Tile, Shape>(a, b, epilogue, %s);\n%s%s}\n",
      declarations, declarations.empty() ? "" : "\n", tile.threads(), emitter_.Parameters(),
      emitter_.Prologue(), SumType(), tile.m, tile.n, kTileK, tile.rows, tile.columns,
      problem_.batch, problem_.m, problem_.n, problem_.k, flags, parts, line,
      column_sums_.empty() ? "NoColumnSums()" : "column_sums", LineOfNoLabel(), clear);
}

absl::StatusOr<GeneratedKernel> MatMulKernel::Generate() {
  if (guard_.present) emitter_.UseGuard();
  emitter_.SetInPlace(guard_.in_place);
  DUOTONE_RETURN_IF_ERROR(FindProduct());
  DUOTONE_RETURN_IF_ERROR(ChooseVector());
  for (size_t i = 0; i < body_.outputs().size(); ++i) {
    const Value value = body_.outputs()[i].value;
    const bool is_test = value.node->op() == Op::kAllFinite;
    if (is_test) finite_results_.push_back(static_cast<int>(i));
    const Value single[] = {value};
    for (Value from : is_test ? value.node->operands() : llvm::ArrayRef<Value>(single)) {
      const auto known = elements_.find(from.node);
      if (known != elements_.end() && known->second.source >= 0) continue;
      return InvalidArgument("result %d of a matmul fusion does not depend on the product", i);
    }
  }
  DUOTONE_ASSIGN_OR_RETURN(const std::vector<Prediction> ranked, RankSchedules());
  const Schedule& schedule = ranked.front().schedule;
  const TileShape& tile =
      *std::find_if(std::begin(kTiles), std::end(kTiles), [&](const TileShape& candidate) {
        return candidate.m == schedule.tile_m && candidate.n == schedule.tile_n &&
               candidate.threads() == schedule.threads;
      });
  const std::string source = Source(tile);
  DUOTONE_RETURN_IF_ERROR(emitter_.status());
  GeneratedKernel kernel{.family = "matmul",
                         .source = source,
                         .contract = !options_.exact,
                         .block = {tile.threads(), 1, 1},
                         .arguments = emitter_.Arguments(),
                         .finite_results = finite_results_,
                         .labels = emitter_.labels(),
                         .schedule = schedule.ToString(),
                         .schedules = ToText(ranked)};
  kernel.grid[0] = std::max<int64_t>(1, problem_.batch) *
                   std::max<int64_t>(1, CeilDiv(problem_.m, tile.m)) *
                   std::max<int64_t>(1, CeilDiv(problem_.n, tile.n));
  const double results = static_cast<double>(product_->type().elements());
  kernel.flops = results * (2.0 * static_cast<double>(problem_.k) + emitter_.flops_per_element());
  return kernel;
}

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateMatMul(const Node& fusion, GuardOption guard,
                                               const CodegenOptions& options) {
  DUOTONE_ASSIGN_OR_RETURN(const ExpandedBody body, ExpandBody(*fusion.body()));
  return MatMulKernel(fusion, guard, options, *body.graph).Generate();
}

}  // namespace duotone::codegen::cuda
