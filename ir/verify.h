// The verifier's findings one by one, for the parser, which knows where in the text each stands.
// Others call Verify (ir/text.h).
#ifndef DUOTONE_IR_VERIFY_H_
#define DUOTONE_IR_VERIFY_H_

#include <string>
#include <vector>

#include "ir/graph.h"

namespace duotone::ir {

struct Violation {
  int invariant;        // its number at the top of ir/verify.cc
  std::string message;  // a sentence without place
  // Where: at most one of entry, node, update (an index), output (an index).
  const Graph* graph = nullptr;  // of a fusion's body, the body
  const Node* fusion = nullptr;  // whose body `graph` is
  const StateEntry* entry = nullptr;
  const Node* node = nullptr;
  int update = -1;
  int output = -1;

  std::string ToString() const;  // "[7] <message> (graph @step; mlp.cc:14, node %h)"
};

std::vector<Violation> FindViolations(const Module& module);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_VERIFY_H_
