// Settings that must be equal in several processes, as texts for comparisons and messages.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// Names and values of settings. Names are unique and ascending.
using Agreement = std::vector<std::pair<std::string, std::string>>;

// Returns "" if both are equal, else the first difference. Example: "trainer 1 has seed 2, trainer
// 0 has 1 (1 more setting differs)". `a_name` and `b_name` name the processes.
std::string Disagreement(const Agreement& a, std::string_view a_name, const Agreement& b,
                         std::string_view b_name);

}  // namespace tandem
