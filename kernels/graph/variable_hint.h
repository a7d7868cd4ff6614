// Who names a variable that a program does not have is told which one was probably meant.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

class Program;

// `; did you mean "x"?`, or "" when no variable's name is near.
std::string OrVariableMeant(const Program& program, std::string_view name);

}  // namespace tandem
