// The origin of each value of a configuration. Precedence: flag, environment, file, the choice of
// `auto`, default.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/strategy/diagnostics.h"

namespace tandem::strategy {

// In ascending precedence.
enum class OriginKind { kDefault = 0, kAuto = 1, kFile = 2, kEnvironment = 3, kFlag = 4 };

struct Origin {
  OriginKind kind = OriginKind::kDefault;
  SourcePlace place;
  std::string over;  // the origin it has overridden: "job.pbtxt:9:3"; empty: only the default

  // Examples: "job.pbtxt:9:3", "environment CPU_NUM", "flag --a_sync", "default".
  std::string ToString() const;
};

Origin FlagOrigin(std::string_view flag);  // name without dashes
Origin EnvironmentOrigin(std::string_view variable);
Origin AutoOrigin();  // "chosen by auto"

// Origins by the path of the field from the root message, such as
// "strategy.build_strategy.reduce_strategy". Contains only values that are not defaults. Not
// thread-safe.
class Origins {
 public:
  using Map = std::map<std::string, Origin, std::less<>>;

  void Set(std::string_view path, const Origin& origin);
  Origin Of(std::string_view path) const;  // kDefault when not set
  const Map& all() const { return all_; }

 private:
  Map all_;
};

}  // namespace tandem::strategy
