#include "codegen/cuda/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/gpu_model.h"
#include "base/status.h"

namespace duotone::codegen::cuda {
namespace {

// The parts of the text form, in its order. Those that equal `silent` are left out.
struct Part {
  char letter;
  int Schedule::*member;
  int silent;
};
constexpr std::array<Part, 8> kParts = {{
    {'v', &Schedule::vector, -1},
    {'u', &Schedule::unroll, -1},
    {'t', &Schedule::threads, -1},
    {'r', &Schedule::rows_per_block, 1},
    {'m', &Schedule::tile_m, 0},
    {'n', &Schedule::tile_n, 0},
    {'k', &Schedule::tile_k, 0},
    {'f', &Schedule::form, 0},
}};

// Of the shorter terms, what is not hidden behind the longest.
constexpr double kOverlapLoss = 0.1;

double RoundsUp(double value) { return std::ceil(value - 1e-9); }

}  // namespace

std::string Schedule::ToString() const {
  std::string text;
  for (const Part& part : kParts) {
    if (this->*part.member == part.silent) continue;
    absl::StrAppendFormat(&text, "%s%c%d", text.empty() ? "" : " ", part.letter,
                          this->*part.member);
  }
  return text;
}

absl::StatusOr<Schedule> Schedule::FromString(std::string_view text) {
  Schedule schedule;
  std::string seen;
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    const std::string_view word = text.substr(at, text.find(' ', at) - at);
    const Part* part = std::find_if(kParts.begin(), kParts.end(),
                                    [&](const Part& p) { return p.letter == word[0]; });
    if (part == kParts.end()) {
      return InvalidArgument("schedule '%s': '%s' is none of v, u, t, r, m, n, k, f with a number",
                             text, word);
    }
    if (seen.find(word[0]) != std::string::npos) {
      return InvalidArgument("schedule '%s': %c occurs twice", text, word[0]);
    }
    seen += word[0];
    int& value = schedule.*part->member;
    const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1) {
      return InvalidArgument("schedule '%s': '%s' needs a number of at least 1 after the letter",
                             text, word);
    }
    at += word.size();
  }
  if (seen.empty()) return InvalidArgument("a schedule such as 'v8 u2 t128' is missing");
  return schedule;
}

