// Finds the name in a list that is nearest to a misspelled name, for "did you mean" hints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Returns the optimal string alignment distance: the number of insertions, deletions, replacements
// and swaps of neighbours, with at most one edit at each position. Ignores case.
int64_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate that first matches one of these rules, or "":
//   1. the nearest within length / 3 edits; the order of its words (between '_') does not matter;
//   2. the shortest that begins with `name`;
//   3. the nearest within two edits;
//   4. the only one that contains `name`.
// Among equally near candidates, one with the same letters has precedence, then the first.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

// Returns `did you mean "x"?`, or "" if no candidate is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

// Like DidYouMean, but for the end of a sentence: `; did you mean "x"?`, or "" if none is near.
std::string OrDidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tandem
