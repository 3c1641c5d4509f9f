// Products of matrices, C[b] = A[b] B[b], with generated prologues and epilogue.
//
// The mainloop asks for elements of A and B and gives sums away; it knows nothing of what they are
// made of. An operand gives kVector consecutive elements at a time, along the inner index (k) or
// the outer one (the row of A, the column of B), whichever is consecutive in memory: a direct
// operand says where they lie, so that the mainloop can copy them as it likes; others compute them.
// The epilogue takes kVector sums of consecutive columns. None is called outside the matrices:
// kVector divides the size along which it runs.
//
//   address(batch, outer, inner / kVector)                     along the inner index
//   address(batch, outer / kVector, inner)                     along the outer index
//   fetch(the same, T (&to)[kVector])
//   epilogue.store(batch, row, column / kVector, const T (&sum)[kVector])
//   column_sums.store(column, T sum)                           of B over k, from one block each
//
// Launch: Tile::kThreads threads, MatMulBlocks<Tile, Shape>() blocks. A sum begins with 0 and takes
// its products in the order of k, one multiply-add each, whatever the tile: so all tiles give the
// same bits, and so do all architectures.
#ifndef DUOTONE_MATMUL_CUH
#define DUOTONE_MATMUL_CUH

#include "duotone/prelude.cuh"

enum class Along { kInner, kOuter };

template <Along kAlongIndex, int kElements, class Fetch>
struct MatMulOperand {
  static constexpr Along kAlong = kAlongIndex;
  static constexpr int kVector = kElements;
  static constexpr bool kDirect = false;
  Fetch fetch;
};
template <Along kAlong, int kVector, class Fetch>
DUOTONE_DEVICE MatMulOperand<kAlong, kVector, Fetch> MakeOperand(Fetch fetch) {
  return {fetch};
}

// Vectors are aligned to their size, 16 bytes at most.
template <Along kAlongIndex, int kElements, class Address>
struct MatMulDirectOperand {
  static constexpr Along kAlong = kAlongIndex;
  static constexpr int kVector = kElements;
  static constexpr bool kDirect = true;
  Address address;
};
template <Along kAlong, int kVector, class Address>
DUOTONE_DEVICE MatMulDirectOperand<kAlong, kVector, Address> MakeDirectOperand(Address address) {
  return {address};
}

template <int kElements, class Store>
struct MatMulEpilogue {
  static constexpr int kVector = kElements;
  Store store;
};
template <int kVector, class Store>
DUOTONE_DEVICE MatMulEpilogue<kVector, Store> MakeEpilogue(Store store) {
  return {store};
}

template <class Store>
struct ColumnSums {
  static constexpr bool kPresent = true;
  Store store;
};
template <class Store>
DUOTONE_DEVICE ColumnSums<Store> MakeColumnSums(Store store) {
  return {store};
}
struct NoColumnSums {
  static constexpr bool kPresent = false;
};

template <int kBatch_, int kM_, int kN_, int kK_>
struct MatMulShape {
  static constexpr int kBatch = kBatch_;
  static constexpr int kM = kM_;
  static constexpr int kN = kN_;
  static constexpr int kK = kK_;
};

// A block computes kM x kN sums, a thread kRows x kColumns of them, in steps of kK along k. T is
// the type of operands and sums: float, or double.
template <class T_, int kM_, int kN_, int kK_, int kRows_, int kColumns_>
struct MatMulTile {
  using T = T_;
  static constexpr int kM = kM_;
  static constexpr int kN = kN_;
  static constexpr int kK = kK_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kThreadColumns = kN / kColumns;
  static constexpr int kThreads = kM / kRows * kThreadColumns;
  static constexpr int kPiece = 16 / sizeof(T);  // elements in a 16-byte access
  // Shared memory: two stages of both tiles, [k][row] and [k][column]; then rows of sums. The four
  // elements beside each line spread the stores of operands that are consecutive along k, together
  // with MatMulTileLoader::kExchange.
  static constexpr int kLineA = kM + 4;
  static constexpr int kLineB = kN + 4;
  static constexpr int kStageElements = kK * (kLineA + kLineB);
  static constexpr int kSlabRows = kM < 64 ? kM : 64;
  static constexpr int kLineSums = kN + 4;
  static constexpr int kSharedElements = 2 * kStageElements > kSlabRows * kLineSums
                                             ? 2 * kStageElements
                                             : kSlabRows * kLineSums;
  static_assert(kK % 16 == 0 && kRows % kPiece == 0 && kColumns % kPiece == 0, "");
};

