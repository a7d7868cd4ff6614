#include "common/strategy/origins.h"

namespace tandem::strategy {

std::string Origin::ToString() const {
  return kind == OriginKind::kDefault ? "default" : place.ToString();
}

Origin AutoOrigin() {
  Origin origin;
  origin.kind = OriginKind::kAuto;
  origin.place.file = "chosen by auto";
  return origin;
}

Origin FlagOrigin(std::string_view flag) {
  Origin origin;
  origin.kind = OriginKind::kFlag;
  origin.place.file = "flag --" + std::string(flag);
  return origin;
}

Origin SettingOrigin(std::string_view name) {
  Origin origin;
  origin.kind = OriginKind::kFlag;
  origin.place.file = "setting " + std::string(name);
  return origin;
}

Origin EnvironmentOrigin(std::string_view variable) {
  Origin origin;
  origin.kind = OriginKind::kEnvironment;
  origin.place.file = "environment " + std::string(variable);
  return origin;
}

void Origins::Set(std::string_view path, const Origin& origin) {
  all_.insert_or_assign(std::string(path), origin);
}

Origin Origins::Of(std::string_view path) const {
  const auto it = all_.find(path);
  return it == all_.end() ? Origin() : it->second;
}

}  // namespace tandem::strategy
