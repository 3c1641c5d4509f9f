// What autocast made of a graph, for people and tools: the compile report (how much of the work is
// in 16 bits, and a warning if it is none) and the explanation (why each node has its dtype, and a
// ledger of the casts).
//
//   autocast f16: 9 nodes f16, 4 f32, 1 i32; 4 casts inserted, 2.1 MB written by them
//   FLOPs 1.05e+09, 99.7 % in 16 bits (of the matrix products 100.0 %)
//   warning: matmul %logits (mlp.cc:20): n = 10 is no multiple of 8, so tensor cores pad or are not
//   used
//
// Both describe the graph as it is: run autocast first. They work as well on a finished training
// step, where a backward node has the reason of the forward node it comes from.
#ifndef DUOTONE_PASSES_PRECISION_REPORT_H_
#define DUOTONE_PASSES_PRECISION_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "passes/options.h"

namespace duotone::passes {

// The value of named sizes that the binding leaves out.
inline constexpr int64_t kNominalSize = 128;

struct CompileReport {
  std::string dtype = "off";  // autocast's 16-bit type
  std::vector<std::pair<std::string, int64_t>>
      nodes_per_dtype;         // by first result; in the order of DType
  int64_t casts_inserted = 0;  // by autocast
  int64_t cast_bytes = 0;      // written by them in one step
  // Forward and backward, without casts and optimizer updates. A node's FLOPs are in 16 bits if its
  // floating-point operands are, apart from those that the op always keeps in f32.
  double flops = 0;
  double flops_low = 0;
  double matmul_flops = 0;
  double matmul_flops_low = 0;
  // Bytes that all nodes would read and write if nothing were fused.
  double cost = 0;
  std::vector<std::string> warnings;

  double low_share() const { return flops > 0 ? flops_low / flops : 0; }
  double matmul_low_share() const { return matmul_flops > 0 ? matmul_flops_low / matmul_flops : 0; }
};

struct NodeExplanation {
  std::string name;
  std::string op;
  std::string dtype;              // of the first result
  std::string rule;               // the code: "allow", "downstream", ...
  std::string reason;             // "fp32: infer op, downstream of exp (%e) via %r"
  std::vector<std::string> path;  // the nearest nodes on the way to the cause, and the cause
};

struct CastEntry {
  std::string value;  // what is cast
  std::string from;
  std::string to;
  int64_t bytes = 0;  // of the result
  std::vector<std::string> readers;
  std::string origin;  // "user", or "autocast:<rule>"
};

struct PrecisionExplanation {
  std::vector<NodeExplanation> nodes;  // in the graph's order, without casts
  std::vector<CastEntry> casts;
  CompileReport totals;
};

absl::StatusOr<CompileReport> MakeCompileReport(const ir::Graph& graph,
                                                const AutocastOptions& options,
                                                const ir::SizeBinding& binding = {});
absl::StatusOr<PrecisionExplanation> ExplainPrecision(const ir::Graph& graph,
                                                      const AutocastOptions& options,
                                                      const ir::SizeBinding& binding = {});

std::string ToText(const CompileReport& report);
std::string ToText(const PrecisionExplanation& explanation);

}  // namespace duotone::passes

#endif  // DUOTONE_PASSES_PRECISION_REPORT_H_
