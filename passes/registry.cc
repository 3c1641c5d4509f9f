#include "passes/registry.h"

#include "passes/cse.h"
#include "passes/dce.h"

namespace duotone::passes {
namespace {

// A pass without options.
template <typename P>
std::unique_ptr<Pass> Make(const PassOptions&) {
  return std::make_unique<P>();
}

constexpr PassInfo kPasses[] = {
    {.name = "cse",
     .doc = "Merges nodes that compute the same, except random ones; the earlier node stays.",
     .before = R"(graph @g(%x: f32[4]) {
  %a = cast(%x), to=f16 : f16[4]
  %b = cast(%x), to=f16 : f16[4]
  %y = add(%a, %b) : f16[4]
  return %y
})",
     .after = R"(graph @g(%x: f32[4]) {
  %a = cast(%x), to=f16 : f16[4]
  %y = add(%a, %a) : f16[4]
  return %y
})",
     .make = Make<Cse>},
    {.name = "dce",
     .doc = "Removes nodes that no output and no update depends on.",
     .before = R"(graph @g(%x: f32[4]) {
  %h = exp(%x) : f32[4]
  %y = neg(%x) : f32[4]
  return %y
})",
     .after = R"(graph @g(%x: f32[4]) {
  %y = neg(%x) : f32[4]
  return %y
})",
     .make = Make<Dce>},
};

}  // namespace

llvm::ArrayRef<PassInfo> AllPasses() { return kPasses; }

const PassInfo* FindPass(std::string_view name) {
  for (const PassInfo& info : kPasses) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

}  // namespace duotone::passes