constexpr int MatMulCeil(int a, int b) { return (a + b - 1) / b; }

// Which tile a block computes. Blocks that run at the same time form groups of eight rows of tiles,
// so that they share what they read through L2.
struct MatMulPlace {
  int batch;
  int row;     // of the first element
  int column;
};
template <class Tile, class Shape>
DUOTONE_DEVICE MatMulPlace MatMulPlaceOf(int block) {
  constexpr int kRowTiles = Shape::kM > 0 ? MatMulCeil(Shape::kM, Tile::kM) : 1;
  constexpr int kColumnTiles = Shape::kN > 0 ? MatMulCeil(Shape::kN, Tile::kN) : 1;
  constexpr int kGroup = 8;
  const int tile = block % (kRowTiles * kColumnTiles);
  const int first = tile / (kGroup * kColumnTiles) * kGroup;
  const int rows = kRowTiles - first < kGroup ? kRowTiles - first : kGroup;
  const int in_group = tile % (kGroup * kColumnTiles);
  return {block / (kRowTiles * kColumnTiles), (first + in_group % rows) * Tile::kM,
          in_group / rows * Tile::kN};
}

DUOTONE_DEVICE double ToFloat(double value) { return value; }

// Holds a vector of an operand: of a direct one as it lies in memory, so that nothing waits for it
// before it is stored.
template <class T, class Operand, bool kDirect = Operand::kDirect>
struct MatMulVector {
  T elements[Operand::kVector];

  __device__ __forceinline__ void Fetch(const Operand& operand, int batch, int outer, int inner) {
    operand.fetch(batch, outer, inner, elements);
  }
  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int v = 0; v < Operand::kVector; ++v) elements[v] = 0;
  }
  __device__ __forceinline__ T operator[](int v) const { return elements[v]; }
};
template <class Pointer>
struct MatMulStored;
template <class S>
struct MatMulStored<const S*> {
  using Type = S;
};
template <class T, class Operand>
struct MatMulVector<T, Operand, true> {
  using Pointer = decltype(static_cast<const Operand*>(nullptr)->address(0, 0, 0));
  Vec<typename MatMulStored<Pointer>::Type, Operand::kVector> elements;

  __device__ __forceinline__ void Fetch(const Operand& operand, int batch, int outer, int inner) {
    elements = Load<Operand::kVector>(operand.address(batch, outer, inner));
  }
  __device__ __forceinline__ void Clear() { elements = {}; }
  __device__ __forceinline__ T operator[](int v) const { return ToFloat(elements[v]); }
};

// Moves tiles of an operand, kOuter x kInner elements, to shared memory by way of registers, so
// that the loads of the next tile are under way while the present one is multiplied.
template <class T, int kOuter, int kInner, int kLine, int kThreads, class Operand>
struct MatMulTileLoader {
  static constexpr int kVector = Operand::kVector;
  static constexpr bool kAlongInner = Operand::kAlong == Along::kInner;
  static constexpr int kVectors = kOuter * kInner / kVector;
  static constexpr int kPerThread = (kVectors + kThreads - 1) / kThreads;
  static constexpr int kPerLine = (kAlongInner ? kInner : kOuter) / kVector;
  // The lanes of a warp that store operands consecutive along k write kPerLine lines, 4 kVector
  // banks apart: from k = 8 on in the banks of the first ones. Element x of line k therefore lies
  // at x ^ k / 8 * kExchange, which gives each lane a bank of its own.
  static constexpr int kExchange =
      kAlongInner && sizeof(T) == 4 && kOuter % 32 == 0 && kPerLine <= 8 ? 32 / kPerLine : 0;
  MatMulVector<T, Operand> vectors[kPerThread];

  // The place in the tile of the thread's vector i; false beyond the last.
  DUOTONE_DEVICE bool Place(int i, int& outer, int& inner) {
    const int vector = static_cast<int>(threadIdx.x) + i * kThreads;
    const int along = vector % kPerLine * kVector;
    const int across = vector / kPerLine;
    outer = kAlongInner ? across : along;
    inner = kAlongInner ? along : across;
    return kVectors % kThreads == 0 || vector < kVectors;
  }

