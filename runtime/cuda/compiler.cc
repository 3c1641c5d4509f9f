#include "runtime/cuda/compiler.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cuda/compile_error.h"
#include "runtime/cuda/kernel_cache.h"

namespace duotone::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One source text, and the kernels of the program that have it.
struct Job {
  std::vector<int> kernels;
  absl::StatusOr<CompiledKernel> result = CompiledKernel();
  bool from_cache = false;
  double seconds = 0;  // of the compiler
};

std::vector<Job> CollectJobs(const Program& program, std::string_view architecture) {
  std::vector<Job> jobs;
  std::map<std::pair<std::string_view, bool>, size_t> job_of_source;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Kernel& kernel = program.kernels[i];
    if (kernel.architecture == architecture && (!kernel.cubin.empty() || !kernel.ptx.empty())) {
      continue;
    }
    const auto [entry, is_new] =
        job_of_source.try_emplace({kernel.source, kernel.contract}, jobs.size());
    if (is_new) jobs.emplace_back();
    jobs[entry->second].kernels.push_back(static_cast<int>(i));
  }
  return jobs;
}

// The order in which to compile: a long kernel that comes last would leave all threads but one
// idle.
std::vector<size_t> LongestFirst(const std::vector<Job>& jobs, const Program& program) {
  const auto length = [&](size_t job) {
    return program.kernels[static_cast<size_t>(jobs[job].kernels.front())].source.size();
  };
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return length(a) > length(b); });
  return order;
}

std::vector<const KernelLaunch*> LaunchesOf(const Program& program, const Job& job) {
  std::vector<const KernelLaunch*> launches;
  for (const Step& step : program.steps) {
    const auto* launch = std::get_if<KernelLaunch>(&step.action);
    if (launch == nullptr) continue;
    for (int kernel : job.kernels) {
      if (launch->kernel == kernel) launches.push_back(launch);
    }
  }
  return launches;
}

// "line 12 computes gelu (gpt.cc:40, node %gelu.1)", for each line of the kernel in the message.
std::string DescribeLines(std::string_view message, std::string_view source,
                          const std::vector<const KernelLaunch*>& launches) {
  std::string text;
  std::set<int> seen;
  for (const SourcePlace& place : PlacesIn(message)) {
    if (place.file != kKernelFile || !seen.insert(place.line).second) continue;
    const auto label = static_cast<size_t>(LabelOfLine(source, place.line));
    if (label == 0 || launches.empty() || label > launches.front()->labels.size()) continue;
    text +=
        absl::StrFormat("\nline %d computes %s", place.line, launches.front()->labels[label - 1]);
  }
  return text;
}

// Leaves the kernel and its headers in a folder; the sentence says which, or why not.
std::string LeaveReproducer(const Program& program, const Kernel& kernel,
                            const std::vector<std::string>& options, const std::string& directory) {
  const std::string name = absl::StrFormat("duotone-kernel-%016x", Fnv1a(kernel.source));
  const std::filesystem::path folder = std::filesystem::path(directory) / name;
  absl::Status status = WriteFileAtomically((folder / kKernelFile).string(), kernel.source);
  for (const SourceHeader& header : program.headers) {
    if (status.ok()) status = WriteFileAtomically((folder / header.name).string(), header.text);
  }
  if (!status.ok()) {
    return absl::StrFormat("no reproducer was written: %s", std::string(status.message()));
  }
  return absl::StrFormat("the kernel and its headers are in %s; its options: %s", folder.string(),
                         absl::StrJoin(options, " "));
}

// "the kernel of fc1/relu (matmul (mlp.cc:14, node %h1); relu (...); and 3 more) and of 2 other
// nodes".
std::string DescribeKernel(const Kernel& kernel, const std::vector<const KernelLaunch*>& launches) {
  constexpr size_t kShown = 4;
  if (launches.empty()) return kernel.name;
  std::string what = absl::StrFormat("the kernel of %s", launches.front()->node);
  std::vector<std::string> labels = launches.front()->labels;
  if (labels.size() > kShown) {
    const size_t hidden = labels.size() - kShown;
    labels.resize(kShown);
    labels.push_back(absl::StrFormat("and %d more", hidden));
  }
  if (!labels.empty()) what += absl::StrFormat(" (%s)", absl::StrJoin(labels, "; "));
  if (launches.size() > 1) what += absl::StrFormat(" and of %d other nodes", launches.size() - 1);
  return what;
}

