#include "ir/ops_matmul.h"

#include <cstring>

#include "ir/eval_reduce.h"
#include "ir/op_checks.h"

namespace duotone::ir {

// ---- Types ----

absl::StatusOr<Types> InferMatMul(llvm::ArrayRef<Type> operands, Attrs& attrs) {
  const MatMulAttrs& matmul = std::get<MatMulAttrs>(attrs);
  const Type& a = operands[0];
  const Type& b = operands[1];
  if (a.rank() < 2 || b.rank() < 2) {
    return InvalidArgument("operands need at least two axes, not %s and %s", a.ToString(),
                           b.ToString());
  }
  if (a.dtype != b.dtype) {
    return InvalidArgument("operand dtypes differ, %s and %s", DTypeName(a.dtype),
                           DTypeName(b.dtype));
  }
  DUOTONE_RETURN_IF_ERROR(CheckFloat(operands, 0));
  const DType out = matmul.out.value_or(a.dtype);
  DUOTONE_RETURN_IF_ERROR(CheckFloat(out, "out"));

  llvm::ArrayRef<Dim> a_shape = a.shape;
  llvm::ArrayRef<Dim> b_shape = b.shape;
  const Dim& rows = a_shape[a.rank() - (matmul.transpose_a ? 1 : 2)];
  const Dim& a_inner = a_shape[a.rank() - (matmul.transpose_a ? 2 : 1)];
  const Dim& b_inner = b_shape[b.rank() - (matmul.transpose_b ? 1 : 2)];
  const Dim& columns = b_shape[b.rank() - (matmul.transpose_b ? 2 : 1)];
  if (a_inner != b_inner) {
    return InvalidArgument("inner sizes differ, %s and %s, in %s and %s", a_inner.ToString(),
                           b_inner.ToString(), a.ToString(), b.ToString());
  }
  llvm::ArrayRef<Dim> batch = a_shape.drop_back(2);
  if (a.rank() == 2) {
    batch = b_shape.drop_back(2);
  } else if (b.rank() != 2 && batch != b_shape.drop_back(2)) {
    return InvalidArgument("batch axes differ, %s and %s, in %s and %s", ToString(batch),
                           ToString(b_shape.drop_back(2)), a.ToString(), b.ToString());
  }
  Shape shape(batch.begin(), batch.end());
  shape.push_back(rows);
  shape.push_back(columns);
  return Types{{out, shape}};
}

// ---- Gradient ----

namespace {

Value EmitMatMul(Emitter& emit, Value a, bool transpose_a, Value b, bool transpose_b, DType out) {
  MatMulAttrs attrs{.transpose_a = transpose_a, .transpose_b = transpose_b};
  if (out != a.type().dtype) attrs.out = out;
  return emit.Emit(Op::kMatMul, {a, b}, attrs);
}

// Puts the batch axes of `value` next to the axis they are contracted or counted together with, and
// merges them into one matrix: [batch.., r, c] to [batch*r, c] (rows), or to [r, batch*c]. With
// `swap`, r and c change places first.
Value MergeBatch(Emitter& emit, Value value, bool swap, bool rows) {
  const Type& type = value.type();
  const int rank = type.rank();
  const int64_t r = rank - (swap ? 1 : 2);
  const int64_t c = rank - (swap ? 2 : 1);
  Ints perm;
  if (!rows) perm.push_back(r);
  for (int i = 0; i < rank - 2; ++i) perm.push_back(i);
  if (rows) perm.push_back(r);
  perm.push_back(c);
  Dim merged(1);
  for (int i = 0; i < rank; ++i) {
    if (i == (rows ? c : r)) continue;
    std::optional<Dim> product = merged.Times(type.shape[i]);
    DUOTONE_CHECK(product.has_value()) << type.ToString();
    merged = *product;
  }
  const Dim other = type.shape[rows ? c : r];
  if (perm != AllAxes(rank)) value = emit.Transpose(value, perm);
  return emit.Reshape(value, rows ? Shape{merged, other} : Shape{other, merged});
}

}  // namespace

// With C = A B: dA = dC B^T and dB = A^T dC, written so that each lands in the orientation in which
// its operand is stored. An operand of rank 2 that is shared by a batch collects the whole batch in
// one product of matrices.
absl::Status GradMatMul(GradContext& ctx) {
  const MatMulAttrs attrs = ctx.attrs<MatMulAttrs>();
  Emitter& emit = ctx.emit();
  Value a = ctx.operand(0);
  Value b = ctx.operand(1);
  // Both operands of a product have one dtype; the gradient of a widened result is rounded to that
  // of A and B.
  Value g = emit.Cast(ctx.grad(), a.type().dtype);
  const int rank = g.type().rank();

  if (ctx.wanted(0)) {
    Value other = b;
    Value grad = g;
    bool transpose_b = attrs.transpose_b;
    if (a.type().rank() == 2 && rank > 2) {
      grad = MergeBatch(emit, g, /*swap=*/false, /*rows=*/false);               // [M, batch*N]
      other = MergeBatch(emit, b, /*swap=*/!attrs.transpose_b, /*rows=*/true);  // [batch*N, K]
      transpose_b = true;
    }
    ctx.Set(0, attrs.transpose_a
                   ? EmitMatMul(emit, other, transpose_b, grad, true, ctx.grad_dtype(0))
                   : EmitMatMul(emit, grad, false, other, !transpose_b, ctx.grad_dtype(0)));
  }
  if (ctx.wanted(1)) {
    Value other = a;
    Value grad = g;
    bool transpose_a = attrs.transpose_a;
    if (b.type().rank() == 2 && rank > 2) {
      grad = MergeBatch(emit, g, /*swap=*/false, /*rows=*/true);               // [batch*M, N]
      other = MergeBatch(emit, a, /*swap=*/attrs.transpose_a, /*rows=*/true);  // [batch*M, K]
      transpose_a = false;
    }
    ctx.Set(1, attrs.transpose_b
                   ? EmitMatMul(emit, grad, true, other, transpose_a, ctx.grad_dtype(1))
                   : EmitMatMul(emit, other, !transpose_a, grad, false, ctx.grad_dtype(1)));
  }
  return absl::OkStatus();
}

// ---- Cost ----

Cost CostMatMul(llvm::ArrayRef<Type> operands, llvm::ArrayRef<Type> results, const Attrs& attrs) {
  const Type& a = operands[0];
  const bool transposed = std::get<MatMulAttrs>(attrs).transpose_a;
  const double inner = static_cast<double>(a.shape[a.rank() - (transposed ? 2 : 1)].size());
  return {.flops = 2.0 * static_cast<double>(results[0].elements()) * inner,
          .bytes = BytesMoved(operands, results)};
}

// ---- Evaluation ----
//
// A result is computed in tiles of kTile x kTile. For each block of kInner positions of the
// contracted axis, in order, both operands' parts are converted into panels on the stack; an
// element's partial sum over the block is added up in order of k from zero, and the block sums are
// added in order.

namespace {

constexpr int kTile = 64;
constexpr int kInner = 128;
constexpr int kMicroRows = 4;
constexpr int kMicroColumns = 8;

struct Geometry {
  int64_t batch = 1;
  int64_t rows, columns, inner;
  int64_t a_matrix, b_matrix;  // elements from one matrix of the batch to the next; 0 if shared

