#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codegen/cuda/kernel.h"
#include "llvm/ADT/DenseMap.h"

namespace duotone::codegen::cuda {
namespace {

struct Family {
  std::string_view name;
  absl::StatusOr<GeneratedKernel> (*generate)(const ir::Node& fusion, GuardOption guard,
                                              const CodegenOptions& options);
};
constexpr Family kFamilies[] = {
    {"column", GenerateColumn},       {"matmul", GenerateMatMul}, {"optimizer", GenerateOptimizer},
    {"pointwise", GeneratePointwise}, {"row", GenerateRow},       {"scatter", GenerateScatter},
};

// Generators descend through bodies recursively. Those that passes make are far below.
constexpr int kMostDepth = 1000;

// The nodes on the longest way through a body.
int DepthOf(const ir::Graph& body) {
  llvm::DenseMap<const ir::Node*, int> depths;
  int deepest = 0;
  for (const auto& node : body.nodes()) {
    int depth = 0;
    for (ir::Value operand : node->operands()) {
      depth = std::max(depth, depths.lookup(operand.node));
    }
    depths[node.get()] = depth + 1;
    deepest = std::max(deepest, depth + 1);
  }
  return deepest;
}

}  // namespace

std::vector<std::string_view> KernelFamilies() {
  std::vector<std::string_view> names = {kFinishFamily, kCopyFamily};
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

absl::StatusOr<GeneratedKernel> GenerateKernel(const ir::Node& fusion, GuardOption guard,
                                               const CodegenOptions& options) {
  const std::string& name = fusion.attrs_as<ir::FusionAttrs>().family;
  const auto* family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                    [&](const Family& f) { return f.name == name; });
  if (family == std::end(kFamilies)) {
    std::string known;
    for (const Family& f : kFamilies) {
      known += (known.empty() ? "" : ", ") + std::string(f.name);
    }
    return InvalidArgument("fusion: unknown family '%s'; known are %s %s", name, known,
                           fusion.Place());
  }
  if (const int depth = DepthOf(*fusion.body()); depth > kMostDepth) {
    return InvalidArgument("fusion: its body has %d nodes one after another, more than %d %s",
                           depth, kMostDepth, fusion.Place());
  }
  return family->generate(fusion, std::move(guard), options);
}

}  // namespace duotone::codegen::cuda
