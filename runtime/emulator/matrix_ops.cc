// ldmatrix and stmatrix: a warp moves one, two or four 8x8 matrices of 16-bit elements between
// shared memory and its registers. PTX ISA 8.5, 9.7.13.4.15 and 9.7.13.4.16:
//
//   Lane 8j + r gives the address of row r of matrix j: 16 bytes, aligned to 16.
//   Lane l holds of matrix j, in register j, elements (l / 4, 2 (l % 4)) and the next one of the
//   row; with .trans elements (2 (l % 4), l / 4) and the next one of the column.
//
// Addresses of lanes that give no row are not looked at, although sm_75 wants them valid.
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "runtime/emulator/shared_ops.h"

namespace duotone::emulator {
namespace {

using Offsets = std::array<uint64_t, kLanes>;

constexpr int kRows = 8;
constexpr int kRowBytes = 16;
constexpr int kRowWords = 4;

// The lanes that hold the two elements of word `word` of row `row`.
Mask HoldersOf(int row, int word, bool trans) {
  if (!trans) return Mask{1} << (4 * row + word);
  return Mask{0x11} << (8 * word + row / 2);
}

// The lanes of the rows of matrix `matrix` that can be accessed.
Mask RowsOf(Mask lanes, int matrix) { return lanes >> (kRows * matrix) & 0xffu; }

// The lanes that give addresses and whose rows can be accessed. A warp without all its lanes
// reports that it cannot execute the instruction.
Mask UsableRows(Warp& warp, const Code& code, Mask mask, const Offsets& offsets,
                std::string_view verb) {
  const int count = kRows * code.instruction->vector;
  const Mask givers = count == kLanes ? kAllLanes : (Mask{1} << count) - 1;
  if (mask != kAllLanes) {
    warp.Report(code, ProblemKind::kDivergent, mask, 0,
                absl::StrFormat("%d lanes of the warp are here; all %d must be",
                                std::popcount(mask), kLanes));
  }
  const Mask present = givers & mask;
  if (present == 0) return 0;
  return AccessibleLanes(warp, code, present, offsets, kRowBytes, verb);
}

void Count(Warp& warp, const Code& code, Mask lanes, const Offsets& offsets) {
  // A matrix is a phase, as are eight lanes with 16 bytes each.
  CountSharedAccess(warp, code, lanes, offsets.data(), kRowBytes);
}

void RunLoadMatrix(Warp& warp, const Code& code, Mask mask) {
  const Instruction& instruction = *code.instruction;
  SharedMemory& shared = warp.block->shared;
  const Offsets offsets = SharedOffsets(warp, code, instruction.vector);
  const Mask lanes = UsableRows(warp, code, mask, offsets, "reads");
  Count(warp, code, lanes, offsets);
  SharedFindings findings;
  for (int matrix = 0; matrix < instruction.vector; ++matrix) {
    uint16_t elements[kRows][kRows] = {};
    for (Mask rows = RowsOf(lanes, matrix); rows != 0; rows &= rows - 1) {
      const int row = std::countr_zero(rows);
      const uint64_t offset = offsets[kRows * matrix + row];
      std::memcpy(elements[row], shared.bytes() + offset, kRowBytes);
      if (!shared.checked()) continue;
      for (int word = 0; word < kRowWords; ++word) {
        shared.ReadWord(warp.index, code.index, HoldersOf(row, word, instruction.trans),
                        offset + static_cast<uint64_t>(4 * word), findings);
      }
    }
    const uint32_t result = code.row[static_cast<size_t>(matrix)];
    if (result == kNoRow) continue;
    uint32_t* to = warp.Row<uint32_t>(result);
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const int outer = lane / 4, inner = 2 * (lane % 4);
      const uint32_t low = instruction.trans ? elements[inner][outer] : elements[outer][inner];
      const uint32_t high =
          instruction.trans ? elements[inner + 1][outer] : elements[outer][inner + 1];
      to[lane] = low | high << 16;
    }
  }
  if (findings.any()) ReportFindings(warp, code, "reads", findings);
}

void RunStoreMatrix(Warp& warp, const Code& code, Mask mask) {
  const Instruction& instruction = *code.instruction;
  SharedMemory& shared = warp.block->shared;
  const Offsets offsets = SharedOffsets(warp, code, 0);
  const Mask lanes = UsableRows(warp, code, mask, offsets, "writes");
  Count(warp, code, lanes, offsets);
  SharedFindings findings;
  shared.BeginMatrix();
  for (int matrix = 0; matrix < instruction.vector; ++matrix) {
    uint16_t elements[kRows][kRows];
    const uint32_t* from = warp.Row<uint32_t>(code.row[1 + static_cast<size_t>(matrix)]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int outer = lane / 4, inner = 2 * (lane % 4);
      (instruction.trans ? elements[inner][outer] : elements[outer][inner]) =
          static_cast<uint16_t>(from[lane]);
      (instruction.trans ? elements[inner + 1][outer] : elements[outer][inner + 1]) =
          static_cast<uint16_t>(from[lane] >> 16);
    }
    for (Mask rows = RowsOf(lanes, matrix); rows != 0; rows &= rows - 1) {
      const int row = std::countr_zero(rows);
      const uint64_t offset = offsets[kRows * matrix + row];
      if (!shared.checked()) {
        std::memcpy(shared.bytes() + offset, elements[row], kRowBytes);
        continue;
      }
      for (int word = 0; word < kRowWords; ++word) {
        uint32_t value;
        std::memcpy(&value, &elements[row][2 * word], sizeof(value));
        shared.WriteWord(warp.index, code.index, HoldersOf(row, word, instruction.trans),
                         offset + static_cast<uint64_t>(4 * word), value, findings);
      }
    }
  }
  if (findings.any()) ReportFindings(warp, code, "writes", findings);
}

}  // namespace

Handler FindMatrixHandler(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kLdmatrix:
      return RunLoadMatrix;
    case Op::kStmatrix:
      return RunStoreMatrix;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
