// Writes a program as a graph in graphviz's DOT language.
#pragma once

#include <string>

#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns the program as a DOT digraph. Operators are boxes in the colour of their role, in program
// order. Parameters, states and data are ellipses. For each value, an arrow with its name and shape
// goes from the last writer to each reader. Equal programs give equal text.
std::string ToDot(const Program& program, const std::string& title);

}  // namespace tandem::graph
