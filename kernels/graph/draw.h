// Programs as pictures: the text that graphviz turns into one.
#pragma once

#include <string>

#include "kernels/graph/program.h"

namespace tandem {

// A digraph in the DOT language: operators as boxes in the colour of their role, in order;
// parameters, states and data as ellipses; an arrow per value, labelled with its name and shape,
// from the operator that wrote it last to each that reads it. The same program gives the same text.
std::string ToDot(const Program& program, const std::string& title);

}  // namespace tandem
