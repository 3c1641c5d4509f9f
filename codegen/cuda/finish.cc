// The second stages of reductions over all blocks: one launch for all of them.
//
//   static __constant__ const FinishJob kJobs[] = {
//       {0, 0, 0, -1, 0, 1.0, 512, 64},    // 512 sums of 64 partial results: blocks 0 to 15
//       {16, 1, 1, -1, 1, 1.0, 1, 64},     // one more: block 16
//   };
//   kernel(...) { ...finds the block's job...; switch (job.variant) {
//       case 0: Finish<Sum, float, half>(job, ...); break;
//       case 1: Finish<Sum, float, float>(job, ...); break; } }
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/integer.h"
#include "base/status.h"
#include "codegen/cuda/emitter.h"
#include "codegen/cuda/kernel.h"

namespace duotone::codegen::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElementsPerBlock = 32;

// How a kind combines, and what it begins with in f32, f64 and i64.
struct Way {
  Finish::Kind kind;
  std::string_view name;
  std::string_view f32;
  std::string_view f64;
  std::string_view i64;
};
constexpr Way kWays[] = {
    {Finish::Kind::kSum, "Sum", "0.0f", "0.0", "0LL"},
    {Finish::Kind::kMean, "Sum", "0.0f", "0.0", "0LL"},
    {Finish::Kind::kMax, "Greatest", "-Infinity()", "-static_cast<double>(Infinity())",
     "(-9223372036854775807LL - 1)"},
    {Finish::Kind::kMin, "Least", "Infinity()", "static_cast<double>(Infinity())",
     "9223372036854775807LL"},
};
const Way& WayOf(Finish::Kind kind) {
  return *std::find_if(std::begin(kWays), std::end(kWays),
                       [&](const Way& way) { return way.kind == kind; });
}

// The statement that carries out jobs of this form.
std::string CallOf(const FinishJob& job) {
  const Way& way = WayOf(job.finish.kind);
  const DType partial = job.finish.partial;
  const bool is_f64 = partial == DType::kF64;
  const bool is_i64 = partial == DType::kI64;
  return absl::StrFormat(
      "Finish<%s, %s, %s>(job, partials[job.partial], results[job.result], flag, "
      "%s, exchange_%s);",
      way.name, ComputeType(partial), StorageType(job.dtype),
      is_f64   ? way.f64
      : is_i64 ? way.i64
               : way.f32,
      DTypeName(partial));
}

absl::Status CheckJob(const FinishJob& job) {
  const DType partial = job.finish.partial;
  if (partial != DType::kF32 && partial != DType::kF64 && partial != DType::kI64) {
    return Internal("finish: partial results of type %s", DTypeName(partial));
  }
  if (IsFloat(partial) != IsFloat(job.dtype) || job.dtype == DType::kBool) {
    return Internal("finish: a result of type %s from partial results of type %s",
                    DTypeName(job.dtype), DTypeName(partial));
  }
  return absl::OkStatus();
}

constexpr std::string_view kBody = R"(  int low = 0;
  for (int high = kJobCount; high - low > 1;) {
    const int middle = (low + high) / 2;
    if (static_cast<int>(blockIdx.x) >= kJobs[middle].first_block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const FinishJob job = kJobs[low];
)";

}  // namespace

absl::StatusOr<GeneratedKernel> GenerateFinish(const std::vector<FinishJob>& jobs,
                                               const CodegenOptions&) {
  if (jobs.empty()) return Internal("finish: no jobs");
  GeneratedKernel kernel{.family = std::string(kFinishFamily), .block = {kThreads, 1, 1}};
  Argument partials{.kind = Argument::Kind::kTable};
  Argument results{.kind = Argument::Kind::kTable};
  Argument flags{.kind = Argument::Kind::kTable};
  std::string table;
  std::vector<std::string> variants;
  std::vector<DType> types;
  int64_t blocks = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Finish& finish = jobs[i].finish;
    DUOTONE_RETURN_IF_ERROR(CheckJob(jobs[i]));
    const std::string call = CallOf(jobs[i]);
    auto variant = std::find(variants.begin(), variants.end(), call);
    if (variant == variants.end()) variant = variants.insert(variants.end(), call);
    if (std::find(types.begin(), types.end(), finish.partial) == types.end()) {
      types.push_back(finish.partial);
    }
    const int index = static_cast<int>(i);
    partials.table.push_back({.kind = Argument::Kind::kOperand, .index = index});
    results.table.push_back({.kind = Argument::Kind::kResult, .index = index});
    int flag = -1;
    if (finish.finite_result >= 0) {
      flag = static_cast<int>(flags.table.size());
      flags.table.push_back(
          {.kind = Argument::Kind::kResult, .index = static_cast<int>(jobs.size()) + flag});
    }
    const double count = finish.kind == Finish::Kind::kMean ? finish.count : 1.0;
    absl::StrAppendFormat(&table, "    {%d, %d, %d, %d, %d, %.17g, %dLL, %dLL},\n", blocks, index,
                          index, flag, static_cast<int>(variant - variants.begin()), count,
                          finish.elements, finish.chunks);
    blocks += CeilDiv(finish.elements, kElementsPerBlock);
    kernel.flops += static_cast<double>(finish.elements) * static_cast<double>(finish.chunks);
  }
  kernel.grid = {std::max<int64_t>(blocks, 1), 1, 1};

  std::string& text = kernel.source;
  text = "#include \"duotone/prelude.cuh\"\n#include \"duotone/reduce.cuh\"\n\n";
  absl::StrAppendFormat(&text, "constexpr int kJobCount = %d;\n", jobs.size());
  absl::StrAppendFormat(&text, "static __constant__ const FinishJob kJobs[kJobCount] = {\n%s};\n\n",
                        table);
  absl::StrAppendFormat(&text,
                        "extern \"C\" __global__ void __launch_bounds__(%d)\n"
                        "kernel(const void* const* __restrict__ partials,\n"
                        "       void* const* __restrict__ results%s) {\n",
                        kThreads,
                        flags.table.empty() ? "" : ",\n       int* const* __restrict__ flags");
  for (DType type : types) {
    absl::StrAppendFormat(&text, "  DUOTONE_SHARED(%s, exchange_%s, %d);\n", ComputeType(type),
                          DTypeName(type), kThreads);
  }
  absl::StrAppendFormat(
      &text, "%s  int* const flag = %s;\n  switch (job.variant) {\n", kBody,
      flags.table.empty() ? "nullptr" : "job.flag < 0 ? nullptr : flags[job.flag]");
  for (size_t i = 0; i < variants.size(); ++i) {
    absl::StrAppendFormat(&text, "    case %d:\n      %s\n      break;\n", i, variants[i]);
  }
  absl::StrAppend(&text, "  }\n}\n");
  kernel.arguments = {partials, results};
  if (!flags.table.empty()) kernel.arguments.push_back(flags);
  return kernel;
}

}  // namespace duotone::codegen::cuda
