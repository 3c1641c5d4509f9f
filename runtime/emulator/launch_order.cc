#include "runtime/emulator/launch_order.h"

#include <algorithm>

namespace duotone::emulator {

void LaunchOrder::Clear() {
  if (!any()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  any_.store(false);
  entries_ = 0;
  is_full_ = false;
  seen_.clear();
  words_.clear();
}

bool LaunchOrder::AddEntry() {
  is_full_ = entries_ >= kMaxEntries;
  if (!is_full_) ++entries_;
  return !is_full_;
}

void LaunchOrder::Release(uint64_t word, int64_t block, int64_t fences) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_full_) return;
  Word& at = words_[word];
  std::vector<Event>& events = at.of_block[block % kBlocks];
  // A later one with no fence in between lets go of nothing new.
  if ((events.empty() || events.back().fences < fences) && AddEntry()) {
    events.push_back({.fences = fences, .time = at.releases++});
  }
  any_.store(true);
}

void LaunchOrder::Acquire(uint64_t word, int64_t block) {
  if (!any()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = words_.find(word);
  if (is_full_ || found == words_.end()) return;
  const Word& at = found->second;
  const auto own = at.of_block.find(block % kBlocks);
  const auto own_releases = own == at.of_block.end() ? 0 : static_cast<int64_t>(own->second.size());
  if (at.releases == own_releases) return;
  auto& seen = seen_[block % kBlocks];
  const auto [entry, is_new] = seen.try_emplace(&at, 0);
  if (is_new) AddEntry();
  entry->second = at.releases;
}

bool LaunchOrder::IsBefore(int64_t earlier, int64_t fences, int64_t later) const {
  if (!any()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_full_) return true;
  const auto seen = seen_.find(later % kBlocks);
  if (seen == seen_.end()) return false;
  for (const auto& [word, releases] : seen->second) {
    const auto found = word->of_block.find(earlier % kBlocks);
    if (found == word->of_block.end()) continue;
    const std::vector<Event>& events = found->second;
    const auto first = std::partition_point(
        events.begin(), events.end(), [=](const Event& event) { return event.fences <= fences; });
    if (first != events.end() && first->time < releases) return true;
  }
  return false;
}

bool LaunchOrder::FollowsAny(int64_t block) const {
  if (!any()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_full_ || seen_.contains(block % kBlocks);
}

}  // namespace duotone::emulator
