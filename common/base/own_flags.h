// The gflags that a program defines itself, for its help: its libraries define many more.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

namespace tandem {

// Those that `file` (__FILE__ of main.cc) defines, and the few of logging that are of use.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags(const std::string& file);

// A line for each: "  --name   what it does (default)".
std::string OwnFlagsHelp(const std::string& file);

}  // namespace tandem
