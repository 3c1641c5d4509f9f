#include "runtime/emulator/shared_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace duotone::emulator {
namespace {

constexpr uint8_t kInitialised = 0x0f;
constexpr uint8_t kCopied = 0xf0;
// What nobody has written, and what a copy is about to write: a NaN of every float type, so that a
// use of it shows also without checks.
constexpr uint8_t kPoison = 0xff;

constexpr Mask LaneBit(int lane) { return Mask{1} << lane; }

// The bytes of word `word` that [offset, offset + bytes) covers.
unsigned BytesOfWord(size_t word, uint64_t offset, int bytes) {
  const uint64_t begin = std::max<uint64_t>(offset, word * 4);
  const uint64_t end = std::min<uint64_t>(offset + static_cast<uint64_t>(bytes), word * 4 + 4);
  return ((1u << (end - begin)) - 1) << (begin - word * 4);
}

// Adds a finding about `lanes`; true if it is the one to tell of: that of the lowest lane.
bool Note(SharedFinding& finding, Mask lanes, uint64_t offset) {
  const int lane = std::countr_zero(lanes);
  const bool is_told = finding.lanes == 0 || lane < finding.lane;
  finding.lanes |= lanes;
  if (is_told) {
    finding.lane = lane;
    finding.offset = offset;
    finding.same_instruction = false;
  }
  return is_told;
}

bool IsConsecutive(const SharedRequest& request) {
  if (request.lanes != kAllLanes) return false;
  bool consecutive = true;
  const uint64_t step = static_cast<uint64_t>(request.bytes);
  for (uint64_t i = 0; i < kLanes; ++i) {
    consecutive &= request.offsets[i] == request.offsets[0] + i * step;
  }
  return consecutive;
}

}  // namespace

template <typename T>
SharedMemory::Array<T> SharedMemory::MakeArray(size_t count) {
  Array<T> array(static_cast<T*>(std::calloc(std::max<size_t>(count, 1), sizeof(T))));
  DUOTONE_CHECK(array != nullptr) << "no memory for a shadow of " << count << " elements";
  return array;
}

void SharedMemory::AllocateSet(AccessSet& set) {
  const size_t count = cells_ * static_cast<size_t>(capacity_warps_);
  set.epoch = MakeArray<uint32_t>(count);
  set.lanes = MakeArray<uint32_t>(count);
  set.code = MakeArray<uint32_t>(count);
  set.last = MakeArray<uint32_t>(cells_);
  set.warps = MakeArray<uint32_t>(cells_);
}

void SharedMemory::AllocateShadow(size_t words, int warps) {
  capacity_words_ = words;
  capacity_warps_ = warps;
  cells_ = 5 * words;
  time_ = 1;
  instruction_ = 0;
  write_epoch_ = MakeArray<uint32_t>(cells_);
  write_warp_ = MakeArray<uint32_t>(cells_);
  write_lanes_ = MakeArray<uint32_t>(cells_);
  write_code_ = MakeArray<uint32_t>(cells_);
  write_instruction_ = MakeArray<uint32_t>(cells_);
  AllocateSet(reads_);
  strong_reads_ = {};
  atomics_ = {};
}

void SharedMemory::Reset(int64_t bytes, int warps, bool checked) {
  DUOTONE_CHECK(bytes >= 0 && warps >= 0 && warps <= kMaxWarps) << bytes << " " << warps;
  size_ = bytes;
  checked_ = checked;
  bytes_.assign(static_cast<size_t>(bytes), kPoison);
  copies_.assign(static_cast<size_t>(warps), {});
  if (!checked) return;
  words_ = (static_cast<size_t>(bytes) + 3) / 4;
  warps_ = warps;
  constexpr uint32_t kLongAgo = 1u << 31;
  if (words_ > capacity_words_ || warps > capacity_warps_ || time_ > kLongAgo ||
      instruction_ > kLongAgo) {
    AllocateShadow(std::max(words_, capacity_words_), std::max(warps, capacity_warps_));
  }
  if (has_expanded_) {
    std::replace(write_epoch_.get(), write_epoch_.get() + capacity_words_, kExpanded, 0u);
    has_expanded_ = false;
  }
  marks_.assign(words_, 0);
  has_strong_ = false;
  arrivals_.clear();
  released_.clear();
  begin_ = ++time_;
  clock_.fill(time_);
  synced_.fill(time_ - 1);
  floor_.fill(time_ - 1);
  for (int warp = 0; warp < warps; ++warp) {
    seen_[warp].fill(time_ - 1);
    lane_order_[warp].reset();
  }
}

