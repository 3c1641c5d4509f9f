// mma: fragments of a warp to the tensor core and back. PTX ISA 8.5, 9.7.14.4; with g = lane / 4
// and t = lane % 4
//
//   A of 16 bits, m16n8k8 and k16: rows g and g + 8, columns 2t, 2t + 1 and the same + 8
//   A of tf32, m16n8k4 and k8: rows g and g + 8, columns t and t + 4
//   B: the same with k for the column and g for n
//   C and D: rows g and g + 8, columns 2t and 2t + 1
#include <array>
#include <cstring>

#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/tensor_core.h"

namespace duotone::emulator {
namespace {

constexpr int kM = 16;
constexpr int kN = 8;
constexpr int kMaxK = 16;

struct Tile {
  TensorTerm a[kM][kMaxK];
  TensorTerm b[kN][kMaxK];
};

// The rows of `count` registers from `first` on: of A (m by k) two for each column block, of B (n
// by k) one.
template <bool kIsA>
void LoadHalves(Warp& warp, const Code& code, int first, int k, Type type, Tile& tile) {
  const int blocks = k / 8;
  for (int block = 0; block < blocks; ++block) {
    for (int half = 0; half < (kIsA ? 2 : 1); ++half) {
      const int index = first + (kIsA ? 2 * block + half : block);
      const uint32_t* row = warp.Row<uint32_t>(code.row[static_cast<size_t>(index)]);
      for (int lane = 0; lane < kLanes; ++lane) {
        const int line = lane / 4 + 8 * half, column = 2 * (lane % 4) + 8 * block;
        TensorTerm* to = kIsA ? tile.a[line] : tile.b[line];
        to[column] = DecodeTensorTerm(row[lane] & 0xffff, type);
        to[column + 1] = DecodeTensorTerm(row[lane] >> 16, type);
      }
    }
  }
}

template <bool kIsA>
void LoadSingles(Warp& warp, const Code& code, int first, int k, Tile& tile) {
  for (int block = 0; block < k / 4; ++block) {
    for (int half = 0; half < (kIsA ? 2 : 1); ++half) {
      const int index = first + (kIsA ? 2 * block + half : block);
      const uint32_t* row = warp.Row<uint32_t>(code.row[static_cast<size_t>(index)]);
      for (int lane = 0; lane < kLanes; ++lane) {
        TensorTerm* to = kIsA ? tile.a[lane / 4 + 8 * half] : tile.b[lane / 4];
        to[lane % 4 + 4 * block] = DecodeTensorTerm(row[lane], Type::kTf32);
      }
    }
  }
}

// The register and, of two f16, the half of it that holds row g + 8 * (i / 2), column 2t + i % 2.
uint32_t Accumulator(Warp& warp, const Code& code, int first, bool is_half, int i, int lane) {
  if (!is_half) {
    return warp.Row<uint32_t>(code.row[static_cast<size_t>(first + i)])[lane];
  }
  const uint32_t pair = warp.Row<uint32_t>(code.row[static_cast<size_t>(first + i / 2)])[lane];
  return i % 2 == 0 ? pair & 0xffff : pair >> 16;
}

void WriteResults(Warp& warp, const Code& code, Mask mask, bool is_half,
                  const std::array<std::array<uint32_t, kLanes>, 4>& d) {
  const int registers = is_half ? 2 : 4;
  for (int r = 0; r < registers; ++r) {
    if (code.row[static_cast<size_t>(r)] == kNoRow) continue;
    ForLanes(warp.Row<uint32_t>(code.row[static_cast<size_t>(r)]), mask, [&](int lane) {
      if (!is_half) return d[static_cast<size_t>(r)][static_cast<size_t>(lane)];
      const auto low = static_cast<size_t>(2 * r);
      return d[low][static_cast<size_t>(lane)] | d[low + 1][static_cast<size_t>(lane)] << 16;
    });
  }
}

template <int kCompute, int kTuringGroup>
void Multiply(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const int k = in.shape[2];
  const bool is_half = in.type == Type::kF16;
  const int results = is_half ? 2 : 4;
  Tile tile;
  int a_registers = 0, b_registers = 0;
  if (in.source_type == Type::kTf32) {
    a_registers = k / 2;
    b_registers = k / 4;
    LoadSingles<true>(warp, code, results, k, tile);
    LoadSingles<false>(warp, code, results + a_registers, k, tile);
  } else {
    a_registers = k / 4;
    b_registers = k / 8;
    LoadHalves<true>(warp, code, results, k, in.source_type, tile);
    LoadHalves<false>(warp, code, results + a_registers, k, in.source_type, tile);
  }
  const int c_first = results + a_registers + b_registers;
  const TensorCoreModel model = TensorCoreModelOf(kCompute, in.source_type, k, kTuringGroup);
  const auto depth = static_cast<size_t>(k);
  std::array<std::array<uint32_t, kLanes>, 4> d;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      d[static_cast<size_t>(i)][static_cast<size_t>(lane)] =
          TensorDot({tile.a[row], depth}, {tile.b[column], depth},
                    Accumulator(warp, code, c_first, is_half, i, lane), in.type, model);
    }
  }
  WriteResults(warp, code, mask, is_half, d);
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
