// Stable hashes: the same on every machine, in every run and build. Random streams key on them.
#ifndef DUOTONE_BASE_HASH_H_
#define DUOTONE_BASE_HASH_H_

#include <cstdint>
#include <string_view>

namespace duotone {

inline constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ULL;
inline constexpr uint64_t kFnvPrime = 0x100000001b3ULL;

// 64-bit FNV-1a (Fowler, Noll, Vo).
constexpr uint64_t Fnv1a(std::string_view text, uint64_t hash = kFnvOffset) {
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * kFnvPrime;
  return hash;
}

// Mixes one more value into a hash.
constexpr uint64_t HashCombine(uint64_t hash, uint64_t value) {
  for (int i = 0; i < 8; ++i) hash = (hash ^ ((value >> (8 * i)) & 0xff)) * kFnvPrime;
  return hash;
}

}  // namespace duotone

#endif  // DUOTONE_BASE_HASH_H_
