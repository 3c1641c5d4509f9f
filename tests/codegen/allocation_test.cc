// Counts calls of malloc and its like while a step runs.
#include <atomic>
#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/codegen/training_step.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DUOTONE_OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DUOTONE_OWN_MALLOC 0
#endif
#endif
#ifndef DUOTONE_OWN_MALLOC
#define DUOTONE_OWN_MALLOC 1
#endif

namespace {
std::atomic<int64_t> allocations = 0;
}

#if DUOTONE_OWN_MALLOC
// glibc's functions behind the names that programs may replace.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
}
#endif

namespace duotone::codegen::cpu {
namespace {

TEST(Allocations, AStepMakesNone) {
  if (!DUOTONE_OWN_MALLOC) GTEST_SKIP() << "sanitizers have an allocator of their own";
  const int64_t start = allocations;
  delete new std::string(100, 'x');
  ASSERT_GT(allocations, start) << "allocations are not counted";

  std::unique_ptr<ir::Module> module = ParseOrDie(kTrainingStep);
  const ir::Graph& graph = *module->FindGraph("step");
  for (bool use_library : {false, true}) {
    CpuSession session(*module, TrainingState(*module), 2, {.use_library = use_library});
    auto loaded = session.Load(graph);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    // What a library prepares on its first call is its own matter.
    ASSERT_TRUE(session.device().Run(**loaded, {}).ok());
    const int64_t before = allocations;
    for (int i = 0; i < 10; ++i) {
      const absl::Status status = session.device().Run(**loaded, {.seed = 1});
      if (!status.ok()) FAIL() << status;
    }
    EXPECT_EQ(allocations - before, 0) << (use_library ? "with" : "without") << " library calls";
  }
}

}  // namespace
}  // namespace duotone::codegen::cpu
