// Implements the command rows, which reads the logs of a job's pservers.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/tools/push_text.h"
#include "pserver/history/row_history.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;
using pserver::RowHistory;
using pserver::RowPush;

constexpr size_t kValuesShown = 4;  // in the text output

std::string ValuesText(const RowPush& push) {
  if (!push.after) return "unknown";
  std::vector<std::string> shown;
  for (size_t i = 0; i < push.after->size() && i < kValuesShown; ++i) {
    shown.push_back(absl::StrFormat("%.6g", (*push.after)[i]));
  }
  return absl::StrJoin(shown, " ") + (push.after->size() > kValuesShown ? " ..." : "");
}

Json ToJson(const RowPush& push) {
  Json json = PushJson(push.facts);
  json["gradient_norm"] = push.gradient_norm;
  json["restored_before"] = push.restored;
  json["version"] = nullptr;
  json["values"] = nullptr;
  if (!push.after) return json;
  json["version"] = push.version;
  json["values"] = *push.after;
  return json;
}

void PrintText(int server, const RowHistory& history) {
  TD_REQUIRE(server >= 0 && history.first_entry <= history.last_entry);
  if (history.first_entry == 0) {
    std::printf("pserver %d: its log is empty; hint: keep a part of it with --log_keep_mb\n",
                server);
    return;
  }
  std::printf("pserver %d: its log has the entries %llu to %llu and begins at %s; values are %s\n",
              server, static_cast<unsigned long long>(history.first_entry),
              static_cast<unsigned long long>(history.last_entry),
              TimeText(history.begin_us).c_str(),
              history.values_from == 0
                  ? "unknown, because no kept snapshot is as old"
                  : absl::StrFormat("known from entry %d on", history.values_from).c_str());
  std::vector<std::vector<std::string>> rows = {{"TIME", "ENTRY", "TRAINER", "SEQUENCE", "STEP",
                                                 "VERSION", "|GRADIENT|", "VALUES AFTER", ""}};
  for (const RowPush& p : history.pushes) {
    rows.push_back({TimeText(p.facts.time_us), std::to_string(p.facts.entry),
                    std::to_string(p.facts.trainer), std::to_string(p.facts.sequence),
                    std::to_string(p.facts.step), p.after ? std::to_string(p.version) : "-",
                    absl::StrFormat("%.6g", p.gradient_norm), ValuesText(p),
                    p.restored ? "after a restore" : ""});
  }
  if (!history.pushes.empty()) std::fputs(TableText(rows).c_str(), stdout);
}

Status Rows(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_RETURN_IF_ERROR(TakesAtMost(4, args));
  const std::vector<std::string>& p = args.positional;
  uint64_t id = 0;
  if (p.size() != 4 || p[0] != "history" || !absl::SimpleAtoi(p[3], &id)) {
    return InvalidArgument(
        "expected tandem rows history DIR TABLE ID, with the id of a row [TD1007]; hint: DIR is "
        "the "
        "--pserver_data_dir of the job");
  }
  TD_ASSIGN_OR_RETURN(const auto dirs, pserver::ServerDirs(p[1]));
  Json all = Json::array();
  bool has_table = false;
  std::map<int, RowHistory> histories;
  for (const auto& [server, dir] : dirs) {
    TD_ASSIGN_OR_RETURN(histories[server], pserver::HistoryOfRow(dir, server, p[2], id));
    has_table |= histories[server].has_table;
  }
  if (!has_table) {
    return NotFound(
        "%s: no pserver has a table \"%s\" [TD7008]; hint: run tandem vars to see the "
        "tables of a running job",
        p[1], p[2]);
  }
  size_t pushes = 0;
  for (const auto& [server, history] : histories) {
    pushes += history.pushes.size();
    Json list = Json::array();
    for (const RowPush& push : history.pushes) list.push_back(ToJson(push));
    all.push_back({{"pserver", server},
                   {"first_entry", history.first_entry},
                   {"last_entry", history.last_entry},
                   {"begin", history.begin_us == 0 ? "" : TimeText(history.begin_us)},
                   {"values_from", history.values_from},
                   {"pushes", std::move(list)}});
    if (!as_json) PrintText(server, history);
  }
  if (as_json) {
    std::puts(all.dump(2).c_str());
  } else if (pushes == 0) {
    std::printf("row %llu of table %s has no push in these logs\n",
                static_cast<unsigned long long>(id), p[2].c_str());
  }
  return OkStatus();
}

}  // namespace

int RunRows(const Args& args) {
  return RunBody("rows",
                 "tandem rows history DIR TABLE ID: the pushes that changed a row of a table, from "
                 "the logs of the\npservers in DIR (tandemrun --pserver_data_dir), with the values "
                 "after each of them. The job may run or\nnot. A checkpoint removes the log before "
                 "it, unless --log_keep_mb keeps it. Values are known from the\noldest global "
                 "snapshot (tandem save --snapshot) whose log is still there.\n",
                 {kOutputFlag}, args, Rows);
}

}  // namespace tandem::deploy
