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
// The lanes of a register are rows of four lanes, one after the other.
constexpr int kRegisterRows = 8, kRowLanes = 4;

// The registers that a code has from `first` on.
struct Registers {
  Warp& warp;
  const Code& code;
  int first = 0;

  const uint32_t* operator[](int i) const {
    return warp.Row<uint32_t>(code.row[static_cast<size_t>(first) + static_cast<size_t>(i)]);
  }
};

// Elements of 16 bits, two in a lane.
struct Halves {
  static constexpr int kInLane = 2;
  static uint32_t Of(uint32_t lane, int i) { return lane >> 16 * i & 0xffff; }
};
struct Singles {
  static constexpr int kInLane = 1;
  static uint32_t Of(uint32_t lane, int) { return lane; }
};

template <typename Elements>
void LoadFactors(const Registers& a, const Registers& b, int k, TensorTile& tile) {
  constexpr int kInLane = Elements::kInLane, kColumns = kRowLanes * kInLane;
  for (int block = 0; block < k / kColumns; ++block) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t* lanes = a[2 * block + half];
      for (int row = 0; row < kRegisterRows; ++row) {
        uint32_t* to = tile.a[row + kRegisterRows * half] + block * kColumns;
        DUOTONE_LANE_LOOP
        for (int t = 0; t < kRowLanes; ++t) {
          for (int i = 0; i < kInLane; ++i) {
            to[kInLane * t + i] = Elements::Of(lanes[kRowLanes * row + t], i);
          }
        }
      }
    }
    const uint32_t* lanes = b[block];
    for (int t = 0; t < kRowLanes; ++t) {
      for (int i = 0; i < kInLane; ++i) {
        uint32_t* to = tile.b[block * kColumns + kInLane * t + i];
        DUOTONE_LANE_LOOP
        for (int n = 0; n < kN; ++n) to[n] = Elements::Of(lanes[kRowLanes * n + t], i);
      }
    }
  }
}

// Of 16 bits as a register of A; of 32 bits there is one register for the even columns of 8 rows
// and one for the odd ones.
void LoadAccumulators(const Registers& c, bool is_half, TensorTile& tile) {
  for (int half = 0; half < 2; ++half) {
    uint32_t* to = tile.c[kRegisterRows * half];
    const uint32_t* even = c[is_half ? half : 2 * half];
    const uint32_t* odd = is_half ? even : c[2 * half + 1];
    const uint32_t mask = is_half ? 0xffff : 0xffffffff;
    const int shift = is_half ? 16 : 0;
    DUOTONE_LANE_LOOP
    for (int lane = 0; lane < kLanes; ++lane) {
      to[2 * lane] = even[lane] & mask;
      to[2 * lane + 1] = odd[lane] >> shift;
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
  const int blocks = k / (kRowLanes * (is_single ? Singles::kInLane : Halves::kInLane));
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

}  // namespace

Handler FindTensorHandler(const Instruction& in, const HandlerOptions& options) {
  if (in.op != Op::kMma) return nullptr;
  if (options.compute >= 90) return Multiply<90, 8>;
  if (options.compute >= 80) return Multiply<80, 8>;
  return options.turing_group == 4 ? Multiply<75, 4> : Multiply<75, 8>;
}

}  // namespace duotone::emulator
