#include "deploy/cli/errors/error_codes.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

const std::vector<ErrorArea>& ErrorAreas() {
  static const std::vector<ErrorArea> areas = {
      {1, "flags, job files, knobs, programs"},
      {2, "data, checkpoints, files"},
      {3, "ranks and collective mode"},
      {4, "parameter servers"},
      {5, "devices and memory"},
      {6, "security"},
      {7, "running jobs"},
  };
  return areas;
}

const std::vector<ErrorCode>& ErrorCodes() {
  static const std::vector<ErrorCode> all = [] {
    std::vector<ErrorCode> codes;
    for (const auto area : {JobErrors, DataErrors, RankErrors, PserverErrors, MachineErrors,
                            SecurityErrors, RunningErrors}) {
      const std::vector<ErrorCode> rows = area();
      codes.insert(codes.end(), rows.begin(), rows.end());
    }
    // Sorts the rows by number, because the functions of the areas group the rows by subject.
    std::ranges::stable_sort(codes, {}, &ErrorCode::number);
    TD_REQUIRE(std::ranges::adjacent_find(codes, {}, &ErrorCode::number) == codes.end());
    return codes;
  }();
  return all;
}

std::string NameOf(const ErrorCode& code) {
  TD_REQUIRE(code.number >= 1000 && code.number <= 9999);
  return "TD" + std::to_string(code.number);
}

StatusOr<std::vector<ErrorCode>> CodesIn(const std::string& text) {
  const std::regex code(R"((?:\btd|^)(\d{4})\b)", std::regex::icase);
  std::vector<ErrorCode> found;
  for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it) {
    const int number = std::stoi((*it)[1].str());
    const auto is = [number](const ErrorCode& row) { return row.number == number; };
    if (std::any_of(found.begin(), found.end(), is)) continue;
    const auto row = std::find_if(ErrorCodes().begin(), ErrorCodes().end(), is);
    if (row != ErrorCodes().end()) {
      found.push_back(*row);
      continue;
    }
    std::vector<std::string> known;
    for (const ErrorCode& c : ErrorCodes()) known.push_back(NameOf(c));
    const std::string name = "TD" + std::to_string(number);
    std::string hint = HintText(name, known);
    if (hint.empty()) hint = "; hint: run tandem explain, which lists all codes";
    return NotFound("there is no error code %s [TD1006]%s", name, hint);
  }
  return found;
}

std::string ErrorsPage() {
  std::string page =
      "# Errors\n\n"
      "Generated from `deploy/cli/error_codes_*.cc` by `TANDEM_UPDATE=1 "
      "build/tests/explain_test`;\n"
      "do not edit. A message of Tandem contains the code of its kind of error, such as "
      "`[TD6003]`,\n"
      "on the screen, in logs and in replies over the network. `tandem explain TD6003` prints the\n"
      "text of this page. Codes keep their meaning. The word in brackets at the end of a message\n"
      "(`UNAVAILABLE`) is gRPC's status code and determines the exit code: `tandem explain` lists\n"
      "these codes, too.\n";
  for (const ErrorArea& area : ErrorAreas()) {
    page += absl::StrFormat("\n## TD%dxxx: %s\n", area.digit, area.title);
    for (const ErrorCode& code : ErrorCodes()) {
      if (code.number / 1000 != area.digit) continue;
      page += absl::StrFormat(
          "\n### %s: %s\n\n- What it means: %s.\n- Usual causes: %s.\n- What to do: %s.\n- "
          "Example: `%s`\n",
          NameOf(code), code.title, code.means, code.causes, code.what_to_do, code.example);
    }
  }
  return page;
}

}  // namespace tandem::deploy
