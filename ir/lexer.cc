#include "ir/lexer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace duotone::ir {
namespace {

// Longer words are broken files; identifiers and strings of real models stay far below.
constexpr size_t kMaxTokenBytes = size_t{1} << 16;
// How much of a line an error message shows.
constexpr size_t kShownColumns = 120;

// Not <cctype>: those functions depend on the locale.
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameByte(char c) { return IsLetter(c) || IsDigit(c) || c == '.'; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The number of bytes of the character at the front of `text`, which is not empty; 0 if it is no
// valid UTF-8 (RFC 3629: neither overlong forms, nor surrogates, nor values above 10FFFF).
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

bool IsIdentifier(std::string_view name) {
  return !name.empty() && IsLetter(name[0]) && std::all_of(name.begin(), name.end(), IsNameByte);
}

std::string Quote(std::string_view bytes) {
  std::string quoted = "\"";
  for (size_t i = 0; i < bytes.size();) {
    const char c = bytes[i];
    const size_t length = Utf8Length(bytes.substr(i));
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (IsControl(c) || length == 0) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      quoted += bytes.substr(i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return quoted + "\"";
}

std::string QuoteUnlessIdentifier(std::string_view name) {
  return IsIdentifier(name) ? std::string(name) : Quote(name);
}

std::string Shown(std::string_view word) {
  constexpr size_t kMaxShown = 60;
  const bool cut = word.size() > kMaxShown;
  const std::string quoted = Quote(cut ? word.substr(0, kMaxShown) : word);
  return absl::StrCat(quoted.substr(1, quoted.size() - 2), cut ? "..." : "");
}

Token Lexer::Make(Token::Kind kind, size_t begin) const {
  return {kind, begin, std::string(text_.substr(begin, at_ - begin))};
}

Token Lexer::Error(size_t begin, std::string sentence) {
  at_ = text_.size();
  return {Token::Kind::kError, begin, std::move(sentence)};
}

void Lexer::SkipBlanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else if (c == '/' && Peek(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

Token Lexer::Next() {
  SkipBlanks();
  const size_t begin = at_;
  if (at_ == text_.size()) return {Token::Kind::kEnd, begin, ""};
  const char c = text_[at_];
  if (IsLetter(c)) {
    while (IsNameByte(Peek())) ++at_;
    if (at_ - begin > kMaxTokenBytes) {
      return Error(begin, absl::StrFormat("a word of %d bytes; at most %d are read", at_ - begin,
                                          kMaxTokenBytes));
    }
    return Make(Token::Kind::kIdentifier, begin);
  }
  if (IsDigit(c) || c == '-') return Number();
  if (c == '"') return String();
  if (c == '%') return Sigil(Token::Kind::kValue);
  if (c == '@') return Sigil(Token::Kind::kSymbol);
  if (std::string_view("()[]{},:=*").find(c) != std::string_view::npos) {
    ++at_;
    return Make(Token::Kind::kPunctuation, begin);
  }
  const size_t length = std::max<size_t>(Utf8Length(text_.substr(at_)), 1);
  return Error(begin,
               absl::StrFormat("'%s' has no meaning here", Shown(text_.substr(at_, length))));
}

Token Lexer::Number() {
  const size_t begin = at_;
  if (Peek() == '-') ++at_;
  for (std::string_view word : {"inf", "nan"}) {
    if (text_.substr(at_, word.size()) == word && !IsNameByte(Peek(word.size()))) {
      at_ += word.size();
      return Make(Token::Kind::kFloat, begin);
    }
  }
  bool is_float = false;
  const auto digits = [&] {
    const size_t first = at_;
    while (IsDigit(Peek())) ++at_;
    return at_ > first;
  };
  bool good = digits();
  if (good && Peek() == '.') {
    is_float = true;
    ++at_;
    good = digits();
  }
  if (good && (Peek() == 'e' || Peek() == 'E')) {
    is_float = true;
    ++at_;
    if (Peek() == '+' || Peek() == '-') ++at_;
    good = digits();
  }
  if (!good || IsNameByte(Peek())) {
    while (IsNameByte(Peek())) ++at_;
    return Error(begin,
                 absl::StrFormat("'%s' is no number", Shown(text_.substr(begin, at_ - begin))));
  }
  if (at_ - begin > kMaxTokenBytes) {
    return Error(begin, absl::StrFormat("a number of %d bytes; at most %d are read", at_ - begin,
                                        kMaxTokenBytes));
  }
  return Make(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, begin);
}

Token Lexer::String() {
  const size_t begin = at_++;
  std::string value;
  while (true) {
    if (at_ == text_.size() || Peek() == '\n') {
      return Error(begin, "the string is not closed on its line");
    }
    const char c = text_[at_++];
    if (c == '"') break;
    if (value.size() == kMaxTokenBytes) {
      return Error(begin, absl::StrFormat("a string of more than %d bytes", kMaxTokenBytes));
    }
    if (c != '\\') {
      value += c;
      continue;
    }
    const char escape = Peek();
    ++at_;
    if (escape == '"' || escape == '\\') {
      value += escape;
    } else if (escape == 'n') {
      value += '\n';
    } else if (escape == 't') {
      value += '\t';
    } else if (escape == 'x' && HexDigit(Peek()) >= 0 && HexDigit(Peek(1)) >= 0) {
      value += static_cast<char>(HexDigit(Peek()) * 16 + HexDigit(Peek(1)));
      at_ += 2;
    } else {
      return Error(at_ - 2,
                   "an escape is one of \\\\, \\\", \\n, \\t and \\x with two hexadecimal digits");
    }
  }
  return {Token::Kind::kString, begin, std::move(value)};
}

Token Lexer::Sigil(Token::Kind kind) {
  const size_t begin = at_++;
  if (Peek() == '"') {
    Token token = String();
    if (token.Is(Token::Kind::kError)) return token;
    return {kind, begin, std::move(token.text)};
  }
  if (!IsLetter(Peek())) {
    return Error(begin,
                 absl::StrFormat("'%c' needs a name: a letter or _, then letters, digits, _ and "
                                 "dots; other names go in double quotes",
                                 text_[begin]));
  }
  while (IsNameByte(Peek())) ++at_;
  if (at_ - begin > kMaxTokenBytes) {
    return Error(begin, absl::StrFormat("a name of %d bytes; at most %d are read", at_ - begin,
                                        kMaxTokenBytes));
  }
  return {kind, begin, std::string(text_.substr(begin + 1, at_ - begin - 1))};
}

size_t SourceText::LineOf(size_t offset) const {
  return 1 + static_cast<size_t>(std::count(text_.begin(), text_.begin() + offset, '\n'));
}

absl::Status SourceText::Error(size_t offset, std::string_view sentence) const {
  offset = std::min(offset, text_.size());
  // A message about the end of the text shows the last line that has something on it.
  if (offset == text_.size()) {
    while (offset > 0 && text_[offset - 1] == '\n') --offset;
  }
  const size_t line_begin = offset == 0 ? 0 : text_.rfind('\n', offset - 1) + 1;
  const size_t line_end = std::min(text_.find('\n', offset), text_.size());
  size_t column = 1;
  for (size_t i = line_begin; i < offset; ++i) column += !IsContinuation(text_[i]);

  // The line without its indentation, and only the part around the place if it is long.
  size_t begin = line_begin;
  while (begin < offset && (text_[begin] == ' ' || text_[begin] == '\t')) ++begin;
  if (offset - begin > kShownColumns / 2) begin = offset - kShownColumns / 2;
  std::string line = "  ";
  std::string caret = "  ";
  for (size_t i = begin; i < std::min(line_end, begin + kShownColumns); ++i) {
    if (IsContinuation(text_[i])) continue;
    const size_t length = Utf8Length(text_.substr(i));
    if (length == 0 || IsControl(text_[i])) {
      line += text_[i] == '\t' || text_[i] == '\r' ? ' ' : '?';
    } else {
      line += text_.substr(i, length);
    }
    if (i < offset) caret += ' ';
  }
  const size_t last = line.find_last_not_of(' ');
  const std::string place = absl::StrFormat("%s:%d:%d", name_, LineOf(offset), column);
  if (last == std::string::npos) return InvalidArgument("%s: %s", place, sentence);
  return InvalidArgument("%s: %s\n%s\n%s^", place, sentence, line.substr(0, last + 1), caret);
}

absl::Status SourceText::CheckEncoding() const {
  for (size_t i = 0; i < text_.size();) {
    if (text_[i] == '\0') return Error(i, "a NUL byte; a graph is plain text");
    const size_t length = Utf8Length(text_.substr(i));
    if (length == 0) {
      return Error(i, absl::StrFormat("byte 0x%02x is not part of valid UTF-8",
                                      static_cast<unsigned char>(text_[i])));
    }
    i += length;
  }
  return absl::OkStatus();
}

}  // namespace duotone::ir
