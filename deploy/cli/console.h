// Text output, errors and flags of the subcommands of `tandem`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

enum class Color { kGreen, kYellow, kRed, kBold };

// Returns `text` with a colour if `fd` is a terminal with colours and NO_COLOR is not set
// (no-color.org). Otherwise returns `text` unchanged.
std::string Paint(int fd, Color color, const std::string& text);

// Prints the error on stderr as "tandem COMMAND: error: ..." and returns its exit code.
int Fail(const std::string& command, const Status& status);

// Returns a table as text, with one line per row. Each column is as wide as its widest cell. Two
// spaces separate the columns.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

inline constexpr FlagSpec kOutputFlag = {"output", "o", "FORMAT", "text (default) or json"};
// Returns whether --output (-o) is "json"; default: "text". INVALID_ARGUMENT: another value.
StatusOr<bool> WantsJson(const ParsedArgs& args);

// Parses the arguments into `*parsed`. Prints `usage` and the flags if the user gives --help, and
// prints an error if parsing fails. Returns true if the command must run. Returns false if it must
// end; `*exit_code` is then set.
bool ParseOrExplain(const std::string& command, const std::string& usage,
                    std::vector<FlagSpec> flags, const std::vector<std::string>& args,
                    ParsedArgs* parsed, int* exit_code);

// Checks that there are at most `most` arguments besides flags. INVALID_ARGUMENT: there are more
// arguments; the message names the first superfluous one.
Status TakesAtMost(size_t most, const ParsedArgs& args);

// Runs a subcommand: parses the arguments (ParseOrExplain), calls `body`, and prints an error.
// Returns the exit code: the result of `body`, 0 after an OK status, or the code of the error.
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            StatusOr<int> (*body)(const ParsedArgs&));
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            Status (*body)(const ParsedArgs&));

}  // namespace tandem::deploy
