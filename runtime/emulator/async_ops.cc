// cp.async: copies from global to shared memory that run beside the threads until they wait for
// them. PTX ISA 8.5, 9.7.8.25.3.
//
// The emulator takes the data from global memory at once and writes them into shared memory when
// the thread waits for the copy's group, the latest moment that the hardware has: a kernel that
// forgets to wait sees poison, and with checks a report. It reports as well where the source holds
// other bytes by then: the hardware may have read them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "runtime/emulator/global_ops.h"
#include "runtime/emulator/shared_ops.h"

namespace duotone::emulator {
namespace {

// How many bytes each lane takes from global memory; the rest of its copy is zeros.
std::array<int, kLanes> SourceBytes(Warp& warp, const Code& code, Mask lanes) {
  const Instruction& instruction = *code.instruction;
  std::array<int, kLanes> bytes;
  bytes.fill(instruction.bytes);
  if (instruction.operands.size() < 3) return bytes;
  const uint32_t* row = warp.Row<uint32_t>(code.row[2]);
  Mask beyond = 0;
  for (int i = 0; i < kLanes; ++i) {
    if (row[i] > static_cast<uint32_t>(instruction.bytes)) {
      beyond |= lanes & Mask{1} << i;
    } else {
      bytes[i] = static_cast<int>(row[i]);
    }
  }
  if (beyond != 0) {
    const int lane = std::countr_zero(beyond);
    warp.Report(code, ProblemKind::kOutOfBounds, beyond, 0,
                absl::StrFormat("a copy of %d bytes is to take %d from its source",
                                instruction.bytes, row[lane]));
  }
  return bytes;
}

// What cannot be read, which GlobalSources reports, is zero.
SharedMemory::CopySources ReadSources(Warp& warp, const Code& code, Mask lanes,
                                      SharedMemory::CopyData& data) {
  SharedMemory::CopySources sources;
  sources.bytes = SourceBytes(warp, code, lanes);
  sources.at = GlobalSources(warp, code, lanes, warp.SecondAddresses(code, 1), sources.bytes);
  for (Mask left = lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    data[lane].fill(0);
    if (sources.at[lane] != nullptr) {
      std::memcpy(data[lane].data(), sources.at[lane], static_cast<size_t>(sources.bytes[lane]));
    }
  }
  return sources;
}

void RunCopy(Warp& warp, const Code& code, Mask mask) {
  const int bytes = code.instruction->bytes;
  SharedMemory& shared = warp.block->shared;
  const auto to = SharedOffsets(warp, code, 0);
  const Mask lanes = AccessibleLanes(warp, code, mask, to, bytes, "copies");
  if (lanes == 0) return;
  CountSharedAccess(warp, code, lanes, to.data(), bytes);
  SharedMemory::CopyData data;
  const SharedMemory::CopySources sources = ReadSources(warp, code, lanes, data);
  SharedFindings findings;
  shared.BeginCopy({.warp = warp.index,
                    .code = code.index,
                    .lanes = lanes,
                    .bytes = bytes,
                    .offsets = to.data()},
                   data, sources, findings);
  if (findings.any()) ReportFindings(warp, code, "copies to", findings);
}

void RunCommit(Warp& warp, const Code&, Mask mask) {
  warp.block->shared.CommitCopies(warp.index, mask);
}

void RunWait(Warp& warp, const Code& code, Mask mask) {
  ReportFinding(warp, code,
                warp.block->shared.WaitForCopies(warp.index, mask, code.instruction->bytes));
}

void RunWaitAll(Warp& warp, const Code& code, Mask mask) {
  ReportFinding(warp, code, warp.block->shared.WaitForAllCopies(warp.index, mask));
}

}  // namespace

Handler FindAsyncHandler(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kCpAsync: {
      // .cg copies 16 bytes only.
      const int bytes = instruction.bytes;
      const bool is_known = bytes == 16 || (!instruction.bypass_l1 && (bytes == 4 || bytes == 8));
      return is_known ? RunCopy : nullptr;
    }
    case Op::kCpAsyncCommitGroup:
      return RunCommit;
    case Op::kCpAsyncWaitGroup:
      return RunWait;
    case Op::kCpAsyncWaitAll:
      return RunWaitAll;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
