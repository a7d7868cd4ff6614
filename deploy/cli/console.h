// How the subcommands of `tandem` talk to people.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

enum class Color { kGreen, kYellow, kRed, kBold };

// `text` in colour where `fd` is a terminal that can do colours and NO_COLOR is not set
// (no-color.org); else `text` as it is.
std::string Paint(int fd, Color color, const std::string& text);

// Prints the error as "tandem COMMAND: error: ..." on stderr; returns its exit code.
int Fail(const std::string& command, const Status& status);

// Columns as wide as their widest cell, two spaces between them; a line each.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

inline constexpr FlagSpec kOutputFlag = {"output", "o", "FORMAT", "text (default) or json"};
// What --output (-o) says: text, the default, or json. INVALID_ARGUMENT for anything else.
StatusOr<bool> WantsJson(const ParsedArgs& args);

// Parses; on --help prints `usage` and the flags, on an error prints it. Returns true when the
// command should go on, else `*exit_code` is set.
bool ParseOrExplain(const std::string& command, const std::string& usage,
                    std::vector<FlagSpec> flags, const std::vector<std::string>& args,
                    ParsedArgs* parsed, int* exit_code);

// INVALID_ARGUMENT when there are more than `most` arguments beside flags; it names the first.
Status TakesAtMost(size_t most, const ParsedArgs& args);

// A subcommand with one body: parses or explains, runs the body and says what went wrong. The exit
// code, which a body may also choose itself.
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            StatusOr<int> (*body)(const ParsedArgs&));
int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            Status (*body)(const ParsedArgs&));

}  // namespace tandem::deploy
