#include "tools/ptx_arguments.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/status.h"

namespace duotone::tools {
namespace {

using emulator::Type;

constexpr int64_t kMaxBufferBytes = int64_t{4} << 30;
constexpr int64_t kUniformIntegers = 100;  // uniform: 0 to 99

constexpr std::string_view kHelp =
    "i32:5 f32:1.5 f16:2 u64:0xff ... (a value), hex:0011 (a struct), "
    "buf:f32[1024]=FILL{:out=FILE} (a buffer), where FILL is zeros, iota, uniform, a number or "
    "@FILE (its bytes are the elements; [1024] may be left out); without =FILL nothing has "
    "written the buffer";

bool IsElementType(Type type) {
  return (type >= Type::kB8 && type <= Type::kB64) || (type >= Type::kU8 && type <= Type::kBf16) ||
         type == Type::kF32 || type == Type::kF64;
}

// PTX's names, and i32 for s32.
absl::StatusOr<Type> TypeOf(std::string_view name) {
  std::string known(name);
  if (!known.empty() && known[0] == 'i') known[0] = 's';
  const Type type = emulator::TypeFromName(known);
  if (IsElementType(type)) return type;
  return InvalidArgument(
      "'%s' is no type of values: there are i8 to i64, u8 to u64, b8 to b64, f16, bf16, f32 and "
      "f64",
      name);
}

void Put(Type type, uint64_t bits, uint8_t* to) {
  std::memcpy(to, &bits, static_cast<size_t>(emulator::TypeBytes(type)));
}

uint64_t BitsOf(Type type, double value) {
  switch (type) {
    case Type::kF64:
      return std::bit_cast<uint64_t>(value);
    case Type::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case Type::kF16:
      return ToF16(static_cast<float>(value)).bits;
    case Type::kBf16:
      return ToBF16(static_cast<float>(value)).bits;
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

absl::StatusOr<uint64_t> ParseFloat(Type type, std::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(absl::string_view(text.data(), text.size()), &value)) {
    return InvalidArgument("'%s' is no number", text);
  }
  const bool fits = type == Type::kF16    ? std::isfinite(ToF32(ToF16(static_cast<float>(value))))
                    : type == Type::kBf16 ? std::isfinite(ToF32(ToBF16(static_cast<float>(value))))
                    : type == Type::kF32  ? std::isfinite(static_cast<float>(value))
                                          : true;
  if (std::isfinite(value) && !fits) {
    return InvalidArgument("%s is outside the range of %s", text, emulator::TypeName(type));
  }
  return BitsOf(type, value);
}

// Decimal or 0x..., within the type's range; of bits either sign.
absl::StatusOr<uint64_t> ParseWhole(Type type, std::string_view text) {
  std::string_view digits = text;
  const bool minus = !digits.empty() && digits[0] == '-';
  if (minus) digits.remove_prefix(1);
  int base = 10;
  if (digits.substr(0, 2) == "0x" || digits.substr(0, 2) == "0X") {
    digits.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error == std::errc::invalid_argument || stop != end) {
    return InvalidArgument("'%s' is no whole number", text);
  }
  const int width = 8 * emulator::TypeBytes(type);
  const bool is_signed = emulator::IsSigned(type), is_bits = type <= Type::kB64;
  const uint64_t all = std::numeric_limits<uint64_t>::max() >> (64 - width);
  const uint64_t largest = is_signed ? all >> 1 : minus ? (is_bits ? all >> 1 : 0) : all;
  // -128 has one more than 127; 0xff of an i8 are its bits.
  const uint64_t limit = minus && (is_signed || is_bits) ? largest + 1 : base == 16 ? all : largest;
  if (error != std::errc() || value > limit) {
    return InvalidArgument("%s is outside the range of %s", text, emulator::TypeName(type));
  }
  return (minus ? 0 - value : value) & all;
}

absl::StatusOr<uint64_t> ParseValue(Type type, std::string_view text) {
  return emulator::IsFloat(type) ? ParseFloat(type, text) : ParseWhole(type, text);
}

void FillUniform(PtxArgument& argument, uint64_t seed, int number) {
  std::mt19937_64 random(seed + static_cast<uint64_t>(number));
  const auto bytes = static_cast<size_t>(emulator::TypeBytes(argument.type));
  for (size_t at = 0; at < argument.bytes.size(); at += bytes) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    const double value = emulator::IsFloat(argument.type)
                             ? 2 * unit - 1
                             : std::floor(unit * static_cast<double>(kUniformIntegers));
    Put(argument.type, BitsOf(argument.type, value), argument.bytes.data() + at);
  }
}

absl::Status FillFromFile(PtxArgument& argument, const std::string& path, bool has_size) {
  DUOTONE_ASSIGN_OR_RETURN(const std::string data,
                           ReadFile(path, static_cast<size_t>(kMaxBufferBytes)));
  const auto bytes = static_cast<int64_t>(data.size());
  const int element = emulator::TypeBytes(argument.type);
  if (bytes == 0) return InvalidArgument("%s is empty", path);
  if (!has_size && bytes % element != 0) {
    return InvalidArgument("%s has %d bytes, which is no multiple of %d, the size of %s", path,
                           bytes, element, emulator::TypeName(argument.type));
  }
  if (!has_size) argument.elements = bytes / element;
  if (bytes != argument.buffer_bytes()) {
    return InvalidArgument("%s has %d bytes; %d elements of %s have %d", path, bytes,
                           argument.elements, emulator::TypeName(argument.type),
                           argument.buffer_bytes());
  }
  argument.bytes.assign(data.begin(), data.end());
  return absl::OkStatus();
}

absl::Status Fill(PtxArgument& argument, std::string_view fill, uint64_t seed, int number) {
  argument.bytes.resize(static_cast<size_t>(argument.buffer_bytes()));
  if (fill == "zeros") return absl::OkStatus();
  if (fill == "uniform") {
    FillUniform(argument, seed, number);
    return absl::OkStatus();
  }
  const auto element = static_cast<size_t>(emulator::TypeBytes(argument.type));
  if (fill == "iota") {
    for (size_t i = 0; i < static_cast<size_t>(argument.elements); ++i) {
      const uint64_t bits = emulator::IsFloat(argument.type)
                                ? BitsOf(argument.type, static_cast<double>(i))
                                : static_cast<uint64_t>(i);
      Put(argument.type, bits, argument.bytes.data() + i * element);
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<uint64_t> value = ParseValue(argument.type, fill);
  double number_of_another_type = 0;
  if (!value.ok() &&
      absl::SimpleAtod(absl::string_view(fill.data(), fill.size()), &number_of_another_type)) {
    return value.status();
  }
  if (!value.ok()) {
    return InvalidArgument("'%s' is neither zeros, iota, uniform, @FILE nor a number for %s", fill,
                           emulator::TypeName(argument.type));
  }
  for (size_t at = 0; at < argument.bytes.size(); at += element) {
    Put(argument.type, *value, argument.bytes.data() + at);
  }
  return absl::OkStatus();
}

// "1024" or "32x32".
absl::StatusOr<int64_t> ParseElements(std::string_view text, Type type) {
  int64_t elements = 1;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(text), 'x'))) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 1) {
      return InvalidArgument("'%s' is no number of elements, such as 1024 or 32x32", text);
    }
    if (size > kMaxBufferBytes / emulator::TypeBytes(type) / elements) {
      return InvalidArgument("a buffer has at most %d bytes", kMaxBufferBytes);
    }
    elements *= size;
  }
  return elements;
}

