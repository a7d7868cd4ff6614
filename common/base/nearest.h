// "did you mean": the nearest of a list of names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Optimal string alignment distance (Damerau-Levenshtein without repeated edits of one place):
// insertions, deletions, replacements and swaps of neighbours; letters differing in case are equal.
int64_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name` within length / 3 edits, also when its words (between '_') stand
// in another order; else the shortest one that begins with `name`; else the nearest within two
// edits; else the only one that contains it; else "". Of equals the one with the same letters, then
// the first.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

// `did you mean "x"?`, or "" when nothing is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

// The same as the end of a sentence: `; did you mean "x"?`, or "".
std::string OrDidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tandem
