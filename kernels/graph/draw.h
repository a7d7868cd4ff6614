// Writes a program as a graph in graphviz's DOT language.
#pragma once

#include <string>

#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns the program as a DOT digraph. Operators are boxes in the colour of their role, in program
// order. Parameters, states and data are ellipses. For each value, an arrow goes from its last
// writer to each reader. The arrow has the name and the shape of the value. Equal programs give
// equal text.
std::string ToDot(const Program& program, const std::string& title);

}  // namespace tandem::graph
