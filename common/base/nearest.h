// Finds the name in a list that is nearest to a misspelled name, for "did you mean" hints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Returns the number of edits that turn `a` into `b`. An edit inserts, deletes or replaces a
// letter, or swaps two neighbouring letters. No letter is edited twice (optimal string alignment
// distance). Ignores case.
int64_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate that is most likely meant by `name`, or "" if no rule selects a candidate.
// The first rule that selects a candidate decides:
// 1. the candidate with the fewest edits, if they are at most a third of the letters of `name`; a
//    different order of words (separated by '_') counts as 1.5 edits;
// 2. the shortest candidate that begins with `name`;
// 3. the candidate with the fewest edits, if there are at most two edits;
// 4. the candidate that contains `name`, if there is only one.
// Among candidates with equally many edits, the candidate that shares more letters with `name` has
// precedence, then the candidate that comes first in the list.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

// Returns `did you mean "x"?` with the result x of NearestName, or "" if that result is "".
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

// Like DidYouMean, but returns a text for the end of a sentence: `; did you mean "x"?`, or "".
std::string OrDidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tandem
