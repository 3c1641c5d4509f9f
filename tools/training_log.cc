#include "tools/training_log.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace duotone::tools {
namespace {

constexpr char kHeader[] = "step,loss,loss_scale,skipped,ms\n";

// The step a row belongs to, or -1 for the header and anything else.
int64_t StepOf(std::string_view line, bool json) {
  constexpr std::string_view kKey = "{\"step\":";
  if (json) {
    if (line.substr(0, kKey.size()) != kKey) return -1;
    line.remove_prefix(kKey.size());
  }
  int64_t step = -1;
  std::from_chars(line.data(), line.data() + line.size(), step);
  return step;
}

// The complete rows of steps up to `last`.
std::string RowsUpTo(std::string_view text, int64_t last, bool json) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // a row cut short
    const std::string_view line = text.substr(0, end);
    const int64_t step = StepOf(line, json);
    if (step >= 0 && step <= last) kept.append(line).append("\n");
    text.remove_prefix(end + 1);
  }
  return kept;
}

// JSON has no Inf and NaN: they are strings there.
std::string Number(double value, bool json) {
  if (std::isfinite(value)) return absl::StrFormat("%.9g", value);
  const std::string_view name = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return json ? absl::StrFormat("\"%s\"", name) : std::string(name);
}

}  // namespace

absl::StatusOr<TrainingLog> TrainingLog::Open(const std::string& path, int64_t resumed_at) {
  TrainingLog log;
  log.path_ = path;
  log.json_ = absl::EndsWith(path, ".jsonl");
  if (!log.json_ && !absl::EndsWith(path, ".csv")) {
    return InvalidArgument("--log=%s: the name must end in .csv or .jsonl", path);
  }
  std::string kept;
  if (resumed_at > 0) {
    absl::StatusOr<std::string> old = ReadFile(path);
    if (old.ok()) kept = RowsUpTo(*old, resumed_at, log.json_);
    if (!old.ok() && !absl::IsNotFound(old.status())) return old.status();
  }
  DUOTONE_RETURN_IF_ERROR(
      WriteFileAtomically(path, log.json_ ? kept : absl::StrCat(kHeader, kept)));
  log.file_.reset(std::fopen(path.c_str(), "ab"));
  if (log.file_ == nullptr)
    return FailedPrecondition("cannot write %s: %s", path, std::strerror(errno));
  return log;
}

absl::Status TrainingLog::Write(const LogRow& row) {
  const std::string loss = Number(row.loss, json_);
  const std::string scale = Number(row.loss_scale, json_);
  const std::string text =
      json_ ? absl::StrFormat(
                  "{\"step\":%d,\"loss\":%s,\"loss_scale\":%s,\"skipped\":%s,\"ms\":%.3f}\n",
                  row.step, loss, scale, row.skipped ? "true" : "false", row.ms)
            : absl::StrFormat("%d,%s,%s,%d,%.3f\n", row.step, loss, scale, row.skipped ? 1 : 0,
                              row.ms);
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0) {
    return FailedPrecondition("cannot write %s: %s", path_, std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace duotone::tools
