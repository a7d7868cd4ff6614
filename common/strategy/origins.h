// The origin of each value of a configuration. Highest precedence first: flag, environment, file,
// the choice of `auto`, default.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/strategy/diagnostics.h"

namespace tandem::strategy {

// Kinds of origins, in ascending order of precedence.
enum class OriginKind { kDefault = 0, kAuto = 1, kFile = 2, kEnvironment = 3, kFlag = 4 };

struct Origin {
  OriginKind kind = OriginKind::kDefault;
  SourcePlace place;
  // Origin of the value that this value replaced, such as "job.pbtxt:9:3"; empty: the default.
  std::string over;

  // Returns a text such as "job.pbtxt:9:3", "environment CPU_NUM", "flag --a_sync",
  // "setting a_sync", "default".
  std::string ToString() const;
};

// Returns the origin of a value that a flag set; `flag`: name without dashes.
Origin FlagOrigin(std::string_view flag);
// Returns the origin of a value that a program set by the name `name`.
Origin SettingOrigin(std::string_view name);
Origin EnvironmentOrigin(std::string_view variable);
Origin AutoOrigin();  // returns the origin of a value that `auto` has chosen

// The origins of the values of a configuration. The key is the path of the field from the root
// message, such as "strategy.build_strategy.reduce_strategy". Values that are defaults have no
// entry. Not thread-safe.
class Origins {
 public:
  using Map = std::map<std::string, Origin, std::less<>>;

  void Set(std::string_view path, const Origin& origin);
  // Returns the origin of the field at `path`, or kDefault if the field is not set.
  Origin Of(std::string_view path) const;
  const Map& all() const { return all_; }

 private:
  Map all_;
};

}  // namespace tandem::strategy
