#include "pserver/history/row_history.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "pserver/rocksdb/store_reader.h"
#include "pserver/shard/state_replay.h"

namespace tandem::pserver {
namespace {

// Returns the norm of the row's gradient in a push; nullopt: the push does not have the row. `dim`:
// number of values of a row. A push may have counts before them, such as shows and clicks.
std::optional<double> NormOf(const PushRecord& push, const std::string& table, uint64_t id,
                             int64_t dim) {
  for (size_t i = 0; i + 1 < push.head.slices.size() && i + 1 < push.values.size(); ++i) {
    const PushHead::Slice &ids = push.head.slices[i], &values = push.head.slices[i + 1];
    if (ids.variable != table || ids.desc.dtype != DType::kI64 || values.variable != table) {
      continue;
    }
    const auto* const begin = reinterpret_cast<const int64_t*>(push.values[i].get());
    const auto* const end = begin + ids.desc.shape.numel();
    const auto* const at = std::lower_bound(begin, end, static_cast<int64_t>(id));
    if (at == end || *at != static_cast<int64_t>(id)) continue;
    TD_REQUIRE(end != begin);
    const int64_t width = values.desc.shape.numel() / ids.desc.shape.numel();
    TD_REQUIRE(values.desc.dtype == DType::kF32);
    const auto* const row =
        reinterpret_cast<const float*>(push.values[i + 1].get()) + (at - begin) * width;
    double sum = 0;
    for (int64_t v = std::max<int64_t>(width - dim, 0); v < width; ++v)
      sum += static_cast<double>(row[v]) * row[v];
    return std::sqrt(sum);
  }
  return std::nullopt;
}

// Reads one log.
class HistoryScan {
 public:
  HistoryScan(const StoreReader& reader, int server, const TableSpec& table, uint64_t id)
      : reader_(reader), server_(server), table_(table.variable), dim_(table.dim()), id_(id) {}

  StatusOr<RowHistory> Run() {
    TD_ASSIGN_OR_RETURN(states_, reader_.States());
    history_.first_entry = reader_.first_entry();
    history_.last_entry = reader_.last_entry();
    if (history_.first_entry == 0) return std::move(history_);
    TD_RETURN_IF_ERROR(reader_.ScanLog(
        history_.first_entry, [this](ScannedEntry entry) { return Take(std::move(entry)); }));
    return std::move(history_);
  }

 private:
  Status Take(ScannedEntry scanned) {
    const uint64_t number = scanned.entry.number;
    if (number == history_.first_entry) history_.begin_us = scanned.time_us;
    if (scanned.restored) {
      replay_.reset();
      waiting_.clear();
      restored_ = true;
    }
    if (replay_ == nullptr) TD_RETURN_IF_ERROR(BeginAt(scanned));
    if (const auto* const push = std::get_if<PushRecord>(&scanned.entry.record))
      Note(*push, scanned);
    if (replay_ == nullptr) return OkStatus();
    const uint64_t before = replay_->version();
    TD_RETURN_IF_ERROR(replay_->Add(std::move(scanned.entry)));
    return replay_->version() == before ? OkStatus() : Complete();
  }

  // Loads the state before an entry if it is stored. After a restore, only the restored snapshot or
  // the checkpoint are this state for sure.
  Status BeginAt(const ScannedEntry& next) {
    const uint64_t number = next.entry.number - 1;
    for (const StoreReader::State& state : states_) {
      const bool fits = next.restored
                            ? (state.number == 0 && state.log_number == number) ||
                                  (state.number != 0 && state.number == next.restored_from)
                            : state.log_number == number;
      if (!fits) continue;
      auto replay = std::make_unique<StateReplay>(server_, backend_, device_);
      TD_RETURN_IF_ERROR(
          replay->Begin([&](SnapshotSink& sink) { return reader_.Read(state, sink); }, number));
      replay_ = std::move(replay);
      if (history_.values_from == 0) history_.values_from = number + 1;
      return OkStatus();
    }
    return OkStatus();
  }

  void Note(const PushRecord& push, const ScannedEntry& scanned) {
    const std::optional<double> norm = NormOf(push, table_, id_, dim_);
    if (!norm) return;
    if (replay_ != nullptr) waiting_.push_back(history_.pushes.size());
    history_.pushes.push_back({.entry = scanned.entry.number,
                               .time_us = scanned.time_us,
                               .trainer = push.head.caller.trainer,
                               .incarnation = push.head.caller.incarnation,
                               .sequence = push.head.sequence,
                               .step = push.head.step,
                               .learning_rate = push.head.learning_rate,
                               .gradient_norm = *norm,
                               .restored = std::exchange(restored_, false)});
  }

  // The pushes that wait are in the parameters now.
  Status Complete() {
    TD_REQUIRE(replay_ != nullptr);
    if (waiting_.empty()) return OkStatus();
    TD_ASSIGN_OR_RETURN(const std::vector<float> row, replay_->Row(table_, id_));
    for (const size_t i : std::exchange(waiting_, {})) {
      history_.pushes[i].version = replay_->version();
      history_.pushes[i].after = row;
    }
    return OkStatus();
  }

  const StoreReader& reader_;
  const int server_;
  const std::string table_;
  const int64_t dim_;
  const uint64_t id_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  std::vector<StoreReader::State> states_;
  RowHistory history_;
  std::unique_ptr<StateReplay> replay_;  // null: the values are not known
  std::vector<size_t> waiting_;          // pushes that are not in the parameters yet
  bool restored_ = false;
};

}  // namespace

StatusOr<RowHistory> HistoryOfRow(const std::string& dir, int server, const std::string& table,
                                  uint64_t id) {
  TD_ASSIGN_OR_RETURN(const auto reader, StoreReader::Open(dir));
  TD_ASSIGN_OR_RETURN(const std::optional<TableSpec> spec, reader->Table(table));
  if (!spec) {
    return RowHistory{.first_entry = reader->first_entry(), .last_entry = reader->last_entry()};
  }
  TD_ASSIGN_OR_RETURN(RowHistory history, HistoryScan(*reader, server, *spec, id).Run());
  history.has_table = true;
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
