// docs/ops.md, made from the op table.
#ifndef DUOTONE_IR_OP_DOCS_H_
#define DUOTONE_IR_OP_DOCS_H_

#include <string>

namespace duotone::ir {

// The whole page. tests/ir/op_docs_test.cc compares it with docs/ops.md and says how to refresh the
// file.
std::string OpsMarkdown();

}  // namespace duotone::ir

#endif  // DUOTONE_IR_OP_DOCS_H_
