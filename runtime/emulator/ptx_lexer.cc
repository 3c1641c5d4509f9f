// PTX ISA 9.0, chapter 4: identifiers, constants, comments.
#include "runtime/emulator/ptx_lexer.h"

#include <algorithm>
#include <array>

namespace duotone::emulator {
namespace {

enum CharClass : uint8_t { kSpace = 1, kDigit = 2, kStart = 4, kFollow = 8 };

constexpr std::array<uint8_t, 256> MakeClasses() {
  std::array<uint8_t, 256> classes = {};
  for (char c : {' ', '\t', '\n', '\r', '\f', '\v'}) classes[static_cast<uint8_t>(c)] = kSpace;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kDigit | kFollow;
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kStart | kFollow;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kStart | kFollow;
  for (char c : {'_', '$'}) classes[static_cast<uint8_t>(c)] = kStart | kFollow;
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = MakeClasses();

bool Is(char c, uint8_t char_class) {
  return (kClasses[static_cast<uint8_t>(c)] & char_class) != 0;
}

}  // namespace

bool PtxLexer::SkipSpace() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (Is(c, kSpace)) {
      ++at_;
      if (c != '\n') continue;
      ++line_;
      line_begin_ = at_;
    } else if (c == '/' && text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && text_.substr(at_, 2) == "/*") {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return false;
      const std::string_view comment = text_.substr(at_, end - at_);
      if (const auto lines = std::count(comment.begin(), comment.end(), '\n'); lines > 0) {
        line_ += static_cast<int>(lines);
        line_begin_ = at_ + comment.rfind('\n') + 1;
      }
      at_ = end + 2;
    } else {
      break;
    }
  }
  return true;
}

void PtxLexer::SkipIdentifier() {
  while (at_ < text_.size() && Is(text_[at_], kFollow)) ++at_;
}

void PtxLexer::SkipNumber() {
  const size_t begin = at_;
  const bool hexadecimal =
      text_[at_] == '0' && at_ + 1 < text_.size() &&
      std::string_view("xXfFdDbB").find(text_[at_ + 1]) != std::string_view::npos;
  SkipIdentifier();
  if (hexadecimal) return;
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    SkipIdentifier();
  }
  // 1.5e-3: the sign belongs to the number.
  if (at_ < text_.size() && at_ > begin && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') &&
      (text_[at_] == '-' || text_[at_] == '+')) {
    ++at_;
    SkipIdentifier();
  }
}

void PtxLexer::Advance() {
  taken_end_ = token_.at + token_.text.size() + (token_.kind == PtxToken::Kind::kString ? 1 : 0);
  const bool ok = SkipSpace();
  token_ = PtxToken{PtxToken::Kind::kEnd, {}, line_, static_cast<int>(at_ - line_begin_), at_};
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (!ok) {
    token_.kind = PtxToken::Kind::kBad;
    token_.text = text_.substr(at_, 2);
    at_ = text_.size();
    return;
  }
  if (Is(c, kStart) || (c == '%' && Is(next, kStart))) {
    token_.kind = PtxToken::Kind::kWord;
    ++at_;
    SkipIdentifier();
    while (at_ + 1 < text_.size()) {
      const size_t dots = text_[at_] == '.' ? 1 : text_.substr(at_, 2) == "::" ? 2 : 0;
      if (dots == 0 || at_ + dots >= text_.size() || !Is(text_[at_ + dots], kFollow)) break;
      at_ += dots;
      SkipIdentifier();
    }
  } else if (c == '.' && Is(next, kStart)) {
    token_.kind = PtxToken::Kind::kDirective;
    ++at_;
    SkipIdentifier();
    if (at_ + 2 < text_.size() && text_.substr(at_, 2) == "::" && Is(text_[at_ + 2], kFollow)) {
      at_ += 2;
      SkipIdentifier();
    }
  } else if (Is(c, kDigit) || (c == '.' && Is(next, kDigit))) {
    token_.kind = PtxToken::Kind::kNumber;
    SkipNumber();
  } else if (c == '"') {
    const size_t end = text_.find_first_of("\"\n", at_ + 1);
    token_.at = at_ + 1;
    if (end == std::string_view::npos || text_[end] != '"') {
      token_.kind = PtxToken::Kind::kBad;
      token_.text = text_.substr(token_.at - 1, 1);
      at_ = text_.size();
      return;
    }
    token_.kind = PtxToken::Kind::kString;
    token_.text = text_.substr(token_.at, end - token_.at);
    at_ = end + 1;
    return;
  } else {
    const bool known =
        std::string_view("{}()[]<>,;:@!|+-*/%&^~?=.").find(c) != std::string_view::npos;
    token_.kind = known ? PtxToken::Kind::kSymbol : PtxToken::Kind::kBad;
    ++at_;
  }
  token_.text = text_.substr(token_.at, at_ - token_.at);
}

std::string OneLine(std::string_view text, size_t limit) {
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i + 2), text.size() - 1) + 1;
    } else if (!Is(text[i], kSpace)) {
      // Bytes that are no printable ASCII would spoil the message.
      line += text[i] > ' ' && text[i] <= '~' ? text[i] : '?';
      if (line.size() < limit) continue;
      line += "...";
      break;
    }
    if (!line.empty() && line.back() != ' ') line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace duotone::emulator
