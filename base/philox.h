// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011, and how the project keys it. A random number is a function
// of what it is for, not of what was drawn before it, so every device and every split of the work
// gives the same numbers.
//
//   key      seed, low and high 32 bits
//   counter  word 0: block index, low 32 bits (a block is 4 consecutive elements, one word each)
//            word 1: step, low 32 bits
//            words 2 and 3: stream + (block index >> 32), low and high 32 bits, where
//              stream = Mix64(Mix64(node id + kGolden * (micro batch + 1)) ^ (step >> 32))
//
// Blocks and steps below 2^32 never collide within a node; different nodes and micro batches
// collide with the probability that two 64-bit hashes are equal.
#ifndef DUOTONE_BASE_PHILOX_H_
#define DUOTONE_BASE_PHILOX_H_

#include <array>
#include <cmath>
#include <cstdint>

namespace duotone {

using RandomWords = std::array<uint32_t, 4>;

constexpr RandomWords Philox4x32(std::array<uint32_t, 2> key, RandomWords counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// The finaliser of SplitMix64: a bijection that spreads every input bit over the word.
constexpr uint64_t Mix64(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// The part of the counter that is the same for all elements of one draw.
constexpr uint64_t RandomStream(uint64_t node_id, int64_t step, int64_t micro_batch) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;
  const uint64_t node = Mix64(node_id + kGolden * (static_cast<uint64_t>(micro_batch) + 1));
  return Mix64(node ^ (static_cast<uint64_t>(step) >> 32));
}

// The words of elements 4*block to 4*block + 3; see the top of the file.
constexpr RandomWords RandomBlock(uint64_t seed, int64_t step, int64_t micro_batch,
                                  uint64_t node_id, uint64_t block) {
  const uint64_t high = RandomStream(node_id, step, micro_batch) + (block >> 32);
  return Philox4x32({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                    {static_cast<uint32_t>(block), static_cast<uint32_t>(step),
                     static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)});
}

// Uniform on [0, 1): a multiple of 2^-24, exact in f32.
constexpr float UniformFromBits(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Uniform on [low, high): low + u * (high - low), each operation rounded to f32, and kept below
// `high` where the last one rounds up to it.
inline float UniformBetween(uint32_t bits, float low, float high) {
  const float value = low + UniformFromBits(bits) * (high - low);
  return value < high ? value : std::nextafter(high, low);
}

// Two independent standard normal numbers by Box and Muller: r*cos(a) and r*sin(a) with r =
// sqrt(-2*ln(u1)), a = 2*pi*u2, u1 = ((bits0 >> 8) + 1) * 2^-24 on (0, 1] and u2 = (bits1 >> 8) *
// 2^-24, in f32.
inline std::array<float, 2> NormalFromBits(uint32_t bits0, uint32_t bits1) {
  const float u1 = static_cast<float>((bits0 >> 8) + 1) * 0x1p-24f;
  const float radius = std::sqrt(-2.0f * std::log(u1));
  const float angle = 6.283185307179586f * UniformFromBits(bits1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace duotone

#endif  // DUOTONE_BASE_PHILOX_H_
