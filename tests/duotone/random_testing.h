// Graphs on a device against the reference evaluation of the graph as it was before fusion: the
// same bits where docs/numerics.md promises them, else within bounds. What is tested is the whole
// way from a graph to results: fusion, every generator, the order of launches, and sharing of
// memory.
#ifndef DUOTONE_TESTS_DUOTONE_RANDOM_TESTING_H_
#define DUOTONE_TESTS_DUOTONE_RANDOM_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "duotone/cuda_compile.h"
#include "ir/text.h"
#include "llvm/ADT/StringSet.h"
#include "runtime/device.h"

namespace duotone {

// A graph with what is expected of it.
struct Case {
  uint32_t seed = 0;
  std::unique_ptr<ir::Module> module;
  llvm::StringSet<> loose;
  bool special = false;
  bool exact = true;
  const GpuTarget* target = nullptr;
  internal::CudaEntry entry;  // by LowerCase

  std::string Text() const {
    return absl::StrCat("seed ", seed, "\n", ir::Print(*module), "fused:\n",
                        entry.module == nullptr ? "" : ir::Print(*entry.module));
  }
};

// Random graphs, `count` of them from number `first` on; DUOTONE_RANDOM_FIRST=100 and
// DUOTONE_RANDOM_COUNT=500 make others. Architectures take turns.
std::vector<Case> RandomCases(int first, int count);
// Graphs that were wrong once, cut down from random ones.
std::vector<Case> SmallCases();

// Makes the program of the case, without machine code.
absl::Status LowerCase(Case& test);
// Runs it three times, with the state that each run leaves. The program is the case's, compiled.
absl::Status RunCase(const Case& test, std::shared_ptr<const runtime::Program> program,
                     runtime::Device& device);

}  // namespace duotone

#endif  // DUOTONE_TESTS_DUOTONE_RANDOM_TESTING_H_
