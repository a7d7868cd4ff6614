// Finds the name in a list that is nearest to a misspelled name, for "did you mean" hints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Returns the number of insertions, deletions, replacements and swaps of neighbouring letters that
// turn `a` into `b` (optimal string alignment distance). At each position there is at most one
// edit. Ignores case.
int64_t EditDistance(std::string_view a, std::string_view b);

// Returns one of `candidates`, or "" if no rule selects one. The first of these rules that selects
// a candidate decides:
// 1. the nearest within length / 3 edits; the order of its words (between '_') does not matter;
// 2. the shortest that begins with `name`;
// 3. the nearest within two edits;
// 4. the only one that contains `name`.
// Among equally near candidates, the one that shares more letters with `name` has precedence, then
// the one that is first in the list.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

// Returns `did you mean "x"?`, or "" if no candidate is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

// Like DidYouMean, but for the end of a sentence: `; did you mean "x"?`, or "" if none is near.
std::string OrDidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tandem