Prediction Predict(const GpuTarget& target, const Schedule& schedule, const Work& work) {
  Prediction prediction{.schedule = schedule, .work = work};
  const Occupancy occupancy = ComputeOccupancy(target, {.registers = work.registers,
                                                        .block_threads = schedule.threads,
                                                        .shared_bytes = work.shared_bytes});
  if (occupancy.blocks == 0 || work.registers > target.max_registers_per_thread) {
    prediction.total_us = std::numeric_limits<double>::infinity();
    prediction.limiter = "does not fit";
    return prediction;
  }
  const double blocks = static_cast<double>(std::max<int64_t>(1, work.blocks));
  const double capacity = static_cast<double>(occupancy.blocks) * target.sms;
  const double clocks_per_us = target.clock_ghz * 1e3;
  const double sm_clocks_per_us = clocks_per_us * target.sms;
  const double bytes = work.bytes_read + work.bytes_written;

  prediction.waves = blocks / capacity;
  prediction.dram_us = bytes / (target.dram_gb_s * 1e3 * kDramShare);
  // Where SMs get unequal numbers of blocks, the time is that of the busiest.
  const double imbalance = RoundsUp(blocks / target.sms) / (blocks / target.sms);
  const double slowed = imbalance / sm_clocks_per_us;
  prediction.l2_us = (work.l2_bytes > 0 ? work.l2_bytes : bytes) / kL2BytesPerClock * slowed;
  prediction.shared_us = work.shared_traffic / target.shared_bytes_clock * slowed;
  prediction.issue_us =
      std::max(work.flops / target.fp32_lanes, (work.flops + work.instructions) / kIssueLanes) *
      slowed;
  prediction.mufu_us = work.mufu / target.mufu_lanes * slowed;

  // DRAM is shared by all SMs: it runs at full speed while enough bytes are in flight on the whole
  // device (Little's law), and idles in part of the last of several waves.
  prediction.bytes_in_flight =
      std::min(blocks, capacity) / target.sms * schedule.threads * work.bytes_in_flight_per_thread;
  const double latency =
      std::max(1.0, static_cast<double>(target.bytes_in_flight) / prediction.bytes_in_flight);
  const double tail = prediction.waves > 1 ? RoundsUp(prediction.waves) / prediction.waves : 1;
  const std::array<std::pair<double, std::string_view>, 5> terms = {{
      {prediction.dram_us * latency * tail, latency > 1 ? "latency" : "dram"},
      {prediction.l2_us, "l2"},
      {prediction.shared_us, "shared"},
      {prediction.issue_us, "issue"},
      {prediction.mufu_us, "mufu"},
  }};
  const auto& longest = *std::max_element(
      terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const double start = RoundsUp(prediction.waves) * kBlockStartClocks / clocks_per_us;
  prediction.limiter = longest.second;
  double others = -longest.first;
  for (const auto& [us, name] : terms) others += us;
  prediction.total_us = longest.first + kOverlapLoss * others + start + kLaunchUs;
  return prediction;
}

absl::StatusOr<std::vector<Prediction>> Rank(const GpuTarget& target,
                                             std::vector<Prediction> candidates,
                                             std::string_view override) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Prediction& a, const Prediction& b) { return a.total_us < b.total_us; });
  if (override.empty()) return candidates;
  DUOTONE_ASSIGN_OR_RETURN(const Schedule wanted, Schedule::FromString(override));
  const auto found =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const Prediction& candidate) { return candidate.schedule == wanted; });
  if (found == candidates.end()) {
    return InvalidArgument("no candidate has the schedule '%s' on %s; there are\n%s", override,
                           target.name, ToText(candidates));
  }
  std::rotate(candidates.begin(), found, found + 1);
  return candidates;
}

absl::StatusOr<std::vector<Prediction>> Rank(const GpuTarget& target,
                                             std::vector<Prediction> candidates,
                                             const std::vector<std::string>& schedules,
                                             std::string_view node) {
  std::optional<std::string_view> own;
  std::string_view everywhere;
  for (const std::string_view entry : schedules) {
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("schedule override '%s' is not NODE=SCHEDULE or *=SCHEDULE", entry);
    }
    const std::string_view name = entry.substr(0, equals);
    if (name == node) {
      own = entry.substr(equals + 1);
    } else if (name == "*") {
      DUOTONE_ASSIGN_OR_RETURN(const Schedule wanted,
                               Schedule::FromString(entry.substr(equals + 1)));
      if (std::any_of(candidates.begin(), candidates.end(),
                      [&](const Prediction& candidate) { return candidate.schedule == wanted; })) {
        everywhere = entry.substr(equals + 1);
      }
    }
  }
  return Rank(target, std::move(candidates), own.value_or(everywhere));
}

std::string ToText(const std::vector<Prediction>& ranked) {
  std::string text;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const Prediction& p = ranked[i];
    absl::StrAppendFormat(&text, "%-2d %-24s ", i + 1, p.schedule.ToString());
    if (std::isinf(p.total_us)) {
      absl::StrAppendFormat(&text, "does not fit  regs %d  shared %d\n", p.work.registers,
                            p.work.shared_bytes);
      continue;
    }
    absl::StrAppendFormat(&text, "%6.1f us  %-7s  dram %.1f", p.total_us, p.limiter, p.dram_us);
    const std::pair<std::string_view, double> rest[] = {
        {"l2", p.l2_us}, {"shared", p.shared_us}, {"issue", p.issue_us}, {"mufu", p.mufu_us}};
    for (const auto& [name, us] : rest) {
      if (us >= 0.05) absl::StrAppendFormat(&text, "  %s %.1f", name, us);
    }
    absl::StrAppendFormat(&text, "  waves %.1f  in flight %.0f KB  regs %d\n", p.waves,
                          p.bytes_in_flight / 1024, p.work.registers);
  }
  return text;
}

}  // namespace duotone::codegen::cuda