  // Elements at `outer_limit` and `inner_limit` and beyond are 0.
  __device__ __forceinline__ void Fetch(const Operand& operand, int batch, int first_outer,
                                        int outer_limit, int first_inner, int inner_limit) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      int outer, inner;
      const bool inside = Place(i, outer, inner);
      outer += first_outer;
      inner += first_inner;
      if (inside && outer < outer_limit && inner < inner_limit) {
        vectors[i].Fetch(operand, batch, kAlongInner ? outer : outer / kVector,
                         kAlongInner ? inner / kVector : inner);
      } else {
        vectors[i].Clear();
      }
    }
  }

  __device__ __forceinline__ void Store(T* tile) const {
    constexpr int kPiece = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      int outer, inner;
      if (!Place(i, outer, inner)) continue;
      if constexpr (!kAlongInner && kVector % kPiece == 0) {
#pragma unroll
        for (int v = 0; v < kVector; v += kPiece) {
          Vec<T, kPiece> piece;
#pragma unroll
          for (int p = 0; p < kPiece; ++p) piece[p] = vectors[i][v + p];
          *reinterpret_cast<Vec<T, kPiece>*>(tile + inner * kLine + outer + v) = piece;
        }
      } else {
        // All elements of a vector along k are on the same side of a multiple of 8.
        T* const first =
            tile + inner * kLine + (kAlongInner ? outer ^ (inner / 8 * kExchange) : outer);
#pragma unroll
        for (int v = 0; v < kVector; ++v) first[kAlongInner ? v * kLine : v] = vectors[i][v];
      }
    }
  }
};

// kCount elements of line k of a tile, from `first` on, a multiple of kCount or, with a stride,
// of a piece: pieces of 16 bytes, kStride elements apart.
template <int kStride, int kExchange, int kCount, class T>
DUOTONE_DEVICE void MatMulReadPieces(const T* line, int k, int first, T (&to)[kCount]) {
  constexpr int kPiece = 16 / sizeof(T);
  // The pieces keep their distance where what is exchanged are multiples of them all, or less than
  // the stride.
  constexpr bool kTogether = kStride % 32 == 0 || kExchange % kCount == 0;
  const int exchange = k / 8 * kExchange;
#pragma unroll
  for (int i = 0; i < kCount; i += kPiece) {
    const int ahead = i / kPiece * kStride;
    const int at = kTogether ? (first ^ exchange) + ahead : (first + ahead) ^ exchange;
    const auto piece = *reinterpret_cast<const Vec<T, kPiece>*>(line + at);
#pragma unroll
    for (int p = 0; p < kPiece; ++p) to[i + p] = piece[p];
  }
}