  explicit Geometry(const EvalCall& call) {
    const MatMulAttrs& attrs = std::get<MatMulAttrs>(*call.attrs);
    llvm::ArrayRef<int64_t> a = call.operands[0].shape;
    llvm::ArrayRef<int64_t> b = call.operands[1].shape;
    llvm::ArrayRef<int64_t> c = call.results[0].shape;
    for (int64_t size : c.drop_back(2)) batch *= size;
    rows = c[c.size() - 2];
    columns = c[c.size() - 1];
    inner = a[a.size() - (attrs.transpose_a ? 2 : 1)];
    a_matrix = a.size() == 2 ? 0 : rows * inner;
    b_matrix = b.size() == 2 ? 0 : inner * columns;
  }
  int64_t row_tiles() const { return (rows + kTile - 1) / kTile; }
  int64_t column_tiles() const { return (columns + kTile - 1) / kTile; }
};

// Reads a matrix part of `outer` x `count` elements, consecutive along the second, into `panel`
// with the given strides.
template <typename C>
void ReadPanel(const TensorView& view, int64_t offset, int64_t row_stride, int64_t outer,
               int64_t count, C* panel, int64_t outer_step, int64_t step) {
  C buffer[kInner];
  for (int64_t i = 0; i < outer; ++i) {
    const C* row = LoadBlock(view, offset + i * row_stride, count, buffer);
    C* to = panel + i * outer_step;
    for (int64_t j = 0; j < count; ++j) to[j * step] = row[j];
  }
}

// A few numbers that are multiplied and added side by side, in one register of every 64-bit
// machine.
constexpr int kVectorBytes = 16;
template <typename C>
struct VectorOf {
  typedef C Type __attribute__((vector_size(kVectorBytes)));
};

// sums[kTile][kTile] += a[kTile][kInner] * b[kInner][kTile] over `inner` positions.
template <typename C>
void MultiplyPanels(const C* a, const C* b, int64_t rows, int64_t columns, int64_t inner, C* sums) {
  using Vector = typename VectorOf<C>::Type;
  constexpr int kWidth = kVectorBytes / sizeof(C);
  for (int64_t i = 0; i < rows; i += kMicroRows) {
    for (int64_t j = 0; j < columns; j += kMicroColumns) {
      Vector micro[kMicroRows][kMicroColumns / kWidth] = {};
      for (int64_t k = 0; k < inner; ++k) {
        Vector b_row[kMicroColumns / kWidth];
        std::memcpy(b_row, b + k * kTile + j, sizeof(b_row));
        for (int r = 0; r < kMicroRows; ++r) {
          const C a_value = a[(i + r) * kInner + k];
          for (int v = 0; v < kMicroColumns / kWidth; ++v) micro[r][v] += a_value * b_row[v];
        }
      }
      for (int r = 0; r < kMicroRows; ++r) {
        C partial[kMicroColumns];
        std::memcpy(partial, micro[r], sizeof(partial));
        for (int c = 0; c < kMicroColumns; ++c) sums[(i + r) * kTile + j + c] += partial[c];
      }
    }
  }
}

template <typename C>
void MultiplyTile(const EvalCall& call, const Geometry& g, int64_t batch, int64_t row,
                  int64_t column) {
  const MatMulAttrs& attrs = std::get<MatMulAttrs>(*call.attrs);
  const int64_t rows = std::min<int64_t>(kTile, g.rows - row);
  const int64_t columns = std::min<int64_t>(kTile, g.columns - column);
  const int64_t a_offset = batch * g.a_matrix;
  const int64_t b_offset = batch * g.b_matrix;
  C a[kTile * kInner] = {};  // rows and columns beyond the edge are computed and dropped
  C b[kInner * kTile] = {};
  C sums[kTile * kTile] = {};
  for (int64_t k = 0; k < g.inner; k += kInner) {
    const int64_t inner = std::min<int64_t>(kInner, g.inner - k);
    if (attrs.transpose_a) {
      ReadPanel(call.operands[0], a_offset + k * g.rows + row, g.rows, inner, rows, a, 1, kInner);
    } else {
      ReadPanel(call.operands[0], a_offset + row * g.inner + k, g.inner, rows, inner, a, kInner, 1);
    }
    if (attrs.transpose_b) {
      ReadPanel(call.operands[1], b_offset + column * g.inner + k, g.inner, columns, inner, b, 1,
                kTile);
    } else {
      ReadPanel(call.operands[1], b_offset + k * g.columns + column, g.columns, inner, columns, b,
                kTile, 1);
    }
    MultiplyPanels(a, b, rows, columns, inner, sums);
  }
  for (int64_t r = 0; r < rows; ++r) {
    StoreBlock(call.results[0], (batch * g.rows + row + r) * g.columns + column, columns,
               sums + r * kTile);
  }
}

}  // namespace

int64_t ItemsMatMul(const EvalCall& call) {
  const Geometry g(call);
  return g.batch * g.row_tiles() * g.column_tiles();
}

void EvalMatMul(const EvalCall& call, int64_t begin, int64_t end) {
  const Geometry g(call);
  WithFloatType(call.operands[0].dtype, [&](auto compute) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column_tile = item % g.column_tiles();
      const int64_t row_tile = item / g.column_tiles() % g.row_tiles();
      const int64_t batch = item / g.column_tiles() / g.row_tiles();
      MultiplyTile<decltype(compute)>(call, g, batch, row_tile * kTile, column_tile * kTile);
    }
  });
}

}  // namespace duotone::ir
