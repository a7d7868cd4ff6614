#include "pserver/history/bisect.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "common/base/nearest.h"
#include "common/base/require.h"
#include "pserver/history/log_lineage.h"
#include "pserver/history/push_gradients.h"
#include "pserver/history/row_history.h"

namespace tandem::pserver {
namespace {

using Result = ServerBisection::Result;

// Checks what each update of the newest state's history changed, until the condition holds.
class Search final : public LogReplay::Observer {
 public:
  Search(const LogLineage& lineage, const StateCondition& condition, int server, uint64_t last,
         const BisectProgress& progress)
      : lineage_(lineage), check_(condition), server_(server), last_(last), progress_(progress) {}

  Status OnState(const StoreReader::State& state, uint64_t next, StateReplay& replay) override {
    const ShardConfig config = replay.config();
    out_.sync = config.mode == UpdatePolicy::kSync;
    for (const TableSpec& table : config.tables) dims_[table.variable] = table.dim();
    if (next <= last_ && !lineage_.Has(next)) return OkStatus();
    if (!std::exchange(has_state_, true)) out_.from = state;
    out_.version = replay.version();
    TD_ASSIGN_OR_RETURN(const ConditionMatches found, check_.All(replay));
    if (found.none()) return OkStatus();
    out_.from = state;
    return Found(Result::kAtStart, found, {}, replay);
  }
  void OnEntry(const ScannedEntry& entry, bool replayed) override {
    const uint64_t number = entry.entry.number;
    if (!replayed || !lineage_.Has(number)) return;
    if (out_.first_entry == 0) {
      out_.first_entry = number;
      out_.begin_us = entry.time_us;
    }
    out_.last_entry = number;
    out_.end_us = entry.time_us;
    out_.replayed += std::holds_alternative<PushRecord>(entry.entry.record);
    if (progress_) progress_(server_, number, last_);
  }
  Status OnUpdate(std::span<const ReplayedPush> pushes, uint64_t entry,
                  StateReplay& replay) override {
    if (!lineage_.Has(entry)) return OkStatus();
    out_.version = replay.version();
    TD_ASSIGN_OR_RETURN(const ConditionMatches found, check_.Changed(pushes, replay));
    return found.none() ? OkStatus() : Found(Result::kAfterPush, found, pushes, replay);
  }
  Status OnMove(uint64_t entry, StateReplay& replay) override {
    if (Done() || !lineage_.Has(entry)) return OkStatus();
    TD_ASSIGN_OR_RETURN(const ConditionMatches found, check_.All(replay));
    return found.none() ? OkStatus() : Found(Result::kAfterMove, found, {}, replay);
  }
  bool Done() const override { return out_.result != Result::kNever; }

  bool has_state() const { return has_state_; }
  ConditionCheck& check() { return check_; }
  ServerBisection& result() { return out_; }

 private:
  Status Found(Result result, const ConditionMatches& found, std::span<const ReplayedPush> pushes,
               StateReplay& replay) {
    out_.result = result;
    out_.matches = found.total;
    for (const ConditionMatch& match : found.first) {
      BisectValues values{.match = match};
      if (match.is_row) {
        TD_ASSIGN_OR_RETURN(values.row_after, replay.Row(match.variable, match.id));
      }
      out_.values.push_back(std::move(values));
    }
    TD_REQUIRE(!found.first.empty());
    for (const ReplayedPush& push : pushes) {
      out_.pushes.push_back({push.facts, NormIn(push.record, found.first[0])});
    }
    // The push with the largest gradient is the most suspect one, and NaN counts as the largest.
    std::ranges::stable_sort(out_.pushes, std::greater(), [](const SuspectPush& p) {
      if (!p.gradient_norm) return -1.0;
      return std::isnan(*p.gradient_norm) ? INFINITY : *p.gradient_norm;
    });
    return OkStatus();
  }
  std::optional<double> NormIn(const PushRecord& push, const ConditionMatch& match) const {
    if (!match.is_row) return VariableGradientNorm(push, match.variable);
    return RowGradientNorm(push, match.variable, match.id, dims_.at(match.variable));
  }

