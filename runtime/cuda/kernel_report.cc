#include "runtime/cuda/kernel_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/gpu_model.h"
#include "base/status.h"
#include "runtime/cuda/cubin.h"

namespace duotone::runtime {
namespace {

constexpr double kWarp = 32;
constexpr int kSmallestTensorShape = 2 * 16 * 8 * 8;  // FLOPs of one m16n8k8
constexpr double kMatrixBytes = 8 * 8 * 2;            // of LDSM, for a warp
constexpr double kBankBytes = 32 * 4;                 // of all banks of shared memory in one clock
constexpr double kSectorBytes = 32;
// From which ratios on the report speaks of counts.
constexpr double kWasteful = 1.1;
constexpr double kModelSlack = 0.1;
constexpr double kModelSlackBytes = 4096;

absl::StatusOr<KernelCode> ReadKernel(const Kernel& kernel, int index, const GpuTarget& target) {
  const std::string name = absl::StrFormat("k%d", index);
  if (kernel.cubin.empty() || kernel.architecture != target.name) {
    return FailedPrecondition("kernel %s has no machine code for %s", name, target.name);
  }
  absl::StatusOr<Cubin> cubin = ReadCubin(kernel.cubin);
  DUOTONE_RETURN_IF_ERROR(cubin).With("kernel %s", name);
  const CubinKernel* entry = cubin->Find(kernel.name);
  if (entry == nullptr) {
    return Internal("kernel %s: its machine code has no entry %s", name, kernel.name);
  }
  return KernelCode{.name = name,
                    .registers = entry->registers,
                    .barriers = entry->barriers,
                    .local_bytes = entry->frame_bytes,
                    .stack_bytes = entry->stack_bytes,
                    .shared_bytes = entry->shared_bytes,
                    .constant_bytes = entry->constant_bytes,
                    .code_bytes = static_cast<int64_t>(entry->code.size()),
                    .sass = AnalyseSass(entry->code, cubin->compute)};
}

double Product(const std::array<int64_t, 3>& sizes) {
  return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) *
         static_cast<double>(sizes[2]);
}

// Per thread and pass through the instructions.
double GlobalBytes(const OpcodeMix& mix) {
  return static_cast<double>(AccessBytes(mix.global_loads) + AccessBytes(mix.global_stores) +
                             AccessBytes(mix.async_copies));
}

double LoadedBytes(const OpcodeMix& mix) {
  return static_cast<double>(AccessBytes(mix.global_loads) + AccessBytes(mix.async_copies));
}

double SharedBytes(const OpcodeMix& mix) {
  return static_cast<double>(AccessBytes(mix.shared_loads) + AccessBytes(mix.shared_stores) +
                             AccessBytes(mix.async_copies)) +
         mix.matrices * kMatrixBytes / kWarp;
}

double Flops(const OpcodeMix& mix) {
  const double fp32 = 2.0 * mix.CountOf("FFMA") + mix.CountOf("FADD") + mix.CountOf("FMUL") +
                      4.0 * mix.CountOf("FFMA2") + 2.0 * mix.CountOf("FADD2") +
                      2.0 * mix.CountOf("FMUL2");
  return fp32 + mix.Count(SassClass::kTensor) * kSmallestTensorShape / kWarp;
}

// How often a thread goes around the main loop, from what the launch as a whole moves and computes.
// Loops beside the main one count as one pass.
double EstimateTrips(const KernelCode& kernel, const LaunchReport& launch, double threads) {
  const SassLoop* loop = kernel.sass.main_loop();
  if (loop == nullptr) return 1;
  auto trips = [&](double whole, double all, double in_loop) {
    return in_loop > 0 ? (whole / threads - (all - in_loop)) / in_loop : 1;
  };
  return std::max({1.0, trips(launch.bytes(), GlobalBytes(kernel.sass.all), GlobalBytes(loop->mix)),
                   trips(launch.flops, Flops(kernel.sass.all), Flops(loop->mix))});
}

// What `count` says of the instructions that a thread runs.
template <typename Count>
double Executed(const KernelCode& kernel, double trips, Count count) {
  const SassLoop* loop = kernel.sass.main_loop();
  const double again = loop == nullptr ? 0 : (trips - 1) * static_cast<double>(count(loop->mix));
  return static_cast<double>(count(kernel.sass.all)) + again;
}

// What the units of an SM do for a launch, summed over its threads.
struct Work {
  double instructions = 0;
  double fp32 = 0;
  double integer = 0;
  double mufu = 0;
  double shared_bytes = 0;
  double l2_bytes = 0;
  double tensor_flops = 0;
};

// From the machine code, with the passes through the main loop estimated.
Work EstimateWork(const KernelCode& kernel, LaunchReport& launch) {
  const double threads = std::max(1.0, Product(launch.grid) * Product(launch.block));
  launch.trips = EstimateTrips(kernel, launch, threads);
  auto executed = [&](auto count) { return threads * Executed(kernel, launch.trips, count); };
  return {.instructions = executed([](const OpcodeMix& mix) { return mix.instructions; }),
          .fp32 = executed([](const OpcodeMix& mix) { return mix.Count(SassClass::kFp32); }),
          .integer = executed([](const OpcodeMix& mix) { return mix.Count(SassClass::kInteger); }),
          .mufu = executed([](const OpcodeMix& mix) { return mix.quarter_rate; }),
          .shared_bytes = executed(SharedBytes),
          .l2_bytes = executed(GlobalBytes),
          .tensor_flops = kernel.sass.all.Count(SassClass::kTensor) > 0 ? launch.flops : 0};
}

// As the emulator counted it. A warp's instruction takes the slots of all its lanes.
Work WorkOf(const CountedWork& counted) {
  return {.instructions = counted.instructions * kWarp,
          .fp32 = counted.fp32 * kWarp,
          .integer = counted.integer * kWarp,
          .mufu = counted.mufu * kWarp,
          .shared_bytes = counted.shared_ways * kBankBytes,
          .l2_bytes = counted.sectors * kSectorBytes,
          .tensor_flops = counted.tensor_flops};
}

// Bytes that a thread asks for before it waits for the first of them.
double IndependentBytes(const KernelCode& kernel) {
  const SassLoop* loop = kernel.sass.main_loop();
  const double in_loop = loop == nullptr ? 0 : LoadedBytes(loop->mix);
  return std::max(1.0, in_loop > 0 ? in_loop : LoadedBytes(kernel.sass.all));
}

void PredictTerms(const GpuTarget& target, const KernelCode& kernel, LaunchReport& launch) {
  const Work work =
      launch.counted.has_value() ? WorkOf(*launch.counted) : EstimateWork(kernel, launch);
  const double blocks = std::max(1.0, Product(launch.grid));
  const double capacity = std::max(1, launch.occupancy.blocks) * static_cast<double>(target.sms);
  const double clocks_per_us = target.clock_ghz * 1e3;
  // Where SMs get unequal numbers of blocks, the time is that of the busiest.
  const double imbalance = std::ceil(blocks / target.sms) / (blocks / target.sms);
  const double per_clock = imbalance / (clocks_per_us * target.sms);
  launch.waves = blocks / capacity;

  PredictedTerms& terms = launch.us;
  terms.issue = work.instructions * per_clock / kIssueLanes;
  terms.fp32 = work.fp32 * per_clock / target.fp32_lanes;
  terms.integer = work.integer * per_clock / target.int32_lanes;
  terms.mufu = work.mufu * per_clock / target.mufu_lanes;
  terms.shared = work.shared_bytes * per_clock / target.shared_bytes_clock;
  terms.l2 = work.l2_bytes * per_clock / kL2BytesPerClock;
  terms.tensor = work.tensor_flops * per_clock / target.tensor_flops;

  // DRAM is shared by all SMs: it runs at full speed while enough bytes are in flight on the whole
  // device (Little's law), and idles in part of the last of several waves.
  const double in_flight =
      std::min(blocks, capacity) / target.sms * Product(launch.block) * IndependentBytes(kernel);
  const double latency = std::max(1.0, static_cast<double>(target.bytes_in_flight) / in_flight);
  const double tail = launch.waves > 1 ? std::ceil(launch.waves) / launch.waves : 1;
  terms.dram = launch.bytes() / (target.dram_gb_s * 1e3 * kDramShare) * latency * tail;
  terms.launch = kLaunchUs + std::ceil(launch.waves) * kBlockStartClocks / clocks_per_us;

  const auto named = TermsOf(terms);
  const auto& longest = *std::max_element(
      named.begin(), named.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  launch.limiter = longest.first;
  if (launch.limiter == "dram" && latency > 1) launch.limiter = "latency";
  if (longest.second < terms.launch) launch.limiter = "launch";
  terms.total = longest.second + terms.launch;
}

LaunchReport ReportLaunch(const KernelLaunch& from, int step, const KernelCode& kernel,
                          const GpuTarget& target) {
  LaunchReport launch{.step = step,
                      .kernel = from.kernel,
                      .node = from.node,
                      .family = from.family,
                      .grid = from.grid,
                      .block = from.block,
                      .dynamic_shared_bytes = from.shared_bytes,
                      .bytes_read = from.bytes_read,
                      .bytes_written = from.bytes_written,
                      .flops = from.flops};
  launch.occupancy =
      ComputeOccupancy(target, {.registers = kernel.registers,
                                .block_threads = static_cast<int>(Product(from.block)),
                                .shared_bytes = kernel.shared_bytes + from.shared_bytes});
  PredictTerms(target, kernel, launch);
  return launch;
}

void AddTo(FamilyTotals& totals, const LaunchReport& launch) {
  ++totals.launches;
  totals.bytes += launch.bytes();
  totals.flops += launch.flops;
  totals.us += launch.us.total;
}

void SumUp(ProgramReport& report) {
  report.families.clear();
  report.total = {};
  std::map<std::string, FamilyTotals> families;
  std::map<std::string_view, double> limiters;
  for (const LaunchReport& launch : report.launches) {
    FamilyTotals& family = families[launch.family];
    family.family = launch.family;
    AddTo(family, launch);
    AddTo(report.total, launch);
    limiters[launch.limiter] += launch.us.total;
  }
  for (auto& [name, totals] : families) report.families.push_back(std::move(totals));
  std::stable_sort(report.families.begin(), report.families.end(),
                   [](const auto& a, const auto& b) { return a.us > b.us; });
  const auto longest =
      std::max_element(limiters.begin(), limiters.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (longest != limiters.end()) report.limiter = longest->first;
}

// "4x128 1x32": counts by width in bits, widest first; "-" for none.
std::string WidthsText(const AccessWidths& widths) {
  std::vector<std::string> parts;
  for (size_t i = widths.size(); i-- > 0;) {
    if (widths[i] > 0) parts.push_back(absl::StrFormat("%dx%d", widths[i], kAccessBits[i]));
  }
  return parts.empty() ? "-" : absl::StrJoin(parts, " ");
}

std::string SizesText(const std::array<int64_t, 3>& sizes) {
  if (sizes[2] > 1) return absl::StrFormat("%dx%dx%d", sizes[0], sizes[1], sizes[2]);
  if (sizes[1] > 1) return absl::StrFormat("%dx%d", sizes[0], sizes[1]);
  return absl::StrFormat("%d", sizes[0]);
}

struct Column {
  const char* title;
  bool left = false;
};

// Rows of cells with every column as wide as its widest cell.
std::string Table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const Column& column : columns) widths.push_back(std::string_view(column.title).size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  auto line = [&](auto cell_of) {
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string cell = cell_of(i);
      const std::string blanks(widths[i] - cell.size(), ' ');
      text += (i == 0 ? "" : "  ") + (columns[i].left ? cell + blanks : blanks + cell);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line([&](size_t i) { return std::string(columns[i].title); });
  for (const auto& row : rows) text += line([&](size_t i) { return row[i]; });
  return text;
}

std::string Number(double value) {
  return absl::StrFormat("%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
}

std::vector<std::string> LaunchRow(const ProgramReport& report, const LaunchReport& launch) {
  const KernelCode& kernel = report.kernels[launch.kernel];
  const SassLoop* loop = kernel.sass.main_loop();
  return {absl::StrFormat("s%d", launch.step),
          launch.family,
          launch.node,
          kernel.name,
          SizesText(launch.grid),
          SizesText(launch.block),
          absl::StrFormat("%d", kernel.registers),
          absl::StrFormat("%d", kernel.spill_bytes()),
          absl::StrFormat("%d", kernel.local_bytes),
          absl::StrFormat("%d", kernel.shared_bytes + launch.dynamic_shared_bytes),
          absl::StrFormat("%.0f%% %s", 100 * launch.occupancy.share, launch.occupancy.limiter),
          Number(launch.waves),
          WidthsText(kernel.sass.all.global_loads),
          WidthsText(kernel.sass.all.global_stores),
          absl::StrFormat("%d", kernel.sass.all.instructions),
          loop == nullptr ? "-" : absl::StrFormat("%d", loop->mix.instructions),
          Number(launch.bytes() / 1e6),
          Number(launch.flops / 1e6),
          Number(launch.intensity()),
          Number(launch.us.dram),
          Number(launch.us.issue),
          Number(launch.us.fp32),
          Number(launch.us.mufu),
          Number(launch.us.total),
          std::string(launch.limiter)};
}

std::string LaunchTable(const ProgramReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const LaunchReport& launch : report.launches) rows.push_back(LaunchRow(report, launch));
  return Table({{"step", true},
                {"family", true},
                {"node", true},
                {"kernel", true},
                {"grid"},
                {"block"},
                {"regs"},
                {"spill"},
                {"local"},
                {"shared"},
                {"occupancy", true},
                {"waves"},
                {"loads", true},
                {"stores", true},
                {"instr"},
                {"loop"},
                {"MB"},
                {"MFLOP"},
                {"FLOP/B"},
                {"dram us"},
                {"issue us"},
                {"fp32 us"},
                {"mufu us"},
                {"us"},
                {"limiter", true}},
               rows);
}

// "1.25/1": what is there for each request, and the least it could be.
std::string PerRequest(double value, double ideal, double requests) {
  if (requests == 0) return "-";
  return absl::StrFormat("%.3g/%.3g", value / requests, ideal / requests);
}

std::vector<std::string> CountedRow(const LaunchReport& launch) {
  const CountedWork& counted = *launch.counted;
  const bool knows_bytes = counted.bytes_read >= 0 && counted.bytes_written >= 0;
  return {
      absl::StrFormat("s%d", launch.step),
      launch.family,
      launch.node,
      Number(counted.instructions / 1e3),
      absl::StrFormat("%.0f%%", 100 * counted.lanes / std::max(1.0, counted.instructions * kWarp)),
      Number(counted.fp32 / 1e3),
      Number(counted.integer / 1e3),
      Number(counted.mufu / 1e3),
      absl::StrFormat("%.0f", counted.barriers),
      PerRequest(counted.sectors, counted.ideal_sectors, counted.requests),
      PerRequest(counted.shared_ways, counted.ideal_shared_ways, counted.shared_requests),
      Number(counted.tensor_flops / 1e6),
      knows_bytes ? Number((counted.bytes_read + counted.bytes_written) / 1e6) : "-",
      Number(launch.bytes() / 1e6),
      Number(launch.us.l2),
      Number(launch.us.shared),
      Number(launch.us.integer)};
}

std::string CountedTable(const ProgramReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const LaunchReport& launch : report.launches) {
    if (launch.counted.has_value()) rows.push_back(CountedRow(launch));
  }
  if (rows.empty()) return "";
  return "\ncounted by the emulator, in instructions of PTX and of warps; sectors of a global "
         "access and ways of a shared one stand beside the least possible:\n\n" +
         Table({{"step", true},
                {"family", true},
                {"node", true},
                {"k instr"},
                {"lanes"},
                {"k fp32"},
                {"k int"},
                {"k mufu"},
                {"barriers"},
                {"sectors"},
                {"ways"},
                {"tensor MFLOP"},
                {"MB"},
                {"model MB"},
                {"l2 us"},
                {"shared us"},
                {"int us"}},
               rows);
}

std::string FamilyTable(const ProgramReport& report) {
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const FamilyTotals& totals) {
    rows.push_back({totals.family, absl::StrFormat("%d", totals.launches),
                    Number(totals.bytes / 1e6), Number(totals.flops / 1e6), Number(totals.us),
                    absl::StrFormat("%.0f%%", 100 * totals.us / std::max(1e-9, report.total.us))});
  };
  for (const FamilyTotals& family : report.families) add(family);
  add(report.total);
  rows.back()[0] = "all";
  return Table({{"family", true}, {"kernels"}, {"MB"}, {"MFLOP"}, {"us"}, {"of time"}}, rows);
}

// Sentences about what the emulator counted: accesses that could take less, and bytes that differ
// from those of the cost model.
void AppendCountedRemarks(const LaunchReport& launch, std::string* text) {
  const CountedWork& counted = *launch.counted;
  if (counted.sectors > kWasteful * counted.ideal_sectors) {
    absl::StrAppendFormat(text,
                          "s%d %s: global accesses touch %.0f sectors; their bytes fill %.0f\n",
                          launch.step, launch.node, counted.sectors, counted.ideal_sectors);
  }
  if (counted.shared_ways > kWasteful * counted.ideal_shared_ways) {
    absl::StrAppendFormat(
        text,
        "s%d %s: bank conflicts, shared accesses take %.0f cycles of the banks instead of %.0f\n",
        launch.step, launch.node, counted.shared_ways, counted.ideal_shared_ways);
  }
  if (counted.bytes_read < 0 || counted.bytes_written < 0) return;
  const double bytes = counted.bytes_read + counted.bytes_written;
  if (std::abs(bytes - launch.bytes()) > kModelSlack * launch.bytes() + kModelSlackBytes) {
    absl::StrAppendFormat(text, "s%d %s: the cost model predicts %.0f bytes of DRAM, it is %.0f\n",
                          launch.step, launch.node, launch.bytes(), bytes);
  }
}

// One sentence for each thing that should not be there.
std::string Remarks(const ProgramReport& report) {
  std::string text;
  for (const KernelCode& kernel : report.kernels) {
    if (kernel.spill_bytes() > 0) {
      absl::StrAppendFormat(&text, "%s spills: %d bytes are stored and %d loaded per thread\n",
                            kernel.name, kernel.sass.all.spill_store_bytes,
                            kernel.sass.all.spill_load_bytes);
    } else if (kernel.sass.all.uses_local_memory()) {
      absl::StrAppendFormat(&text, "%s keeps %d bytes per thread in local memory\n", kernel.name,
                            kernel.local_bytes);
    }
    for (const auto& [opcode, count] : kernel.sass.all.unknown) {
      absl::StrAppendFormat(&text, "%s has an opcode that is not in our table: 0x%03x, %d times\n",
                            kernel.name, opcode, count);
    }
    if (!kernel.sass.complete) {
      absl::StrAppendFormat(&text, "%s has too many branches to find its loops\n", kernel.name);
    }
  }
  for (const LaunchReport& launch : report.launches) {
    if (launch.counted.has_value()) AppendCountedRemarks(launch, &text);
    if (launch.occupancy.blocks > 0) continue;
    absl::StrAppendFormat(&text, "s%d %s does not fit on %s: too much of its %s\n", launch.step,
                          launch.node, report.target->name, launch.occupancy.limiter);
  }
  return text;
}

}  // namespace