void SharedMemory::UpdateFloor(int warp) {
  uint32_t floor = synced_[warp];
  for (int other = 0; other < warps_; ++other) {
    if (other != warp) floor = std::min(floor, seen_[warp][other]);
  }
  floor_[warp] = floor;
}

void SharedMemory::OnArrive(int warp, int barrier) {
  if (!checked_) return;
  Arrival arrival{.barrier = barrier, .warp = warp, .seen = seen_[warp]};
  arrival.seen[warp] = clock_[warp];
  arrivals_.push_back(arrival);
  clock_[warp] = ++time_;
}

void SharedMemory::OnBarrier(std::span<const int> arrived, std::span<const int> waiting,
                             int barrier) {
  if (!checked_) return;
  ++time_;
  std::array<uint32_t, kMaxWarps> known = {};
  const auto learn = [&](const std::array<uint32_t, kMaxWarps>& seen) {
    for (int other = 0; other < warps_; ++other) known[other] = std::max(known[other], seen[other]);
  };
  for (const int warp : arrived) {
    const auto told = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& arrival) {
      return arrival.barrier == barrier && arrival.warp == warp;
    });
    if (told != arrivals_.end()) {
      learn(told->seen);
      arrivals_.erase(told);
      continue;
    }
    learn(seen_[warp]);
    // All moments up to now: what the warp does from here on happens in later ones.
    known[warp] = time_ - 1;
    clock_[warp] = time_;
  }
  for (const int warp : waiting) {
    for (int other = 0; other < warps_; ++other) {
      seen_[warp][other] = std::max(seen_[warp][other], known[other]);
    }
    synced_[warp] = time_ - 1;
    clock_[warp] = time_;
    UpdateFloor(warp);
  }
}

void SharedMemory::OnWarpSync(int warp, Mask lanes) {
  if (!checked_) return;
  const uint32_t before = clock_[warp];
  clock_[warp] = ++time_;
  if (lanes == kAllLanes) {
    synced_[warp] = before;
    UpdateFloor(warp);
    return;
  }
  std::unique_ptr<LaneOrder>& order = lane_order_[warp];
  if (order == nullptr) order = std::make_unique<LaneOrder>();
  for (int earlier = 0; earlier < kLanes; ++earlier) {
    uint32_t known = lanes & LaneBit(earlier) ? before : 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lanes & LaneBit(lane)) known = std::max(known, (*order)[earlier][lane]);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lanes & LaneBit(lane)) (*order)[earlier][lane] = known;
    }
  }
}

// Whether what lanes of `earlier` did in `epoch` comes before what the other lanes in `later` of
// the same warp do now.
bool SharedMemory::LanesOrdered(int warp, uint32_t epoch, Mask earlier, Mask later) const {
  if (epoch <= synced_[warp]) return true;
  const LaneOrder* order = lane_order_[warp].get();
  for (Mask from = earlier; from != 0; from &= from - 1) {
    const int i = std::countr_zero(from);
    for (Mask to = later & ~LaneBit(i); to != 0; to &= to - 1) {
      if (order == nullptr || (*order)[i][std::countr_zero(to)] < epoch) return false;
    }
  }
  return true;
}

// Whether the cell's last write was a strong store of this block.
bool SharedMemory::IsStrongWrite(size_t cell) const {
  return (write_code_[cell] & kStrong) != 0 && write_epoch_[cell] >= begin_;
}

// From here on strong accesses are remembered, and plain ones look at them.
void SharedMemory::BeginStrong() {
  if (has_strong_) return;
  if (atomics_.last == nullptr) {
    AllocateSet(strong_reads_);
    AllocateSet(atomics_);
  }
  // What earlier blocks left is older than all moments of this one.
  has_strong_ = true;
}

