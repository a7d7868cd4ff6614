// The names that ApplyOverride (strategy.h) accepts, for programs that pass settings on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
}

namespace tandem::strategy {

// Returns whether a field below `root` has this name: a path, its end, or another spelling of a
// knob.
bool IsSetting(const google::protobuf::Descriptor& root, std::string_view name);

// For did-you-mean.
std::vector<std::string> SettingNames(const google::protobuf::Descriptor& root);

}  // namespace tandem::strategy
