// docs/ops.md is what the op table says.
#include "ir/op_docs.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace duotone::ir {
namespace {

TEST(OpDocs, AreFresh) {
  const std::string path = std::string(DUOTONE_SOURCE_DIR) + "/docs/ops.md";
  if (std::getenv("DUOTONE_BLESS") != nullptr) std::ofstream(path) << OpsMarkdown();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == OpsMarkdown())
      << "docs/ops.md is stale; run ir_op_docs_test with DUOTONE_BLESS=1 to refresh it";
}

}  // namespace
}  // namespace duotone::ir