double KernelCode::tensor_share() const {
  const OpcodeMix& mix = sass.main_loop() == nullptr ? sass.all : sass.main_loop()->mix;
  if (mix.instructions == 0) return 0;
  return static_cast<double>(mix.Count(SassClass::kTensor)) / mix.instructions;
}

std::array<std::pair<std::string_view, double>, 8> TermsOf(const PredictedTerms& us) {
  return {{{"dram", us.dram},
           {"l2", us.l2},
           {"issue", us.issue},
           {"fp32", us.fp32},
           {"integer", us.integer},
           {"mufu", us.mufu},
           {"shared", us.shared},
           {"tensor", us.tensor}}};
}

absl::StatusOr<ProgramReport> MakeProgramReport(const Program& program, const GpuTarget& target) {
  ProgramReport report{.program = program.name, .target = &target};
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    DUOTONE_ASSIGN_OR_RETURN(KernelCode code,
                             ReadKernel(program.kernels[i], static_cast<int>(i), target));
    report.kernels.push_back(std::move(code));
  }
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i) {
    const auto& action = program.steps[i].action;
    if (const auto* launch = std::get_if<KernelLaunch>(&action)) {
      if (launch->kernel < 0 || launch->kernel >= static_cast<int>(report.kernels.size())) {
        return Internal("step %d launches kernel %d of %d", i, launch->kernel,
                        static_cast<int>(report.kernels.size()));
      }
      report.launches.push_back(ReportLaunch(*launch, i, report.kernels[launch->kernel], target));
    } else if (const auto* fill = std::get_if<Fill>(&action)) {
      ++report.fills;
      report.fill_and_copy_bytes += static_cast<double>(program.buffers[fill->to].bytes);
    } else if (const auto* copy = std::get_if<Copy>(&action)) {
      ++report.copies;
      report.fill_and_copy_bytes += 2.0 * static_cast<double>(program.buffers[copy->to].bytes);
    }
  }
  SumUp(report);
  return report;
}