// What the actor's warp has done so far is there for whoever acquires one of the words. The caller
// begins a new moment of the warp behind its instruction.
void SharedMemory::Release(const Actor& actor, uint64_t offset, int bytes) {
  const LaneOrder* order = lane_order_[actor.warp].get();
  const uint32_t now = clock_[actor.warp];
  for (size_t word = offset / 4; word * 4 < offset + static_cast<uint64_t>(bytes); ++word) {
    Released& to = released_[word];
    if (to.warp != actor.warp) {
      // Which of its lanes have released before is no longer known: all count.
      to.warp = actor.warp;
      to.lanes.fill(to.seen[actor.warp]);
    }
    for (int other = 0; other < warps_; ++other) {
      to.seen[other] = std::max(to.seen[other], seen_[actor.warp][other]);
    }
    to.seen[actor.warp] = now;
    for (Mask left = actor.lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      for (int earlier = 0; earlier < kLanes && order != nullptr; ++earlier) {
        to.lanes[earlier] = std::max(to.lanes[earlier], (*order)[earlier][lane]);
      }
      to.lanes[lane] = now;
    }
  }
}

// What has been released to the words comes before what the actor's lanes do next, and what other
// warps did also before what the other lanes of its warp do.
void SharedMemory::Acquire(const Actor& actor, uint64_t offset, int bytes) {
  const int warp = actor.warp;
  for (size_t word = offset / 4; word * 4 < offset + static_cast<uint64_t>(bytes); ++word) {
    const auto found = released_.find(word);
    if (found == released_.end()) continue;
    const Released& from = found->second;
    bool has_learned = false;
    for (int other = 0; other < warps_; ++other) {
      if (other == warp || from.seen[other] <= seen_[warp][other]) continue;
      seen_[warp][other] = from.seen[other];
      has_learned = true;
    }
    if (has_learned) UpdateFloor(warp);
    if (from.seen[warp] <= synced_[warp]) continue;
    std::unique_ptr<LaneOrder>& order = lane_order_[warp];
    if (order == nullptr) order = std::make_unique<LaneOrder>();
    for (int earlier = 0; earlier < kLanes; ++earlier) {
      const uint32_t known = from.warp == warp ? from.lanes[earlier] : from.seen[warp];
      for (Mask left = actor.lanes; left != 0; left &= left - 1) {
        uint32_t& seen = (*order)[earlier][std::countr_zero(left)];
        seen = std::max(seen, known);
      }
    }
  }
}

void SharedMemory::CheckWrite(const Actor& actor, size_t cell, uint64_t offset,
                              SharedFindings& findings) {
  const uint32_t epoch = write_epoch_[cell];
  if (epoch <= floor_[actor.warp]) return;
  const int writer = static_cast<int>(write_warp_[cell]);
  const bool is_strong = actor.is_strong && IsStrongWrite(cell);
  Mask writers = write_lanes_[cell];
  Mask racing = actor.lanes;
  if (writer == actor.warp) {
    // Lanes that wrote the same value together each count as the writer.
    racing = actor.lanes & ~writers;
    if (is_strong) writers &= actor.together;
    if (racing == 0 || writers == 0 || LanesOrdered(writer, epoch, writers, racing)) return;
  } else if (is_strong || epoch <= seen_[actor.warp][writer]) {
    return;
  }
  if (!Note(findings.race, racing, offset)) return;
  findings.race.other = SharedAccess::kWrite;
  findings.race.other_warp = writer;
  findings.race.other_lane = std::countr_zero(writers);
  findings.race.other_code = static_cast<int32_t>(write_code_[cell] & ~kStrong);
}

// `is_strong`: so are the actor and the accesses of the set.
void SharedMemory::CheckSet(const Actor& actor, const AccessSet& set, SharedAccess kind,
                            bool is_strong, size_t cell, uint64_t offset,
                            SharedFindings& findings) {
  if (set.last[cell] <= floor_[actor.warp]) return;
  const bool is_alone = std::has_single_bit(actor.lanes);
  for (uint32_t warps = set.warps[cell]; warps != 0; warps &= warps - 1) {
    const int other = std::countr_zero(warps);
    const size_t at = static_cast<size_t>(other) * cells_ + cell;
    const uint32_t epoch = set.epoch[at];
    Mask others = set.lanes[at];
    if (other == actor.warp) {
      if (is_alone) others &= ~actor.lanes;
      if (is_strong) others &= actor.together;
      if (others == 0 || LanesOrdered(other, epoch, others, actor.lanes)) continue;
    } else if (is_strong || epoch <= seen_[actor.warp][other]) {
      continue;
    }
    if (!Note(findings.race, actor.lanes, offset)) continue;
    // Of several opponents one that is not the reported lane itself.
    if (other == actor.warp && others != LaneBit(findings.race.lane)) {
      others &= ~LaneBit(findings.race.lane);
    }
    findings.race.other = kind;
    findings.race.other_warp = other;
    findings.race.other_lane = std::countr_zero(others);
    findings.race.other_code = static_cast<int32_t>(set.code[at]);
  }
}

