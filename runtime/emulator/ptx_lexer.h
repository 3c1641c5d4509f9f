// PTX text as tokens.
#ifndef DUOTONE_RUNTIME_EMULATOR_PTX_LEXER_H_
#define DUOTONE_RUNTIME_EMULATOR_PTX_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace duotone::emulator {

struct PtxToken {
  enum class Kind : uint8_t {
    kEnd,
    kWord,       // %r1, $L__BB0_2, add.s32, %tid.x: with all its dotted parts
    kDirective,  // .reg, .param::entry: one dotted part
    kNumber,     // 12, 0x1F, 0f3F800000, 1.5e3, 7U
    kString,     // without its quotes
    kSymbol,     // one character
    kBad,        // what cannot begin a token, or a string or comment without an end
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  int line = 1;
  int column = 0;  // from 0
  size_t at = 0;   // in the text

  bool Is(char symbol) const { return kind == Kind::kSymbol && text[0] == symbol; }
  bool IsDirective(std::string_view name) const { return kind == Kind::kDirective && text == name; }
};

// Looks one token ahead.
class PtxLexer {
 public:
  explicit PtxLexer(std::string_view text) : text_(text) { Advance(); }

  const PtxToken& peek() const { return token_; }
  PtxToken Next() {
    const PtxToken token = token_;
    Advance();
    return token;
  }
  // Takes the token if it is this symbol.
  bool Take(char symbol) {
    if (!token_.Is(symbol)) return false;
    Advance();
    return true;
  }
  bool TakeDirective(std::string_view name) {
    if (!token_.IsDirective(name)) return false;
    Advance();
    return true;
  }
  // Where the last token that was taken ends.
  size_t taken_end() const { return taken_end_; }

  std::string_view text() const { return text_; }

 private:
  void Advance();
  bool SkipSpace();  // and comments; false: a comment without an end
  void SkipIdentifier();
  void SkipNumber();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
  size_t taken_end_ = 0;
  PtxToken token_;
};

// A stretch of PTX on one line: comments left out, white space as single blanks, at most `limit`
// characters.
std::string OneLine(std::string_view text, size_t limit = 200);

}  // namespace duotone::emulator

#endif  // DUOTONE_RUNTIME_EMULATOR_PTX_LEXER_H_
