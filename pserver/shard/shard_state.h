// The state that the parts of a shard share: parameters, trainers, version and log position.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/tables/push_header.h"
#include "pserver/shard/log/journal.h"
#include "pserver/shard/shard_options.h"
#include "pserver/shard/trainers/trainer_registry.h"
#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/update_time.h"
#include "pserver/tables/shard_params.h"
#include "pserver/tables/table_metrics.h"

namespace tandem::pserver {

// The state of a shard. The shard's lock guards it. A part of the shard (such as PushGate) may read
// all fields, and changes only the fields that its header comment names.
struct ShardState {
  // All arguments must outlive this object.
  ShardState(const ShardOptions& shard_options, const Clock& shard_clock, Metrics& shard_metrics);

  bool initialised() const {
    return params != nullptr && params->progress().whole() && storing_first == 0;
  }
  bool sync() const { return config.mode == UpdatePolicy::kSync; }
  bool Serves(int bucket) const { return params != nullptr && params->Serves(bucket); }
  // Incarnation of the server. It changes at each rollback, because clients may hold values of
  // versions that the rollback undid.
  uint64_t incarnation() const { return options.server_incarnation + (rollbacks << 32); }
  // A trainer that makes no call for this time is unresponsive.
  Duration silence_max() const { return std::min(config.step_timeout, config.lost_after); }

  // FAILED_PRECONDITION: the initial values are missing.
  Status CheckInitialised() const;
  // Checks the caller. An error: the server is broken or not configured, the caller belongs to
  // another job, or the rank of the caller is out of range.
  Status CheckRank(const CallerId& caller) const;
  // FAILED_PRECONDITION: a newer incarnation of the trainer has already called. REQUIRES:
  // CheckRank(caller) is OK.
  Status CheckIncarnation(const CallerId& caller) const;
  // Sync: returns the trainers whose gradients of the current step are missing.
  std::vector<int> MissingAtStep() const;

  // Begins a job with this configuration and these parameters. No trainer has called yet in the new
  // job.
  void SetUp(const ShardConfig& new_config, std::unique_ptr<ShardParams> new_params);
  void SetParams(std::unique_ptr<ShardParams> new_params);
  void ShowTables() const { table_metrics->Show(params->tables(), event_time_ms); }
  // Declares that all changes made so far are applied, so the next snapshot contains them.
  void Settle();

  const ShardOptions& options;
  const Clock& clock;
  Metrics& metrics;
  Journal journal;
  // Not OK: no call can be served, because an update failed midway or the server is shutting down.
  Status broken;
  ShardConfig config;
  std::unique_ptr<ShardParams> params;  // null: the shard is not configured
  std::optional<TableMetrics> table_metrics;
  TrainerRegistry trainers;
  uint64_t version = 0;
  bool has_previous = false;  // true: the parameters before the last update are available
  // Highest event time of the applied pushes (PushHeader::event_time_ms); 0: unknown. Sync: only
  // pushes with gradients of tables count.
  int64_t event_time_ms = 0;
  UpdateTime update;  // begin and end of the update to `version`
  // Number of the snapshot of the initial parameters that keep_first is writing; 0: none.
  uint64_t storing_first = 0;
  uint64_t rollbacks = 0;  // number of rollbacks since this process began
};

// Returns the size of the values of a push in bytes.
uint64_t ValueBytes(const PushHead& head);

}  // namespace tandem::pserver
