#include "pserver/shard/migration_contents.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/require.h"
#include "pserver/shard/trainers/step_boundary.h"

namespace tandem::pserver {
namespace {

// Adds to `migration` the weights that the rows had before the last update. Only for sync mode.
void PackPrevious(const ShardState& state, const std::vector<int>& buckets,
                  BucketMigration& migration) {
  migration.has_previous = state.has_previous;
  if (!state.has_previous) return;
  for (size_t i = 0; i < state.params->tables().size(); ++i) {
    const SparseTable& table = state.params->tables().table(static_cast<int>(i));
    RowValues rows = table.previous().Rows(table.spec().variable, buckets);
    if (!rows.ids.empty()) migration.previous.push_back(std::move(rows));
  }
}

Status PackRows(ShardState& state, const std::vector<int>& buckets, BucketMigration& migration) {
  for (size_t i = 0; i < state.params->tables().size(); ++i) {
    SparseTable& table = state.params->tables().table(static_cast<int>(i));
    TableSpec& spec = migration.config.tables[i];
    spec.bucket_begin = spec.bucket_end = 0;
    TD_ASSIGN_OR_RETURN(RowValues rows, table.Rows(buckets, state.version));
    migration.rows.push_back(std::move(rows));
    if (spec.rules.uses_event_time()) migration.checks[spec.variable] = table.schedule().checks();
    for (const auto& [slot, value] : table.scalars()) {
      migration.scalars.push_back({spec.variable, slot, value});
    }
  }
  return OkStatus();
}

void PackMarks(const ShardState& state, const MoveState& moves, BucketMigration& migration) {
  migration.marks = moves.inherited;
  for (int r = 0; r < state.trainers.size(); ++r) {
    const TrainerRegistry::Trainer& t = state.trainers[r];
    const TrainerPushState mark{.trainer = r,
                                .incarnation = t.incarnation,
                                .completed = t.completed,
                                .applied = t.taken,
                                .steps = t.once_steps,
                                .rolled_back = t.rolled_back};
    AddMark(
        {.server = state.options.index, .mark = mark, .pushes = t.pushes, .last_step = t.last_step},
        migration.marks);
  }
}

// Adds the slices of the migration to the parameters and to the configuration. INVALID_ARGUMENT:
// the slices do not match the moves or this server; nothing has changed. After any other error,
// some slices may be on this server.
Status UnpackSlices(const BucketMigration& migration, ShardState& state) {
  std::set<int> missing;
  for (const BucketMove& m : migration.moves) {
    if (m.bucket >= kRowBuckets) missing.insert(m.bucket);
  }
  ShardConfig all = state.config;
  for (const SliceMigration& s : migration.slices) {
    if (missing.erase(s.spec.bucket) == 0) {
      return InvalidArgument(
          "migration: the message has a slice of %s in partition %d, but does not move this "
          "partition",
          s.spec.variable, s.spec.bucket);
    }
    all.slices.push_back(s.spec);
  }
  if (!missing.empty()) {
    return InvalidArgument(
        "migration: the message moves partition %d, but has no slice of this partition",
        *missing.begin());
  }
  TD_RETURN_IF_ERROR(CheckConfig(all));
  for (const SliceMigration& s : migration.slices) {
    const Status added = state.params->Add(s);
    state.config.slices = state.params->slices().specs();
    TD_RETURN_IF_ERROR(added);
  }
  return OkStatus();
}

// Sets the ages of moved rows to their ages at `version` on this server. The servers count their
// versions separately (a_sync).
RowValues WithOwnAges(RowValues rows, const RowCheckSchedule& schedule, uint64_t their_version,
                      const RowChecks& theirs, uint64_t version) {
  for (RowAge& use : rows.use) {
    use.age = schedule.AgeOfMoved(use.age, their_version, theirs, version);
  }
  for (WaitingRow& row : rows.waiting) {
    row.age = schedule.AgeOfMoved(row.age, their_version, theirs, version);
  }
  return rows;
}

// Returns whether a table takes over the checks of the server that sends the rows. In sync mode all
// servers that serve rows have the same checks.
bool TakesChecks(const ShardState& state, const SparseTable& table) {
  if (!table.spec().rules.uses_event_time()) return false;
  if (state.sync()) return !state.params->tables().ServesAny();
  const TableInfo info = table.Info();
  return info.rows == 0 && info.waiting == 0;
}

Status UnpackRows(const BucketMigration& migration, ShardState& state) {
  const bool moves_rows = std::ranges::any_of(
      migration.moves, [](const BucketMove& move) { return move.bucket < kRowBuckets; });
  if (!moves_rows) return OkStatus();
  const uint64_t version = state.sync() ? migration.version : state.version;
  std::vector<std::pair<SparseTable*, RowChecks>> taken_over;
  for (const RowValues& rows : migration.rows) {
    const int index = state.params->tables().Find(rows.variable);
    if (index < 0) return NotFound("there is no table \"%s\"", rows.variable);
    SparseTable& table = state.params->tables().table(index);
    const auto found = migration.checks.find(rows.variable);
    const RowChecks checks = found == migration.checks.end() ? RowChecks() : found->second;
    const bool takes_checks = TakesChecks(state, table);
    if (takes_checks) {
      taken_over.emplace_back(&table, ToVersions(checks, migration.version, version));
    }
    const bool same_ages = takes_checks || state.sync();
    TD_RETURN_IF_ERROR(table.SetRows(
        same_ages ? rows : WithOwnAges(rows, table.schedule(), migration.version, checks, version),
        version));
  }
  for (auto& [table, checks] : taken_over) table->schedule().Set(std::move(checks));
  state.event_time_ms = std::max(state.event_time_ms, migration.event_time_ms);
  return OkStatus();
}

// Sync: sets the one-number slots and the previous weights. If `idle`, the server takes part in
// steps from the step of the migration on.
Status UnpackStep(const BucketMigration& migration, bool idle, ShardState& state) {
  TD_RETURN_IF_ERROR(state.params->tables().SetScalars(migration.scalars));
  TD_RETURN_IF_ERROR(state.params->tables().SetPrevious(migration.previous));
  if (!idle) return OkStatus();
  state.version = migration.version;
  state.has_previous = migration.has_previous;
  // The server took no part in earlier steps, so it expects no pushes of earlier steps.
  for (TrainerRegistry::Trainer& t : state.trainers) t.adopted = state.version;
  return OkStatus();
}

}  // namespace

StatusOr<BucketMigration> PackMigration(ShardState& state, const MoveState& moves,
                                        std::span<const BucketMove> frozen, int target) {
  TD_REQUIRE(!frozen.empty());
  BucketMigration migration{.config = state.config,
                            .source = state.options.index,
                            .target = target,
                            .version = state.version,
                            .moves = {frozen.begin(), frozen.end()},
                            .rows = {},
                            .scalars = {},
                            .marks = {},
                            .map = moves.map,
                            .previous = {},
                            .slices = {},
                            .event_time_ms = state.event_time_ms,
                            .checks = {},
                            .trainer_steps = {}};
  migration.config.slices.clear();
  std::vector<int> buckets;
  for (const BucketMove& move : frozen) {
    if (move.bucket < kRowBuckets) buckets.push_back(move.bucket);
  }
  TD_RETURN_IF_ERROR(PackRows(state, buckets, migration));
  if (state.sync()) PackPrevious(state, buckets, migration);
  if (state.config.each_step_once) migration.trainer_steps = OnceSteps(state.trainers);
  TD_ASSIGN_OR_RETURN(migration.slices, state.params->slices().Migrations(frozen, state.sync()));
  PackMarks(state, moves, migration);
  return migration;
}

Status UnpackMigration(const BucketMigration& migration, bool idle, ShardState& state) {
  for (const BucketMove& m : migration.moves) TD_REQUIRE(!state.Serves(m.bucket));
  const Status slices = UnpackSlices(migration, state);
  for (const BucketMove& m : migration.moves) {
    state.params->Keep(m.bucket, false);
  }
  TD_RETURN_IF_ERROR(slices);
  TD_RETURN_IF_ERROR(UnpackRows(migration, state));
  return state.sync() ? UnpackStep(migration, idle, state) : OkStatus();
}

}  // namespace tandem::pserver
