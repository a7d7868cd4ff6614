#include "common/base/nearest.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tandem {

namespace {

std::string Lower(std::string_view s) {
  return absl::AsciiStrToLower(absl::string_view(s.data(), s.size()));
}

// Returns a name's words in alphabetical order, so that two names with swapped words become equal.
std::string SortedWords(const std::string& name) {
  std::vector<std::string> words = absl::StrSplit(name, '_', absl::SkipEmpty());
  std::sort(words.begin(), words.end());
  return absl::StrJoin(words, "_");
}

// Returns a lower bound of the edit distance: the larger of two numbers, the number of letters that
// only `a` has and the number of letters that only `b` has.
int64_t LeastDistance(const std::string& a, const std::string& b) {
  std::array<int, 256> count = {};
  for (unsigned char c : a) ++count[c];
  for (unsigned char c : b) --count[c];
  int64_t only_a = 0;
  int64_t only_b = 0;
  for (int n : count) (n > 0 ? only_a : only_b) += std::abs(n);
  return std::max(only_a, only_b);
}

}  // namespace

int64_t EditDistance(std::string_view a_in, std::string_view b_in) {
  const std::string a = Lower(a_in);
  const std::string b = Lower(b_in);
  const size_t n = b.size();
  std::vector<int64_t> before(n + 1), last(n + 1), row(n + 1);
  for (size_t j = 0; j <= n; ++j) last[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= n; ++j) {
      const int64_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[n];
}

std::string NearestName(std::string_view name, const std::vector<std::string>& candidates) {
  // A longer name is not a typo of a known name. The limit bounds the time, because the time to
  // compute a distance grows with the product of both lengths.
  constexpr size_t kNameCharsMax = 200;
  if (name.empty() || name.size() > kNameCharsMax) return "";
  const int64_t limit = std::max<int64_t>(2, static_cast<int64_t>(name.size()) / 3);
  const std::string lower = Lower(name);
  const std::string sorted = SortedWords(lower);
  // Smallest distance so far, in half edits. A name with swapped words has a distance of 3 half
  // edits, so a candidate with one edit (2 half edits) is preferred.
  int64_t best = 2 * limit + 1;
  int64_t best_letters = 0;  // result of LeastDistance for the best candidate
  const std::string* nearest = nullptr;
  // The shortest candidate that begins with `name`; null: none.
  const std::string* longer = nullptr;
  const std::string* containing = nullptr;
  int containing_count = 0;
  for (const std::string& candidate : candidates) {
    const std::string other = Lower(candidate);
    const size_t inside = lower.size() < 4 ? std::string::npos : other.find(lower);
    if (inside == 0 && (longer == nullptr || candidate.size() < longer->size())) {
      longer = &candidate;
    }
    if (inside != std::string::npos) {
      ++containing_count;
      containing = &candidate;
    }
    const auto length = static_cast<int64_t>(std::max(lower.size(), other.size()));
    const int64_t letters = LeastDistance(lower, other);
    if (2 * letters > best) continue;
    const int64_t distance =
        std::min(2 * EditDistance(lower, other), 3 + 2 * EditDistance(sorted, SortedWords(other)));
    // Rejects a candidate if at least half of its letters must be edited (`distance` is in half
    // edits).
    if (distance >= length || distance > best) continue;
    // Among candidates of equal distance, the one that shares more letters with `name` is
    // preferred, because a swap of letters is likelier than an omission.
    if (distance == best && (nearest == nullptr || letters >= best_letters)) continue;
    best = distance;
    best_letters = letters;
    nearest = &candidate;
  }
  // If more than a third of the letters of `name` differ from the nearest candidate, `name` is more
  // likely an abbreviation than a typo.
  const bool is_far = best > 2 * static_cast<int64_t>(name.size()) / 3;
  if (longer != nullptr && (nearest == nullptr || is_far)) return *longer;
  if (nearest != nullptr) return *nearest;
  return containing_count == 1 ? *containing : "";
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : "did you mean \"" + nearest + "\"?";
}

std::string OrDidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string question = DidYouMean(name, candidates);
  return question.empty() ? "" : "; " + question;
}

}  // namespace tandem
