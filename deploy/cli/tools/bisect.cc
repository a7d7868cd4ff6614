// Implements the command bisect, which finds the push that damaged a model, in the logs of
// pservers.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/require.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/tools/push_text.h"
#include "pserver/history/bisect.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;
using pserver::BisectValues;
using pserver::ConditionMatch;
using pserver::JobBisection;
using pserver::ServerBisection;
using pserver::StateCondition;
using pserver::SuspectPush;
using Kind = StateCondition::Kind;
using Result = ServerBisection::Result;

constexpr size_t kPushesShown = 8;  // in the text output

const std::vector<FlagSpec>& BisectFlags() {
  static const std::vector<FlagSpec> flags = {
      {"nonfinite", "", "", "a value or optimizer state is NaN or infinite (default)"},
      {"above", "", "X", "the absolute value of an element is above X"},
      {"norm_above", "", "X",
       "the Euclidean norm of a row, or of the part of a dense variable on one pserver, is above "
       "X"},
      {"var", "", "NAME", "check only this dense variable"},
      {"table", "", "NAME", "check only this table"},
      {"id", "", "N", "check only this row of --table"},
      kOutputFlag};
  return flags;
}

StatusOr<double> LimitOf(const ParsedArgs& args, const std::string& flag) {
  double limit = 0;
  const std::string text = args.Get(flag);
  if (absl::SimpleAtod(text, &limit) && std::isfinite(limit) && limit >= 0) return limit;
  return InvalidArgument("--%s=%s: expected a number of at least 0 [TD1004]", flag, text);
}

StatusOr<StateCondition> ConditionOf(const ParsedArgs& args) {
  StateCondition condition{.variable = args.Get("var"), .table = args.Get("table")};
  const bool above = args.Has("above"), norm = args.Has("norm_above");
  if (above + norm + args.Has("nonfinite") > 1) {
    return InvalidArgument(
        "more than one of --nonfinite, --above and --norm_above is set [TD1005]; hint: run the "
        "command once for each condition");
  }
  if (args.Has("var") && args.Has("table")) {
    return InvalidArgument(
        "--var and --table are both set [TD1005]; hint: run the command once for each of them");
  }
  if (above || norm) {
    condition.kind = above ? Kind::kAbove : Kind::kNormAbove;
    TD_ASSIGN_OR_RETURN(condition.limit, LimitOf(args, above ? "above" : "norm_above"));
  }
  if (!args.Has("id")) return condition;
  if (!args.Has("table")) {
    return InvalidArgument("--id needs a table [TD1007]; hint: add --table=NAME");
  }
  uint64_t id = 0;
  if (!absl::SimpleAtoi(args.Get("id"), &id)) {
    return InvalidArgument("--id=%s: expected the id of a row [TD1004]", args.Get("id"));
  }
  condition.id = id;
  return condition;
}