inline void SharedMemory::Remember(const Actor& actor, AccessSet& set, size_t cell) {
  const size_t at = static_cast<size_t>(actor.warp) * cells_ + cell;
  const uint32_t now = clock_[actor.warp];
  const bool is_known = set.epoch[at] == now && (set.warps[cell] >> actor.warp & 1) != 0;
  set.lanes[at] = actor.lanes | (is_known ? set.lanes[at] : 0);
  set.epoch[at] = now;
  set.code[at] = actor.code;
  set.last[cell] = std::max(set.last[cell], now);
  set.warps[cell] |= 1u << actor.warp;
}

inline void SharedMemory::RememberWrite(const Actor& actor, size_t cell) {
  write_epoch_[cell] = clock_[actor.warp];
  write_warp_[cell] = static_cast<uint32_t>(actor.warp);
  write_lanes_[cell] = actor.lanes;
  write_code_[cell] = actor.code | (actor.is_strong ? kStrong : 0);
  write_instruction_[cell] = instruction_;
  reads_.warps[cell] = 0;
  reads_.last[cell] = 0;
  if (!has_strong_) return;
  for (AccessSet* set : {&strong_reads_, &atomics_}) {
    set->warps[cell] = 0;
    set->last[cell] = 0;
  }
}

void SharedMemory::TouchCell(SharedAccess access, const Actor& actor, size_t cell, uint64_t offset,
                             SharedFindings& findings) {
  if (access == SharedAccess::kWrite && write_instruction_[cell] == instruction_ &&
      write_epoch_[cell] == clock_[actor.warp]) {
    // Another lane of the same instruction wrote it: CheckSameInstruction has judged that.
    write_lanes_[cell] |= actor.lanes;
    return;
  }
  Actor as = actor;
  as.is_strong |= access == SharedAccess::kWrite && has_strong_ && IsStrongWrite(cell);
  CheckWrite(as, cell, offset, findings);
  if (access != SharedAccess::kRead) {
    CheckSet(as, reads_, SharedAccess::kRead, /*is_strong=*/false, cell, offset, findings);
    if (has_strong_) {
      CheckSet(as, strong_reads_, SharedAccess::kRead, as.is_strong, cell, offset, findings);
    }
  }
  if (!as.is_strong && has_strong_) {
    CheckSet(as, atomics_, SharedAccess::kAtomic, /*is_strong=*/false, cell, offset, findings);
  }
  switch (access) {
    case SharedAccess::kRead:
      Remember(as, as.is_strong ? strong_reads_ : reads_, cell);
      break;
    case SharedAccess::kAtomic:
      Remember(as, atomics_, cell);
      break;
    case SharedAccess::kWrite:
      RememberWrite(as, cell);
      break;
  }
}

// The cell that remembers the byte at `offset`.
size_t SharedMemory::CellOf(uint64_t offset) const {
  return write_epoch_[offset / 4] == kExpanded ? words_ + offset : offset / 4;
}

// From now on the bytes of `word` are remembered one by one.
void SharedMemory::Expand(size_t word) {
  for (size_t cell = words_ + 4 * word; cell < words_ + 4 * word + 4; ++cell) {
    write_epoch_[cell] = write_epoch_[word];
    write_warp_[cell] = write_warp_[word];
    write_lanes_[cell] = write_lanes_[word];
    write_code_[cell] = write_code_[word];
    write_instruction_[cell] = write_instruction_[word];
    for (AccessSet* set : {&reads_, &strong_reads_, &atomics_}) {
      if (set->last == nullptr) continue;
      set->last[cell] = set->last[word];
      set->warps[cell] = set->warps[word];
      for (uint32_t warps = set->warps[word]; warps != 0; warps &= warps - 1) {
        const size_t row = static_cast<size_t>(std::countr_zero(warps)) * cells_;
        set->epoch[row + cell] = set->epoch[row + word];
        set->lanes[row + cell] = set->lanes[row + word];
        set->code[row + cell] = set->code[row + word];
      }
    }
  }
  write_epoch_[word] = kExpanded;
  write_lanes_[word] = 0;
  has_expanded_ = true;
}

