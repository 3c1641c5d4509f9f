#include "runtime/cuda/cubin.h"

#include <cstring>
#include <map>
#include <optional>
#include <type_traits>

#include "base/status.h"

namespace duotone::runtime {
namespace {

// ELF, as far as cubins use it (System V ABI, 64 bit, little endian).
struct FileHeader {
  uint8_t ident[16];
  uint16_t type;
  uint16_t machine;
  uint32_t version;
  uint64_t entry;
  uint64_t program_headers;
  uint64_t section_headers;
  uint32_t flags;
  uint16_t header_size;
  uint16_t program_header_size;
  uint16_t program_header_count;
  uint16_t section_header_size;
  uint16_t section_count;
  uint16_t section_names;
};
struct SectionHeader {
  uint32_t name;
  uint32_t type;
  uint64_t flags;
  uint64_t address;
  uint64_t offset;
  uint64_t size;
  uint32_t link;
  uint32_t info;
  uint64_t alignment;
  uint64_t entry_size;
};
struct Symbol {
  uint32_t name;
  uint8_t info;
  uint8_t other;
  uint16_t section;
  uint64_t value;
  uint64_t size;
};
static_assert(sizeof(FileHeader) == 64 && sizeof(SectionHeader) == 64 && sizeof(Symbol) == 24);

constexpr uint16_t kMachineCuda = 190;
constexpr int kAbiVersion = 8;           // position in `ident`
constexpr int kNewFlagsAbi = 8;          // from it on the architecture is in bits 8-15 of the flags
constexpr uint32_t kSymbols = 2;         // section types
constexpr uint32_t kNoBits = 8;          // a section with a size but no bytes
constexpr uint8_t kFunction = 2;         // symbol type
constexpr uint8_t kEntry = 0x10;         // of Symbol::other: a kernel
constexpr int64_t kSystemShared = 1024;  // counted in .nv.shared.* from sm_90 on

// Attributes in sections .nv.info*: {format, attribute, value or size, ...}, aligned to 4.
constexpr uint8_t kSizedFormat = 4;
constexpr uint8_t kFrameSize = 0x11;
constexpr uint8_t kMinStackSize = 0x12;
constexpr uint8_t kRegisterCount = 0x2f;
constexpr uint8_t kBarrierCount = 0x4c;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<std::string_view> Range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return std::nullopt;
    return bytes_.substr(offset, size);
  }

  template <typename T>
  std::optional<T> Read(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::optional<std::string_view> range = Range(offset, sizeof(T));
    if (!range.has_value()) return std::nullopt;
    T value;
    std::memcpy(&value, range->data(), sizeof(T));
    return value;
  }

  // The text at `offset` up to its zero byte.
  std::optional<std::string_view> Text(uint64_t offset) const {
    if (offset >= bytes_.size()) return std::nullopt;
    const size_t end = bytes_.find('\0', offset);
    if (end == std::string_view::npos) return std::nullopt;
    return bytes_.substr(offset, end - offset);
  }

 private:
  std::string_view bytes_;
};

struct Section {
  SectionHeader header;
  std::string_view name;
  std::string_view bytes;
};

class CubinReader {
 public:
  explicit CubinReader(std::string_view bytes) : file_(bytes) {}

  absl::StatusOr<Cubin> Read() {
    DUOTONE_RETURN_IF_ERROR(ReadSections());
    Cubin cubin{.compute = compute_};
    for (const Section& section : sections_) {
      by_name_.try_emplace(section.name, &section);
      if (section.header.type != kSymbols) continue;
      DUOTONE_RETURN_IF_ERROR(ReadSymbols(section, cubin));
    }
    DUOTONE_RETURN_IF_ERROR(ReadModuleInfo(cubin));
    for (CubinKernel& kernel : cubin.kernels) {
      DUOTONE_RETURN_IF_ERROR(ReadKernelSections(kernel)).With("kernel %s", kernel.name);
    }
    return cubin;
  }

 private:
  absl::Status ReadSections() {
    const std::optional<FileHeader> header = file_.Read<FileHeader>(0);
    if (!header.has_value() || std::memcmp(header->ident,
                                           "\x7f"
                                           "ELF\x02\x01",
                                           6) != 0) {
      return InvalidArgument("cubin: this is no 64-bit ELF file");
    }
    if (header->machine != kMachineCuda) {
      return InvalidArgument("cubin: the ELF file is for machine %d, not for CUDA (%d)",
                             header->machine, kMachineCuda);
    }
    const bool new_flags = header->ident[kAbiVersion] >= kNewFlagsAbi;
    compute_ = static_cast<int>((new_flags ? header->flags >> 8 : header->flags) & 0xff);
    for (int i = 0; i < header->section_count; ++i) {
      const uint64_t at = header->section_headers + uint64_t{sizeof(SectionHeader)} * i;
      const std::optional<SectionHeader> section =
          header->section_headers > UINT64_MAX / 2 ? std::nullopt : file_.Read<SectionHeader>(at);
      if (!section.has_value()) {
        return InvalidArgument("cubin: section header %d lies outside the file", i);
      }
      sections_.push_back({.header = *section});
    }
    return FillSections(header->section_names);
  }

