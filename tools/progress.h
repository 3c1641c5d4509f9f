// What a person sees of a running training: a line per some steps, rewritten in place on a
// terminal, and the loss scale's history.
//
//   epoch 1  step 100/469  loss 0.5321  scale 65536 (1 skipped)  12.3k samples/s  2.1 ms/step
//   eta 4.0s
#ifndef DUOTONE_TOOLS_PROGRESS_H_
#define DUOTONE_TOOLS_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace duotone::tools {

// What the last step reported.
struct StepReport {
  int64_t epoch = 1;          // from 1
  int64_t step_in_epoch = 0;  // from 1
  int64_t steps_per_epoch = 0;
  int64_t steps_left = 0;  // of the whole run
  double loss = 0;
  double loss_scale = 1;
  int64_t skipped_total = 0;
};

// One line as at the top of the file; `samples_per_second` and `ms_per_step` are of the recent
// past.
std::string ProgressLine(const StepReport& report, bool scaled, double samples_per_second,
                         double ms_per_step);

// "evaluation  batch 3/79  154 samples/s  830.0 ms/batch  eta 63.1s".
std::string EvaluationLine(int64_t batch, int64_t batches, double samples_per_second,
                           double ms_per_batch);

class Progress {
 public:
  // `scaled`: show the loss scale. `quiet`: print nothing.
  Progress(bool scaled, bool quiet);
  // True if a line is due; reading a step's metrics waits for the device, so the caller asks first.
  bool Due(bool end_of_epoch) const;
  // Counts a step, or a batch of the evaluation, of `rows` rows.
  void Count(int64_t rows);
  void Show(const StepReport& report, bool end_of_epoch);
  // After `batch` of `batches`. After the last one the line is ended, if there is one.
  void ShowEvaluation(int64_t batch, int64_t batches);

 private:
  using Clock = std::chrono::steady_clock;
  // Since the last line.
  double SamplesPerSecond() const;
  double MsPerStep() const;
  double Seconds() const;
  void Print(const std::string& line, bool is_last);
  bool scaled_;
  bool quiet_;
  bool terminal_;
  bool is_open_ = false;  // the terminal's line is to be rewritten
  Clock::time_point last_;
  int64_t rows_ = 0;  // since last_
  int64_t steps_ = 0;
};

// The values of the loss scale with the step from which each held.
class ScaleHistory {
 public:
  void Add(int64_t step, double scale);
  // "65536 from step 1, 32768 from step 12, 65536 from step 2012"; the middle of a long history is
  // left out, with its length.
  std::string ToString() const;

 private:
  struct Change {
    int64_t step;
    double scale;
  };
  std::vector<Change> changes_;
};

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_PROGRESS_H_
