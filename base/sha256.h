// SHA-256 (FIPS 180-4): names for contents, where two contents must never share one.
//
//   Sha256 hash;
//   hash.UpdateField(source);  // with its length: ("ab", "c") and ("a", "bc") differ
//   std::string name = ToHex(hash.Finish());
#ifndef DUOTONE_BASE_SHA256_H_
#define DUOTONE_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace duotone {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void Update(std::string_view bytes);
  // The length of `bytes` and then the bytes.
  void UpdateField(std::string_view bytes);
  // The digest of everything so far; the object is used up.
  Sha256Digest Finish();

 private:
  void AddBlock(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_ = {};
  size_t pending_size_ = 0;
  uint64_t total_bytes_ = 0;
};

// Lower-case, two digits a byte.
std::string ToHex(const Sha256Digest& digest);

}  // namespace duotone

#endif  // DUOTONE_BASE_SHA256_H_
