#include "tools/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace duotone::tools {
namespace {

// 950, 12.3k, 4.56M.
std::string Short(double value) {
  if (value < 1000) return absl::StrFormat("%.0f", value);
  if (value < 1e6) return absl::StrFormat("%.1fk", value / 1e3);
  return absl::StrFormat("%.2fM", value / 1e6);
}

std::string Duration(double seconds) {
  if (seconds < 100) return absl::StrFormat("%.1fs", seconds);
  if (seconds < 6000)
    return absl::StrFormat("%.0fm%02.0fs", std::floor(seconds / 60), std::fmod(seconds, 60));
  return absl::StrFormat("%.1fh", seconds / 3600);
}

}  // namespace

std::string ProgressLine(const StepReport& report, bool scaled, double samples_per_second,
                         double ms_per_step) {
  std::string line = absl::StrFormat("epoch %d  step %d/%d  loss %.4f", report.epoch,
                                     report.step_in_epoch, report.steps_per_epoch, report.loss);
  if (scaled) absl::StrAppend(&line, absl::StrFormat("  scale %g", report.loss_scale));
  if (scaled || report.skipped_total > 0)
    absl::StrAppend(&line, absl::StrFormat(" (%d skipped)", report.skipped_total));
  absl::StrAppend(
      &line, absl::StrFormat("  %s samples/s  %.1f ms/step  eta %s", Short(samples_per_second),
                             ms_per_step,
                             Duration(static_cast<double>(report.steps_left) * ms_per_step / 1e3)));
  return line;
}

std::string EvaluationLine(int64_t batch, int64_t batches, double samples_per_second,
                           double ms_per_batch) {
  return absl::StrFormat("evaluation  batch %d/%d  %s samples/s  %.1f ms/batch  eta %s", batch,
                         batches, Short(samples_per_second), ms_per_batch,
                         Duration(static_cast<double>(batches - batch) * ms_per_batch / 1e3));
}

Progress::Progress(bool scaled, bool quiet)
    : scaled_(scaled), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), last_(Clock::now()) {}

bool Progress::Due(bool end_of_epoch) const {
  if (quiet_) return false;
  const auto interval =
      terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000);
  return end_of_epoch || Clock::now() - last_ >= interval;
}

void Progress::Count(int64_t rows) {
  rows_ += rows;
  ++steps_;
}

double Progress::Seconds() const {
  return std::chrono::duration<double>(Clock::now() - last_).count();
}
double Progress::SamplesPerSecond() const {
  const double seconds = Seconds();
  return seconds > 0 ? static_cast<double>(rows_) / seconds : 0;
}
double Progress::MsPerStep() const {
  return steps_ > 0 ? 1e3 * Seconds() / static_cast<double>(steps_) : 0;
}

void Progress::Print(const std::string& line, bool is_last) {
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s%s", line.c_str(), is_last ? "\n" : "");
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
  is_open_ = terminal_ && !is_last;
  last_ = Clock::now();
  rows_ = steps_ = 0;
}

void Progress::Show(const StepReport& report, bool end_of_epoch) {
  Print(ProgressLine(report, scaled_, SamplesPerSecond(), MsPerStep()), end_of_epoch);
}

void Progress::ShowEvaluation(int64_t batch, int64_t batches) {
  const bool is_last = batch == batches;
  if (!Due(is_last && is_open_)) return;
  Print(EvaluationLine(batch, batches, SamplesPerSecond(), MsPerStep()), is_last);
}

void ScaleHistory::Add(int64_t step, double scale) {
  if (changes_.empty() || changes_.back().scale != scale) changes_.push_back({step, scale});
}

std::string ScaleHistory::ToString() const {
  constexpr size_t kShown = 4;  // at each end
  std::string text;
  for (size_t i = 0; i < changes_.size(); ++i) {
    if (i == kShown && changes_.size() > 2 * kShown + 1) {
      const size_t left_out = changes_.size() - 2 * kShown;
      absl::StrAppend(&text, absl::StrFormat(", ... %d changes ...", left_out));
      i += left_out;
    }
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    absl::StrFormat("%g from step %d", changes_[i].scale, changes_[i].step));
  }
  return text;
}

}  // namespace duotone::tools
