#include "runtime/emulator/problem.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace duotone::emulator {
namespace {

struct KindRow {
  ProblemKind kind;
  std::string_view name;
  bool is_warning = false;
};
constexpr KindRow kKinds[] = {
    {ProblemKind::kOutOfBounds, "out of bounds"},
    {ProblemKind::kMisaligned, "misaligned access"},
    {ProblemKind::kFreedMemory, "use of freed memory"},
    {ProblemKind::kUninitialised, "uninitialised read"},
    {ProblemKind::kSharedRace, "race in shared memory"},
    {ProblemKind::kGlobalRace, "race between blocks"},
    {ProblemKind::kPlainCasLoad, "plain load before atom.cas", true},
    {ProblemKind::kFloatAtomic, "float atomic", true},
    {ProblemKind::kMissingWait, "missing wait for cp.async"},
    {ProblemKind::kDivergent, "divergent lanes"},
    {ProblemKind::kAbsentLane, "shuffle from an absent lane", true},
    {ProblemKind::kDeadlock, "deadlock"},
    {ProblemKind::kReadOnlyWritten, "read-only load of written memory"},
    {ProblemKind::kBudget, "endless loop"},
    {ProblemKind::kTrap, "trap"},
    {ProblemKind::kUnsupported, "unsupported"},
};

const KindRow& RowOf(ProblemKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) return row;
  }
  return kKinds[0];
}

}  // namespace

std::string_view KindName(ProblemKind kind) { return RowOf(kind).name; }
bool IsWarning(ProblemKind kind) { return RowOf(kind).is_warning; }

std::string KernelText(std::string_view kernel, std::string_view node) {
  return node.empty() ? absl::StrFormat("kernel %s", kernel)
                      : absl::StrFormat("the kernel of %%%s", node);
}

std::string LanesText(uint32_t lanes) {
  if (lanes == 0xffffffffu) return "all 32";
  std::vector<std::string> runs;
  for (int first = 0; first < 32; ++first) {
    if ((lanes >> first & 1) == 0) continue;
    int last = first;
    while (last < 31 && (lanes >> (last + 1) & 1) != 0) ++last;
    runs.push_back(last == first ? absl::StrCat(first) : absl::StrCat(first, "-", last));
    first = last;
  }
  return runs.empty() ? "none" : absl::StrJoin(runs, ", ");
}

std::string Problem::ToString() const {
  std::string text = absl::StrFormat("%s in %s", KindName(kind), KernelText(kernel, node));
  if (!place.empty()) absl::StrAppendFormat(&text, ", %s", place);
  if (line > 0) absl::StrAppendFormat(&text, ", PTX line %d '%s'", line, this->text);
  absl::StrAppendFormat(&text, ", block (%d, %d, %d), warp %d", block[0], block[1], block[2], warp);
  if (lanes != 0) {
    const bool is_one = (lanes & (lanes - 1)) == 0;
    absl::StrAppendFormat(&text, ", %s %s", is_one ? "lane" : "lanes", LanesText(lanes));
  }
  absl::StrAppendFormat(&text, ": %s", what);
  if (count > 1) absl::StrAppendFormat(&text, " (%d times)", count);
  return text;
}

void ProblemLog::Add(Problem problem) {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_errors_ = has_errors_ || !IsWarning(problem.kind);
  const auto [place, is_new] = index_.try_emplace(
      std::tuple(problem.kernel, problem.node, problem.line, problem.text, problem.kind),
      problems_.size());
  if (is_new) {
    problems_.push_back(std::move(problem));
    return;
  }
  // Blocks run in any order: what is shown does not depend on it.
  Problem& known = problems_[place->second];
  const int64_t count = known.count + problem.count;
  if (std::tuple(problem.block[2], problem.block[1], problem.block[0], problem.warp) <
      std::tuple(known.block[2], known.block[1], known.block[0], known.warp)) {
    known = std::move(problem);
  }
  known.count = count;
}

bool ProblemLog::has_errors() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return has_errors_;
}

std::vector<Problem> ProblemLog::problems() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return problems_;
}

void ProblemLog::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  index_.clear();
  problems_.clear();
  has_errors_ = false;
}

std::string ProblemLog::ToString(int limit) const {
  const std::vector<Problem> all = problems();
  std::string text;
  const size_t shown = std::min(all.size(), static_cast<size_t>(limit));
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&text, all[i].ToString(), "\n");
  if (shown < all.size()) {
    absl::StrAppendFormat(&text, "and %d more kinds of problems\n", all.size() - shown);
  }
  return text;
}

}  // namespace duotone::emulator
