#include "base/sha256.h"

#include "gtest/gtest.h"

namespace duotone {
namespace {

std::string HashOf(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return ToHex(hash.Finish());
}

// The examples of FIPS 180-4 and of NIST's test vectors.
TEST(Sha256, MatchesThePublishedExamples) {
  EXPECT_EQ(HashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HashOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheHashOfTheWhole) {
  const std::string text(300, 'x');
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.Update(text.substr(0, cut));
    hash.Update(text.substr(cut));
    ASSERT_EQ(ToHex(hash.Finish()), HashOf(text)) << cut;
  }
}

TEST(Sha256, FieldsKeepTheirBorders) {
  Sha256 first, second;
  for (const char* field : {"ab", "c"}) first.UpdateField(field);
  for (const char* field : {"a", "bc"}) second.UpdateField(field);
  EXPECT_NE(first.Finish(), second.Finish());
}

}  // namespace
}  // namespace duotone
