// Parses command lines with an explicit table of flags. Supports aliases, `--name=value`, `--name
// value`, dashes instead of underscores, arguments after `--` and "did you mean" hints. (gflags has
// neither aliases nor hints, and its flags are process-wide.)
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct FlagSpec {
  const char* name;     // name of the flag, with underscores
  const char* aliases;  // other names of the flag, separated by spaces; "": none
  // The value's name in the help text. "": the flag has no value. "[=N]": a value is optional.
  const char* value;
  const char* help;
};

struct ParsedArgs {
  struct Value {
    std::string text;     // text of the value; "true" for a flag without a value
    std::string spelled;  // name of the flag as the user wrote it, such as "--server_num"
  };
  std::map<std::string, Value> flags;  // values of the flags; the key is FlagSpec::name
  std::vector<std::string>
      positional;  // arguments that are not flags, in the order of the command line
  // Arguments for the other program: flags that were passed on, then the arguments after "--".
  std::vector<std::string> after_dashes;
  int handed_on = 0;  // number of flags in after_dashes that were passed on

  bool Has(const std::string& name) const { return flags.count(name) > 0; }
  // Returns the value of a flag, or `fallback` if the flag is absent.
  std::string Get(const std::string& name, const std::string& fallback = "") const;
  // Returns the value of a flag as a number, or `fallback` if the flag is absent. INVALID_ARGUMENT:
  // the value is no whole number in [min, max].
  StatusOr<int> GetInt(const std::string& name, int fallback, int min, int max) const;
  // Returns the value of a flag as a number, or `fallback` if the flag is absent. INVALID_ARGUMENT:
  // the value is no number in [min, max].
  StatusOr<double> GetDouble(const std::string& name, double fallback, double min,
                             double max) const;
};

// The flags of another program. A command line may have them before "--".
struct HandedOn {
  // Returns whether the other program has the flag; `name` has underscores.
  std::function<bool(const std::string& name)> takes;
  std::vector<std::string> names;  // names of the other program's flags, for "did you mean" hints
  std::string otherwise;           // hint for a flag that is similar to no flag of either program
  // Returns whether all arguments after the positional argument `arg` are for the other program.
  std::function<bool(const std::string& arg)> takes_rest_after;
};

// Parses a command line. Appends a flag to after_dashes if `handed_on` accepts it and `table` does
// not have it. INVALID_ARGUMENT: a flag is unknown, duplicate or without its value; the message
// names the flag.
StatusOr<ParsedArgs> ParseArgs(const std::vector<FlagSpec>& table,
                               const std::vector<std::string>& args,
                               const HandedOn* handed_on = nullptr);

// Returns the text for --help, with one line per flag.
std::string FlagHelp(const std::vector<FlagSpec>& table);

// Returns `; hint: did you mean "x"?`, or "" if no candidate is similar to `word`.
std::string HintText(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tandem::deploy