// Whether bytes of the word are there to be used; what is not is noted. False: they are being
// copied, which explains every other finding.
bool SharedMemory::CheckMarks(bool reads, const Actor& actor, size_t word, unsigned mask,
                              SharedFindings& findings) {
  const unsigned marks = marks_[word];
  const unsigned copied = marks >> 4 & mask;
  if (copied != 0) {
    const uint64_t offset = word * 4 + static_cast<unsigned>(std::countr_zero(copied));
    if (Note(findings.pending, actor.lanes, offset)) {
      const size_t cell = CellOf(offset);
      findings.pending.other_warp = static_cast<int>(write_warp_[cell]);
      findings.pending.other_lane = std::countr_zero(write_lanes_[cell]);
      findings.pending.other_code = static_cast<int32_t>(write_code_[cell] & ~kStrong);
    }
    return false;
  }
  const unsigned unwritten = ~marks & mask;
  if (reads && unwritten != 0) {
    Note(findings.uninitialised, actor.lanes,
         word * 4 + static_cast<unsigned>(std::countr_zero(unwritten)));
  }
  return true;
}

void SharedMemory::TouchWord(SharedAccess access, const Actor& actor, size_t word, unsigned mask,
                             SharedFindings& findings) {
  constexpr unsigned kWholeWord = 0xf;
  const bool is_expanded = write_epoch_[word] == kExpanded;
  if (mask == kWholeWord && !is_expanded) {
    TouchCell(access, actor, word, word * 4, findings);
  } else {
    if (!is_expanded) Expand(word);
    for (unsigned byte = 0; byte < 4; ++byte) {
      if (mask >> byte & 1) {
        TouchCell(access, actor, words_ + 4 * word + byte, word * 4 + byte, findings);
      }
    }
    if (mask == kWholeWord && access == SharedAccess::kWrite) {
      // One write of all bytes: the word is one again.
      const Mask lanes = write_lanes_[words_ + 4 * word];
      RememberWrite(actor, word);
      write_lanes_[word] |= lanes;
    }
  }
  if (access != SharedAccess::kRead) marks_[word] |= static_cast<uint8_t>(mask);
}

void SharedMemory::TouchRange(SharedAccess access, bool reads, const Actor& actor, uint64_t offset,
                              int bytes, SharedFindings& findings) {
  const uint64_t end = offset + static_cast<uint64_t>(bytes);
  for (size_t word = offset / 4; word * 4 < end; ++word) {
    const unsigned mask = BytesOfWord(word, offset, bytes);
    if (CheckMarks(reads, actor, word, mask, findings)) {
      TouchWord(access, actor, word, mask, findings);
    }
  }
}

// Two lanes may write the same bytes in one instruction only if they write the same values: which
// of them remains is not said (CUDA C++ Programming Guide, "Shared Memory": undefined which).
void SharedMemory::CheckSameInstruction(const Actor& actor, uint64_t offset, const uint8_t* value,
                                        int bytes, SharedFindings& findings) {
  for (int i = 0; i < bytes; ++i) {
    const uint64_t at = offset + static_cast<uint64_t>(i);
    const size_t cell = CellOf(at);
    if (write_instruction_[cell] != instruction_ || write_epoch_[cell] != clock_[actor.warp] ||
        bytes_[at] == value[i]) {
      continue;
    }
    if (!Note(findings.race, actor.lanes, at)) return;
    findings.race.same_instruction = true;
    findings.race.other = SharedAccess::kWrite;
    findings.race.other_warp = actor.warp;
    findings.race.other_lane = std::countr_zero(write_lanes_[cell]);
    findings.race.other_code = static_cast<int32_t>(actor.code);
    return;
  }
}

void SharedMemory::WriteRange(const Actor& actor, uint64_t offset, const uint8_t* value, int bytes,
                              SharedFindings& findings) {
  CheckSameInstruction(actor, offset, value, bytes, findings);
  TouchRange(SharedAccess::kWrite, /*reads=*/false, actor, offset, bytes, findings);
  std::memcpy(bytes_.data() + offset, value, static_cast<size_t>(bytes));
}

