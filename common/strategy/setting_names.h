// The names of settings that ApplyOverride (strategy.h) accepts. Programs that forward settings to
// other programs need these names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
}

namespace tandem::strategy {

// Returns whether a field below `root` has this name. The name is a path, the end of a path, or
// another spelling of a knob.
bool IsSetting(const google::protobuf::Descriptor& root, std::string_view name);

// Returns the names of all settings below `root`, for "did you mean" hints.
std::vector<std::string> SettingNames(const google::protobuf::Descriptor& root);

}  // namespace tandem::strategy