// Behind "buf:": TYPE{[SIZE]}{=FILL}{:out=FILE}; the size may only be missing where FILL is a file.
absl::Status ParseBuffer(std::string_view text, uint64_t seed, int number, PtxArgument& argument) {
  argument.is_buffer = true;
  constexpr std::string_view kOut = ":out=";
  const bool has_out = text.find(kOut) != text.npos;
  if (has_out) {
    argument.output = text.substr(text.find(kOut) + kOut.size());
    text = text.substr(0, text.find(kOut));
    if (argument.output.empty()) return InvalidArgument(":out= names no file");
    if (argument.output == "-") return InvalidArgument(":out= takes a file, not -");
    if (argument.output.find(kOut) != std::string::npos) {
      return InvalidArgument(":out= is given twice");
    }
    const std::string_view output = argument.output;
    const std::string_view last = output.substr(output.rfind('=') + 1);
    if (last.size() < output.size() &&
        (last == "zeros" || last == "iota" || last == "uniform" || last.substr(0, 1) == "@")) {
      return InvalidArgument("=%s stands before :out=", last);
    }
  }
  const size_t equals = text.find('=');
  const std::string_view shape = text.substr(0, equals);
  const size_t open = shape.find('[');
  DUOTONE_ASSIGN_OR_RETURN(argument.type, TypeOf(shape.substr(0, open)));
  std::string_view size = open == shape.npos ? std::string_view() : shape.substr(open);
  if (!size.empty()) {
    const size_t close = size.find(']');
    if (close == size.npos) return InvalidArgument("'%s' has no ]", size);
    if (close + 1 != size.size()) {
      return InvalidArgument("'%s' stands between the size and =", size.substr(close + 1));
    }
    size = size.substr(1, close - 1);
  }
  if (!size.empty()) {
    DUOTONE_ASSIGN_OR_RETURN(argument.elements, ParseElements(size, argument.type));
  }
  const std::string_view fill = equals == text.npos ? std::string_view() : text.substr(equals + 1);
  if (fill.substr(0, 1) == "@") {
    if (fill.size() == 1) return InvalidArgument("@ names no file");
    return FillFromFile(argument, std::string(fill.substr(1)), !size.empty());
  }
  if (size.empty()) {
    return InvalidArgument("the number of elements is missing; write buf:%s[1024]",
                           shape.substr(0, open));
  }
  if (equals == text.npos) {
    argument.is_initialised = false;
    return absl::OkStatus();
  }
  return Fill(argument, fill, seed, number);
}

}  // namespace

