// Text output, errors and flags of the subcommands of `tandem`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

enum class Color { kGreen, kYellow, kRed, kBold };

// Returns `text` with a colour if `fd` is a terminal with colours and NO_COLOR is not set
// (no-color.org). Otherwise returns `text` unchanged.
std::string Paint(int fd, Color color, const std::string& text);

// Prints the error on stderr as "tandem COMMAND: error: ..." and returns its exit code.
int Fail(const std::string& command, const Status& status);

// Returns a table as text, with one line per row. Columns fit their widest cell, with two spaces
// between them.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

inline constexpr FlagSpec kOutputFlag = {"output", "o", "FORMAT", "text (default) or json"};
// Returns whether --output (-o) is "json"; default: "text". INVALID_ARGUMENT: another value.
StatusOr<bool> WantsJson(const ParsedArgs& args);

// Parses the arguments. Prints `usage` and the flags for --help, and prints errors of parsing.
// Returns true if the command should continue; otherwise sets `*exit_code`.
bool ParseOrExplain(const std::string& command, const std::string& usage,
                    std::vector<FlagSpec> flags, const std::vector<std::string>& args,
                    ParsedArgs* parsed, int* exit_code);

// Checks that there are at most `most` arguments besides flags. INVALID_ARGUMENT: there are more
// arguments; the message names the first superfluous one.
Status TakesAtMost(size_t most, const ParsedArgs& args);

// Runs a subcommand: parses the arguments (ParseOrExplain), calls `body`, and prints errors.
// Returns the exit code, which `body` may determine.
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            StatusOr<int> (*body)(const ParsedArgs&));
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            Status (*body)(const ParsedArgs&));

}  // namespace tandem::deploy
