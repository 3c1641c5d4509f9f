// The command line of `duotone train`, and what it means for the public API.
#ifndef DUOTONE_TOOLS_TRAIN_FLAGS_H_
#define DUOTONE_TOOLS_TRAIN_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "duotone/options.h"
#include "tools/model_flags.h"

namespace duotone::tools {

struct TrainFlags {
  ModelFlags model;
  std::string file;
  std::string data;
  std::string data_dir;
  int64_t batch = 128;
  int64_t epochs = 0;
  int64_t max_steps = 0;
  std::string log;
  std::string json;
  std::string checkpoint;
  int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
  bool resume = false;
  uint64_t seed = 0;
  int threads = 0;
  std::string device = "cpu";
  bool exact = false;
  bool deterministic = false;
  int64_t max_consecutive_skips = 0;
  std::vector<std::string> dump;
  std::string dump_dir = ".";
  bool quiet = false;

  // Declares everything on `app`; `this` must outlive the parse.
  void Declare(CLI::App& app);
  // What can be wrong before a file is read.
  absl::Status Check() const;
  bool Dumps(std::string_view kind) const;
  // `total_steps` is the length of a decaying schedule that names none.
  absl::StatusOr<Options> ToOptions(int64_t total_steps) const;
};

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_TRAIN_FLAGS_H_
