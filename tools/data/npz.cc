// NumPy's .npz: a zip archive of .npy arrays, stored or deflated. Reads little-endian floats,
// integers and bools in C order.
#include <zlib.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "base/float16.h"
#include "base/status.h"
#include "tools/data/dataset.h"

namespace duotone::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read without byte swaps");

constexpr uint64_t kMaxMember = uint64_t{4} << 30;

template <typename T>
T Load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

absl::StatusOr<std::string> Inflate(std::string_view packed, uint64_t size,
                                    const std::string& where) {
  if (size > kMaxMember) {
    return ResourceExhausted("%s unpacks to %d bytes, more than 4 GiB", where, size);
  }
  // Deflate cannot pack better than 1032 to 1: a larger claim is damage, found before memory is
  // taken.
  if (size / 1032 > packed.size()) {
    return InvalidArgument("%s is damaged: %d packed bytes cannot hold %d", where, packed.size(),
                           size);
  }
  std::string bytes(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Internal("%s: zlib cannot start", where);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  const int code = inflate(&stream, Z_FINISH);
  const bool complete = code == Z_STREAM_END && stream.total_out == size;
  inflateEnd(&stream);
  if (!complete)
    return InvalidArgument("%s is damaged: its compressed data does not unpack", where);
  return bytes;
}

// The members of a zip archive by name, from its central directory.
absl::StatusOr<std::map<std::string, std::string>> ReadZip(std::string_view zip,
                                                           const std::string& path) {
  constexpr size_t kEndSize = 22;
  size_t end = std::string_view::npos;
  for (size_t back = kEndSize; back <= zip.size() && back < kEndSize + 65536; ++back) {
    if (Load<uint32_t>(zip, zip.size() - back) == 0x06054b50) {
      end = zip.size() - back;
      break;
    }
  }
  if (end == std::string_view::npos)
    return InvalidArgument("%s is not a zip archive, or is cut short", path);
  std::map<std::string, std::string> members;
  const size_t count = Load<uint16_t>(zip, end + 10);
  size_t at = Load<uint32_t>(zip, end + 16);
  for (size_t i = 0; i < count; ++i) {
    if (at + 46 > zip.size() || Load<uint32_t>(zip, at) != 0x02014b50) {
      return InvalidArgument("%s is damaged: entry %d of its directory is not readable", path, i);
    }
    const uint16_t method = Load<uint16_t>(zip, at + 10);
    const uint32_t packed_size = Load<uint32_t>(zip, at + 20), size = Load<uint32_t>(zip, at + 24);
    const size_t name_size = Load<uint16_t>(zip, at + 28);
    const size_t extra = Load<uint16_t>(zip, at + 30), comment = Load<uint16_t>(zip, at + 32);
    const size_t local = Load<uint32_t>(zip, at + 42);
    if (at + 46 + name_size > zip.size() || local + 30 > zip.size()) {
      return InvalidArgument("%s is damaged: entry %d of its directory points outside", path, i);
    }
    const std::string name(zip.substr(at + 46, name_size));
    if (size == 0xffffffffu || packed_size == 0xffffffffu) {
      return InvalidArgument("%s: member %s is larger than 4 GiB", path, name);
    }
    const size_t data =
        local + 30 + Load<uint16_t>(zip, local + 26) + Load<uint16_t>(zip, local + 28);
    if (data > zip.size() || packed_size > zip.size() - data) {
      return InvalidArgument("%s is damaged: member %s reaches outside the file", path, name);
    }
    const std::string_view packed = zip.substr(data, packed_size);
    if (method == 0) {
      members[name] = std::string(packed);
    } else if (method == 8) {
      DUOTONE_ASSIGN_OR_RETURN(members[name],
                               Inflate(packed, size, absl::StrFormat("%s: member %s", path, name)));
    } else {
      return InvalidArgument("%s: member %s uses compression method %d; 0 and 8 are supported",
                             path, name, method);
    }
    const std::string& bytes = members[name];
    if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) !=
        Load<uint32_t>(zip, at + 16)) {
      return InvalidArgument("%s is damaged: the checksum of member %s does not fit its data", path,
                             name);
    }
    at += 46 + name_size + extra + comment;
  }
  return members;
}

struct Npy {
  std::string descr;  // "<f4"
  std::vector<int64_t> shape;
  std::string_view data;
};

// The text between `begin` and `end` in the header's dictionary, such as the descr or the shape.
std::string_view Between(std::string_view text, std::string_view begin, char end) {
  const size_t at = text.find(begin);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find(end));
}

absl::StatusOr<Npy> ParseNpy(std::string_view bytes, const std::string& where) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != "\x93NUMPY")
    return InvalidArgument("%s is not a NumPy array", where);
  const bool version1 = bytes[6] == 1;
  const size_t start = version1 ? 10 : 12;
  const size_t length = version1 ? Load<uint16_t>(bytes, 8) : Load<uint32_t>(bytes, 8);
  if (length > bytes.size() - start)
    return InvalidArgument("%s is cut short within its header", where);
  const std::string_view header = bytes.substr(start, length);
  Npy npy{.descr = std::string(Between(header, "'descr': '", '\'')),
          .data = bytes.substr(start + length)};
  if (header.find("'fortran_order': True") != std::string_view::npos) {
    return InvalidArgument("%s is in Fortran order; save it with numpy.ascontiguousarray", where);
  }
  if (header.find("'shape': (") == std::string_view::npos)
    return InvalidArgument("%s has no shape", where);
  std::string_view shape = Between(header, "'shape': (", ')');
  uint64_t count = 1;
  while (!shape.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), size);
    if (error != std::errc() || size < 0 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) {
      return InvalidArgument("%s has the unreadable shape (%s)", where,
                             Between(header, "'shape': (", ')'));
    }
    npy.shape.push_back(size);
    shape.remove_prefix(end - shape.data());
    while (!shape.empty() && (shape.front() == ',' || shape.front() == ' ')) shape.remove_prefix(1);
  }
  const size_t item = npy.descr.empty() ? 0 : static_cast<size_t>(npy.descr.back() - '0');
  if (item == 0 || count > npy.data.size() / item || npy.data.size() != count * item) {
    return InvalidArgument("%s holds %d bytes, which do not fit %d elements of type %s", where,
                           npy.data.size(), count, npy.descr);
  }
  return npy;
}

