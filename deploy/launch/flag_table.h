// Command lines read against an explicit table: aliases, `--name=value`, `--name value`, dashes for
// underscores, everything after `--` kept apart, and "did you mean" for what is not in the table.
// (gflags knows neither aliases nor hints, and its flags are process-wide.)
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct FlagSpec {
  const char* name;     // with underscores
  const char* aliases;  // space separated; "" for none
  // What the value is, for the help text; "" for a flag that is just there; "[=N]" for one whose
  // value may be left out.
  const char* value;
  const char* help;
};

struct ParsedArgs {
  struct Value {
    std::string text;     // "true" for a flag without value
    std::string spelled;  // as the user wrote the name: "--server_num"
  };
  std::map<std::string, Value> flags;     // by FlagSpec::name
  std::vector<std::string> positional;    // in order
  std::vector<std::string> after_dashes;  // what stood after "--"; first, what was handed on

  bool Has(const std::string& name) const { return flags.count(name) > 0; }
  // The value, or `fallback` when the flag was not given.
  std::string Get(const std::string& name, const std::string& fallback = "") const;
  // INVALID_ARGUMENT when the value is no whole number in [min, max].
  StatusOr<int> GetInt(const std::string& name, int fallback, int min, int max) const;
  // INVALID_ARGUMENT when the value is no number in [min, max].
  StatusOr<double> GetDouble(const std::string& name, double fallback, double min,
                             double max) const;
};

// Flags of another program that may stand before "--".
struct HandedOn {
  std::function<bool(const std::string& name)> takes;  // name: with underscores
  std::vector<std::string> names;                      // for did-you-mean
  std::string otherwise;  // hint where a flag is of neither program and near to none
};

// INVALID_ARGUMENT, naming the argument, when a flag is unknown, given twice, or lacks its value.
// A flag that is not in the table and that `handed_on` takes goes to after_dashes.
StatusOr<ParsedArgs> ParseArgs(const std::vector<FlagSpec>& table,
                               const std::vector<std::string>& args,
                               const HandedOn* handed_on = nullptr);

// One line a flag, for --help.
std::string FlagHelp(const std::vector<FlagSpec>& table);

// `; hint: did you mean "x"?`, or "" when no candidate is near.
std::string HintText(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tandem::deploy
