// IDX files (MNIST's format): a big-endian header {0, 0, type, rank, sizes...} and the elements.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tools/data/dataset.h"

namespace duotone::tools {
namespace {

struct IdxFile {
  std::vector<int64_t> shape;
  std::string bytes;  // unsigned bytes, after the header
  std::string path;
};

// DIR/NAME or DIR/NAME.gz, whichever exists.
absl::StatusOr<std::string> FindFile(const std::string& dir, std::string_view name) {
  const std::filesystem::path base = std::filesystem::path(dir) / std::string(name);
  std::error_code error;
  for (const std::string& path : {base.string(), absl::StrCat(base.string(), ".gz")}) {
    if (std::filesystem::exists(path, error)) return path;
  }
  return NotFound("idx: neither %s nor %s.gz exists", base.string(), base.string());
}

absl::StatusOr<IdxFile> ReadIdx(const std::string& dir, std::string_view name, size_t rank) {
  DUOTONE_ASSIGN_OR_RETURN(const std::string path, FindFile(dir, name));
  DUOTONE_ASSIGN_OR_RETURN(std::string bytes, ReadMaybeGzip(path));
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0) {
    return InvalidArgument("%s is not an IDX file: it does not begin with two zero bytes", path);
  }
  if (byte(2) != 0x08) {
    return InvalidArgument("%s: element type 0x%02x is not supported, only unsigned bytes (0x08)",
                           path, byte(2));
  }
  if (byte(3) != rank) return InvalidArgument("%s: rank %d, but %d is needed", path, byte(3), rank);
  const size_t header = 4 + 4 * rank;
  if (bytes.size() < header) return InvalidArgument("%s is cut short within its header", path);
  IdxFile file{.path = path};
  uint64_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t at = 4 + 4 * i;
    const uint32_t size = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    file.shape.push_back(size);
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) {
      return InvalidArgument("%s: its header claims more than 2^64 elements", path);
    }
  }
  if (bytes.size() - header != count) {
    return InvalidArgument("%s holds %d elements, but its header claims %d", path,
                           bytes.size() - header, count);
  }
  file.bytes = bytes.substr(header);
  return file;
}

absl::StatusOr<Part> ReadPart(const std::string& dir, std::string_view prefix) {
  DUOTONE_ASSIGN_OR_RETURN(IdxFile images,
                           ReadIdx(dir, absl::StrFormat("%s-images-idx3-ubyte", prefix), 3));
  DUOTONE_ASSIGN_OR_RETURN(IdxFile labels,
                           ReadIdx(dir, absl::StrFormat("%s-labels-idx1-ubyte", prefix), 1));
  if (images.shape[0] != labels.shape[0]) {
    return InvalidArgument("%s has %d images, but %s has %d labels", images.path, images.shape[0],
                           labels.path, labels.shape[0]);
  }
  if (images.shape[0] == 0) return InvalidArgument("%s has no images", images.path);
  std::vector<float> pixels(images.bytes.size());
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(images.bytes[i]) / 255.0f;
  std::vector<int32_t> classes(labels.bytes.size());
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<uint8_t>(labels.bytes[i]);
  Part part{.rows = images.shape[0]};
  part.fields.push_back({"x", {images.shape[1], images.shape[2]}, std::move(pixels)});
  part.fields.push_back({"y", {}, std::move(classes)});
  return part;
}

}  // namespace

absl::StatusOr<Dataset> LoadIdx(const std::string& dir) {
  if (!std::filesystem::is_directory(dir)) return NotFound("idx: there is no folder %s", dir);
  Dataset dataset;
  DUOTONE_ASSIGN_OR_RETURN(dataset.train, ReadPart(dir, "train"));
  DUOTONE_ASSIGN_OR_RETURN(dataset.test, ReadPart(dir, "t10k"));
  if (dataset.train.fields[0].row_shape != dataset.test->fields[0].row_shape) {
    return InvalidArgument("idx: %s: the training and test images differ in size", dir);
  }
  DUOTONE_RETURN_IF_ERROR(CountClasses(dataset, dir));
  const auto& shape = dataset.train.fields[0].row_shape;
  dataset.description = absl::StrFormat("%d + %d images of %dx%d from %s", dataset.train.rows,
                                        dataset.test->rows, shape[0], shape[1], dir);
  return dataset;
}

}  // namespace duotone::tools
