#include "deploy/cli/console.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tandem::deploy {

std::string Paint(int fd, Color color, const std::string& text) {
  const char* no_color = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  if (isatty(fd) != 1 || (no_color != nullptr && *no_color != '\0') || term == nullptr ||
      std::strcmp(term, "dumb") == 0) {
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

bool ParseOrExplain(const std::string& command, const std::string& usage,
                    std::vector<FlagSpec> flags, const std::vector<std::string>& args,
                    ParsedArgs* parsed, int* exit_code) {
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

}  // namespace tandem::deploy
