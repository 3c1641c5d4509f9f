// The shared memory of one block: its bytes, who wrote and read them since when, and copies that
// are on their way (cp.async).
//
// Races are found by happens-before. Time stands still between the barriers of a block; every
// barrier begins a new moment. A warp has a clock (the moment it is in) and knows up to which
// moment it has seen what every other warp did. Every word remembers its last write and the reads
// since: two accesses of one of which is a write, by different threads, race unless the later one
// has seen the moment of the earlier. Lanes of a warp are different threads that only barriers and
// bar.warp.sync order, even though the emulator executes them together; but those of one
// instruction may write equal values to a word (other values, instructions or warps: a race, equal
// or not). Words of which threads write single bytes are remembered by byte.
//
// Threads also hand data to each other through flags and locks. Accesses that PTX calls strong
// (PTX ISA 8.5, 8.4: .volatile, .relaxed to .acq_rel, atomics) order what is around them, as if
// each had its fences: a write releases what its warp has done so far to the word, a read acquires
// what was released there; within a warp lanes do. Strong accesses do not race with each other but
// for a load or store of lanes that execute it together with the lane that has stored or read
// before: warp-synchronous code, whose lanes do not wait for each other. A plain store to a word
// whose last store was strong counts as strong: it resets a flag.
#ifndef DUOTONE_RUNTIME_EMULATOR_SHARED_MEMORY_H_
#define DUOTONE_RUNTIME_EMULATOR_SHARED_MEMORY_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/code.h"

namespace duotone::emulator {

enum class SharedAccess : uint8_t { kRead, kWrite, kAtomic };

// One instruction of a warp at shared memory: every lane of `lanes` at `bytes` from its offset,
// aligned and within bounds.
struct SharedRequest {
  int warp = 0;
  int32_t code = 0;  // Code::index, for what is reported of it later
  Mask lanes = 0;
  int bytes = 4;                      // 1, 2, 4, 8 or 16
  const uint64_t* offsets = nullptr;  // by lane
  // A load or store: .volatile, .relaxed, .acquire or .release. An atomic: its old value is used,
  // so that its thread may know by it what others have done.
  bool is_strong = false;
};

// Something wrong with an access: the place of the lowest lane, and all lanes concerned.
struct SharedFinding {
  Mask lanes = 0;  // 0: nothing is wrong
  int lane = 0;    // of that place
  uint64_t offset = 0;
  // The access it meets.
  SharedAccess other = SharedAccess::kWrite;
  int other_warp = 0;
  int other_lane = 0;
  int32_t other_code = 0;
  bool same_instruction = false;  // lanes of one instruction write different values
};
struct SharedFindings {
  SharedFinding uninitialised, pending, race;
  bool any() const { return (uninitialised.lanes | pending.lanes | race.lanes) != 0; }
};

// Copies whose source has other bytes at their end than at their beginning.
struct CopyFinding {
  Mask lanes = 0;    // 0: there are none
  int32_t code = 0;  // of the first
};

class SharedMemory {
 public:
  static constexpr int kMaxWarps = 32;

  // Uninitialised bytes for a block of so many warps. `checked` keeps a shadow for the checks.
  void Reset(int64_t bytes, int warps, bool checked);
  int64_t size() const { return size_; }
  uint8_t* bytes() { return bytes_.data(); }
  bool checked() const { return checked_; }

  // Order between threads, told by the executor. A barrier is complete: what the warps of `arrived`
  // did before comes before what those of `waiting` do next (bar.sync: the same in both).
  // Of warps that were told of with OnArrive it is what they had done by then.
  void OnBarrier(std::span<const int> arrived, std::span<const int> waiting, int barrier = 0);
  // bar.arrive: `warp` arrives at `barrier` and goes on.
  void OnArrive(int warp, int barrier);
  // bar.warp.sync: orders the lanes of `warp` among themselves.
  void OnWarpSync(int warp, Mask lanes);

