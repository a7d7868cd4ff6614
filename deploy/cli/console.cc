#include "deploy/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/base/error_text.h"
#include "common/base/require.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

std::string Paint(int fd, Color color, const std::string& text) {
  const Environment env = CurrentEnvironment();
  const auto value = [&env](const char* name) {
    const auto it = env.find(name);
    return it == env.end() ? std::string() : it->second;
  };
  if (isatty(fd) != 1 || value("NO_COLOR") != "" || value("TERM") == "" ||
      value("TERM") == "dumb") {
    return text;
  }
  switch (color) {
    case Color::kGreen:
      return "\033[32m" + text + "\033[0m";
    case Color::kYellow:
      return "\033[33m" + text + "\033[0m";
    case Color::kRed:
      return "\033[31m" + text + "\033[0m";
    case Color::kBold:
      return "\033[1m" + text + "\033[0m";
  }
  return text;
}

int Fail(const std::string& command, const Status& status) {
  std::fputs(ErrorText("tandem " + command, status).c_str(), stderr);
  return ExitCodeOf(status);
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

StatusOr<bool> WantsJson(const ParsedArgs& args) {
  const std::string format = args.Get("output", "text");
  if (format == "text" || format == "json") return format == "json";
  return InvalidArgument("--output=%s: expected text or json [TD1006]%s", format,
                         HintText(format, {"text", "json"}));
}

Status TakesAtMost(size_t most, const ParsedArgs& args) {
  if (args.positional.size() <= most) return OkStatus();
  return InvalidArgument(
      "unexpected argument \"%s\" [TD1010]; hint: run the command with --help to see its arguments",
      args.positional[most]);
}

bool ParseOrExplain(const std::string& command, const std::string& usage,
                    std::vector<FlagSpec> flags, const std::vector<std::string>& args,
                    ParsedArgs* parsed, int* exit_code) {
  TD_REQUIRE(!command.empty() && usage.ends_with('\n'));
  flags.push_back({"help", "", "", "print this"});
  StatusOr<ParsedArgs> result = ParseArgs(flags, args);
  if (!result.ok()) {
    *exit_code = Fail(command, result.status());
    return false;
  }
  *parsed = std::move(*result);
  if (!parsed->Has("help")) return true;
  std::fputs((usage + "\n" + FlagHelp(flags)).c_str(), stdout);
  *exit_code = 0;
  return false;
}

int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            StatusOr<int> (*body)(const ParsedArgs&)) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain(command, usage, flags, args, &parsed, &exit_code)) return exit_code;
  TD_REQUIRE(body != nullptr);
  const StatusOr<int> code = body(parsed);
  return code.ok() ? *code : Fail(command, code.status());
}

int RunBody(const std::string& command, const std::string& usage,
            const std::vector<FlagSpec>& flags, const std::vector<std::string>& args,
            Status (*body)(const ParsedArgs&)) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain(command, usage, flags, args, &parsed, &exit_code)) return exit_code;
  TD_REQUIRE(body != nullptr);
  const Status status = body(parsed);
  return status.ok() ? kExitOk : Fail(command, status);
}

}  // namespace tandem::deploy
