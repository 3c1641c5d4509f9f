#include "runtime/cuda/compile_error.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/str_format.h"

namespace duotone::runtime {
namespace {

constexpr int kContextLines = 2;
constexpr size_t kExcerpts = 3;

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string_view SkipSpaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

bool Skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes the digits at the beginning of `text`.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

struct LineDirective {
  int line = 0;         // what the next line is called
  bool kernel = false;  // in kLabelFile
};

// `#line 3 "kernel"`.
std::optional<LineDirective> ParseLineDirective(std::string_view text) {
  text = SkipSpaces(text);
  if (!Skip(text, "#")) return std::nullopt;
  text = SkipSpaces(text);
  if (!Skip(text, "line")) return std::nullopt;
  text = SkipSpaces(text);
  const std::optional<int> number = TakeNumber(text);
  if (!number.has_value()) return std::nullopt;
  return LineDirective{*number,
                       SkipSpaces(text).starts_with(absl::StrFormat("\"%s\"", kLabelFile))};
}

std::string_view TextOf(const std::string& file, std::string_view source,
                        std::span<const SourceHeader> headers) {
  if (file == kKernelFile) return source;
  for (const SourceHeader& header : headers) {
    // NVRTC may put a folder in front of the name of a header in memory.
    if (file.ends_with(header.name)) return header.text;
  }
  return {};
}

}  // namespace

std::string WithoutLineDirectives(std::string_view source) {
  std::string text;
  for (std::string_view line : Lines(source)) {
    if (!ParseLineDirective(line).has_value()) text += line;
    text += '\n';
  }
  return text;
}

int LabelOfLine(std::string_view source, int line) {
  const std::vector<std::string_view> lines = Lines(source);
  const int count = static_cast<int>(lines.size());
  for (int i = std::min(line, count) - 1; i >= 0; --i) {
    const std::optional<LineDirective> directive =
        ParseLineDirective(lines[static_cast<size_t>(i)]);
    if (directive.has_value()) return directive->kernel ? directive->line : 0;
  }
  return 0;
}

std::vector<SourcePlace> PlacesIn(std::string_view log) {
  std::vector<SourcePlace> places;
  for (std::string_view line : Lines(log)) {
    const size_t open = line.find('(');
    if (open == 0 || open == std::string_view::npos) continue;
    std::string_view rest = line.substr(open + 1);
    const std::optional<int> number = TakeNumber(rest);
    if (!number.has_value() || !Skip(rest, "): ")) continue;
    places.push_back({std::string(line.substr(0, open)), *number, std::string(rest)});
  }
  return places;
}

std::string Excerpts(std::string_view log, std::string_view source,
                     std::span<const SourceHeader> headers) {
  std::string text;
  size_t shown = 0;
  for (const SourcePlace& place : PlacesIn(log)) {
    if (place.message.find("error") == std::string::npos) continue;
    if (shown++ == kExcerpts) break;
    text += absl::StrFormat("\n%s(%d): %s", place.file, place.line, place.message);
    const std::vector<std::string_view> lines = Lines(TextOf(place.file, source, headers));
    const int first = std::max(1, place.line - kContextLines);
    const int last = std::min(static_cast<int>(lines.size()), place.line + kContextLines);
    for (int i = first; i <= last; ++i) {
      text += absl::StrFormat("\n%c %5d | %s", i == place.line ? '>' : ' ', i,
                              lines[static_cast<size_t>(i - 1)]);
    }
  }
  return text;
}

}  // namespace duotone::runtime
