#include "common/strategy/setting_names.h"

#include "common/strategy/knob_index.h"

namespace tandem::strategy {

bool IsSetting(const google::protobuf::Descriptor& root, std::string_view name) {
  return !FieldIndex(root).Find(name).empty();
}

std::vector<std::string> SettingNames(const google::protobuf::Descriptor& root) {
  return FieldIndex(root).Names();
}

}  // namespace tandem::strategy
