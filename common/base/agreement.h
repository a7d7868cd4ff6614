// What several processes must have alike, as texts that can be compared and shown.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// Names of settings, each once and in ascending order, with their values.
using Agreement = std::vector<std::pair<std::string, std::string>>;

// "" when equal; else the first difference, in words: "trainer 1 has seed 2, trainer 0 has 1 (1
// more setting differs)". `a_name`, `b_name`: who has them.
std::string Disagreement(const Agreement& a, std::string_view a_name, const Agreement& b,
                         std::string_view b_name);

}  // namespace tandem