// A full warp that reads kWords words per lane, one lane's behind the other's, all of them written
// before and settled: no word needs a look of its own. False: it may be otherwise.
template <int kWords>
bool SharedMemory::ReadConsecutive(const SharedRequest& request) {
  constexpr int kCount = kWords * kLanes;
  if (has_strong_) return false;
  const size_t first = request.offsets[0] / 4;
  const uint8_t* marks = marks_.data() + first;
  const uint32_t* write_epoch = write_epoch_.get() + first;
  const uint32_t* write_warp = write_warp_.get() + first;
  const uint32_t* write_lanes = write_lanes_.get() + first;
  const uint32_t floor = floor_[request.warp];
  const auto warp = static_cast<uint32_t>(request.warp);
  uint32_t other = 0;
  for (int i = 0; i < kCount; ++i) other |= marks[i] ^ kInitialised;
  for (int i = 0; i < kCount; ++i) {
    const uint32_t foreign = (write_warp[i] ^ warp) | (write_lanes[i] ^ LaneBit(i / kWords));
    other |= write_epoch[i] <= floor ? 0 : foreign;
  }
  if (other != 0) return false;
  const size_t row = static_cast<size_t>(request.warp) * cells_ + first;
  uint32_t* epoch = reads_.epoch.get() + row;
  uint32_t* lanes = reads_.lanes.get() + row;
  uint32_t* code = reads_.code.get() + row;
  uint32_t* last = reads_.last.get() + first;
  uint32_t* warps = reads_.warps.get() + first;
  const uint32_t now = clock_[request.warp];
  const uint32_t bit = 1u << request.warp;
  for (int i = 0; i < kCount; ++i) {
    const uint32_t known = epoch[i] == now && (warps[i] & bit) != 0 ? lanes[i] : 0;
    lanes[i] = known | LaneBit(i / kWords);
  }
  for (int i = 0; i < kCount; ++i) {
    epoch[i] = now;
    code[i] = static_cast<uint32_t>(request.code);
    last[i] = last[i] > now ? last[i] : now;
    warps[i] |= bit;
  }
  return true;
}

// Likewise of a write whose lanes' values lie one behind the other.
template <int kWords>
bool SharedMemory::WriteConsecutive(const SharedRequest& request, const uint8_t* values) {
  constexpr int kCount = kWords * kLanes;
  if (has_strong_) return false;
  const size_t first = request.offsets[0] / 4;
  uint8_t* marks = marks_.data() + first;
  uint32_t* write_epoch = write_epoch_.get() + first;
  uint32_t* last = reads_.last.get() + first;
  const uint32_t floor = floor_[request.warp];
  uint32_t other = 0;
  for (int i = 0; i < kCount; ++i) other |= marks[i] & kCopied;
  uint32_t* write_warp = write_warp_.get() + first;
  uint32_t* write_lanes = write_lanes_.get() + first;
  const auto warp = static_cast<uint32_t>(request.warp);
  for (int i = 0; i < kCount; ++i) {
    const uint32_t foreign = (write_warp[i] ^ warp) | (write_lanes[i] ^ LaneBit(i / kWords));
    other |= (write_epoch[i] <= floor ? 0 : foreign) | (last[i] <= floor ? 0u : 1u);
  }
  if (other != 0) return false;
  uint32_t* write_code = write_code_.get() + first;
  uint32_t* warps = reads_.warps.get() + first;
  const uint32_t now = clock_[request.warp];
  for (int i = 0; i < kCount; ++i) {
    write_epoch[i] = now;
    write_warp[i] = warp;
    write_lanes[i] = LaneBit(i / kWords);
    write_code[i] = static_cast<uint32_t>(request.code);
  }
  for (int i = 0; i < kCount; ++i) last[i] = warps[i] = 0;
  std::memset(marks, kInitialised, kCount);
  std::memcpy(bytes_.data() + request.offsets[0], values, kCount * 4);
  return true;
}

// Whole words of which nothing but the access itself is to be remembered: they are written, and
// ordered before it or the reader's own. False: it may be otherwise, and nothing was done.
bool SharedMemory::ReadSettled(const Actor& actor, uint64_t offset, int bytes) {
  if (has_strong_ || bytes < 4) return false;
  const uint32_t floor = floor_[actor.warp];
  const size_t first = offset / 4, end = (offset + static_cast<uint64_t>(bytes)) / 4;
  for (size_t word = first; word < end; ++word) {
    if (marks_[word] != kInitialised) return false;
    if (write_epoch_[word] > floor && (static_cast<int>(write_warp_[word]) != actor.warp ||
                                       (actor.lanes & ~write_lanes_[word]) != 0)) {
      return false;
    }
  }
  for (size_t word = first; word < end; ++word) Remember(actor, reads_, word);
  return true;
}

