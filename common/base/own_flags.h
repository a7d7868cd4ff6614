// The gflags that a program defines itself, for its help text. Its libraries define many more.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

// Gives the string flag `current` its name of earlier versions, `former`, as a second spelling. Use
// it after the DEFINE_string of `current`, outside of all namespaces. If both are given, the last
// one counts. The help text shows only `current`.
#define TD_FORMER_FLAG(former, current)                                                          \
  DEFINE_string(former, "", "Former name of --" #current);                                       \
  [[maybe_unused]] static const bool td_former_flag_##former =                                   \
      gflags::RegisterFlagValidator(&FLAGS_##former, [](const char*, const std::string& value) { \
        if (!value.empty()) FLAGS_##current = value;                                             \
        return true;                                                                             \
      })

namespace tandem {

// Returns the flags that `file` (__FILE__ of main.cc) defines, without former names, and a few
// useful flags of logging.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags(const std::string& file);

// Returns one line per flag: "  --name   what it does (default)".
std::string OwnFlagsHelp(const std::string& file);

}  // namespace tandem
