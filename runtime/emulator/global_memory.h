// The emulated device's memory: allocations at addresses that are never used twice, which bytes of
// them have been written, and by whom in the running launch.
#ifndef DUOTONE_RUNTIME_EMULATOR_GLOBAL_MEMORY_H_
#define DUOTONE_RUNTIME_EMULATOR_GLOBAL_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cuda/driver.h"
#include "runtime/emulator/global_shadow.h"
#include "runtime/emulator/launch_order.h"

namespace duotone::emulator {

class GlobalMemory {
 public:
  struct Allocation {
    uint64_t base = 0;
    int64_t bytes = 0;
    std::string name;
    bool is_variable = false;  // of a module: every kernel may access it
    bool is_constant = false;
    std::unique_ptr<uint8_t, void (*)(void*)> data{nullptr, nullptr};
    // A byte for each: nonzero once it has been written. Null where nothing is checked.
    std::unique_ptr<uint8_t, void (*)(void*)> written{nullptr, nullptr};
    std::unique_ptr<GlobalShadow> shadow;
  };
  // What the running launch may access: a buffer of its note, a variable, or, without a note, any
  // allocation.
  struct Range {
    uint64_t begin = 0;
    int64_t bytes = 0;
    int64_t padded_bytes = 0;  // as far as accesses wider than an element may reach
    int element_bytes = 4;
    bool is_writable = false;
    std::string name;
    Allocation* allocation = nullptr;
    uint64_t max_end = 0;  // of this range and all before it
  };
  // Distinct bytes that a launch has read and written; negative: not known.
  struct Traffic {
    int64_t read = -1;
    int64_t written = -1;
  };

  GlobalMemory(int64_t capacity, bool checked);
  ~GlobalMemory();

  // Uninitialised bytes, aligned to 256; a ResourceExhausted error beyond the capacity. Also for
  // empty allocations the address is a new one.
  absl::StatusOr<uint64_t> Allocate(int64_t bytes, std::string name);
  // The allocation is a module's variable.
  void MakeVariable(uint64_t address, bool is_constant);
  // NotFound for an address that is none of an allocation. Use of it afterwards is a problem.
  absl::Status Free(uint64_t address);
  int64_t used() const { return used_; }
  int64_t capacity() const { return capacity_; }
  bool is_checked() const { return is_checked_; }

  // Copies and fills by the host. OutOfRange says what is beside what.
  absl::Status Write(uint64_t to, const void* from, int64_t bytes);
  absl::Status Read(void* to, uint64_t from, int64_t bytes) const;
  // Of each byte 1 if it has been written, else 0; only where it is checked.
  absl::Status ReadMarks(uint8_t* to, uint64_t from, int64_t bytes) const;
  absl::Status Copy(uint64_t to, uint64_t from, int64_t bytes);
  absl::Status Fill(uint64_t to, uint32_t value, int element_bytes, int64_t count);

  // Around a launch, whose blocks then access it from several threads. With a note every access is
  // held against its ranges, and those that begin undefined are marked so.
  void BeginLaunch(uint32_t number, const runtime::LaunchNote* note);
  // With `counted` it goes through what the launch has touched.
  Traffic EndLaunch(bool counted);
  uint32_t launch() const { return launch_; }
  // Of the blocks of the running launch.
  LaunchOrder& order() { return order_; }

  // The range of the running launch that has `address`, if possible one that may be written; null
  // if there is none. `hint`: where to look first; may be null.
  const Range* FindRange(uint64_t address, bool for_write, const Range* hint) const;
  // What lies at an address, or nearest: "16 bytes behind %x (256 bytes)". `freed`: it was freed.
  std::string Describe(uint64_t address, bool* freed) const;

 private:
  Allocation* Find(uint64_t address) const;
  absl::StatusOr<Allocation*> FindFor(uint64_t address, int64_t bytes, std::string_view what) const;
  void AddRange(const Range& range);
  void MarkUndefined(const runtime::LaunchNote& note);

  const int64_t capacity_;
  const bool is_checked_;
  int64_t used_ = 0;
  uint64_t next_base_;
  std::map<uint64_t, std::unique_ptr<Allocation>> allocations_;  // by base
  struct Freed {
    int64_t bytes = 0;
    std::string name;
  };
  std::map<uint64_t, Freed> freed_;
  std::vector<Range> ranges_;  // by begin
  uint32_t launch_ = 0;
  LaunchOrder order_;
};

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_GLOBAL_MEMORY_H_