  absl::Status FillSections(int names_section) {
    for (size_t i = 0; i < sections_.size(); ++i) {
      const SectionHeader& header = sections_[i].header;
      if (header.type == 0 || header.type == kNoBits) continue;
      const std::optional<std::string_view> bytes = file_.Range(header.offset, header.size);
      if (!bytes.has_value()) return InvalidArgument("cubin: section %d lies outside the file", i);
      sections_[i].bytes = *bytes;
    }
    if (names_section >= static_cast<int>(sections_.size())) {
      return InvalidArgument("cubin: there is no section %d with names", names_section);
    }
    const Reader names(sections_[names_section].bytes);
    for (size_t i = 0; i < sections_.size(); ++i) {
      const std::optional<std::string_view> name = names.Text(sections_[i].header.name);
      if (!name.has_value()) return InvalidArgument("cubin: section %d has no name", i);
      sections_[i].name = *name;
    }
    return absl::OkStatus();
  }

  absl::Status ReadSymbols(const Section& section, Cubin& cubin) {
    if (section.header.link >= sections_.size()) {
      return InvalidArgument("cubin: there is no section %d with symbols' names",
                             section.header.link);
    }
    const Reader names(sections_[section.header.link].bytes);
    const Reader symbols(section.bytes);
    for (uint64_t i = 0; i < section.bytes.size() / sizeof(Symbol); ++i) {
      const Symbol symbol = *symbols.Read<Symbol>(i * sizeof(Symbol));
      const bool is_kernel = (symbol.info & 0xf) == kFunction && (symbol.other & kEntry) != 0;
      if (!is_kernel || symbol.section == 0) continue;
      const std::optional<std::string_view> name = names.Text(symbol.name);
      if (!name.has_value()) return InvalidArgument("cubin: symbol %d has no name", i);
      if (symbol.section >= sections_.size()) {
        return InvalidArgument("cubin: kernel %s lies in section %d, which does not exist", *name,
                               symbol.section);
      }
      const std::optional<std::string_view> code =
          Reader(sections_[symbol.section].bytes).Range(symbol.value, symbol.size);
      if (!code.has_value() || code->size() % 16 != 0) {
        return InvalidArgument("cubin: the code of kernel %s is truncated", *name);
      }
      kernel_of_symbol_.try_emplace(i, cubin.kernels.size());
      cubin.kernels.push_back({.name = std::string(*name), .code = *code});
    }
    return absl::OkStatus();
  }

  // Calls `found(attribute, payload)` for every attribute of a section.
  template <typename Found>
  static absl::Status ForEachAttribute(const Section& section, Found found) {
    const Reader reader(section.bytes);
    uint64_t at = 0;
    while (at < section.bytes.size()) {
      const std::optional<std::string_view> head = reader.Range(at, 4);
      if (!head.has_value()) return InvalidArgument("cubin: section %s ends early", section.name);
      const auto format = static_cast<uint8_t>((*head)[0]);
      const auto attribute = static_cast<uint8_t>((*head)[1]);
      at += 4;
      if (format != kSizedFormat) {
        found(attribute, head->substr(2));
        continue;
      }
      const uint16_t size = *Reader(*head).Read<uint16_t>(2);
      const std::optional<std::string_view> payload = reader.Range(at, size);
      if (!payload.has_value()) {
        return InvalidArgument("cubin: an attribute of section %s ends early", section.name);
      }
      found(attribute, *payload);
      at += (size + 3u) / 4 * 4;
    }
    return absl::OkStatus();
  }

  const Section* FindSection(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  // {symbol, number} for each function of the module.
  absl::Status ReadModuleInfo(Cubin& cubin) const {
    const Section* section = FindSection(".nv.info");
    if (section == nullptr) return absl::OkStatus();
    return ForEachAttribute(*section, [&](uint8_t attribute, std::string_view payload) {
      const std::optional<uint32_t> symbol = Reader(payload).Read<uint32_t>(0);
      const std::optional<uint32_t> number = Reader(payload).Read<uint32_t>(4);
      if (!symbol.has_value() || !number.has_value()) return;
      const auto found = kernel_of_symbol_.find(*symbol);
      if (found == kernel_of_symbol_.end()) return;
      CubinKernel& kernel = cubin.kernels[found->second];
      if (attribute == kRegisterCount) kernel.registers = static_cast<int>(*number & INT32_MAX);
      if (attribute == kFrameSize) kernel.frame_bytes = *number;
      if (attribute == kMinStackSize) kernel.stack_bytes = *number;
    });
  }

  absl::Status ReadKernelSections(CubinKernel& kernel) const {
    auto size_of = [&](const char* prefix) -> int64_t {
      const Section* section = FindSection(prefix + kernel.name);
      return section == nullptr ? 0 : static_cast<int64_t>(section->header.size & INT64_MAX);
    };
    kernel.constant_bytes = size_of(".nv.constant0.");
    kernel.shared_bytes = size_of(".nv.shared.");
    if (compute_ >= 90 && kernel.shared_bytes >= kSystemShared) {
      kernel.shared_bytes -= kSystemShared;
    }
    const Section* info = FindSection(".nv.info." + kernel.name);
    if (info == nullptr) return absl::OkStatus();
    return ForEachAttribute(*info, [&](uint8_t attribute, std::string_view payload) {
      if (attribute == kBarrierCount && !payload.empty()) {
        kernel.barriers = static_cast<uint8_t>(payload[0]);
      }
    });
  }

  Reader file_;
  std::vector<Section> sections_;
  std::map<std::string_view, const Section*, std::less<>> by_name_;
  std::map<uint64_t, size_t> kernel_of_symbol_;
  int compute_ = 0;
};

}  // namespace

const CubinKernel* Cubin::Find(std::string_view name) const {
  for (const CubinKernel& kernel : kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

absl::StatusOr<Cubin> ReadCubin(std::string_view bytes) { return CubinReader(bytes).Read(); }

}  // namespace duotone::runtime
