// Loops over the lanes of a warp, for handlers of elementwise instructions.
#ifndef DUOTONE_RUNTIME_EMULATOR_LANE_LOOPS_H_
#define DUOTONE_RUNTIME_EMULATOR_LANE_LOOPS_H_

#include <cstdint>

#include "runtime/emulator/code.h"
#include "runtime/emulator/warp.h"

// Rows are the same or do not overlap, so lanes do not depend on each other.
#if defined(__clang__)
#define DUOTONE_LANE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define DUOTONE_LANE_LOOP _Pragma("GCC ivdep")
#endif

namespace duotone::emulator {

// d[lane] = function(lane) in the lanes of `mask`. `function` must be safe in the other lanes too:
// it is evaluated in all.
template <typename D, typename Function>
inline void ForLanes(D* d, Mask mask, const Function& function) {
  if (mask == kAllLanes) {
    DUOTONE_LANE_LOOP
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = function(lane);
    return;
  }
  D results[kLanes];
  DUOTONE_LANE_LOOP
  for (int lane = 0; lane < kLanes; ++lane) results[lane] = function(lane);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) d[lane] = results[lane];
  }
}

// The lanes in which the function is true.
template <typename Function>
inline Mask LanesWhere(const Function& function) {
  Mask result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    result |= static_cast<Mask>(static_cast<bool>(function(lane))) << lane;
  }
  return result;
}

// Of instructions that only order or hint.
inline void DoNothing(Warp&, const Code&, Mask) {}

// Handlers of the form d = F::Of(a), F::Of(a, b), F::Of(a, b, c) with operands of types A, B, C.
template <typename D, typename A, typename F>
void Unary(Warp& warp, const Code& code, Mask mask) {
  const A* a = warp.Row<A>(code.row[1]);
  ForLanes(warp.Row<D>(code.row[0]), mask,
           [=](int lane) { return static_cast<D>(F::Of(a[lane])); });
}
template <typename D, typename A, typename B, typename F>
void Binary(Warp& warp, const Code& code, Mask mask) {
  const A* a = warp.Row<A>(code.row[1]);
  const B* b = warp.Row<B>(code.row[2]);
  ForLanes(warp.Row<D>(code.row[0]), mask,
           [=](int lane) { return static_cast<D>(F::Of(a[lane], b[lane])); });
}
template <typename D, typename A, typename B, typename C, typename F>
void Ternary(Warp& warp, const Code& code, Mask mask) {
  const A* a = warp.Row<A>(code.row[1]);
  const B* b = warp.Row<B>(code.row[2]);
  const C* c = warp.Row<C>(code.row[3]);
  ForLanes(warp.Row<D>(code.row[0]), mask,
           [=](int lane) { return static_cast<D>(F::Of(a[lane], b[lane], c[lane])); });
}
// Unary of unsigned integers of so many bytes; null for other numbers.
template <template <typename> class F>
Handler UnaryByBytes(int bytes) {
  switch (bytes) {
    case 2:
      return Unary<uint16_t, uint16_t, F<uint16_t>>;
    case 4:
      return Unary<uint32_t, uint32_t, F<uint32_t>>;
    case 8:
      return Unary<uint64_t, uint64_t, F<uint64_t>>;
    default:
      return nullptr;
  }
}

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_LANE_LOOPS_H_
