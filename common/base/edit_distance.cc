#include "common/base/edit_distance.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace tandem {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Smallest number of insertions, deletions and replacements of characters that turn `a` into `b`
// (Levenshtein, 1966).
size_t Levenshtein(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];  // distance(a[0, i-1), b[0, j-1))
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view word, std::span<const std::string> names,
                                      size_t count_max) {
  constexpr size_t kWordMax = 200;  // longer ones are no slip of the finger
  if (word.empty() || word.size() > kWordMax) return {};
  const std::string wanted = Lower(word);
  const size_t limit = std::max<size_t>(2, word.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : names) {
    const std::string lower = Lower(name);
    const size_t distance = Levenshtein(wanted, lower);
    if (distance <= limit || (wanted.size() > 2 && lower.find(wanted) != std::string::npos)) {
      near.emplace_back(distance, name);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<std::string> nearest;
  for (auto& [distance, name] : near) {
    if (nearest.size() < count_max) nearest.push_back(std::move(name));
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string> names) {
  const std::vector<std::string> nearest = NearestNames(word, names);
  std::string text;
  for (size_t i = 0; i < nearest.size(); ++i) {
    text += i == 0 ? "; did you mean " : i + 1 == nearest.size() ? " or " : ", ";
    text += "\"" + nearest[i] + "\"";
  }
  return text.empty() ? text : text + "?";
}

}  // namespace tandem
