// Compares settings that must be equal in several processes. A setting is a name with a value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// The settings of one process, as pairs of name and value. Names are unique and in ascending order.
using Agreement = std::vector<std::pair<std::string, std::string>>;

// Returns a text about the first setting that differs between `a` and `b`, or "" if all settings
// are equal. Example: "trainer 1 has seed 2, trainer 0 has 1 (1 more setting differs)". `a_name`
// and `b_name` name the two processes.
std::string Disagreement(const Agreement& a, std::string_view a_name, const Agreement& b,
                         std::string_view b_name);

}  // namespace tandem