// The exact f32 (and f64) path, on the units for plain arithmetic.
template <class Tile, class Shape, class A, class B, class Epilogue, class Columns>
DUOTONE_DEVICE void MatMulSimt(const A& a, const B& b, const Epilogue& epilogue,
                           const Columns& column_sums) {
  using T = typename Tile::T;
  constexpr int kPiece = Tile::kPiece;
  constexpr int kThreads = Tile::kThreads;
  constexpr int kSharedElements = Tile::kSharedElements;
  using Piece = Vec<T, kPiece>;
  DUOTONE_SHARED(Piece, shared_pieces, kSharedElements / kPiece);
  T* const shared = reinterpret_cast<T*>(shared_pieces);

  const MatMulPlace place = MatMulPlaceOf<Tile, Shape>(static_cast<int>(blockIdx.x));
  const int thread = static_cast<int>(threadIdx.x);
  // The thread's rows are consecutive; its columns are pieces of 16 bytes, those of neighbours side
  // by side, which makes both reads of shared memory free of bank conflicts.
  const int thread_row = thread / Tile::kThreadColumns * Tile::kRows;
  const int thread_column = thread % Tile::kThreadColumns * kPiece;
  constexpr int kColumnStride = Tile::kThreadColumns * kPiece;

  T sum[Tile::kRows][Tile::kColumns] = {};
  // One sum for each column of the tile, 16 numbers at a time: a long f32 sum loses less so.
  constexpr int kTotals = MatMulCeil(Tile::kN, kThreads);
  T total[kTotals] = {};
  const bool sums_columns = Columns::kPresent && place.batch == 0 && place.row == 0;

  if constexpr (Shape::kK > 0) {
    using ATile = MatMulTileLoader<T, Tile::kM, Tile::kK, Tile::kLineA, kThreads, A>;
    using BTile = MatMulTileLoader<T, Tile::kN, Tile::kK, Tile::kLineB, kThreads, B>;
    ATile a_tile;
    BTile b_tile;
    a_tile.Fetch(a, place.batch, place.row, Shape::kM, 0, Shape::kK);
    b_tile.Fetch(b, place.batch, place.column, Shape::kN, 0, Shape::kK);
    a_tile.Store(shared);
    b_tile.Store(shared + Tile::kK * Tile::kLineA);
    Barrier();
    int stage = 0;
#pragma unroll 1
    for (int k = 0; k < Shape::kK; k += Tile::kK) {
      // Without a branch, so that these loads can move past the arithmetic; beyond the end they are
      // masked.
      a_tile.Fetch(a, place.batch, place.row, Shape::kM, k + Tile::kK, Shape::kK);
      b_tile.Fetch(b, place.batch, place.column, Shape::kN, k + Tile::kK, Shape::kK);
      const T* const a_lines = shared + stage * Tile::kStageElements;
      const T* const b_lines = a_lines + Tile::kK * Tile::kLineA;
#pragma unroll
      for (int step = 0; step < Tile::kK; ++step) {
        T x[Tile::kRows];
        T y[Tile::kColumns];
        MatMulReadPieces<kPiece, ATile::kExchange>(a_lines + step * Tile::kLineA, step, thread_row,
                                                   x);
        MatMulReadPieces<kColumnStride, BTile::kExchange>(b_lines + step * Tile::kLineB, step,
                                                          thread_column, y);
#pragma unroll
        for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
          for (int j = 0; j < Tile::kColumns; ++j) sum[i][j] += x[i] * y[j];
        }
      }
      if constexpr (Columns::kPresent) {
        if (sums_columns) {
#pragma unroll
          for (int i = 0; i < kTotals; ++i) {
            const int column = thread + i * kThreads;
            if (column >= Tile::kN) continue;
            for (int first = 0; first < Tile::kK; first += 16) {
              T part = 0;
              for (int step = first; step < first + 16; ++step) {
                part += b_lines[step * Tile::kLineB + (column ^ (step / 8 * BTile::kExchange))];
              }
              total[i] += part;
            }
          }
        }
      }
      stage ^= 1;
      a_tile.Store(shared + stage * Tile::kStageElements);
      b_tile.Store(shared + stage * Tile::kStageElements + Tile::kK * Tile::kLineA);
      Barrier();
    }
  }

  if constexpr (Columns::kPresent) {
    if (sums_columns) {
#pragma unroll
      for (int i = 0; i < kTotals; ++i) {
        const int column = thread + i * kThreads;
        if (column < Tile::kN && place.column + column < Shape::kN) {
          column_sums.store(place.column + column, total[i]);
        }
      }
    }
  }

  // Sums go through shared memory, a slab of rows at a time, so that a thread has consecutive
  // columns and a warp whole lines.
  constexpr int kVector = Epilogue::kVector;
  constexpr int kPerLine = Tile::kN / kVector;
#pragma unroll 1
  for (int slab = 0; slab < Tile::kM; slab += Tile::kSlabRows) {
    if (slab <= thread_row && thread_row < slab + Tile::kSlabRows) {
#pragma unroll
      for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kColumns; j += kPiece) {
          Vec<T, kPiece> piece;
#pragma unroll
          for (int p = 0; p < kPiece; ++p) piece[p] = sum[i][j + p];
          *reinterpret_cast<Vec<T, kPiece>*>(shared + (thread_row - slab + i) * Tile::kLineSums +
                                             j / kPiece * kColumnStride + thread_column) = piece;
        }
      }
    }
    Barrier();
#pragma unroll 1
    for (int at = thread; at < Tile::kSlabRows * kPerLine; at += kThreads) {
      const int row = place.row + slab + at / kPerLine;
      const int in_tile = at % kPerLine * kVector;
      const int column = place.column + in_tile;
      if (row >= Shape::kM || column >= Shape::kN || place.batch >= Shape::kBatch) continue;
      T values[kVector];
      const T* const line = shared + at / kPerLine * Tile::kLineSums + in_tile;
      if constexpr (kVector % kPiece == 0) {
        MatMulReadPieces<kPiece, 0>(line, 0, 0, values);
      } else {
#pragma unroll
        for (int v = 0; v < kVector; ++v) values[v] = line[v];
      }
      epilogue.store(place.batch, row, column / kVector, values);
    }
    Barrier();
  }
}

// Clears a flag where a thread has met a number that is not finite: one atomic per warp at most.
DUOTONE_DEVICE void MatMulClearUnless(bool finite, int* flag) {
  int bad = finite ? 0 : 1;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) bad |= ShuffleXor(bad, lanes);
  if (bad != 0 && threadIdx.x % 32 == 0) AtomicAnd(flag, 0);
}

#endif  // DUOTONE_MATMUL_CUH