std::vector<std::string> SplitArguments(std::string_view text) {
  std::vector<std::string> arguments;
  if (text.empty()) return arguments;
  arguments.emplace_back();
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth <= 0) {
      arguments.emplace_back();
    } else {
      arguments.back() += c;
    }
  }
  for (std::string& argument : arguments) absl::StripAsciiWhitespace(&argument);
  return arguments;
}

absl::StatusOr<PtxArgument> ParsePtxArgument(const std::string& text, uint64_t seed, int number) {
  PtxArgument argument;
  argument.text = text;
  if (text.empty()) return InvalidArgument("argument %d is empty", number + 1);
  const size_t colon = text.find(':');
  if (colon == text.npos) {
    return InvalidArgument("'%s' has no type; write i32:5 or buf:f32[1024]=zeros", text);
  }
  const std::string_view kind = std::string_view(text).substr(0, colon);
  const std::string_view value = std::string_view(text).substr(colon + 1);
  if (kind == "buf") {
    DUOTONE_RETURN_IF_ERROR(ParseBuffer(value, seed, number, argument)).With("'%s'", text);
    return argument;
  }
  if (kind == "hex") {
    const bool is_hex =
        value.size() % 2 == 0 && std::all_of(value.begin(), value.end(), [](char c) {
          return std::isxdigit(static_cast<unsigned char>(c)) != 0;
        });
    if (!is_hex) return InvalidArgument("'%s': two hexadecimal digits make a byte", text);
    argument.type = Type::kB8;
    const std::string bytes = absl::HexStringToBytes(absl::string_view(value.data(), value.size()));
    argument.bytes.assign(bytes.begin(), bytes.end());
    return argument;
  }
  DUOTONE_ASSIGN_OR_RETURN(const Type type, TypeOf(kind));
  argument.type = type;
  const absl::StatusOr<uint64_t> bits = ParseValue(type, value);
  DUOTONE_RETURN_IF_ERROR(bits).With("'%s'", text);
  argument.bytes.resize(static_cast<size_t>(emulator::TypeBytes(type)));
  Put(type, *bits, argument.bytes.data());
  return argument;
}

std::string_view PtxArgumentHelp() { return kHelp; }

std::string ElementText(Type type, const uint8_t* bytes) {
  uint64_t bits = 0;
  const int width = emulator::TypeBytes(type);
  std::memcpy(&bits, bytes, static_cast<size_t>(width));
  switch (type) {
    case Type::kF64:
      return absl::StrFormat("%.17g", std::bit_cast<double>(bits));
    case Type::kF32:
      return absl::StrFormat("%.9g", std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case Type::kF16:
      return absl::StrFormat("%.5g", ToF32(F16{static_cast<uint16_t>(bits)}));
    case Type::kBf16:
      return absl::StrFormat("%.4g", ToF32(BF16{static_cast<uint16_t>(bits)}));
    default:
      break;
  }
  if (type <= Type::kB64) return absl::StrFormat("0x%0*x", 2 * width, bits);
  if (!emulator::IsSigned(type)) return absl::StrFormat("%u", bits);
  const int shift = 64 - 8 * width;
  return absl::StrFormat("%d", static_cast<int64_t>(bits << shift) >> shift);
}

}  // namespace duotone::tools
