// Races, uninitialised bytes and running copies of a block's shared memory, without instructions.
#include "runtime/emulator/shared_memory.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace duotone::emulator {
namespace {

constexpr Mask kLane0 = 1, kLane1 = 2;

// Warps that access words of a block's shared memory.
class SharedMemoryTest : public testing::Test {
 protected:
  SharedMemoryTest() { shared_.Reset(4096, 4, /*checked=*/true); }

  // What one lane of `lanes` finds, at the byte `offset`.
  SharedFindings Read(int warp, Mask lanes, uint64_t offset, int bytes = 4) {
    SharedFindings findings;
    shared_.Read(At(warp, lanes, offset, bytes), findings);
    return findings;
  }
  // By ld.volatile and st.volatile.
  SharedFindings StrongRead(int warp, Mask lanes, uint64_t offset) {
    SharedFindings findings;
    SharedRequest request = At(warp, lanes, offset, 4);
    request.is_strong = true;
    shared_.Read(request, findings);
    return findings;
  }
  SharedFindings StrongWrite(int warp, Mask lanes, uint64_t offset) {
    const std::array<uint8_t, 4 * kLanes> values = {};
    SharedFindings findings;
    SharedRequest request = At(warp, lanes, offset, 4);
    request.is_strong = true;
    shared_.Write(request, values.data(), 4, findings);
    return findings;
  }
  SharedFindings Write(int warp, Mask lanes, uint64_t offset, int bytes = 4, uint32_t value = 7) {
    std::array<uint8_t, 16 * kLanes> values = {};
    for (int i = 0; i < kLanes; ++i) std::memcpy(&values[i * bytes], &value, std::min(bytes, 4));
    SharedFindings findings;
    shared_.Write(At(warp, lanes, offset, bytes), values.data(), bytes, findings);
    return findings;
  }
  SharedFindings Atomic(int warp, Mask lanes, uint64_t offset, bool uses_result = false) {
    SharedFindings findings;
    SharedRequest request = At(warp, lanes, offset, 4);
    request.is_strong = uses_result;
    shared_.Atomic(request, true, findings);
    return findings;
  }
  // Lane i accesses word first_word + i.
  SharedFindings ReadRow(int warp, uint64_t first_word) {
    SharedFindings findings;
    shared_.Read(Row(warp, first_word), findings);
    return findings;
  }
  SharedFindings WriteRow(int warp, uint64_t first_word) {
    const std::array<uint8_t, 4 * kLanes> values = {};
    SharedFindings findings;
    shared_.Write(Row(warp, first_word), values.data(), 4, findings);
    return findings;
  }
  void Barrier(const std::vector<int>& warps) { shared_.OnBarrier(warps, warps); }
  void BarrierOfAll() { Barrier({0, 1, 2, 3}); }

  SharedMemory shared_;

 private:
  SharedRequest At(int warp, Mask lanes, uint64_t offset, int bytes) {
    offsets_.fill(offset);
    return {.warp = warp, .code = 5, .lanes = lanes, .bytes = bytes, .offsets = offsets_.data()};
  }
  SharedRequest Row(int warp, uint64_t first_word) {
    for (uint64_t i = 0; i < kLanes; ++i) offsets_[i] = 4 * (first_word + i);
    return {.warp = warp, .code = 6, .lanes = kAllLanes, .bytes = 4, .offsets = offsets_.data()};
  }

