// Text output, errors and flags of the subcommands of `tandem`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

enum class Color { kGreen, kYellow, kRed, kBold };

// Colours `text` if `fd` is a terminal with colours and NO_COLOR is not set (no-color.org); else
// returns `text` unchanged.
std::string Paint(int fd, Color color, const std::string& text);

// Prints the error as "tandem COMMAND: error: ..." on stderr; returns its exit code.
int Fail(const std::string& command, const Status& status);

// A table, one line per row. Columns are as wide as their widest cell, with two spaces between
// them.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

inline constexpr FlagSpec kOutputFlag = {"output", "o", "FORMAT", "text (default) or json"};
// Whether --output (-o) is json; the default is text. INVALID_ARGUMENT: any other value.
StatusOr<bool> WantsJson(const ParsedArgs& args);

// Parses the arguments. For --help it prints `usage` and the flags; it also prints errors. Returns
// true if the command should continue, else sets `*exit_code`.
bool ParseOrExplain(const std::string& command, const std::string& usage,
                    std::vector<FlagSpec> flags, const std::vector<std::string>& args,
                    ParsedArgs* parsed, int* exit_code);

// INVALID_ARGUMENT: there are more than `most` arguments besides flags; the message names the
// first.
Status TakesAtMost(size_t most, const ParsedArgs& args);

// Runs a subcommand with one body: parses the arguments (ParseOrExplain), runs the body and prints
// errors. Returns the exit code, which the body may also choose.
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            StatusOr<int> (*body)(const ParsedArgs&));
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            Status (*body)(const ParsedArgs&));

}  // namespace tandem::deploy
