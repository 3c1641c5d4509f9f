// mma: fragments of a warp to the tensor core and back. PTX ISA 8.5, 9.7.14.4; with g = lane / 4
// and t = lane % 4
//
//   A of 16 bits, m16n8k8 and k16: rows g and g + 8, columns 2t, 2t + 1 and the same + 8
//   A of tf32, m16n8k4 and k8: rows g and g + 8, columns t and t + 4
//   B: the same with k for the column and g for n
//   C and D: rows g and g + 8, columns 2t and 2t + 1
#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/tensor_core.h"

namespace duotone::emulator {
namespace {

constexpr int kM = TensorTile::kM, kN = TensorTile::kN;
// Rows of a matrix in one register: its lanes are 8 of them, one after the other.
constexpr int kRegisterRows = 8;

// The registers that a code has from `first` on.
struct Registers {
  Warp& warp;
  const Code& code;
  int first = 0;

  const uint32_t* operator[](int i) const {
    return warp.Row<uint32_t>(code.row[static_cast<size_t>(first + i)]);
  }
};

// Elements of 16 bits, two in a lane.
struct Halves {
  static constexpr int kColumns = 8;  // of a register
  static uint32_t At(const uint32_t* lanes, int row, int column) {
    return lanes[4 * row + column / 2] >> 16 * (column % 2) & 0xffff;
  }
};
struct Singles {
  static constexpr int kColumns = 4;
  static uint32_t At(const uint32_t* lanes, int row, int column) { return lanes[4 * row + column]; }
};

template <typename Elements>
void LoadFactors(const Registers& a, const Registers& b, int k, TensorTile& tile) {
  constexpr int kColumns = Elements::kColumns;
  for (int block = 0; block < k / kColumns; ++block) {
    const int first = block * kColumns;
    for (int half = 0; half < 2; ++half) {
      const uint32_t* lanes = a[2 * block + half];
      for (int row = 0; row < kRegisterRows; ++row) {
        uint32_t* to = tile.a[row + kRegisterRows * half] + first;
        for (int i = 0; i < kColumns; ++i) to[i] = Elements::At(lanes, row, i);
      }
    }
    const uint32_t* lanes = b[block];
    for (int i = 0; i < kColumns; ++i) {
      for (int n = 0; n < kN; ++n) tile.b[first + i][n] = Elements::At(lanes, n, i);
    }
  }
}

// Accumulators of 32 bits: two registers for the even and odd columns of 8 rows.
void LoadAccumulators(const Registers& c, bool is_half, TensorTile& tile) {
  for (int half = 0; half < 2; ++half) {
    for (int row = 0; row < kRegisterRows; ++row) {
      uint32_t* to = tile.c[row + kRegisterRows * half];
      for (int i = 0; i < kN; ++i) {
        to[i] = is_half ? Halves::At(c[half], row, i) : c[2 * half + i % 2][4 * row + i / 2];
      }
    }
  }
}

void WriteResults(Warp& warp, const Code& code, Mask mask, bool is_half, const TensorTile& tile) {
  for (int i = 0; i < (is_half ? 2 : 4); ++i) {
    const uint32_t row = code.row[static_cast<size_t>(i)];
    if (row == kNoRow) continue;
    const auto* from = tile.c[is_half ? kRegisterRows * i : kRegisterRows * (i / 2)];
    ForLanes(warp.Row<uint32_t>(row), mask, [&](int lane) {
      if (is_half) return from[2 * lane] | from[2 * lane + 1] << 16;
      return from[2 * lane + i % 2];
    });
  }
}

template <int kCompute, int kTuringGroup>
void Multiply(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const int k = in.shape[2];
  const bool is_half = in.type == Type::kF16;
  const bool is_single = in.source_type == Type::kTf32;
  const int results = is_half ? 2 : 4;
  const int blocks = k / (is_single ? Singles::kColumns : Halves::kColumns);
  const Registers a = {warp, code, results};
  const Registers b = {warp, code, results + 2 * blocks};
  const Registers c = {warp, code, results + 3 * blocks};
  TensorTile tile;
  is_single ? LoadFactors<Singles>(a, b, k, tile) : LoadFactors<Halves>(a, b, k, tile);
  LoadAccumulators(c, is_half, tile);
  MultiplyTile(TensorCoreModelOf(kCompute, in.source_type, in.type, k, kTuringGroup), tile);
  WriteResults(warp, code, mask, is_half, tile);
  if (InstructionCounters* counters = warp.CountersOf(code)) counters->flops += 2 * kM * kN * k;
}

// Which shapes there are: f16 on all, k16, bf16 and tf32 from sm_80 on.
bool IsThere(const Instruction& in, int compute) {
  const auto& [m, n, k] = in.shape;
  if (m != kM || n != kN) return false;
  if (in.source_type == Type::kF16) return k == 8 || (k == 16 && compute >= 80);
  if (compute < 80 || in.type != Type::kF32) return false;
  if (in.source_type == Type::kBf16) return k == 8 || k == 16;
  return k == 4 || k == 8;
}

}  // namespace

Handler FindTensorHandler(const Instruction& in, const HandlerOptions& options) {
  if (in.op != Op::kMma || !IsThere(in, options.compute)) return nullptr;
  if (options.compute >= 90) return Multiply<90, 8>;
  if (options.compute >= 80) return Multiply<80, 8>;
  return options.turing_group == 4 ? Multiply<75, 4> : Multiply<75, 8>;
}

}  // namespace duotone::emulator
