// The gflags that a program defines itself, for its help text. Its libraries define many more.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

namespace tandem {

// Returns the flags that `file` (__FILE__ of main.cc) defines, and a few useful flags of logging.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags(const std::string& file);

// Returns one line per flag: "  --name   what it does (default)".
std::string OwnFlagsHelp(const std::string& file);

}  // namespace tandem