  const LogLineage& lineage_;
  ConditionCheck check_;
  const int server_;
  const uint64_t last_;
  const BisectProgress& progress_;
  bool has_state_ = false;
  std::map<std::string, int64_t> dims_;  // by table: number of values of a row
  ServerBisection out_;
};

class NoObserver final : public LogReplay::Observer {
 public:
  Status OnUpdate(std::span<const ReplayedPush> /*pushes*/, uint64_t /*entry*/,
                  StateReplay& /*replay*/) override {
    return OkStatus();
  }
};

// Replays the log again, up to the found update, and notes the values before it.
Status ReadBefore(const StoreReader& reader, int server, uint64_t from, Search& search) {
  ServerBisection& out = search.result();
  NoObserver nothing;
  LogReplay replay(reader, server);
  TD_RETURN_IF_ERROR(replay.Run(nothing, from, out.last_entry));
  if (replay.state() == nullptr) return OkStatus();
  for (BisectValues& values : out.values) {
    TD_ASSIGN_OR_RETURN(values.before, search.check().ValueOf(values.match, *replay.state()));
    if (!values.match.is_row) continue;
    TD_ASSIGN_OR_RETURN(values.row_before,
                        replay.state()->Row(values.match.variable, values.match.id));
  }
  return OkStatus();
}

// Returns the lowest step that DurableShard::Rebuild can make: its states are newer than the last
// restore, or the restored one, and the log reaches from them to its end.
std::optional<uint64_t> OldestStep(const StoreReader& reader, const LogLineage& lineage,
                                   std::span<const LogBreak> breaks,
                                   std::span<const StoreReader::State> states) {
  const uint64_t restored = breaks.empty() ? 0 : breaks.back().snapshot;
  std::optional<uint64_t> oldest;
  for (const StoreReader::State& state : states) {
    const bool begins = state.number != 0 && state.number == restored;
    const uint64_t after = begins ? lineage.last_break() : state.log_number;
    const bool newer = begins || state.number == 0 || lineage.last_break() == 0 ||
                       state.log_number > lineage.last_break();
    const bool whole = after + 1 >= reader.first_entry() && after >= lineage.last_break();
    if (newer && whole) oldest = std::min(oldest.value_or(UINT64_MAX), state.version);
  }
  return oldest;
}

// Checks the newest state, because the log has no entry that follows a stored state.
Status CheckNewest(const StoreReader& reader, const std::string& dir, int server,
                   std::span<const StoreReader::State> states, Search& search) {
  const uint64_t last = reader.last_entry();
  if (states.empty()) {
    return FailedPrecondition(
        "%s: the checkpoint is a delta, and there is no snapshot, so no state can be replayed "
        "[TD4011]; hint: run tandem save --snapshot LOG_DIR",
        dir);
  }
  if (states.back().log_number < last) {
    return FailedPrecondition(
        "%s: the log begins with entry %d, and no stored state is as old, so no state can be "
        "replayed [TD4011]; hint: run tandem save --snapshot LOG_DIR, and start the job with "
        "--log_keep_mb",
        dir, reader.first_entry());
  }
  return LogReplay(reader, server).Load(search, states.back());
}

}  // namespace

StatusOr<std::optional<ServerBisection>> BisectServer(const std::string& dir, int server,
                                                      const StateCondition& condition,
                                                      const BisectProgress& progress) {
  TD_ASSIGN_OR_RETURN(const auto reader, StoreReader::Open(dir));
  TD_ASSIGN_OR_RETURN(const std::vector<StoreReader::State> states, reader->States());
  TD_ASSIGN_OR_RETURN(const std::vector<LogBreak> breaks, reader->Breaks());
  if (!reader->has_checkpoint() && states.empty()) return std::optional<ServerBisection>();
  const uint64_t first = reader->first_entry(), last = reader->last_entry();
  const LogLineage lineage(breaks, states, last);
  Search search(lineage, condition, server, last, progress);
  if (first != 0) TD_RETURN_IF_ERROR(LogReplay(*reader, server).Run(search, first));
  if (!search.has_state()) {
    TD_RETURN_IF_ERROR(CheckNewest(*reader, dir, server, states, search));
  }
  ServerBisection& out = search.result();
  if (out.result == Result::kAfterPush) {
    const uint64_t from = lineage.ReplayFrom(out.last_entry, states, first);
    TD_RETURN_IF_ERROR(ReadBefore(*reader, server, from, search));
  }
  for (const StoreReader::State& state : states) {
    if (lineage.HasState(state)) out.states.push_back(state);
  }
  if (out.sync) out.oldest_step = OldestStep(*reader, lineage, breaks, states);
  return std::optional(std::move(out));
}

namespace {

// NOT_FOUND: no server has the variable or table of the condition.
Status CheckNames(const std::string& data_dir, const std::map<int, std::string>& dirs,
                  const StateCondition& condition) {
  std::set<std::string> variables, tables;
  for (const auto& [server, dir] : dirs) {
    TD_ASSIGN_OR_RETURN(const auto reader, StoreReader::Open(dir));
    TD_ASSIGN_OR_RETURN(const std::optional<ShardConfig> config, reader->Config());
    if (!config) continue;
    for (const SliceSpec& slice : config->slices) variables.insert(slice.variable);
    for (const TableSpec& table : config->tables) tables.insert(table.variable);
  }
  const bool row = !condition.table.empty();
  const std::string& name = row ? condition.table : condition.variable;
  const std::set<std::string>&named = row ? tables : variables, &others = row ? variables : tables;
  if (name.empty() || named.contains(name)) return OkStatus();
  std::string hint = "run tandem vars to see the names of a running job";
  if (others.contains(name)) {
    hint = absl::StrFormat("use %s=%s", row ? "--var" : "--table", name);
  } else if (const std::string near = DidYouMean(name, {named.begin(), named.end()});
             !near.empty()) {
    hint = near;
  }
  return NotFound("%s: no pserver has a %s \"%s\" [TD7008]; hint: %s", data_dir,
                  row ? "table" : "dense variable", name, hint);
}

// Returns the newest snapshot that all servers have and that is before all findings.
std::optional<uint64_t> SnapshotBefore(const std::map<int, ServerBisection>& servers) {
  std::map<uint64_t, size_t> fits;  // by number: the servers with a snapshot before their finding
  for (const auto& [server, found] : servers) {
    for (const StoreReader::State& state : found.states) {
      const bool before = found.result == Result::kNever ||
                          (found.result != Result::kAtStart && state.log_number < found.last_entry);
      if (state.number != 0 && before) ++fits[state.number];
    }
  }
  std::optional<uint64_t> newest;
  for (const auto& [number, count] : fits) {
    if (count == servers.size()) newest = number;
  }
  return newest;
}

// Returns the step before the finding if all servers can restore it.
std::optional<uint64_t> StepBefore(const JobBisection& job) {
  const ServerBisection& first = job.servers.at(job.earliest);
  if (!job.sync || first.result != Result::kAfterPush) return std::nullopt;
  TD_REQUIRE(first.version > 0);
  const uint64_t step = first.version - 1;
  for (const auto& [server, found] : job.servers) {
    if (!found.oldest_step || *found.oldest_step > step) return std::nullopt;
  }
  return step;
}

}  // namespace

StatusOr<JobBisection> BisectJob(const std::string& data_dir, const StateCondition& condition,
                                 const BisectProgress& progress) {
  TD_ASSIGN_OR_RETURN(const auto dirs, ServerDirs(data_dir));
  TD_RETURN_IF_ERROR(CheckNames(data_dir, dirs, condition));
  JobBisection job;
  for (const auto& [server, dir] : dirs) {
    TD_ASSIGN_OR_RETURN(std::optional<ServerBisection> found,
                        BisectServer(dir, server, condition, progress));
    if (!found) continue;
    job.sync |= found->sync;
    job.servers[server] = *std::move(found);
  }
  if (job.servers.empty()) {
    return FailedPrecondition(
        "%s: no pserver has values, because no trainer sent initial values [TD4011]; hint: name "
        "the --pserver_data_dir of a job that has begun",
        data_dir);
  }
  const auto time = [&](const ServerBisection& s) -> std::pair<int, int64_t> {
    if (s.result == Result::kAtStart) return {0, 0};
    return {1, job.sync ? static_cast<int64_t>(s.version) : s.end_us};
  };
  for (const auto& [server, found] : job.servers) {
    if (found.result == Result::kNever) continue;
    if (job.earliest < 0 || time(found) < time(job.servers[job.earliest])) job.earliest = server;
  }
  if (job.earliest < 0) return job;
  job.restore_step = StepBefore(job);
  if (!job.restore_step) job.restore_snapshot = SnapshotBefore(job.servers);
  return job;
}

}  // namespace tandem::pserver
