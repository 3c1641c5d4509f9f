// The log of a training run: a row per step, as CSV or as JSON lines.
#ifndef DUOTONE_TOOLS_TRAINING_LOG_H_
#define DUOTONE_TOOLS_TRAINING_LOG_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace duotone::tools {

struct LogRow {
  int64_t step = 0;
  double loss = 0;
  double loss_scale = 1;
  bool skipped = false;
  double ms = 0;
};

class TrainingLog {
 public:
  // F.csv or F.jsonl; another ending is an error. With `resumed_at` > 0, rows of earlier steps are
  // kept and those from that step on are dropped, so that a resumed run leaves the log of an
  // uninterrupted one.
  static absl::StatusOr<TrainingLog> Open(const std::string& path, int64_t resumed_at);
  // A row is written as a whole and handed to the system at once.
  absl::Status Write(const LogRow& row);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  bool json_ = false;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_TRAINING_LOG_H_
