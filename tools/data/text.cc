// Next-character prediction over a file's bytes. Characters are numbered in byte order.
#include <array>

#include "base/status.h"
#include "tools/data/dataset.h"

namespace duotone::tools {
namespace {

// Rows of `window` characters one after the other, with the characters that follow them as targets.
Part Windows(const std::vector<int32_t>& codes, size_t begin, size_t end, int64_t window) {
  Part part;
  std::vector<int32_t> inputs, targets;
  for (size_t at = begin; at + static_cast<size_t>(window) < end;
       at += static_cast<size_t>(window)) {
    inputs.insert(inputs.end(), codes.begin() + at, codes.begin() + at + window);
    targets.insert(targets.end(), codes.begin() + at + 1, codes.begin() + at + window + 1);
    ++part.rows;
  }
  part.fields.push_back({"x", {window}, std::move(inputs)});
  part.fields.push_back({"y", {window}, std::move(targets)});
  return part;
}

}  // namespace

absl::StatusOr<Dataset> LoadText(const std::string& path, int64_t window) {
  if (window < 1) {
    return InvalidArgument(
        "text:%s: the model's first input must have a fixed length per row, such as i32[B, 128]",
        path);
  }
  DUOTONE_ASSIGN_OR_RETURN(const std::string bytes, ReadMaybeGzip(path, size_t{1} << 30));
  std::array<int32_t, 256> code{};
  for (char c : bytes) code[static_cast<uint8_t>(c)] = 1;
  int32_t characters = 0;
  for (int32_t& c : code) c = c != 0 ? characters++ : -1;
  std::vector<int32_t> codes(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) codes[i] = code[static_cast<uint8_t>(bytes[i])];
  const size_t held_out = codes.size() / 10;
  Dataset dataset;
  dataset.train = Windows(codes, 0, codes.size() - held_out, window);
  Part test = Windows(codes, codes.size() - held_out, codes.size(), window);
  if (dataset.train.rows == 0) {
    return InvalidArgument("%s has %d characters, too few for windows of %d", path, bytes.size(),
                           window);
  }
  if (test.rows > 0) dataset.test = std::move(test);
  dataset.classes = characters;
  dataset.description = absl::StrFormat("%d characters, %d distinct, %d + %d windows of %d from %s",
                                        bytes.size(), characters, dataset.train.rows,
                                        dataset.test ? dataset.test->rows : 0, window, path);
  return dataset;
}

}  // namespace duotone::tools