absl::Status Explain(const absl::Status& error, const Program& program, const Job& job,
                     const std::vector<std::string>& options, const std::string& directory) {
  // The request was wrong, not a kernel.
  if (error.code() == absl::StatusCode::kInvalidArgument) return error;
  const Kernel& kernel = program.kernels[static_cast<size_t>(job.kernels.front())];
  const std::vector<const KernelLaunch*> launches = LaunchesOf(program, job);
  const std::string what = DescribeKernel(kernel, launches);
  const std::string message(error.message());
  std::string text = absl::StrFormat("while compiling %s: %s%s", what, message,
                                     DescribeLines(message, kernel.source, launches));
  if (!directory.empty() && error.code() == absl::StatusCode::kInternal) {
    text += absl::StrFormat("\n(%s)", LeaveReproducer(program, kernel, options, directory));
  }
  return absl::Status(error.code(), text);
}

}  // namespace

absl::StatusOr<CompileStatistics> CompileProgram(Program& program, std::string_view architecture,
                                                 KernelCompiler& compiler, KernelCache* cache,
                                                 int threads,
                                                 const std::string& reproducer_directory) {
  const Clock::time_point begin = Clock::now();
  std::vector<Job> jobs = CollectJobs(program, architecture);
  const auto kernel_of = [&](const Job& job) -> Kernel& {
    return program.kernels[static_cast<size_t>(job.kernels.front())];
  };
  const Sha256Digest headers = HashOfHeaders(program.headers);
  const std::vector<size_t> order = LongestFirst(jobs, program);
  ThreadPool pool(jobs.size() > 1 ? threads : 1);
  pool.ParallelFor(static_cast<int64_t>(jobs.size()), [&](int64_t i) {
    Job& job = jobs[order[static_cast<size_t>(i)]];
    Sha256Digest key;
    if (cache != nullptr) {
      key = KernelCacheKey(kernel_of(job), headers, architecture, compiler);
      if (std::optional<CompiledKernel> found = cache->Find(key); found.has_value()) {
        job.result = *std::move(found);
        job.from_cache = true;
        return;
      }
    }
    const Clock::time_point job_begin = Clock::now();
    job.result = compiler.Compile(kernel_of(job), program.headers, architecture);
    job.seconds = SecondsSince(job_begin);
    if (cache != nullptr && job.result.ok()) cache->Insert(key, *job.result);
  });

  CompileStatistics statistics;
  statistics.kernels = static_cast<int>(program.kernels.size());
  statistics.threads = pool.threads();
  for (const Job& job : jobs) {
    if (!job.result.ok()) {
      return Explain(job.result.status(), program, job,
                     compiler.options(kernel_of(job), architecture), reproducer_directory);
    }
  }
  for (const Job& job : jobs) {
    ++(job.from_cache ? statistics.cache_hits : statistics.compiled);
    statistics.compile_seconds += job.seconds;
    if (!job.result->log.empty()) {
      statistics.warnings.push_back(absl::StrFormat("the compiler says of the kernel %s: %s",
                                                    kernel_of(job).name, job.result->log));
    }
    for (int index : job.kernels) {
      Kernel& kernel = program.kernels[static_cast<size_t>(index)];
      kernel.architecture = architecture;
      kernel.cubin = job.result->cubin;
      kernel.ptx = job.result->ptx;
    }
  }
  if (cache != nullptr) {
    if (std::string warning = cache->TakeWarning(); !warning.empty()) {
      statistics.warnings.push_back(std::move(warning));
    }
  }
  statistics.seconds = SecondsSince(begin);
  return statistics;
}

}  // namespace duotone::runtime
