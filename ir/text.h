// The text form: every dump is an input. Grammar in docs/ir.md.
#ifndef DUOTONE_IR_TEXT_H_
#define DUOTONE_IR_TEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace duotone::ir {

struct PrintOptions {
  // Text for a trailing "// ..." comment behind a node; null or "" prints none. Comments are not
  // read back.
  std::function<std::string(const Node&)> annotate;
  // Leave out the {loc=..., scope=...} part (for humans; such a text is still an input).
  bool attributes = true;
};

// print -> parse -> print is the identity, with every attribute.
std::string Print(const Module& module, const PrintOptions& options = {});
std::string Print(const Graph& graph, const PrintOptions& options = {});
// One node's line without indentation and line break; a fusion's body follows on lines of its own.
std::string PrintNode(const Node& node, const PrintOptions& options = {});

// Bounds that keep a broken or hostile file from exhausting memory or the stack.
struct ParseLimits {
  size_t max_bytes = size_t{64} << 20;
  size_t max_nodes = 1 << 20;
  size_t max_literal_elements = 1 << 20;
};

// Parses a module, or bare graphs (which become the graphs of a module called "module"). `source`
// names the text in messages: "model.duo:12:7: unknown op 'matmull'\n  %h = matmull(%x, %w)\n ^".
// Nodes without loc keep none.
absl::StatusOr<std::unique_ptr<Module>> Parse(std::string_view text,
                                              std::string_view source = "<text>",
                                              const ParseLimits& limits = {});

// Checks the numbered invariants at the top of ir/verify.cc and returns all violations in one
// Status.
absl::Status Verify(const Module& module);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_TEXT_H_
