#include "pserver/history/row_history.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "common/os/files.h"
#include "pserver/history/push_gradients.h"
#include "pserver/rocksdb/store_reader.h"

namespace tandem::pserver {
namespace {

// Collects the pushes of a row.
class RowObserver final : public LogReplay::Observer {
 public:
  RowObserver(RowHistory& history, const TableSpec& table, uint64_t id)
      : history_(history), table_(table.variable), dim_(table.dim()), id_(id) {}

  Status OnState(const StoreReader::State& /*state*/, uint64_t next,
                 StateReplay& /*replay*/) override {
    if (history_.values_from == 0) history_.values_from = next;
    return OkStatus();
  }
  void OnEntry(const ScannedEntry& entry, bool /*replayed*/) override {
    if (entry.entry.number == history_.first_entry) history_.begin_us = entry.time_us;
    restored_ |= entry.restored;
    const auto* const push = std::get_if<PushRecord>(&entry.entry.record);
    if (push == nullptr) return;
    const std::optional<double> norm = RowGradientNorm(*push, table_, id_, dim_);
    if (!norm) return;
    history_.pushes.push_back({.facts = FactsOf(entry, *push),
                               .gradient_norm = *norm,
                               .restored = std::exchange(restored_, false)});
  }
  Status OnUpdate(std::span<const ReplayedPush> pushes, uint64_t /*entry*/,
                  StateReplay& replay) override {
    std::optional<std::vector<float>> row;
    for (const ReplayedPush& push : pushes) {
      const auto found = std::ranges::lower_bound(history_.pushes, push.facts.entry, {},
                                                  [](const RowPush& p) { return p.facts.entry; });
      if (found == history_.pushes.end() || found->facts.entry != push.facts.entry) continue;
      if (!row) {
        TD_ASSIGN_OR_RETURN(row, replay.Row(table_, id_));
      }
      found->version = replay.version();
      found->after = row;
    }
    return OkStatus();
  }

 private:
  RowHistory& history_;
  const std::string table_;
  const int64_t dim_;
  const uint64_t id_;
  bool restored_ = false;
};

}  // namespace

StatusOr<RowHistory> HistoryOfRow(const std::string& dir, int server, const std::string& table,
                                  uint64_t id) {
  TD_ASSIGN_OR_RETURN(const auto reader, StoreReader::Open(dir));
  TD_ASSIGN_OR_RETURN(const std::optional<TableSpec> spec, reader->Table(table));
  RowHistory history{.first_entry = reader->first_entry(), .last_entry = reader->last_entry()};
  if (!spec) return history;
  history.has_table = true;
  if (history.first_entry == 0) return history;
  RowObserver observer(history, *spec, id);
  TD_RETURN_IF_ERROR(LogReplay(*reader, server).Run(observer, history.first_entry));
  return history;
}

namespace {

// Facts that decide which member of a server has the newest state.
struct MemberState {
  bool has_checkpoint = false;
  LogTerm term;
  uint64_t last_entry = 0;

  // Returns whether this state is newer than `other`. Entries of an earlier term that a later term
  // does not have were never acknowledged, so a longer log of an earlier term is older.
  bool NewerThan(const MemberState& other) const {
    if (has_checkpoint != other.has_checkpoint) return has_checkpoint;
    if (term.history == other.term.history && term != other.term) return term.After(other.term);
    return last_entry > other.last_entry;
  }
};

StatusOr<MemberState> StateOf(const std::string& dir) {
  TD_ASSIGN_OR_RETURN(const auto reader, StoreReader::Open(dir));
  TD_ASSIGN_OR_RETURN(const LogTerm term, reader->Term());
  return MemberState{
      .has_checkpoint = reader->has_checkpoint(), .term = term, .last_entry = reader->last_entry()};
}

}  // namespace

StatusOr<std::map<int, std::string>> ServerDirs(const std::string& data_dir) {
  std::map<int, std::string> dirs;
  std::map<int, MemberState> newest;
  const StatusOr<std::vector<std::string>> names = ListDir(data_dir);
  if (names.status().code() != StatusCode::kNotFound) TD_RETURN_IF_ERROR(names.status());
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    // pserver-S is member 0, pserver-S.member-M member M.
    int server = 0;
    const size_t dot = std::min(name.find('.'), name.size());
    if (!name.starts_with("pserver-") || name.find(".replica-") != name.npos ||
        !absl::SimpleAtoi(name.substr(8, dot - 8), &server)) {
      continue;
    }
    const std::string dir = absl::StrFormat("%s/%s/shard-%d", data_dir, name, server);
    const StatusOr<MemberState> state = StateOf(dir);
    if (state.status().code() == StatusCode::kNotFound) continue;
    TD_RETURN_IF_ERROR(state.status());
    if (dirs.contains(server) && !state->NewerThan(newest[server])) continue;
    dirs[server] = dir;
    newest[server] = *state;
  }
  if (!dirs.empty()) return dirs;
  return NotFound(
      "%s has no directories of pservers [TD4011]; hint: name the --pserver_data_dir of the job",
      data_dir);
}

}  // namespace tandem::pserver
