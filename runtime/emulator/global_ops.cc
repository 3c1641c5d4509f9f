// Loads, stores and atomics of global, constant, local, parameter and generic addresses.
#include "runtime/emulator/global_ops.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "runtime/emulator/access.h"
#include "runtime/emulator/atomic.h"
#include "runtime/emulator/lane_loops.h"
#include "runtime/emulator/shared_ops.h"

namespace duotone::emulator {
namespace {

using Addresses = std::array<uint64_t, kLanes>;
using Pointers = std::array<uint8_t*, kLanes>;

// ---- Values between rows and memory

uint64_t LoadElement(const uint8_t* from, int bytes) {
  // Blocks that race on the same bytes must not be undefined behaviour of the host.
  switch (bytes) {
    case 1:
      return __atomic_load_n(from, __ATOMIC_RELAXED);
    case 2:
      return __atomic_load_n(reinterpret_cast<const uint16_t*>(from), __ATOMIC_RELAXED);
    case 4:
      return __atomic_load_n(reinterpret_cast<const uint32_t*>(from), __ATOMIC_RELAXED);
    default:
      return __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_RELAXED);
  }
}

void StoreElement(uint8_t* to, int bytes, uint64_t value) {
  switch (bytes) {
    case 1:
      __atomic_store_n(to, static_cast<uint8_t>(value), __ATOMIC_RELAXED);
      break;
    case 2:
      __atomic_store_n(reinterpret_cast<uint16_t*>(to), static_cast<uint16_t>(value),
                       __ATOMIC_RELAXED);
      break;
    case 4:
      __atomic_store_n(reinterpret_cast<uint32_t*>(to), static_cast<uint32_t>(value),
                       __ATOMIC_RELAXED);
      break;
    default:
      __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELAXED);
  }
}

uint64_t Extend(uint64_t value, Type type) {
  const int bits = 8 * TypeBytes(type);
  if (!IsSigned(type) || bits == 64) return value;
  const int shift = 64 - bits;
  return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}

// The lanes that have an address.
Mask LanesOf(const Pointers& pointers) {
  return LanesWhere([&](int lane) { return pointers[lane] != nullptr; });
}

template <typename Function>
void ForEachLane(Mask lanes, const Function& function) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) function(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) function(std::countr_zero(lanes));
}

// One element of the vector, into rows of its size.
template <typename Element>
void LoadSame(Warp& warp, uint32_t row, Mask lanes, const Pointers& from, int64_t offset) {
  Element* d = warp.Row<Element>(row);
  ForEachLane(lanes, [&](int lane) {
    d[lane] =
        __atomic_load_n(reinterpret_cast<const Element*>(from[lane] + offset), __ATOMIC_RELAXED);
  });
}

void LoadWide(Warp& warp, uint32_t row, int row_bytes, Type type, Mask lanes, const Pointers& from,
              int64_t offset) {
  uint8_t* d = warp.Row<uint8_t>(row);
  ForEachLane(lanes, [&](int lane) {
    const uint64_t value = Extend(LoadElement(from[lane] + offset, TypeBytes(type)), type);
    std::memcpy(d + lane * row_bytes, &value, static_cast<size_t>(row_bytes));
  });
}

void LoadInto(Warp& warp, const Code& code, Mask mask, const Pointers& from) {
  const Instruction& in = *code.instruction;
  const int bytes = TypeBytes(in.type);
  const Mask lanes = LanesOf(from);
  for (int i = 0; i < in.vector; ++i) {
    const Operand& operand = in.operands[0][static_cast<size_t>(i)];
    const uint32_t row = code.row[static_cast<size_t>(i)];
    if (row == kNoRow) continue;
    const int row_bytes = RowBytes(operand);
    const int64_t offset = int64_t{i} * bytes;
    if (row_bytes == bytes && bytes == 4) {
      LoadSame<uint32_t>(warp, row, lanes, from, offset);
    } else if (row_bytes == bytes && bytes == 8) {
      LoadSame<uint64_t>(warp, row, lanes, from, offset);
    } else if (row_bytes == bytes && bytes == 2) {
      LoadSame<uint16_t>(warp, row, lanes, from, offset);
    } else {
      LoadWide(warp, row, row_bytes, in.type, lanes, from, offset);
    }
    // A lane that must not read gets zeros.
    if (lanes == mask) continue;
    ForEachLane(mask & ~lanes, [&](int lane) {
      std::memset(warp.Row<uint8_t>(row) + lane * row_bytes, 0, static_cast<size_t>(row_bytes));
    });
  }
}

