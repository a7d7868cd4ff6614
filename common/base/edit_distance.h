// "Did you mean": the nearest known names to a mistyped one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// At most `count_max` of `names`, nearest first (ties: in the given order), that a slip of the
// finger could have turned into `word`: at most a third of its length away, at least 2, or `word`
// is a part of the name. Case is ignored.
std::vector<std::string> NearestNames(std::string_view word, std::span<const std::string> names,
                                      size_t count_max = 3);

// "; did you mean \"relu\" or \"relu_grad\"?", or "" when nothing is near.
std::string DidYouMean(std::string_view word, std::span<const std::string> names);

}  // namespace tandem
