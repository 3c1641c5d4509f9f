#include "passes/registry.h"

#include "passes/autocast.h"
#include "passes/cse.h"
#include "passes/dce.h"

namespace duotone::passes {
namespace {

// A pass without options.
template <typename P>
std::unique_ptr<Pass> Make(const PassOptions&) {
  return std::make_unique<P>();
}

std::unique_ptr<Pass> MakeAutocast(const PassOptions& options) {
  return std::make_unique<Autocast>(options.autocast);
}

constexpr PassInfo kPasses[] = {
    {.name = "autocast",
     .doc = "Decides for every node between a 16-bit type and f32, and inserts the casts.",
     .options = "dtype=f16",
     .before = R"(graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
  %h = matmul(%x, %w) : f32[8, 8]
  %y = relu(%h) : f32[8, 8]
  %z = matmul(%y, %w) : f32[8, 8]
  return %z
})",
     .after = R"(graph @g(%x: f32[8, 8], %w: f32[8, 8]) {
  %x.f16 = cast(%x), to=f16 : f16[8, 8] {origin="autocast:allow"}
  %w.f16 = cast(%w), to=f16 : f16[8, 8] {origin="autocast:allow"}
  %h = matmul(%x.f16, %w.f16) : f16[8, 8] {origin="autocast:allow"}
  %y = relu(%h) : f16[8, 8] {origin="autocast:between"}
  %z = matmul(%y, %w.f16), out=f32 : f32[8, 8] {origin="autocast:allow"}
  return %z
})",
     .make = MakeAutocast},
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