  // The checks of an access, which is then remembered; only if checked(). Read and Atomic leave the
  // bytes to the caller; Write stores lane i's bytes from values + i * stride, the highest lane's
  // last.
  void Read(const SharedRequest& request, SharedFindings& findings);
  void Atomic(const SharedRequest& request, bool uses_old_value, SharedFindings& findings);
  void Write(const SharedRequest& request, const uint8_t* values, int stride,
             SharedFindings& findings);
  // ldmatrix and stmatrix: `lanes` together read or write the word at `offset`. Words of different
  // lanes of one instruction are told between two BeginMatrix.
  void BeginMatrix() { ++instruction_; }
  void ReadWord(int warp, int32_t code, Mask lanes, uint64_t offset, SharedFindings& findings);
  void WriteWord(int warp, int32_t code, Mask lanes, uint64_t offset, uint32_t value,
                 SharedFindings& findings);

  // cp.async, also without checks: the data for the request's lanes are on their way. Until the
  // thread that asked for them has waited for them, their places hold poison.
  using CopyData = std::array<std::array<uint8_t, 16>, kLanes>;
  // Where they come from, for checks: the first `bytes` of a lane's data, or null.
  struct CopySources {
    std::array<const uint8_t*, kLanes> at = {};
    std::array<int, kLanes> bytes = {};
  };
  void BeginCopy(const SharedRequest& request, const CopyData& data, const CopySources& sources,
                 SharedFindings& findings);
  // The copies that each of the lanes has begun since its last commit become its next group.
  void CommitCopies(int warp, Mask lanes);
  // All but each lane's `groups_left` latest groups are complete.
  CopyFinding WaitForCopies(int warp, Mask lanes, int groups_left);
  CopyFinding WaitForAllCopies(int warp, Mask lanes);

 private:
  template <typename T>
  struct FreeArray {
    void operator()(T* array) const { std::free(array); }
  };
  // Zeros that take memory only where they are used.
  template <typename T>
  using Array = std::unique_ptr<T[], FreeArray<T>>;
  template <typename T>
  static Array<T> MakeArray(size_t count);

  // What every warp did to a cell, of reads or of atomics; by warp * cells_ + cell.
  struct AccessSet {
    Array<uint32_t> epoch, lanes, code;
    Array<uint32_t> last;   // by cell: the latest epoch of any warp
    Array<uint32_t> warps;  // by cell: which warps
  };
  struct Arrival {
    int barrier = 0;
    int warp = 0;
    std::array<uint32_t, kMaxWarps> seen;
  };
  // One cp.async of a warp, as far as its lanes have not waited for it.
  struct Copy {
    Mask lanes = 0;
    int32_t code = 0;
    int bytes = 16;
    std::array<uint32_t, kLanes> offsets;
    std::array<uint32_t, kLanes> group;
    CopyData data;
    CopySources sources;
  };
  struct Copies {
    std::vector<Copy> running;
    std::array<uint32_t, kLanes> groups = {};  // committed so far
  };
  struct Actor {
    int warp = 0;
    uint32_t code = 0;
    Mask lanes = 0;
    bool is_strong = false;
    Mask together = 0;  // a load or store: all lanes of the instruction
  };
  // What was released to a word: up to which moment of each warp, and of each lane of the warp that
  // released last.
  struct Released {
    std::array<uint32_t, kMaxWarps> seen = {};
    int warp = -1;
    std::array<uint32_t, kLanes> lanes = {};
  };

