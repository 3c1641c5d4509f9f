// The file, all numbers little-endian, strings with their length as u32 in front:
//
//   "DUOTONE\x1a", u32 version, u64 bytes of the whole file
//   string model, u64 model hash, u64 seed, i64 step
//   u32 counters,  each: string name, i64 value
//   u32 entries,   each: string name, u8 kind, u8 dtype, u32 rank, i64 sizes, the elements
//   u64 FNV-1a of everything before
#include "duotone/checkpoint.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"

namespace duotone {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("DUOTONE\x1a", 8);
constexpr uint32_t kVersion = 1;
constexpr size_t kSizeOffset = kMagic.size() + sizeof(uint32_t);
constexpr uint32_t kMaxRank = 16;

class Writer {
 public:
  template <typename T>
  void Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void Bytes(const void* data, size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }
  void String(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  // Fills in the size and appends the checksum.
  std::string Finish() && {
    const uint64_t size = bytes_.size() + sizeof(uint64_t);
    std::memcpy(bytes_.data() + kSizeOffset, &size, sizeof(size));
    Number(Fnv1a(bytes_));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads numbers until the bytes end; then `ok` is false and everything reads as zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return ok_ && at_ == bytes_.size(); }
  template <typename T>
  T Number() {
    T value{};
    Bytes(&value, sizeof(T));
    return value;
  }
  void Bytes(void* to, size_t size) {
    ok_ = ok_ && size <= bytes_.size() - at_;
    if (!ok_ || size == 0) return;
    std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  std::string String() {
    const size_t size = Number<uint32_t>();
    ok_ = ok_ && size <= bytes_.size() - at_;
    if (!ok_) return "";
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }
  size_t left() const { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

absl::StatusOr<Checkpoint::Entry> ReadEntry(Reader& reader) {
  Checkpoint::Entry entry{.name = reader.String()};
  const uint8_t kind = reader.Number<uint8_t>();
  const uint8_t dtype = reader.Number<uint8_t>();
  const uint32_t rank = reader.Number<uint32_t>();
  if (!reader.ok()) return InvalidArgument("it ends within an entry");
  if (kind > static_cast<uint8_t>(StateKind::kState) || dtype >= kDTypes.size() ||
      rank > kMaxRank) {
    return InvalidArgument("entry '%s' has the kind %d, the dtype %d and %d axes", entry.name, kind,
                           dtype, rank);
  }
  entry.kind = static_cast<StateKind>(kind);
  Sizes shape;
  uint64_t bytes = ByteSize(static_cast<DType>(dtype));
  for (uint32_t i = 0; i < rank; ++i) {
    const int64_t size = reader.Number<int64_t>();
    if (size < 0 || (size > 0 && bytes > reader.left() / static_cast<uint64_t>(size))) {
      return InvalidArgument("entry '%s' has a size of %d, more than the file holds", entry.name,
                             size);
    }
    bytes *= static_cast<uint64_t>(size);
    shape.push_back(size);
  }
  entry.value = Tensor(static_cast<DType>(dtype), std::move(shape));
  reader.Bytes(entry.value.data(), entry.value.bytes());
  if (!reader.ok()) return InvalidArgument("it ends within entry '%s'", entry.name);
  return entry;
}

absl::StatusOr<Checkpoint> ReadBody(Reader& reader) {
  Checkpoint checkpoint;
  checkpoint.model = reader.String();
  checkpoint.model_hash = reader.Number<uint64_t>();
  checkpoint.seed = reader.Number<uint64_t>();
  checkpoint.step = reader.Number<int64_t>();
  for (uint32_t i = reader.Number<uint32_t>(); i > 0 && reader.ok(); --i) {
    std::string name = reader.String();
    checkpoint.extras.counters[std::move(name)] = reader.Number<int64_t>();
  }
  for (uint32_t i = reader.Number<uint32_t>(); i > 0; --i) {
    DUOTONE_ASSIGN_OR_RETURN(Checkpoint::Entry entry, ReadEntry(reader));
    checkpoint.entries.push_back(std::move(entry));
  }
  if (!reader.done()) return InvalidArgument("%d bytes follow the last entry", reader.left());
  return checkpoint;
}

}  // namespace

absl::Status WriteCheckpointFile(const std::string& path, const Checkpoint& checkpoint) {
  Writer writer;
  writer.Bytes(kMagic.data(), kMagic.size());
  writer.Number(kVersion);
  writer.Number(uint64_t{0});  // the size, see Finish
  writer.String(checkpoint.model);
  writer.Number(checkpoint.model_hash);
  writer.Number(checkpoint.seed);
  writer.Number(checkpoint.step);
  writer.Number(static_cast<uint32_t>(checkpoint.extras.counters.size()));
  for (const auto& [name, value] : checkpoint.extras.counters) {
    writer.String(name);
    writer.Number(value);
  }
  writer.Number(static_cast<uint32_t>(checkpoint.entries.size()));
  for (const Checkpoint::Entry& entry : checkpoint.entries) {
    writer.String(entry.name);
    writer.Number(static_cast<uint8_t>(entry.kind));
    writer.Number(static_cast<uint8_t>(entry.value.dtype()));
    writer.Number(static_cast<uint32_t>(entry.value.shape().size()));
    for (int64_t size : entry.value.shape()) writer.Number(size);
    writer.Bytes(entry.value.data(), entry.value.bytes());
  }
  return WriteFileAtomically(path, std::move(writer).Finish());
}

absl::StatusOr<Checkpoint> ReadCheckpointFile(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadFile(path, std::numeric_limits<int64_t>::max());
  DUOTONE_RETURN_IF_ERROR(contents);
  const std::string_view bytes = *contents;
  if (!bytes.starts_with(kMagic)) {
    return InvalidArgument("'%s' is no Duotone checkpoint", path);
  }
  Reader header(bytes.substr(kMagic.size()));
  const uint32_t version = header.Number<uint32_t>();
  const uint64_t size = header.Number<uint64_t>();
  if (header.ok() && version != kVersion) {
    return InvalidArgument("'%s' is a checkpoint of version %d; this build reads version %d", path,
                           version, kVersion);
  }
  if (!header.ok() || bytes.size() < size) {
    return InvalidArgument("'%s' is truncated: it has %d of %d bytes", path, bytes.size(), size);
  }
  const size_t end = bytes.size() - sizeof(uint64_t);
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + end, sizeof(checksum));
  const uint64_t actual = Fnv1a(bytes.substr(0, end));
  if (bytes.size() != size || checksum != actual) {
    return InvalidArgument("'%s' is damaged: its checksum is %016x, that of its contents %016x",
                           path, checksum, actual);
  }
  const size_t body = kSizeOffset + sizeof(uint64_t);
  Reader reader(bytes.substr(body, end - body));
  absl::StatusOr<Checkpoint> checkpoint = ReadBody(reader);
  DUOTONE_RETURN_IF_ERROR(checkpoint).With("'%s' is no valid checkpoint", path);
  return checkpoint;
}

absl::StatusOr<std::string> ResolveCheckpoint(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  const std::filesystem::path directory(path);
  absl::StatusOr<std::string> latest = ReadFile((directory / "latest").string(), 4096);
  DUOTONE_RETURN_IF_ERROR(latest).With("the directory '%s' holds no checkpoint", path);
  const std::string name(absl::StripAsciiWhitespace(*latest));
  if (name.empty() || name.find('/') != name.npos) {
    return InvalidArgument("'%s' does not hold the name of a file",
                           (directory / "latest").string());
  }
  return (directory / name).string();
}

absl::StatusOr<std::string> WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint) {
  std::error_code ignored;
  if (!path.ends_with('/') && !std::filesystem::is_directory(path, ignored)) {
    DUOTONE_RETURN_IF_ERROR(WriteCheckpointFile(path, checkpoint));
    return path;
  }
  const std::filesystem::path directory(path);
  const std::string name = absl::StrFormat("step-%08d.duock", checkpoint.step);
  const std::string file = (directory / name).string();
  DUOTONE_RETURN_IF_ERROR(WriteCheckpointFile(file, checkpoint));
  DUOTONE_RETURN_IF_ERROR(WriteFileAtomically((directory / "latest").string(), name + "\n"));
  return file;
}

}  // namespace duotone
