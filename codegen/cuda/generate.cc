#include <algorithm>
#include <string_view>

#include "base/status.h"
#include "codegen/cuda/kernel.h"

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

}  // namespace

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
  return family->generate(fusion, std::move(guard), options);
}

}  // namespace duotone::codegen::cuda
