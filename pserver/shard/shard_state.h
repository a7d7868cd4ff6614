// The state that the parts of a shard share: parameters, trainers, version and log position.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/tables/push_header.h"
#include "pserver/shard/journal.h"
#include "pserver/shard/shard_options.h"
#include "pserver/shard/trainer_registry.h"
#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/update_time.h"
#include "pserver/tables/shard_params.h"
#include "pserver/tables/table_metrics.h"

namespace tandem::pserver {

// The shard's lock guards it. A part of a shard reads it and changes the fields that its header
// names.
struct ShardState {
  // All must outlive it.
  ShardState(const ShardOptions& shard_options, const Clock& shard_clock, Metrics& shard_metrics);

  bool initialised() const {
    return params != nullptr && params->progress().whole() && storing_first == 0;
  }
  bool sync() const { return config.mode == UpdatePolicy::kSync; }
  bool Serves(int bucket) const { return params != nullptr && params->Serves(bucket); }
  // Differs after each rollback, because earlier pulls may have newer versions.
  uint64_t incarnation() const { return options.server_incarnation + (rollbacks << 32); }
  // A trainer without a call for this time is unresponsive.
  Duration silence_max() const { return std::min(config.step_timeout, config.lost_after); }

  // FAILED_PRECONDITION: the initial values are missing.
  Status CheckInitialised() const;
  // Not OK: the server is broken or not configured, or the caller is of another job or has no rank.
  Status CheckRank(const CallerId& caller) const;
  // FAILED_PRECONDITION: a newer incarnation of the trainer has called. REQUIRES: CheckRank(caller)
  // is OK.
  Status CheckIncarnation(const CallerId& caller) const;
  // Trainers whose gradients of the step are missing (sync).
  std::vector<int> MissingAtStep() const;

  // Begins with these parameters; no trainer has called yet.
  void SetUp(const ShardConfig& new_config, std::unique_ptr<ShardParams> new_params);
  void SetParams(std::unique_ptr<ShardParams> new_params);
  void ShowTables() const { table_metrics->Show(params->tables()); }
  // The next snapshot contains all changes up to now.
  void Settle();

  const ShardOptions& options;
  const Clock& clock;
  Metrics& metrics;
  Journal journal;
  Status broken;  // not OK: an update failed midway, or the server is shutting down
  ShardConfig config;
  std::unique_ptr<ShardParams> params;  // null: not configured
  std::optional<TableMetrics> table_metrics;
  TrainerRegistry trainers;
  uint64_t version = 0;
  bool has_previous = false;   // the previous version is available
  UpdateTime update;           // time of the update to `version`
  uint64_t storing_first = 0;  // snapshot that keep_first is writing; 0: none
  uint64_t rollbacks = 0;      // while it served
};

// Bytes of the values of a push.
uint64_t ValueBytes(const PushHead& head);

}  // namespace tandem::pserver
