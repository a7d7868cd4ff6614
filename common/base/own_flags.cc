#include "common/base/own_flags.h"

#include "absl/strings/str_format.h"

namespace tandem {

std::vector<gflags::CommandLineFlagInfo> ProgramFlags(const std::string& file) {
  std::vector<gflags::CommandLineFlagInfo> all, own;
  gflags::GetAllFlags(&all);
  for (const auto& flag : all) {
    const bool log = flag.name == "v" || flag.name == "minloglevel" || flag.name == "logtostderr";
    const bool former = flag.description.starts_with("Former name of --");
    if ((flag.filename == file && !former) || log) own.push_back(flag);
  }
  return own;
}

std::string OwnFlagsHelp(const std::string& file) {
  std::string text;
  for (const auto& flag : ProgramFlags(file)) {
    absl::StrAppendFormat(&text, "  --%-24s %s (%s)\n", flag.name, flag.description,
                          flag.default_value.empty() ? "\"\"" : flag.default_value);
  }
  return text;
}

}  // namespace tandem