template <typename Element>
void StoreSame(Warp& warp, uint32_t row, Mask lanes, const Pointers& to, int64_t offset) {
  const Element* values = warp.Row<Element>(row);
  ForEachLane(lanes, [&](int lane) {
    __atomic_store_n(reinterpret_cast<Element*>(to[lane] + offset), values[lane], __ATOMIC_RELAXED);
  });
}

void StoreFrom(Warp& warp, const Code& code, const Pointers& to) {
  const Instruction& in = *code.instruction;
  const int bytes = TypeBytes(in.type);
  const Mask lanes = LanesOf(to);
  for (int i = 0; i < in.vector; ++i) {
    const Operand& operand = in.operands[1][static_cast<size_t>(i)];
    const uint32_t row = code.row[static_cast<size_t>(i) + 1];
    const int row_bytes = RowBytes(operand);
    const int64_t offset = int64_t{i} * bytes;
    if (row_bytes == bytes && bytes == 4) {
      StoreSame<uint32_t>(warp, row, lanes, to, offset);
    } else if (row_bytes == bytes && bytes == 8) {
      StoreSame<uint64_t>(warp, row, lanes, to, offset);
    } else if (row_bytes == bytes && bytes == 2) {
      StoreSame<uint16_t>(warp, row, lanes, to, offset);
    } else {
      const uint8_t* values = warp.Row<uint8_t>(row);
      ForEachLane(lanes, [&](int lane) {
        uint64_t value = 0;
        std::memcpy(&value, values + lane * row_bytes, static_cast<size_t>(row_bytes));
        StoreElement(to[lane] + offset, bytes, value);
      });
    }
  }
}

int AccessBytes(const Instruction& in) { return in.vector * TypeBytes(in.type); }

// ---- The order of blocks

// True if what the block has done before its latest fence is let go of by this access, of an
// instruction that other blocks may be told by: atom, red, or a store with is_volatile. Those with
// .release bring a fence of their own.
bool BeginRelease(Warp& warp, const Instruction& in) {
  if (in.is_narrow || !warp.block->launch->options->checks) return false;
  if (in.releases) ++warp.block->fences;
  return warp.block->fences > 0;
}

// The words of 4 bytes that an access touches. Lanes mostly have the same address.
template <typename Function>
void ForWords(const Instruction& in, Mask lanes, const Addresses& addresses,
              const Function& function) {
  const auto bytes = static_cast<uint64_t>(AccessBytes(in));
  uint64_t latest = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const uint64_t address = addresses[std::countr_zero(lanes)];
    if (address == latest) continue;
    latest = address;
    for (uint64_t word = address & ~uint64_t{3}; word < address + bytes; word += 4) function(word);
  }
}

// Before others can see the access.
void Release(Warp& warp, const Instruction& in, Mask lanes, const Addresses& addresses) {
  const Block& block = *warp.block;
  ForWords(in, lanes, addresses, [&](uint64_t word) {
    block.launch->memory->order().Release(word, block.linear, block.fences);
  });
}

// After the access.
void Acquire(Warp& warp, const Instruction& in, Mask lanes, const Addresses& addresses) {
  LaunchOrder& order = warp.block->launch->memory->order();
  if (in.is_narrow || !order.any()) return;
  ForWords(in, lanes, addresses, [&](uint64_t word) { order.Acquire(word, warp.block->linear); });
}

void Fence(Warp& warp, const Code&, Mask) { ++warp.block->fences; }

// ---- Global and constant memory

void GlobalLoad(Warp& warp, const Code& code, Mask mask, const Addresses& addresses) {
  const Instruction& in = *code.instruction;
  const AccessKind kind = in.nc            ? AccessKind::kReadOnly
                          : in.is_volatile ? AccessKind::kVolatileRead
                                           : AccessKind::kRead;
  GlobalAccess access(warp, code, {.kind = kind, .bytes = AccessBytes(in)});
  LoadInto(warp, code, mask, access.Resolve(mask, addresses));
  if (in.is_volatile) Acquire(warp, in, mask, addresses);
}

