// The words of the text form: names, numbers, strings and punctuation, each with its place for
// error messages; and what the printer shares with the parser: which names need quotes, how strings
// are escaped, the fields in braces.
#ifndef DUOTONE_IR_LEXER_H_
#define DUOTONE_IR_LEXER_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "ir/graph.h"

namespace duotone::ir {

// True for [A-Za-z_][A-Za-z0-9_.]*: such names print without quotes.
bool IsIdentifier(std::string_view name);
// The bytes in double quotes, with escapes from which the lexer makes the same bytes again. Valid
// UTF-8 stays readable.
std::string Quote(std::string_view bytes);
// The name itself, in quotes if it is no identifier.
std::string QuoteUnlessIdentifier(std::string_view name);

// The strings a node carries in braces, in the order in which they print. `region` and `id` follow
// them.
inline constexpr std::array<std::pair<std::string_view, std::string NodeInfo::*>, 4> kInfoStrings =
    {{
        {"scope", &NodeInfo::scope},
        {"loc", &NodeInfo::loc},
        {"forward", &NodeInfo::forward},
        {"origin", &NodeInfo::dtype_origin},
    }};

struct Token {
  enum class Kind {
    kEnd,
    kError,        // text: a sentence
    kIdentifier,   // graph, matmul, f32, inf
    kValue,        // %h, %"0/h"
    kSymbol,       // @loss
    kInteger,      // -12
    kFloat,        // 1.5, 1e-05, -inf
    kString,       // "fc1"
    kPunctuation,  // one of ( ) [ ] { } , : = *
  };
  Kind kind = Kind::kEnd;
  size_t offset = 0;  // of its first byte
  std::string
      text;  // names without % or @, strings without quotes and escapes, the rest as written

  bool Is(Kind k) const { return kind == k; }
  bool Is(char punctuation) const { return kind == Kind::kPunctuation && text[0] == punctuation; }
  bool IsWord(std::string_view word) const { return kind == Kind::kIdentifier && text == word; }
};

// Splits a text into tokens. Blanks, line breaks and `// comments` separate them.
class Lexer {
 public:
  explicit Lexer(std::string_view text, size_t offset = 0) : text_(text), at_(offset) {}

  // The next token; after the last one, and after an error, kEnd for ever.
  Token Next();

 private:
  void SkipBlanks();
  Token Make(Token::Kind kind, size_t begin) const;
  Token Error(size_t begin, std::string sentence);
  Token Number();
  Token String();
  Token Sigil(Token::Kind kind);
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  std::string_view text_;
  size_t at_;
};

// A text with the name under which messages speak of it.
class SourceText {
 public:
  SourceText(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  // InvalidArgument "model.duo:12:8: <sentence>", the line and a caret below it.
  absl::Status Error(size_t offset, std::string_view sentence) const;
  // The line of an offset, from 1.
  size_t LineOf(size_t offset) const;
  // An error at the first byte that is NUL or no valid UTF-8, if there is one.
  absl::Status CheckEncoding() const;
  std::string_view name() const { return name_; }

 private:
  std::string_view name_;
  std::string_view text_;
};

// A name or word for a message: cut to a readable length, control characters escaped.
std::string Shown(std::string_view word);

}  // namespace duotone::ir

#endif  // DUOTONE_IR_LEXER_H_
