// Parses command lines with an explicit table. Supports aliases, `--name=value`, `--name value`,
// dashes instead of underscores, arguments after `--` and "did you mean" hints. (gflags has neither
// aliases nor hints, and its flags are process-wide.)
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct FlagSpec {
  const char* name;     // spelled with underscores
  const char* aliases;  // separated by spaces; "": none
  // The value's name in the help text. "": a flag without a value. "[=N]": the value is optional.
  const char* value;
  const char* help;
};

struct ParsedArgs {
  struct Value {
    std::string text;     // "true" for a flag without a value
    std::string spelled;  // the name as the user wrote it: "--server_num"
  };
  std::map<std::string, Value> flags;     // by FlagSpec::name
  std::vector<std::string> positional;    // in order
  std::vector<std::string> after_dashes;  // arguments passed on to the other program, then those
                                          // after "--"

  bool Has(const std::string& name) const { return flags.count(name) > 0; }
  // The value; `fallback` if the flag is absent.
  std::string Get(const std::string& name, const std::string& fallback = "") const;
  // INVALID_ARGUMENT: the value is not a whole number in [min, max].
  StatusOr<int> GetInt(const std::string& name, int fallback, int min, int max) const;
  // INVALID_ARGUMENT: the value is not a number in [min, max].
  StatusOr<double> GetDouble(const std::string& name, double fallback, double min,
                             double max) const;
};

// Flags of another program that may precede "--".
struct HandedOn {
  std::function<bool(const std::string& name)> takes;  // name: with underscores
  std::vector<std::string> names;                      // for did-you-mean hints
  std::string otherwise;  // hint for a flag that is similar to no flag of either program
};

// INVALID_ARGUMENT: a flag is unknown, duplicate, or has no value; the message names the argument.
// A flag that is not in the table but that `handed_on` accepts is added to after_dashes.
StatusOr<ParsedArgs> ParseArgs(const std::vector<FlagSpec>& table,
                               const std::vector<std::string>& args,
                               const HandedOn* handed_on = nullptr);

// One line per flag, for --help.
std::string FlagHelp(const std::vector<FlagSpec>& table);

// `; hint: did you mean "x"?`; "": no candidate is similar.
std::string HintText(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tandem::deploy