  void AllocateShadow(size_t words, int warps);
  void AllocateSet(AccessSet& set);
  void UpdateFloor(int warp);
  bool LanesOrdered(int warp, uint32_t epoch, Mask earlier, Mask later) const;
  void CheckWrite(const Actor& actor, size_t cell, uint64_t offset, SharedFindings& findings);
  void CheckSet(const Actor& actor, const AccessSet& set, SharedAccess kind, bool is_strong,
                size_t cell, uint64_t offset, SharedFindings& findings);
  void BeginStrong();
  bool IsStrongWrite(size_t cell) const;
  void Release(const Actor& actor, uint64_t offset, int bytes);
  void Acquire(const Actor& actor, uint64_t offset, int bytes);
  void Remember(const Actor& actor, AccessSet& set, size_t cell);
  void RememberWrite(const Actor& actor, size_t cell);
  void TouchCell(SharedAccess access, const Actor& actor, size_t cell, uint64_t offset,
                 SharedFindings& findings);
  bool CheckMarks(bool reads, const Actor& actor, size_t word, unsigned mask,
                  SharedFindings& findings);
  void TouchWord(SharedAccess access, const Actor& actor, size_t word, unsigned mask,
                 SharedFindings& findings);
  void TouchRange(SharedAccess access, bool reads, const Actor& actor, uint64_t offset, int bytes,
                  SharedFindings& findings);
  void WriteRange(const Actor& actor, uint64_t offset, const uint8_t* value, int bytes,
                  SharedFindings& findings);
  void CheckSameInstruction(const Actor& actor, uint64_t offset, const uint8_t* value, int bytes,
                            SharedFindings& findings);
  void CompleteCopy(int warp, const Copy& copy, int lane);
  size_t CellOf(uint64_t offset) const;
  void Expand(size_t word);
  bool ReadSettled(const Actor& actor, uint64_t offset, int bytes);
  bool WriteSettled(const Actor& actor, uint64_t offset, const uint8_t* value, int bytes);
  template <int kWords>
  bool ReadConsecutive(const SharedRequest& request);
  template <int kWords>
  bool WriteConsecutive(const SharedRequest& request, const uint8_t* values);

  int64_t size_ = 0;
  bool checked_ = false;
  std::vector<uint8_t> bytes_;
  std::vector<Copies> copies_;  // by warp

  // Order. Epochs are moments; they go on from block to block, so that what earlier blocks left in
  // the shadow lies before all that the running one does.
  int warps_ = 0;
  uint32_t time_ = 1;
  std::array<uint32_t, kMaxWarps> clock_ = {};
  // seen_[w][v]: what warp v did up to and in this moment comes before what w does now.
  std::array<std::array<uint32_t, kMaxWarps>, kMaxWarps> seen_ = {};
  // Up to this moment the lanes of a warp are ordered among themselves.
  std::array<uint32_t, kMaxWarps> synced_ = {};
  // What anybody did up to this moment comes before what the warp does now.
  std::array<uint32_t, kMaxWarps> floor_ = {};
  // After a bar.warp.sync of some lanes: by earlier lane, what later lanes have seen of it.
  using LaneOrder = std::array<std::array<uint32_t, kLanes>, kLanes>;
  std::array<std::unique_ptr<LaneOrder>, kMaxWarps> lane_order_;
  std::vector<Arrival> arrivals_;
  std::unordered_map<size_t, Released> released_;  // by word

  // The shadow. Cells are the words and behind them, for word i, its four bytes: in use where the
  // word's write_epoch_ says kExpanded.
  static constexpr uint32_t kExpanded = 0xffffffffu;
  static constexpr uint32_t kStrong = 1u << 31;  // in write_code_: of a strong store
  size_t words_ = 0;
  size_t capacity_words_ = 0;
  int capacity_warps_ = 0;
  size_t cells_ = 0;
  uint32_t instruction_ = 0;
  std::vector<uint8_t> marks_;  // by word: bits 0-3 initialised bytes, 4-7 those of running copies
  Array<uint32_t> write_epoch_, write_warp_, write_lanes_, write_code_;
  Array<uint32_t> write_instruction_;         // to tell an instruction's own writes
  AccessSet reads_, strong_reads_, atomics_;  // since the last write
  uint32_t begin_ = 0;                        // the first moment of this block
  bool has_strong_ = false;                   // strong accesses, in this block
  bool has_expanded_ = false;                 // likewise
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_SHARED_MEMORY_H_
