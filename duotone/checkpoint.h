// Checkpoints: the whole state of a training run in one file, written atomically and read back to
// the last bit.
//
//   DUOTONE_RETURN_IF_ERROR(session.SaveCheckpoint("run.duock", {.counters = {{"epoch", 3}}}));
//   DUOTONE_ASSIGN_OR_RETURN(CheckpointInfo info, session.LoadCheckpoint("run.duock"));
//
// A path that is a directory, or ends in '/', holds one file per saved step and a file `latest`
// with the name of the newest.
#ifndef DUOTONE_DUOTONE_CHECKPOINT_H_
#define DUOTONE_DUOTONE_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "duotone/types.h"

namespace duotone {

enum class StateKind : uint8_t {
  kParam,    // trained
  kState,    // moments, loss scale, counters
  kDerived,  // recomputed from a parameter, never saved
};

// What a program saves beside the state: its own counters, such as the position in the data.
struct CheckpointExtras {
  std::map<std::string, int64_t> counters;
};

struct Checkpoint {
  struct Entry {
    std::string name;
    StateKind kind = StateKind::kParam;
    Tensor value;
  };
  std::string model;        // the module's name
  uint64_t model_hash = 0;  // of the forward graph without source locations
  uint64_t seed = 0;
  int64_t step = 0;  // steps run, skipped ones included
  std::vector<Entry> entries;
  CheckpointExtras extras;
};

struct CheckpointInfo {
  std::string path;  // of the file that was read or written
  int64_t step = 0;
  CheckpointExtras extras;
};

struct LoadCheckpointOptions {
  // Take the parameters alone and leave moments, loss scale, counters and seed as they are; the
  // model may differ in everything but the names and types of its parameters. For fine-tuning and
  // evaluation.
  bool params_only = false;
};

// One file. Reading checks magic, version, checksum and every length before it trusts it.
absl::Status WriteCheckpointFile(const std::string& path, const Checkpoint& checkpoint);
absl::StatusOr<Checkpoint> ReadCheckpointFile(const std::string& path);

// The file behind a path: itself, or what a directory's `latest` names.
absl::StatusOr<std::string> ResolveCheckpoint(const std::string& path);
// Writes a file, or into a directory (made if missing) step-<step>.duock and then `latest`. Returns
// the file's path.
absl::StatusOr<std::string> WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace duotone

#endif  // DUOTONE_DUOTONE_CHECKPOINT_H_