void GlobalStore(Warp& warp, const Code& code, Mask mask, const Addresses& addresses) {
  const Instruction& in = *code.instruction;
  // A volatile store that others are to read hands a value over, and is no better than a plain one
  // where nothing was let go of before.
  const bool releases = in.is_volatile && BeginRelease(warp, in);
  GlobalAccess access(warp, code,
                      {.kind = releases ? AccessKind::kAtomic : AccessKind::kWrite,
                       .reads = false,
                       .writes = true,
                       .bytes = AccessBytes(in),
                       .releases = releases});
  const Pointers to = access.Resolve(mask, addresses);
  if (releases) Release(warp, in, mask, addresses);
  StoreFrom(warp, code, to);
}

// Applies the operation until no other block was faster.
template <typename Element>
uint64_t Exchange(uint8_t* at, AtomicFunction function, uint64_t b, uint64_t c) {
  auto* memory = reinterpret_cast<Element*>(at);
  Element old = __atomic_load_n(memory, __ATOMIC_RELAXED);
  for (;;) {
    const auto next = static_cast<Element>(function(old, b, c));
    if (__atomic_compare_exchange_n(memory, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      return old;
    }
  }
}

uint64_t RowValue(Warp& warp, uint32_t row, int bytes, int lane) {
  uint64_t value = 0;
  std::memcpy(&value, warp.Row<uint8_t>(row) + lane * bytes, static_cast<size_t>(bytes));
  return value;
}

void GlobalAtomic(Warp& warp, const Code& code, Mask mask, const Addresses& addresses) {
  const Instruction& in = *code.instruction;
  const int bytes = TypeBytes(in.type);
  const bool releases = BeginRelease(warp, in);
  GlobalAccess access(warp, code,
                      {.kind = AccessKind::kAtomic,
                       .reads = true,
                       .writes = true,
                       .bytes = bytes,
                       .releases = releases});
  const Pointers at = access.Resolve(mask, addresses);
  if (releases) Release(warp, in, mask, addresses);
  ReportFloatAtomic(warp, code, mask, addresses[std::countr_zero(mask)]);
  const AtomicFunction function = FindAtomic(in.mode, in.type, true);
  // The operands: d, [a], b, c of atom; [a], b of red.
  const size_t first = in.op == Op::kAtom ? 2 : 1;
  const bool has_c = in.mode == Mode::kCas;
  const bool is_reversed = warp.block->launch->options->schedule == Schedule::kAdversarial;
  for (int i = 0; i < kLanes; ++i) {
    const int lane = is_reversed ? kLanes - 1 - i : i;
    if ((mask >> lane & 1) == 0) continue;
    uint64_t old = 0;
    if (at[lane] != nullptr) {
      const uint64_t b = RowValue(warp, code.row[first], bytes, lane);
      const uint64_t c = has_c ? RowValue(warp, code.row[first + 1], bytes, lane) : 0;
      old = bytes == 8   ? Exchange<uint64_t>(at[lane], function, b, c)
            : bytes == 4 ? Exchange<uint32_t>(at[lane], function, b, c)
                         : Exchange<uint16_t>(at[lane], function, b, c);
    }
    if (in.op == Op::kAtom && code.row[0] != kNoRow) {
      std::memcpy(warp.Row<uint8_t>(code.row[0]) + lane * bytes, &old, static_cast<size_t>(bytes));
    }
  }
  if (in.op == Op::kAtom) Acquire(warp, in, mask, addresses);
}

// ---- Local memory: each lane has its own

Pointers ResolveLocal(Warp& warp, const Code& code, Mask mask, const Addresses& addresses,
                      int bytes, bool reads) {
  const int64_t size = warp.block->launch->executable->local_bytes;
  const bool is_checked = warp.block->launch->options->checks;
  Pointers pointers;
  pointers.fill(nullptr);
  Mask outside = 0, misaligned = 0, unwritten = 0;
  for (Mask left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const Mask bit = Mask{1} << lane;
    const uint64_t address = addresses[lane];
    if (address > static_cast<uint64_t>(size) || bytes > size - static_cast<int64_t>(address)) {
      outside |= bit;
      continue;
    }
    if (address % static_cast<uint64_t>(bytes) != 0) {
      misaligned |= bit;
      continue;
    }
    const int64_t at = lane * size + static_cast<int64_t>(address);
    pointers[lane] = warp.local + at;
    if (!is_checked) continue;
    uint8_t* marks = warp.local_written + at;
    if (!reads) {
      std::memset(marks, 1, static_cast<size_t>(bytes));
    } else if (std::memchr(marks, 0, static_cast<size_t>(bytes)) != nullptr) {
      unwritten |= bit;
    }
  }
  const auto report = [&](ProblemKind kind, Mask lanes, const char* why) {
    if (lanes == 0) return;
    const uint64_t address = addresses[std::countr_zero(lanes)];
    warp.Report(code, kind, lanes, address,
                absl::StrFormat("%d bytes at %d of local memory (%d bytes)%s", bytes,
                                static_cast<int64_t>(address), size, why));
  };
  report(ProblemKind::kOutOfBounds, outside, ", which is beside it");
  report(ProblemKind::kMisaligned, misaligned, ", which is no multiple of their number");
  report(ProblemKind::kUninitialised, unwritten, ", which nothing has written");
  if (InstructionCounters* counters = warp.CountersOf(code)) {
    // Lanes lie side by side, word by word.
    const int64_t moved = int64_t{std::popcount(mask)} * bytes;
    ++counters->requests;
    counters->sectors += (moved + 31) / 32;
    counters->ideal_sectors += (moved + 31) / 32;
    counters->bytes += moved;
  }
  return pointers;
}

void LocalLoad(Warp& warp, const Code& code, Mask mask, const Addresses& addresses) {
  const int bytes = AccessBytes(*code.instruction);
  LoadInto(warp, code, mask, ResolveLocal(warp, code, mask, addresses, bytes, true));
}

void LocalStore(Warp& warp, const Code& code, Mask mask, const Addresses& addresses) {
  const int bytes = AccessBytes(*code.instruction);
  StoreFrom(warp, code, ResolveLocal(warp, code, mask, addresses, bytes, false));
}

// Only through generic addresses; lanes cannot meet there.
void LocalAtomic(Warp& warp, const Code& code, Mask mask, const Addresses& addresses) {
  warp.Report(code, ProblemKind::kOutOfBounds, mask, addresses[std::countr_zero(mask)],
              "an atomic operation on local memory");
}

// ---- Generic addresses: each lane's says which memory it is

using AccessFunction = void (*)(Warp&, const Code&, Mask, const Addresses&);

template <AccessFunction kGlobal, AccessFunction kShared, AccessFunction kLocal>
void Generic(Warp& warp, const Code& code, Mask mask, int address_row) {
  Addresses addresses = warp.Addresses(code, address_row);
  const auto lanes_in = [&](uint64_t window) {
    return mask & LanesWhere([&](int lane) { return (addresses[lane] & kWindowMask) == window; });
  };
  const Mask shared = lanes_in(kSharedWindow), local = lanes_in(kLocalWindow);
  ForEachLane(shared | local, [&](int lane) { addresses[lane] &= ~kWindowMask; });
  const Mask global = mask & ~shared & ~local;
  if (global != 0) kGlobal(warp, code, global, addresses);
  if (shared != 0) kShared(warp, code, shared, addresses);
  if (local != 0) kLocal(warp, code, local, addresses);
}

// Where the address stands among the rows: behind the vector of a load, first of a store or red,
// second of an atom.
int AddressRow(const Instruction& in) {
  return in.op == Op::kLd ? in.vector : in.op == Op::kAtom ? 1 : 0;
}

template <AccessFunction kAccess>
void Direct(Warp& warp, const Code& code, Mask mask) {
  kAccess(warp, code, mask, warp.Addresses(code, AddressRow(*code.instruction)));
}

void GenericLoad(Warp& warp, const Code& code, Mask mask) {
  Generic<GlobalLoad, SharedLoad, LocalLoad>(warp, code, mask, AddressRow(*code.instruction));
}
void GenericStore(Warp& warp, const Code& code, Mask mask) {
  Generic<GlobalStore, SharedStore, LocalStore>(warp, code, mask, 0);
}
void GenericAtomic(Warp& warp, const Code& code, Mask mask) {
  Generic<GlobalAtomic, SharedAtomic, LocalAtomic>(warp, code, mask, AddressRow(*code.instruction));
}

// ---- Parameters of the kernel: the same for all lanes

void ParameterLoad(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const std::vector<uint8_t>& parameters = warp.block->launch->parameters;
  const Addresses addresses = warp.Addresses(code, in.vector);
  Pointers from;
  from.fill(nullptr);
  Mask outside = 0;
  for (Mask left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t address = addresses[lane];
    if (address > parameters.size() ||
        static_cast<size_t>(AccessBytes(in)) > parameters.size() - address) {
      outside |= Mask{1} << lane;
    } else {
      from[lane] = const_cast<uint8_t*>(parameters.data()) + address;
    }
  }
  if (outside != 0) {
    const uint64_t address = addresses[std::countr_zero(outside)];
    warp.Report(code, ProblemKind::kOutOfBounds, outside, address,
                absl::StrFormat("%d bytes at %d of the parameters (%d bytes)", AccessBytes(in),
                                static_cast<int64_t>(address), parameters.size()));
  }
  LoadInto(warp, code, mask, from);
}

// ---- Addresses

// cvta: to generic addresses a window is added, from them it is taken away.
template <typename T>
void ConvertAddress(Warp& warp, const Code& code, Mask mask) {
  const Instruction& in = *code.instruction;
  const uint64_t window = in.space == Space::kShared  ? kSharedWindow
                          : in.space == Space::kLocal ? kLocalWindow
                                                      : 0;
  const T* a = warp.Row<T>(code.row[1]);
  T* d = warp.Row<T>(code.row[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t value = in.to ? a[lane] & ~(window == 0 ? 0 : kWindowMask) : a[lane] | window;
    d[lane] = mask >> lane & 1 ? static_cast<T>(value) : d[lane];
  }
}

void IsSpace(Warp& warp, const Code& code, Mask mask) {
  const Space space = code.instruction->space;
  const uint64_t* a = warp.Row<uint64_t>(code.row[1]);
  warp.SetPredicate(code.row[0], mask, LanesWhere([=](int lane) {
                      const uint64_t window = a[lane] & kWindowMask;
                      return space == Space::kShared  ? window == kSharedWindow
                             : space == Space::kLocal ? window == kLocalWindow
                                                      : space == Space::kGlobal && window == 0;
                    }));
}

Handler FindLoad(Space space) {
  switch (space) {
    case Space::kGlobal:
    case Space::kConst:
      return Direct<GlobalLoad>;
    case Space::kLocal:
      return Direct<LocalLoad>;
    case Space::kParam:
      return ParameterLoad;
    case Space::kGeneric:
      return GenericLoad;
    case Space::kShared:
      return nullptr;
  }
  return nullptr;
}

Handler FindStore(Space space) {
  switch (space) {
    case Space::kGlobal:
      return Direct<GlobalStore>;
    case Space::kLocal:
      return Direct<LocalStore>;
    case Space::kGeneric:
      return GenericStore;
    default:
      return nullptr;
  }
}

}  // namespace

std::array<const uint8_t*, kLanes> GlobalSources(Warp& warp, const Code& code, Mask mask,
                                                 const std::array<uint64_t, kLanes>& addresses,
                                                 const std::array<int, kLanes>& bytes) {
  std::array<const uint8_t*, kLanes> sources;
  sources.fill(nullptr);
  // Lanes with the same number of bytes are one request.
  for (Mask left = mask; left != 0;) {
    const int count = bytes[std::countr_zero(left)];
    Mask same = 0;
    for (Mask rest = left; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (bytes[lane] == count) same |= Mask{1} << lane;
    }
    left &= ~same;
    if (count == 0) continue;
    GlobalAccess access(warp, code, {.kind = AccessKind::kRead, .bytes = count});
    const Pointers pointers = access.Resolve(same, addresses);
    for (Mask rest = same; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      sources[lane] = pointers[lane];
    }
  }
  return sources;
}

Handler FindGlobalHandler(const Instruction& in, const HandlerOptions&) {
  switch (in.op) {
    case Op::kLd:
      return FindLoad(in.space);
    case Op::kSt:
      return FindStore(in.space);
    case Op::kAtom:
    case Op::kRed:
      if (FindAtomic(in.mode, in.type, true) == nullptr) return nullptr;
      if (in.space == Space::kGlobal) return Direct<GlobalAtomic>;
      return in.space == Space::kGeneric ? GenericAtomic : nullptr;
    case Op::kCvta:
      return TypeBytes(in.type) == 8 ? ConvertAddress<uint64_t> : nullptr;
    case Op::kIsspacep:
      return IsSpace;
    case Op::kFence:
    case Op::kMembar:
      // Every access is seen by all at once; blocks are told what may rely on that.
      return in.is_narrow ? DoNothing : Fence;
    case Op::kPrefetch:
      return DoNothing;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator
