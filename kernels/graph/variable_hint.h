// Suggests a variable name when a name is not found in a program.
#pragma once

#include <string>
#include <string_view>

namespace tandem::graph {

class Program;

// Returns `; did you mean "x"?`, or "" if no variable has a similar name.
std::string OrVariableMeant(const Program& program, std::string_view name);

}  // namespace tandem::graph
