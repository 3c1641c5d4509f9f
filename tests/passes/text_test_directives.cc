// Reads sections and directives of text tests; the running is in text_test_lib.cc.
#include <algorithm>
#include <cctype>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "llvm/ADT/StringRef.h"
#include "tests/passes/text_test_lib.h"

namespace duotone::passes {
namespace {

constexpr std::string_view kKnown[] = {"RUN",         "CHECK", "UNCHANGED",
                                       "SAME-RESULT", "ERROR", "WARNING"};

// The text behind the first "//" outside quotes, without surrounding blanks; or nothing.
std::optional<std::string> CommentOf(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '\\' && quoted) {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[i] == '/' && line[i + 1] == '/') {
      return llvm::StringRef(line.data() + i + 2, line.size() - i - 2).trim().str();
    }
  }
  return std::nullopt;
}

// True for a comment that can only be meant as a directive: its first word is in capitals and ends
// in a colon, stands alone or begins like a directive, or is nearly the name of one and ends in a
// colon or stands alone.
bool LooksLikeDirective(const std::string& comment) {
  static const std::regex kWord("^([A-Za-z][A-Za-z0-9_-]{2,})(:?)(.*)$");
  std::smatch match;
  if (!std::regex_match(comment, match, kWord)) return false;
  const std::string word = match[1];
  const bool marked = match[2].length() > 0 || match[3].length() == 0;
  const bool capitals =
      std::none_of(word.begin(), word.end(), [](unsigned char c) { return std::islower(c); });
  const std::string upper = llvm::StringRef(word).upper();
  for (std::string_view known : kKnown) {
    const bool prefixed = llvm::StringRef(upper).starts_with(known);
    const bool near = llvm::StringRef(upper).edit_distance(llvm::StringRef(known)) <= 2;
    if ((capitals || marked) && prefixed) return true;
    if ((capitals || marked) && near && word.size() > 3) return true;
  }
  return capitals && match[2].length() > 0;
}

// Reads one comment into `test`. Prose is no error.
absl::Status ReadComment(const std::string& comment, TextTest& test) {
  static const std::regex kCheck(
      R"(^CHECK(-NEXT|-SAME|-NOT|-DAG|-LABEL|-EMPTY|-COUNT-[0-9]+)?(\{LITERAL\})?:.*)");
  static const std::regex kSame(R"(^SAME-RESULT within ([0-9.e+-]+)$)");
  std::smatch match;
  auto rest = [&](std::string_view name) {
    return llvm::StringRef(comment).drop_front(name.size()).trim().str();
  };
  if (std::regex_match(comment, kCheck)) {
    test.checks += comment;
  } else if (comment == "UNCHANGED") {
    test.unchanged = true;
  } else if (std::regex_match(comment, match, kSame)) {
    double tolerance = 0;
    if (!absl::SimpleAtod(match[1].str(), &tolerance)) {
      return InvalidArgument("'%s': the tolerance is no number", comment);
    }
    test.same_result_within = tolerance;
  } else if (absl::StartsWith(comment, "RUN: ")) {
    test.run = rest("RUN:");
  } else if (absl::StartsWith(comment, "ERROR: ")) {
    test.error = rest("ERROR:");
  } else if (absl::StartsWith(comment, "WARNING: ")) {
    test.warnings.push_back(rest("WARNING:"));
  } else if (LooksLikeDirective(comment)) {
    return InvalidArgument("'// %s' is no directive; see docs/testing.md", comment);
  }
  return absl::OkStatus();
}

std::string FirstGraphName(const std::string& text) {
  static const std::regex kGraph("\\n\\s*graph @([A-Za-z0-9_.]+)");
  const std::string padded = "\n" + text;
  std::smatch match;
  return std::regex_search(padded, match, kGraph) ? match[1].str() : "none";
}

absl::Status CheckSection(const TextTest& test) {
  if (test.run.empty()) return InvalidArgument("no RUN line says which passes are run");
  const bool checked = !test.checks.empty() && test.checks.find("CHECK") != std::string::npos;
  if (!checked && !test.unchanged && !test.error && !test.same_result_within &&
      test.warnings.empty()) {
    return InvalidArgument("the section has no directive: nothing in it can fail");
  }
  if (test.unchanged && checked) {
    return InvalidArgument("UNCHANGED and CHECK exclude each other");
  }
  if (test.error && (checked || test.unchanged || test.same_result_within)) {
    return InvalidArgument("ERROR excludes checks of the result");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TextTest>> ParseTextTests(std::string_view text, std::string_view file) {
  std::vector<TextTest> tests(1);
  tests[0].file = std::string(file);
  int number = 0;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(std::string(text), '\n'))) {
    ++number;
    if (llvm::StringRef(line).trim() == "// -----") {
      TextTest next;
      next.file = std::string(file);
      next.line = number + 1;
      next.run = tests[0].run;
      next.checks = std::string(number, '\n');
      tests.push_back(std::move(next));
      continue;
    }
    TextTest& test = tests.back();
    test.text += line + "\n";
    if (const std::optional<std::string> comment = CommentOf(line)) {
      DUOTONE_RETURN_IF_ERROR(ReadComment(*comment, test)).With("%s:%d", file, number);
    }
    test.checks += "\n";
  }
  for (size_t i = 0; i < tests.size(); ++i) {
    tests[i].name = absl::StrFormat("%d_%s", i + 1, FirstGraphName(tests[i].text));
    DUOTONE_RETURN_IF_ERROR(CheckSection(tests[i])).With("%s:%d", file, tests[i].line);
  }
  return tests;
}

}  // namespace duotone::passes
