// Cuts a part of a data set into batches for a model's inputs. The order of rows depends on the
// seed and the epoch alone, so that a resumed run sees the rows an uninterrupted one would have
// seen.
#ifndef DUOTONE_TOOLS_DATA_BATCHER_H_
#define DUOTONE_TOOLS_DATA_BATCHER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/data/dataset.h"

namespace duotone::tools {

// One input of the model, without its batch axis.
struct InputSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> row_shape;
};

// The rows of one batch, dense, one byte array per input in the order of the specs.
struct Batch {
  int64_t rows = 0;
  std::vector<std::vector<std::byte>> inputs;
};

class Batcher {
 public:
  // Matches fields to inputs by name, or, if the names differ, by position; converts them to the
  // inputs' dtypes once. A row of the data fits an input if both have as many elements. Errors name
  // both sides.
  static absl::StatusOr<Batcher> Create(const Part& part, std::vector<InputSpec> inputs,
                                        int64_t batch_size);

  int64_t rows() const { return rows_; }
  // The last batch of an epoch may have fewer rows.
  int64_t batches_per_epoch() const { return (rows_ + batch_size_ - 1) / batch_size_; }

  // Batch `index` of epoch `epoch`, shuffled by `seed`; the buffers of `batch` are reused.
  void Shuffled(uint64_t seed, int64_t epoch, int64_t index, Batch& batch);
  // Batch `index` in the order of the data.
  void InOrder(int64_t index, Batch& batch) const;

 private:
  struct Column {
    size_t row_bytes = 0;
    std::vector<std::byte> bytes;
  };
  void Gather(const std::vector<uint32_t>* order, int64_t index, Batch& batch) const;

  int64_t rows_ = 0;
  int64_t batch_size_ = 1;
  std::vector<Column> columns_;
  // The permutation of the epoch asked for last.
  std::vector<uint32_t> order_;
  uint64_t order_seed_ = 0;
  int64_t order_epoch_ = -1;
};

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_DATA_BATCHER_H_