  std::array<uint64_t, kLanes> offsets_;
};

TEST_F(SharedMemoryTest, AWarpReadsWhatAnotherWroteOnlyAfterABarrier) {
  EXPECT_FALSE(Write(1, kLane1, 0x94).any());
  const SharedFindings early = Read(0, kLane0, 0x94);
  EXPECT_EQ(early.race.lanes, kLane0);
  EXPECT_EQ(early.race.offset, 0x94u);
  EXPECT_EQ(early.race.other, SharedAccess::kWrite);
  EXPECT_EQ(early.race.other_warp, 1);
  EXPECT_EQ(early.race.other_lane, 1);
  EXPECT_EQ(early.race.other_code, 5);

  EXPECT_FALSE(Write(1, kLane1, 0x98).any());
  BarrierOfAll();
  EXPECT_FALSE(Read(0, kLane0, 0x98).any());
}

TEST_F(SharedMemoryTest, AWriteRacesWithAnEarlierReadOfAnotherWarp) {
  Write(0, kLane0, 0);
  BarrierOfAll();
  EXPECT_FALSE(Read(2, kLane0, 0).any());
  EXPECT_FALSE(Read(3, kLane0, 0).any());
  const SharedFindings findings = Write(0, kLane0, 0);
  EXPECT_EQ(findings.race.other, SharedAccess::kRead);
  EXPECT_EQ(findings.race.other_warp, 2);

  BarrierOfAll();
  EXPECT_FALSE(Write(1, kLane0, 0).any());
}

// All readers count, not only the last.
TEST_F(SharedMemoryTest, AReadThatABarrierOrdersHidesNoOther) {
  Write(0, kLane0, 0);
  BarrierOfAll();
  Read(2, kLane0, 0);
  Read(0, kLane0, 0);
  EXPECT_EQ(Write(0, kLane0, 0).race.other_warp, 2);
}

TEST_F(SharedMemoryTest, LanesOfAWarpAreOrderedByWarpSync) {
  EXPECT_FALSE(Write(0, kLane0, 0).any());
  EXPECT_FALSE(Read(0, kLane0, 0).any()) << "the same thread";
  EXPECT_EQ(Read(0, kLane1, 0).race.lanes, kLane1);

  Write(0, kLane0, 4);
  shared_.OnWarpSync(0, kAllLanes);
  EXPECT_FALSE(Read(0, kLane1, 4).any());
  EXPECT_EQ(Write(0, kLane0, 4).race.other, SharedAccess::kRead) << "lane 1 has read it since";
}

TEST_F(SharedMemoryTest, WarpSyncOfSomeLanesOrdersThoseOnly) {
  constexpr Mask kLane2 = 4;
  Write(0, kLane0, 0);
  Write(0, kLane0, 4);
  shared_.OnWarpSync(0, kLane0 | kLane1);
  EXPECT_FALSE(Read(0, kLane1, 0).any());
  EXPECT_EQ(Read(0, kLane2, 4).race.lanes, kLane2);

  // What lane 1 learnt it passes on.
  Write(0, kLane0, 8);
  shared_.OnWarpSync(0, kLane0 | kLane1);
  shared_.OnWarpSync(0, kLane1 | kLane2);
  EXPECT_FALSE(Read(0, kLane2, 8).any());
}

TEST_F(SharedMemoryTest, WarpSyncDoesNotOrderOtherWarps) {
  Write(0, kLane0, 0);
  shared_.OnWarpSync(0, kAllLanes);
  shared_.OnWarpSync(1, kAllLanes);
  EXPECT_NE(Read(1, kLane0, 0).race.lanes, 0u);
}

TEST_F(SharedMemoryTest, ABarrierOfSomeWarpsOrdersThoseOnly) {
  Write(0, kLane0, 0);
  Barrier({0, 1});
  EXPECT_FALSE(Read(1, kLane0, 0).any());
  EXPECT_EQ(Read(2, kLane0, 0).race.other_warp, 0);

  Write(1, kLane0, 4);
  Barrier({1, 2});
  Barrier({2, 3});
  EXPECT_FALSE(Read(3, kLane0, 4).any()) << "by way of warp 2";
  EXPECT_EQ(Read(0, kLane0, 4).race.other_warp, 1);
}

// bar.arrive of the producer, bar.sync of the consumer.
TEST_F(SharedMemoryTest, WhoOnlyArrivesLearnsNothing) {
  const std::array<int, 2> both = {0, 1};
  const std::array<int, 1> consumer = {1};
  Write(0, kLane0, 0);
  Write(1, kLane0, 4);
  shared_.OnArrive(0, 3);
  shared_.OnBarrier(both, consumer, 3);
  EXPECT_FALSE(Read(1, kLane0, 0).any());
  EXPECT_EQ(Read(0, kLane0, 4).race.other_warp, 1);
}

TEST_F(SharedMemoryTest, WhatAWarpDoesAfterItsArrivalIsNotOrdered) {
  const std::array<int, 2> both = {0, 1};
  const std::array<int, 1> consumer = {1};
  Write(0, kLane0, 0);
  shared_.OnArrive(0, 3);
  Write(0, kLane0, 4);
  shared_.OnBarrier(both, consumer, 3);
  EXPECT_FALSE(Read(1, kLane0, 0).any());
  EXPECT_EQ(Read(1, kLane0, 4).race.other_warp, 0);
}

TEST_F(SharedMemoryTest, TwoThreadsMayWriteDifferentBytesOfAWord) {
  EXPECT_FALSE(Write(0, kLane0, 0, 2).any());
  EXPECT_FALSE(Write(1, kLane0, 2, 2).any());
  EXPECT_EQ(Write(2, kLane0, 1, 1).race.other_warp, 0);
  EXPECT_EQ(Write(2, kLane0, 3, 1).race.other_warp, 1);
  BarrierOfAll();
  EXPECT_FALSE(Read(0, kLane0, 0, 4).any());
  EXPECT_EQ(Write(1, kLane0, 3, 1).race.other_warp, 0) << "warp 0 has read the whole word";
}

TEST_F(SharedMemoryTest, AWholeWriteEndsTheBytesOfAWord) {
  Write(0, kLane0, 0, 2);
  Write(0, kLane0, 2, 2);
  BarrierOfAll();
  EXPECT_FALSE(Write(1, kLane0, 0, 4).any());
  EXPECT_EQ(Read(0, kLane0, 2, 2).race.other_warp, 1);
  BarrierOfAll();
  EXPECT_FALSE(Read(0, kLane0, 0, 4).any());
}

TEST_F(SharedMemoryTest, AReadOfOneByteDoesNotStandForTheWord) {
  Write(0, kLane0, 0);
  BarrierOfAll();
  Read(1, kLane0, 0, 2);
  EXPECT_FALSE(Write(2, kLane0, 2, 2).any());
  EXPECT_EQ(Write(2, kLane0, 0, 2).race.other_warp, 1);
}

TEST_F(SharedMemoryTest, LanesOfOneInstructionMayWriteTheSameValueOnly) {
  EXPECT_FALSE(Write(0, kAllLanes, 0).any()) << "32 times 7";
  EXPECT_EQ(Write(1, kAllLanes, 0).race.other_warp, 0) << "another warp's 7 comes at any time";

  std::array<uint64_t, kLanes> offsets;
  offsets.fill(64);
  std::array<uint32_t, kLanes> values = {};
  values[9] = 1;
  SharedFindings findings;
  shared_.Write({.warp = 0, .code = 5, .lanes = kAllLanes, .bytes = 4, .offsets = offsets.data()},
                reinterpret_cast<const uint8_t*>(values.data()), 4, findings);
  EXPECT_TRUE(findings.race.same_instruction);
  EXPECT_EQ(findings.race.lane, 9);
  EXPECT_EQ(findings.race.offset, 64u);
}

TEST_F(SharedMemoryTest, AtomicsRaceWithOthersThanAtomics) {
  Write(0, kLane0, 0);
  BarrierOfAll();
  EXPECT_FALSE(Atomic(0, kAllLanes, 0).any());
  EXPECT_FALSE(Atomic(1, kLane0, 0).any());
  EXPECT_EQ(Read(2, kLane0, 0).race.other, SharedAccess::kAtomic);
  EXPECT_EQ(Write(1, kLane0, 0).race.other, SharedAccess::kRead);
  BarrierOfAll();
  EXPECT_FALSE(Read(2, kLane0, 0).any());
  EXPECT_EQ(Atomic(1, kLane0, 0).race.other, SharedAccess::kRead);
}

// ---- Flags and locks: what a strong store or an atomic releases, a strong load acquires

constexpr uint64_t kFlag = 0x100, kOther = 0x200;

// Shared memory whose flags are zeros that everybody knows.
class SharedFlagsTest : public SharedMemoryTest {
 protected:
  SharedFlagsTest() {
    Write(0, kLane0, kFlag);
    Write(0, kLane0, kOther);
    BarrierOfAll();
  }
};

TEST_F(SharedFlagsTest, HandDataToOtherWarps) {
  Write(0, kLane0, 0);
  EXPECT_FALSE(StrongRead(1, kLane0, kFlag).any()) << "polling";
  EXPECT_FALSE(StrongWrite(0, kLane0, kFlag).any());
  EXPECT_FALSE(StrongRead(1, kLane0, kFlag).any());
  EXPECT_FALSE(Read(1, kLane0, 0).any());
  EXPECT_EQ(Read(2, kLane0, 0).race.other_warp, 0) << "it has not looked at the flag";
}

TEST_F(SharedFlagsTest, ByAtomics) {
  Write(0, kLane0, 0);
  EXPECT_FALSE(Atomic(0, kLane0, kFlag).any());
  EXPECT_FALSE(Atomic(1, kLane0, kFlag).any());
  EXPECT_EQ(Read(1, kLane0, 0).race.other_warp, 0) << "nobody looks at what it returned";
  Write(0, kLane0, 4);
  EXPECT_FALSE(Atomic(0, kLane0, kFlag).any());
  EXPECT_FALSE(Atomic(1, kLane0, kFlag, /*uses_result=*/true).any());
  EXPECT_FALSE(Read(1, kLane0, 4).any());
  EXPECT_FALSE(StrongRead(2, kLane0, kFlag).any());
  EXPECT_EQ(Write(2, kLane0, 4).race.other_warp, 1) << "it has read since its atomic";
}

TEST_F(SharedFlagsTest, SayNothingOfLaterWritesOrOtherWords) {
  StrongWrite(0, kLane0, kFlag);
  Write(0, kLane0, 0);
  StrongWrite(0, kLane0, kOther);
  StrongRead(1, kLane0, kFlag);
  EXPECT_EQ(Read(1, kLane0, 0).race.other_warp, 0);
  StrongRead(2, kLane0, kOther);
  EXPECT_FALSE(Read(2, kLane0, 0).any());
}

TEST_F(SharedFlagsTest, PassOnWhatTheirWriterHasLearned) {
  Write(0, kLane0, 0);
  StrongWrite(0, kLane0, kFlag);
  StrongRead(1, kLane0, kFlag);
  StrongWrite(1, kLane0, kOther);
  StrongRead(2, kLane0, kOther);
  EXPECT_FALSE(Write(2, kLane0, 0).any());
}

TEST_F(SharedFlagsTest, OfAWarpOrderItsLanesOneByOne) {
  Write(0, kLane0, 0);
  Write(0, 1 << 5, 4);
  EXPECT_FALSE(StrongWrite(0, kLane0, kFlag).any());
  EXPECT_FALSE(StrongRead(0, kLane1, kFlag).any());
  EXPECT_FALSE(Read(0, kLane1, 0).any());
  EXPECT_EQ(Read(0, kLane1, 4).race.other_lane, 5) << "lane 5 has released nothing";
  EXPECT_EQ(Read(0, 1 << 7, 0).race.other_lane, 0) << "lane 7 has acquired nothing";
}

// A lock that lanes of two warps hold in turns.
TEST_F(SharedFlagsTest, OfALockOrderLanesOfAllWarps) {
  Write(0, kLane0, 0);
  BarrierOfAll();
  for (const auto& [warp, lane] : {std::pair(0, 3), {1, 4}, {0, 9}, {0, 1}, {2, 3}, {1, 5}}) {
    const Mask lanes = Mask{1} << lane;
    EXPECT_FALSE(Atomic(warp, kAllLanes, kFlag, /*uses_result=*/true).any());
    EXPECT_FALSE(Read(warp, lanes, 0).any()) << warp << " " << lane;
    EXPECT_FALSE(Write(warp, lanes, 0).any()) << warp << " " << lane;
    EXPECT_FALSE(StrongWrite(warp, lanes, kFlag).any());
  }
}

TEST_F(SharedFlagsTest, MayBeResetByAPlainStore) {
  StrongWrite(0, kLane0, kFlag);
  StrongRead(1, kLane0, kFlag);
  Write(1, kLane0, 0);
  EXPECT_FALSE(Write(1, kLane0, kFlag).any());
  EXPECT_FALSE(StrongRead(0, kLane0, kFlag).any());
  EXPECT_FALSE(Read(0, kLane0, 0).any());
}

TEST_F(SharedFlagsTest, AreNoneWhereOneSideIsPlain) {
  StrongWrite(0, kLane0, kFlag);
  EXPECT_EQ(Read(1, kLane0, kFlag).race.other, SharedAccess::kWrite);
  StrongRead(0, kLane0, kOther);
  EXPECT_EQ(Write(1, kLane0, kOther).race.other, SharedAccess::kRead);
  EXPECT_EQ(StrongRead(2, kLane0, kOther).race.other, SharedAccess::kWrite);
}

// Lanes that execute their loads and stores together do not wait for each other.
TEST_F(SharedFlagsTest, AreNoneOfLanesThatGoTogether) {
  const Mask both = kLane0 | kLane1;
  StrongWrite(0, kLane0, kFlag);
  EXPECT_EQ(StrongRead(0, both, kFlag).race.lanes, kLane1);
  StrongRead(0, kLane1, kOther);
  EXPECT_EQ(StrongWrite(0, both, kOther).race.other, SharedAccess::kRead);
}

// ---- Rows, bytes, blocks

TEST_F(SharedMemoryTest, RowsOfAFullWarpAreCheckedLikeSingleWords) {
  EXPECT_FALSE(WriteRow(0, 0).any());
  EXPECT_FALSE(ReadRow(0, 0).any()) << "every thread its own word";
  EXPECT_EQ(ReadRow(0, 1).race.lanes, 0x7fffffffu) << "its neighbour's; word 32 has no writer";
  BarrierOfAll();
  EXPECT_FALSE(ReadRow(1, 0).any());
  EXPECT_EQ(WriteRow(0, 0).race.other_warp, 1);
  BarrierOfAll();
  EXPECT_FALSE(WriteRow(2, 0).any());
  EXPECT_EQ(Read(3, kLane0, 4 * 31).race.other_lane, 31);
}

TEST_F(SharedMemoryTest, BytesThatNothingHasWrittenAreUninitialised) {
  Write(0, kLane0, 0, 2);
  EXPECT_FALSE(Read(0, kLane0, 0, 2).any());
  const SharedFindings findings = Read(0, kLane0, 0, 4);
  EXPECT_EQ(findings.uninitialised.lanes, kLane0);
  EXPECT_EQ(findings.uninitialised.offset, 2u);

  WriteRow(0, 32);
  EXPECT_EQ(ReadRow(0, 33).uninitialised.lanes, 0x80000000u);
}

TEST_F(SharedMemoryTest, ANewBlockKnowsNothingOfTheOneBefore) {
  WriteRow(0, 0);
  WriteRow(0, 32);
  Read(1, kLane0, 200 * 4);
  Write(0, kLane0, 100 * 4, 1);
  shared_.Reset(4096, 4, true);
  EXPECT_FALSE(WriteRow(3, 0).any());
  EXPECT_EQ(ReadRow(2, 32).uninitialised.lanes, kAllLanes);
  EXPECT_FALSE(Write(2, kLane0, 100 * 4).any());
  EXPECT_FALSE(Write(2, kLane0, 200 * 4).any());
}

class SharedCopiesTest : public SharedMemoryTest {
 protected:
  // Lane 0 of `warp` copies 16 bytes of `value`.
  SharedFindings Copy(int warp, uint64_t offset, uint8_t value) {
    SharedMemory::CopyData data;
    data[0].fill(value);
    std::array<uint64_t, kLanes> offsets;
    offsets.fill(offset);
    SharedFindings findings;
    shared_.BeginCopy(
        {.warp = warp, .code = 8, .lanes = kLane0, .bytes = 16, .offsets = offsets.data()}, data,
        {}, findings);
    return findings;
  }
};

TEST_F(SharedCopiesTest, DataArriveWhenTheirGroupIsWaitedFor) {
  for (const bool checked : {true, false}) {
    shared_.Reset(256, 2, checked);
    EXPECT_FALSE(Copy(0, 32, 1).any());
    shared_.CommitCopies(0, kLane0);
    EXPECT_FALSE(Copy(0, 48, 2).any());
    shared_.CommitCopies(0, kLane0);
    EXPECT_EQ(shared_.bytes()[32], 0xff);
    shared_.WaitForCopies(0, kLane0, 1);
    EXPECT_EQ(shared_.bytes()[32], 1);
    EXPECT_EQ(shared_.bytes()[47], 1);
    EXPECT_EQ(shared_.bytes()[48], 0xff);
    shared_.WaitForCopies(0, kLane0, 0);
    EXPECT_EQ(shared_.bytes()[63], 2);
  }
}

TEST_F(SharedCopiesTest, AGroupThatIsNotCommittedIsWaitedForByAllOnly) {
  Copy(0, 0, 3);
  shared_.WaitForCopies(0, kLane0, 0);
  EXPECT_EQ(shared_.bytes()[0], 0xff);
  shared_.WaitForAllCopies(0, kLane1);
  EXPECT_EQ(shared_.bytes()[0], 0xff) << "another thread's wait";
  shared_.WaitForAllCopies(0, kLane0);
  EXPECT_EQ(shared_.bytes()[0], 3);
}

TEST_F(SharedCopiesTest, AccessBeforeTheWaitIsFound) {
  Copy(0, 16, 1);
  const SharedFindings findings = Read(0, kLane0, 20);
  EXPECT_EQ(findings.pending.lanes, kLane0);
  EXPECT_EQ(findings.pending.offset, 20u);
  EXPECT_EQ(findings.pending.other_code, 8);
  EXPECT_EQ(Write(1, kLane1, 28).pending.other_warp, 0);
  EXPECT_NE(Copy(1, 16, 2).pending.lanes, 0u) << "two copies at once";
}

TEST_F(SharedCopiesTest, OthersSeeACopyAfterWaitAndBarrier) {
  Copy(0, 16, 1);
  BarrierOfAll();
  shared_.WaitForAllCopies(0, kLane0);
  EXPECT_FALSE(Read(0, kLane0, 16).any()) << "who has waited";
  EXPECT_EQ(Read(1, kLane0, 20).race.other_warp, 0) << "the barrier came before the wait";
  EXPECT_EQ(Read(0, kLane1, 24).race.other_lane, 0);
  BarrierOfAll();
  EXPECT_FALSE(Read(1, kLane0, 28).any());
}

TEST_F(SharedCopiesTest, ACopyRacesWithReadsBeforeIt) {
  Write(0, kLane0, 16, 16);
  BarrierOfAll();
  Read(1, kLane0, 16);
  EXPECT_EQ(Copy(0, 16, 1).race.other, SharedAccess::kRead);
}

}  // namespace
}  // namespace duotone::emulator
