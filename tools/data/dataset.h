// Data sets for `duotone train --data=SPEC`. A data set is a training part and, where the source
// has one, a test part; each part is a table of rows with one field per model input.
//
//   fashion-mnist  the 60,000 + 10,000 images of the package dataset-fashion-mnist, pixels divided
//                  by 255
//   idx:DIR        a folder with the four IDX files of MNIST's layout, gzip-compressed or not
//   csv:FILE       numbers separated by commas; the last column is an integer label; the last
//                  tenth of the rows is the test part
//   npz:FILE       NumPy arrays x, y (or x_train, y_train, and x_test, y_test)
//   text:FILE      characters (bytes); inputs are windows of the model's length, targets the next
//                  characters; the last tenth of the file is the test part
#ifndef DUOTONE_TOOLS_DATA_DATASET_H_
#define DUOTONE_TOOLS_DATA_DATASET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace duotone::tools {

// One column of a part: `rows` dense arrays of shape `row_shape`, one after the other.
struct Field {
  std::string name;  // "x", "y"
  std::vector<int64_t> row_shape;
  std::variant<std::vector<float>, std::vector<int32_t>> values;

  DType dtype() const { return values.index() == 0 ? DType::kF32 : DType::kI32; }
  int64_t row_elements() const {
    int64_t count = 1;
    for (int64_t size : row_shape) count *= size;
    return count;
  }
};

struct Part {
  int64_t rows = 0;
  std::vector<Field> fields;
};

struct Dataset {
  std::string description;  // "fashion-mnist: 60000 + 10000 rows of f32[28, 28]"
  Part train;
  std::optional<Part> test;
  int64_t classes =
      0;  // one more than the largest label or character code; 0 if there are no labels
};

struct DataOptions {
  std::string data_dir;  // overrides where fashion-mnist's files are looked for
  int64_t window = 0;    // text: characters per row, the model's context length
};

// Reads the data set `spec` names. Errors say which file, row or byte is wrong.
absl::StatusOr<Dataset> LoadDataset(std::string_view spec, const DataOptions& options);
// The known specs with a sentence each, for --help and error messages.
std::string DataSpecHelp();

// The readers behind the specs.
absl::StatusOr<Dataset> LoadIdx(const std::string& dir);
absl::StatusOr<Dataset> LoadCsv(const std::string& path);
absl::StatusOr<Dataset> LoadNpz(const std::string& path);
absl::StatusOr<Dataset> LoadText(const std::string& path, int64_t window);

// A file's bytes; gzip data is unpacked, whatever the file is called. At most `max_bytes` after
// unpacking.
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path,
                                          size_t max_bytes = size_t{4} << 30);

// Sets `classes` from the label field "y" and checks that no label is negative.
absl::Status CountClasses(Dataset& dataset, std::string_view source);

}  // namespace duotone::tools

#endif  // DUOTONE_TOOLS_DATA_DATASET_H_