// Likewise whole words that nobody has written or read since the writer's last barrier.
bool SharedMemory::WriteSettled(const Actor& actor, uint64_t offset, const uint8_t* value,
                                int bytes) {
  if (has_strong_ || bytes < 4) return false;
  const uint32_t floor = floor_[actor.warp];
  const size_t first = offset / 4, end = (offset + static_cast<uint64_t>(bytes)) / 4;
  for (size_t word = first; word < end; ++word) {
    if ((marks_[word] & kCopied) != 0 || write_epoch_[word] > floor || reads_.last[word] > floor) {
      return false;
    }
  }
  for (size_t word = first; word < end; ++word) {
    RememberWrite(actor, word);
    marks_[word] = kInitialised;
  }
  std::memcpy(bytes_.data() + offset, value, static_cast<size_t>(bytes));
  return true;
}

void SharedMemory::Read(const SharedRequest& request, SharedFindings& findings) {
  if (request.is_strong) BeginStrong();
  if (request.bytes >= 4 && IsConsecutive(request)) {
    if (request.bytes == 4 && ReadConsecutive<1>(request)) return;
    if (request.bytes == 8 && ReadConsecutive<2>(request)) return;
    if (request.bytes == 16 && ReadConsecutive<4>(request)) return;
  }
  // Lanes that read the same words do it as one, as far as a table by offset brings them together.
  std::array<uint64_t, kLanes> offsets;
  std::array<Mask, kLanes> groups;
  uint32_t used = 0;
  Actor actor{.warp = request.warp,
              .code = static_cast<uint32_t>(request.code),
              .is_strong = request.is_strong,
              .together = request.lanes};
  const auto read = [&](Mask lanes, uint64_t offset) {
    actor.lanes = lanes;
    if (ReadSettled(actor, offset, request.bytes)) return;
    TouchRange(SharedAccess::kRead, /*reads=*/true, actor, offset, request.bytes, findings);
    if (request.is_strong) Acquire(actor, offset, request.bytes);
  };
  const auto step = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(request.bytes)));
  for (Mask left = request.lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = request.offsets[lane];
    const size_t place = offset >> step & (kLanes - 1);
    if ((used >> place & 1) == 0) {
      used |= 1u << place;
      offsets[place] = offset;
      groups[place] = LaneBit(lane);
    } else if (offsets[place] == offset) {
      groups[place] |= LaneBit(lane);
    } else {
      read(LaneBit(lane), offset);
    }
  }
  for (; used != 0; used &= used - 1) {
    const auto place = static_cast<size_t>(std::countr_zero(used));
    read(groups[place], offsets[place]);
  }
}

void SharedMemory::Atomic(const SharedRequest& request, bool uses_old_value,
                          SharedFindings& findings) {
  BeginStrong();
  for (Mask left = request.lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = request.offsets[lane];
    const Actor actor{.warp = request.warp,
                      .code = static_cast<uint32_t>(request.code),
                      .lanes = LaneBit(lane),
                      .is_strong = true};
    TouchRange(SharedAccess::kAtomic, uses_old_value, actor, offset, request.bytes, findings);
    if (request.is_strong) Acquire(actor, offset, request.bytes);
    Release(actor, offset, request.bytes);
  }
  clock_[request.warp] = ++time_;
}

void SharedMemory::Write(const SharedRequest& request, const uint8_t* values, int stride,
                         SharedFindings& findings) {
  if (request.is_strong) BeginStrong();
  if (request.bytes >= 4 && stride == request.bytes && IsConsecutive(request)) {
    if (request.bytes == 4 && WriteConsecutive<1>(request, values)) return;
    if (request.bytes == 8 && WriteConsecutive<2>(request, values)) return;
    if (request.bytes == 16 && WriteConsecutive<4>(request, values)) return;
  }
  ++instruction_;
  bool has_released = false;
  for (Mask left = request.lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = request.offsets[lane];
    const Actor actor{.warp = request.warp,
                      .code = static_cast<uint32_t>(request.code),
                      .lanes = LaneBit(lane),
                      .is_strong = request.is_strong,
                      .together = request.lanes};
    const uint8_t* value = values + lane * stride;
    if (WriteSettled(actor, offset, value, request.bytes)) continue;
    WriteRange(actor, offset, value, request.bytes, findings);
    if (!has_strong_ || !IsStrongWrite(CellOf(offset))) continue;
    Release(actor, offset, request.bytes);
    has_released = true;
  }
  if (has_released) clock_[request.warp] = ++time_;
}

