// A bound step allocates nothing: this binary counts calls of operator new.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "duotone/duotone.h"
#include "gtest/gtest.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Not inlined, or the compiler sees free() meet operator new and warns.
__attribute__((noinline)) void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace duotone {
namespace {

TEST(BoundStep, AllocatesNothing) {
  GraphBuilder b("m");
  Value x = b.Input("x", F32({"B", 16})), y = b.Input("y", I32({"B"}));
  Value w = b.Param("w", F32({16, 8}), KaimingUniform());
  b.Output("loss", CrossEntropy(Dropout(Gelu(MatMul(x, w)), 0.1), y));
  // Without the library, whose own allocations are not ours.
  absl::StatusOr<TrainSession> session = Compile(std::move(b), {.autocast = {.dtype = DType::kF16},
                                                                .optimizers = {AdamW{}},
                                                                .device = Device("reference"),
                                                                .threads = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<float> images(32 * 16, 0.5f);
  std::vector<int32_t> labels(32, 3);
  absl::StatusOr<BoundStep> step = session->Bind({{"x", images}, {"y", labels}});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_TRUE(step->Run().ok());  // the first run may set things up

  double loss = 0;
  const int64_t before = allocations;
  for (int i = 0; i < 10; ++i) {
    absl::StatusOr<Metrics> metrics = step->Run();
    if (metrics.ok()) loss = metrics->loss();
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(loss, 0);
}

TEST(BoundStep, TheCounterCounts) {
  const int64_t before = allocations;
  delete new std::vector<int>(10);
  EXPECT_GE(allocations - before, 1);
}

}  // namespace
}  // namespace duotone