// Element i of an array of type `descr`, or nothing if the type is not supported.
std::optional<double> Element(const Npy& npy, size_t i) {
  const std::string_view d = npy.descr;
  if (d == "<f4") return Load<float>(npy.data, 4 * i);
  if (d == "<f8") return Load<double>(npy.data, 8 * i);
  if (d == "<f2") return ToF32(F16{Load<uint16_t>(npy.data, 2 * i)});
  if (d == "|u1" || d == "|b1") return static_cast<uint8_t>(npy.data[i]);
  if (d == "|i1") return static_cast<int8_t>(npy.data[i]);
  if (d == "<i2") return Load<int16_t>(npy.data, 2 * i);
  if (d == "<i4") return Load<int32_t>(npy.data, 4 * i);
  if (d == "<i8") return static_cast<double>(Load<int64_t>(npy.data, 8 * i));
  return std::nullopt;
}

// Rows of field `name`: integers become i32 if `as_labels`, everything else f32.
absl::StatusOr<Field> ToField(const Npy& npy, std::string_view name, bool as_labels,
                              const std::string& where) {
  if (npy.shape.empty())
    return InvalidArgument("%s is a scalar; its first axis must count the rows", where);
  Field field{.name = std::string(name), .row_shape = {npy.shape.begin() + 1, npy.shape.end()}};
  size_t count = 1;
  for (int64_t size : npy.shape) count *= static_cast<size_t>(size);
  if (count > 0 && !Element(npy, 0))
    return InvalidArgument("%s has the unsupported element type %s", where, npy.descr);
  const bool integral = npy.descr.find('f') == std::string::npos;
  if (as_labels && integral) {
    std::vector<int32_t> values(count);
    for (size_t i = 0; i < count; ++i) {
      const double value = *Element(npy, i);
      if (value < -2147483648.0 || value > 2147483647.0) {
        return InvalidArgument("%s: element %d, %.0f, does not fit i32", where, i, value);
      }
      values[i] = static_cast<int32_t>(value);
    }
    field.values = std::move(values);
    return field;
  }
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(*Element(npy, i));
    if (!std::isfinite(values[i])) {
      return InvalidArgument("%s: element %d is %f; data must be finite in f32", where, i,
                             values[i]);
    }
  }
  field.values = std::move(values);
  return field;
}

absl::StatusOr<Part> ReadPart(const std::map<std::string, std::string>& members,
                              const std::string& suffix, const std::string& path) {
  Part part{.rows = -1};
  for (std::string_view name : {"x", "y"}) {
    const std::string member = absl::StrFormat("%s%s.npy", name, suffix);
    auto it = members.find(member);
    if (it == members.end()) return NotFound("%s has no array %s%s", path, name, suffix);
    const std::string where = absl::StrFormat("%s: array %s%s", path, name, suffix);
    DUOTONE_ASSIGN_OR_RETURN(const Npy npy, ParseNpy(it->second, where));
    // Integer arrays called x of rank 2 and more are images; a rank-1 row of integers may be
    // tokens: both stay as the model asks, the batcher converts.
    DUOTONE_ASSIGN_OR_RETURN(Field field, ToField(npy, name, /*as_labels=*/true, where));
    if (part.rows >= 0 && npy.shape[0] != part.rows) {
      return InvalidArgument("%s has %d rows, but x%s has %d", where, npy.shape[0], suffix,
                             part.rows);
    }
    part.rows = npy.shape[0];
    part.fields.push_back(std::move(field));
  }
  if (part.rows == 0) return InvalidArgument("%s: array x%s has no rows", path, suffix);
  return part;
}

}  // namespace

absl::StatusOr<Dataset> LoadNpz(const std::string& path) {
  DUOTONE_ASSIGN_OR_RETURN(const std::string bytes, ReadMaybeGzip(path));
  DUOTONE_ASSIGN_OR_RETURN(const auto members, ReadZip(bytes, path));
  Dataset dataset;
  const bool split = members.contains("x_train.npy");
  DUOTONE_ASSIGN_OR_RETURN(dataset.train, ReadPart(members, split ? "_train" : "", path));
  if (members.contains("x_test.npy")) {
    DUOTONE_ASSIGN_OR_RETURN(dataset.test, ReadPart(members, "_test", path));
  }
  DUOTONE_RETURN_IF_ERROR(CountClasses(dataset, path));
  dataset.description = absl::StrFormat("%d + %d rows from %s", dataset.train.rows,
                                        dataset.test ? dataset.test->rows : 0, path);
  return dataset;
}

}  // namespace duotone::tools