// Shows on a terminal how far the replay is.
class Progress {
 public:
  void operator()(int server, uint64_t entry, uint64_t last) {
    if (!terminal_ || SteadyNow() < next_) return;
    next_ = SteadyNow() + std::chrono::milliseconds(200);
    std::fprintf(stderr, "\r\033[Kpserver %d: entry %llu of %llu", server,
                 static_cast<unsigned long long>(entry), static_cast<unsigned long long>(last));
    shown_ = true;
  }
  void End() {
    if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  Time next_{};
};

// ---- Texts --------------------------------------------------------------------------------------

std::string TextOf(const StateCondition& condition) {
  std::string text = "a value is NaN or infinite";
  if (condition.kind == Kind::kAbove) {
    text = absl::StrFormat("the absolute value of an element is above %g", condition.limit);
  } else if (condition.kind == Kind::kNormAbove) {
    text = absl::StrFormat("a norm is above %g", condition.limit);
  }
  if (!condition.variable.empty()) text += ", in variable " + condition.variable;
  if (!condition.table.empty()) text += ", in table " + condition.table;
  if (condition.id) text += absl::StrFormat(", row %d", *condition.id);
  return text;
}

// Returns the name of a stored state: "snapshot 3" or "its checkpoint".
std::string NameOf(const pserver::StoreReader::State& state) {
  return state.number == 0 ? "its checkpoint" : absl::StrFormat("snapshot %d", state.number);
}

std::string WhereText(const ConditionMatch& match, Kind kind) {
  std::string text = match.variable;
  if (match.is_row) text += absl::StrFormat(" row %d", match.id);
  if (!match.slot.empty()) text += " " + match.slot;
  if (kind == Kind::kNormAbove) return "norm of " + text;
  return match.element < 0 ? text : absl::StrFormat("%s [%d]", text, match.element);
}

std::string NumberText(const std::optional<double>& number) {
  return number ? absl::StrFormat("%.6g", *number) : "-";
}

void PrintPushes(const ServerBisection& found) {
  std::vector<std::vector<std::string>> rows = {
      {"  TIME", "ENTRY", "TRAINER", "INCARNATION", "SEQUENCE", "STEP", "|GRADIENT|"}};
  for (const SuspectPush& p : found.pushes) {
    if (rows.size() > kPushesShown) break;
    rows.push_back({"  " + TimeText(p.facts.time_us), std::to_string(p.facts.entry),
                    std::to_string(p.facts.trainer), std::to_string(p.facts.incarnation),
                    std::to_string(p.facts.sequence), std::to_string(p.facts.step),
                    NumberText(p.gradient_norm)});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  if (found.pushes.size() > kPushesShown) {
    std::printf("  and %zu more pushes of this step\n", found.pushes.size() - kPushesShown);
  }
}

void PrintValues(const ServerBisection& found, Kind kind) {
  std::vector<std::vector<std::string>> rows = {{"  WHERE", "BEFORE", "AFTER"}};
  for (const BisectValues& v : found.values) {
    rows.push_back(
        {"  " + WhereText(v.match, kind), NumberText(v.before), NumberText(v.match.value)});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  if (found.matches > found.values.size()) {
    std::printf("  and %zu more\n", found.matches - found.values.size());
  }
}

void PrintServer(int server, const ServerBisection& found, Kind kind) {
  std::printf("pserver %d: %s", server,
              absl::StrFormat("replayed %d pushes from %s (version %d)", found.replayed,
                              NameOf(found.from), found.from.version)
                  .c_str());
  if (found.first_entry != 0) {
    std::fputs(absl::StrFormat(", entries %d to %d, %s to %s, up to version %d", found.first_entry,
                               found.last_entry, TimeText(found.begin_us), TimeText(found.end_us),
                               found.version)
                   .c_str(),
               stdout);
  }
  std::puts("");
  switch (found.result) {
    case Result::kNever:
      std::puts(found.replayed > 0 ? "  the condition never holds"
                                   : "  the condition does not hold in this state, and the log has "
                                     "no push after it\n  (a checkpoint removes them: keep a "
                                     "snapshot, tandem save --snapshot, and --log_keep_mb)");
      return;
    case Result::kAtStart:
      std::puts("  the condition holds already in this state; no older log and state is kept");
      break;
    case Result::kAfterMove:
      std::printf("  the condition holds after entry %llu, which moved values to this pserver\n",
                  static_cast<unsigned long long>(found.last_entry));
      break;
    case Result::kAfterPush:
      std::printf("  the condition holds from version %llu on, after %s\n",
                  static_cast<unsigned long long>(found.version),
                  found.sync ? "this step, with the largest gradient first:" : "this push:");
      PrintPushes(found);
      break;
  }
  PrintValues(found, kind);
}

std::string NextText(const JobBisection& job) {
  if (job.restore_step) {
    return absl::StrFormat(
        "run tandem restore --step=%d LOG_DIR to return all pservers to the step before",
        *job.restore_step);
  }
  if (job.restore_snapshot) {
    return absl::StrFormat(
        "run tandem restore --snapshot=%d LOG_DIR to return all pservers to the newest snapshot "
        "before",
        *job.restore_snapshot);
  }
  return "no kept snapshot is older; restore a copy, and keep more with --snapshot_keep and "
         "--log_keep_mb";
}

void PrintText(const JobBisection& job, const StateCondition& condition) {
  std::printf("condition: %s\n", TextOf(condition).c_str());
  for (const auto& [server, found] : job.servers) PrintServer(server, found, condition.kind);
  if (job.earliest < 0) return;
  const ServerBisection& first = job.servers.at(job.earliest);
  if (job.servers.size() > 1) {
    std::string when = "in its oldest known state";
    if (first.result != Result::kAtStart) {
      when = job.sync ? absl::StrFormat("version %d", first.version)
                      : absl::StrFormat("%s by the clock of its host", TimeText(first.end_us));
    }
    std::printf("earliest: pserver %d, %s\n", job.earliest, when.c_str());
  }
  std::printf("next: %s\n", NextText(job).c_str());
}

// ---- JSON ---------------------------------------------------------------------------------------

// JSON has no NaN and no infinity. They are the texts "nan", "inf" and "-inf".
Json NumberJson(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

Json NumberJson(const std::optional<double>& number) {
  return number ? NumberJson(*number) : Json(nullptr);
}

Json RowJson(const std::vector<float>& row) {
  if (row.empty()) return nullptr;
  Json values = Json::array();
  for (const float v : row) values.push_back(NumberJson(static_cast<double>(v)));
  return values;
}

Json ValuesJson(const BisectValues& v) {
  return {{v.match.is_row ? "table" : "variable", v.match.variable},
          {"id", v.match.is_row ? Json(v.match.id) : Json(nullptr)},
          {"slot", v.match.slot},
          {"element", v.match.element < 0 ? Json(nullptr) : Json(v.match.element)},
          {"before", NumberJson(v.before)},
          {"after", NumberJson(v.match.value)},
          {"row_before", RowJson(v.row_before)},
          {"row_after", RowJson(v.row_after)}};
}

Json ServerJson(int server, const ServerBisection& found) {
  static constexpr const char* kHolds[] = {"never", "from_the_start", "after_push", "after_move"};
  Json pushes = Json::array(), values = Json::array();
  for (const SuspectPush& p : found.pushes) {
    Json push = PushJson(p.facts);
    push["gradient_norm"] = NumberJson(p.gradient_norm);
    pushes.push_back(std::move(push));
  }
  for (const BisectValues& v : found.values) values.push_back(ValuesJson(v));
  return {{"pserver", server},
          {"from_snapshot", found.from.number == 0 ? Json(nullptr) : Json(found.from.number)},
          {"from_version", found.from.version},
          {"first_entry", found.first_entry},
          {"last_entry", found.last_entry},
          {"begin", found.begin_us == 0 ? "" : TimeText(found.begin_us)},
          {"end", found.end_us == 0 ? "" : TimeText(found.end_us)},
          {"replayed_pushes", found.replayed},
          {"version", found.version},
          {"holds", kHolds[static_cast<size_t>(found.result)]},
          {"pushes", std::move(pushes)},
          {"matches", found.matches},
          {"values", std::move(values)}};
}

void PrintJson(const JobBisection& job, const StateCondition& condition) {
  static constexpr const char* kKinds[] = {"nonfinite", "above", "norm_above"};
  const auto number = [](const std::optional<uint64_t>& n) { return n ? Json(*n) : Json(nullptr); };
  Json servers = Json::array();
  for (const auto& [server, found] : job.servers) servers.push_back(ServerJson(server, found));
  const Json all = {
      {"condition",
       {{"kind", kKinds[static_cast<size_t>(condition.kind)]},
        {"limit", condition.kind == Kind::kNonfinite ? Json(nullptr) : Json(condition.limit)},
        {"var", condition.variable},
        {"table", condition.table},
        {"id", number(condition.id)}}},
      {"sync", job.sync},
      {"found", job.earliest >= 0},
      {"earliest", job.earliest < 0 ? Json(nullptr) : Json(job.earliest)},
      {"ordered_by", job.sync ? "version" : "host_clock"},
      {"restore_step", number(job.restore_step)},
      {"restore_snapshot", number(job.restore_snapshot)},
      {"pservers", std::move(servers)}};
  std::puts(all.dump(2).c_str());
}

Status Bisect(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_RETURN_IF_ERROR(TakesAtMost(1, args));
  if (args.positional.empty()) {
    return InvalidArgument(
        "expected tandem bisect DIR [TD1007]; hint: DIR is the --pserver_data_dir of the job");
  }
  TD_ASSIGN_OR_RETURN(const StateCondition condition, ConditionOf(args));
  Progress progress;
  const StatusOr<JobBisection> job =
      pserver::BisectJob(args.positional[0], condition, std::ref(progress));
  progress.End();
  TD_RETURN_IF_ERROR(job.status());
  as_json ? PrintJson(*job, condition) : PrintText(*job, condition);
  return OkStatus();
}

}  // namespace

int RunBisect(const Args& args) {
  return RunBody(
      "bisect",
      "tandem bisect DIR [CONDITION]: the push after which a condition on the values holds, from "
      "the logs of the\npservers in DIR (tandemrun --pserver_data_dir). The job may run or not. "
      "Each pserver is replayed from its\noldest stored state whose log is still there: a global "
      "snapshot (tandem save --snapshot) and the log that\n--log_keep_mb keeps. Nothing in DIR "
      "changes.\n",
      BisectFlags(), args, Bisect);
}

}  // namespace tandem::deploy