absl::Status AddCounts(ProgramReport& report, int step, const CountedWork& counted) {
  for (LaunchReport& launch : report.launches) {
    if (launch.step != step) continue;
    launch.counted = counted;
    PredictTerms(*report.target, report.kernels[launch.kernel], launch);
    SumUp(report);
    return absl::OkStatus();
  }
  return NotFound("step %d of program @%s launches no kernel", step, report.program);
}

std::string ToText(const ProgramReport& report) {
  std::string text = absl::StrFormat(
      "@%s for %s (as on one %s): %d kernels launched, %d different; %d fills and %d copies of %s "
      "MB\n\n",
      report.program, report.target->name, report.target->device,
      static_cast<int>(report.launches.size()), static_cast<int>(report.kernels.size()),
      report.fills, report.copies, Number(report.fill_and_copy_bytes / 1e6));
  text += LaunchTable(report) + "\n" + FamilyTable(report) + CountedTable(report);
  if (!report.launches.empty()) {
    absl::StrAppendFormat(&text, "\npredicted %s us, mostly limited by %s; %s FLOP/B of %s\n",
                          Number(report.total.us), report.limiter,
                          Number(report.total.flops / std::max(1.0, report.total.bytes)),
                          Number(report.target->tensor_flops * report.target->sms *
                                 report.target->clock_ghz / report.target->dram_gb_s));
  }
  const std::string remarks = Remarks(report);
  if (!remarks.empty()) text += "\n" + remarks;
  return text;
}

}  // namespace duotone::runtime
