// The harness of text tests: graphs with checks beside them, one file per pass. How to write one:
// docs/testing.md.
//
// For every section, without being asked, the harness verifies before and after each pass,
// re-parses what is printed, runs each pass a second time and expects "no change", and compares
// what the pass said with what the text shows. A directive it does not know is an error: a misspelt
// check must not pass silently.
#ifndef DUOTONE_TESTS_PASSES_TEXT_TEST_LIB_H_
#define DUOTONE_TESTS_PASSES_TEXT_TEST_LIB_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/options_text.h"
#include "passes/pipeline.h"

namespace duotone::passes {

// One graph or module with its directives.
struct TextTest {
  std::string file;    // as shown in messages
  int line = 1;        // of the section's first line
  std::string name;    // "3_softmax": position in the file and name of the first graph
  std::string run;     // what follows "RUN:"
  std::string text;    // the section as it stands: comments are the parser's to skip
  std::string checks;  // the CHECK lines, at the line numbers they have in the file
  bool unchanged = false;
  std::optional<double> same_result_within;
  std::optional<std::string> error;
  std::vector<std::string> warnings;
};

// Splits a file into its sections. An unknown, misspelt or malformed directive, a section without
// any directive that can fail, and a section without a RUN line (its own or the file's first
// section's) are errors with file and line.
absl::StatusOr<std::vector<TextTest>> ParseTextTests(std::string_view text, std::string_view file);

// Makes the passes of a RUN line; ParsePasses unless a test of the harness brings its own passes.
using PassMaker = std::function<absl::StatusOr<PassList>(std::string_view run)>;

// Runs one section. The Status says what is wrong, in the words a person needs to mend it.
absl::Status RunTextTest(const TextTest& test, const PassMaker& make_passes = ParsePasses);

// Matches `input` against the CHECK directives in `checks`, as LLVM's FileCheck does.
absl::Status FileCheckText(std::string_view checks, std::string_view input, std::string_view file);

}  // namespace duotone::passes

#endif  // DUOTONE_TESTS_PASSES_TEXT_TEST_LIB_H_
