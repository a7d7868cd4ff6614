// Lists the command-line flags (gflags) that a program defines itself, for its help text. Without
// this selection, the help text would also contain many flags of libraries.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

// Makes `former`, a flag name of earlier versions, a second name of the string flag `current`.
// Write the macro after the DEFINE_string of `current`, outside of all namespaces. If a command
// line has both names, the name that comes last determines the value. The help text shows only
// `current`.
#define TD_FORMER_FLAG(former, current)                                                          \
  DEFINE_string(former, "", "Former name of --" #current);                                       \
  [[maybe_unused]] static const bool td_former_flag_##former =                                   \
      gflags::RegisterFlagValidator(&FLAGS_##former, [](const char*, const std::string& value) { \
        if (!value.empty()) FLAGS_##current = value;                                             \
        return true;                                                                             \
      })

namespace tandem {

// Returns the flags that the source file `file` (__FILE__ of main.cc) defines, except former names
// of flags. Also returns the logging flags v, minloglevel and logtostderr.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags(const std::string& file);

// Returns one line of help per flag of ProgramFlags: "  --name   what it does (default)".
std::string OwnFlagsHelp(const std::string& file);

}  // namespace tandem