void SharedMemory::ReadWord(int warp, int32_t code, Mask lanes, uint64_t offset,
                            SharedFindings& findings) {
  const Actor actor{.warp = warp, .code = static_cast<uint32_t>(code), .lanes = lanes};
  TouchRange(SharedAccess::kRead, /*reads=*/true, actor, offset, 4, findings);
}

void SharedMemory::WriteWord(int warp, int32_t code, Mask lanes, uint64_t offset, uint32_t value,
                             SharedFindings& findings) {
  const Actor actor{.warp = warp, .code = static_cast<uint32_t>(code), .lanes = lanes};
  uint8_t bytes[4];
  std::memcpy(bytes, &value, sizeof(bytes));
  WriteRange(actor, offset, bytes, sizeof(bytes), findings);
}

void SharedMemory::BeginCopy(const SharedRequest& request, const CopyData& data,
                             const CopySources& sources, SharedFindings& findings) {
  std::array<uint8_t, 16> poison;
  poison.fill(kPoison);
  Copies& copies = copies_[static_cast<size_t>(request.warp)];
  copies.running.push_back({.lanes = request.lanes,
                            .code = request.code,
                            .bytes = request.bytes,
                            .group = copies.groups,
                            .data = data,
                            .sources = sources});
  Copy& copy = copies.running.back();
  ++instruction_;
  for (Mask left = request.lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = request.offsets[lane];
    copy.offsets[lane] = static_cast<uint32_t>(offset);
    if (!checked_) {
      std::memcpy(bytes_.data() + offset, poison.data(), static_cast<size_t>(request.bytes));
      continue;
    }
    const Actor actor{
        .warp = request.warp, .code = static_cast<uint32_t>(request.code), .lanes = LaneBit(lane)};
    WriteRange(actor, offset, poison.data(), request.bytes, findings);
    std::fill_n(marks_.begin() + static_cast<int64_t>(offset / 4), request.bytes / 4,
                kInitialised | kCopied);
  }
}

void SharedMemory::CompleteCopy(int warp, const Copy& copy, int lane) {
  const size_t offset = copy.offsets[lane];
  std::memcpy(bytes_.data() + offset, copy.data[lane].data(), static_cast<size_t>(copy.bytes));
  if (!checked_) return;
  const Actor actor{.warp = warp, .code = static_cast<uint32_t>(copy.code), .lanes = LaneBit(lane)};
  ++instruction_;
  for (size_t word = offset / 4; word < (offset + static_cast<size_t>(copy.bytes)) / 4; ++word) {
    marks_[word] = kInitialised;
    RememberWrite(actor, word);
  }
}

void SharedMemory::CommitCopies(int warp, Mask lanes) {
  Copies& copies = copies_[static_cast<size_t>(warp)];
  for (Mask left = lanes; left != 0; left &= left - 1) ++copies.groups[std::countr_zero(left)];
}

CopyFinding SharedMemory::WaitForCopies(int warp, Mask lanes, int groups_left) {
  CopyFinding overwritten;
  Copies& copies = copies_[static_cast<size_t>(warp)];
  for (Copy& copy : copies.running) {
    for (Mask left = lanes & copy.lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      if (int64_t{copy.group[lane]} + groups_left >= int64_t{copies.groups[lane]}) continue;
      const uint8_t* source = copy.sources.at[lane];
      if (checked_ && source != nullptr &&
          std::memcmp(source, copy.data[lane].data(),
                      static_cast<size_t>(copy.sources.bytes[lane])) != 0) {
        if (overwritten.lanes == 0) overwritten.code = copy.code;
        overwritten.lanes |= LaneBit(lane);
      }
      CompleteCopy(warp, copy, lane);
      copy.lanes &= ~LaneBit(lane);
    }
  }
  std::erase_if(copies.running, [](const Copy& copy) { return copy.lanes == 0; });
  return overwritten;
}

// PTX ISA 8.5, 9.7.8.25.3.3: wait_all is commit_group and wait_group 0.
CopyFinding SharedMemory::WaitForAllCopies(int warp, Mask lanes) {
  CommitCopies(warp, lanes);
  return WaitForCopies(warp, lanes, 0);
}

}  // namespace duotone::emulator
