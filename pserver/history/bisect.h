// Finds the push after which a condition on the values of a job's servers holds, in their logs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/history/log_replay.h"
#include "pserver/history/state_condition.h"
#include "pserver/rocksdb/store_reader.h"

namespace tandem::pserver {

// A push of the update after which the condition holds.
struct SuspectPush {
  PushFacts facts;
  // Euclidean norm of its gradient of the row or variable of the first match; nullopt: the push
  // does not have it.
  std::optional<double> gradient_norm;
};
// Values for which the condition holds, and what they were before the update.
struct BisectValues {
  ConditionMatch match;
  std::optional<double> before;              // the same element or norm; nullopt: it did not exist
  std::vector<float> row_before, row_after;  // values of the row; empty: the match is no row
};
// The result for one server.
struct ServerBisection {
  enum class Result : uint8_t {
    kNever,      // the condition holds after no replayed entry
    kAtStart,    // the condition holds in the oldest known state
    kAfterPush,  // the condition holds after the update of `pushes`
    kAfterMove   // the condition holds in rows or slices that another server sent
  };
  Result result = Result::kNever;
  bool sync = false;
  StoreReader::State from;                   // the oldest known state
  uint64_t first_entry = 0, last_entry = 0;  // replayed entries; 0: none
  int64_t begin_us = 0, end_us = 0;          // times of these entries; 0: unknown
  uint64_t replayed = 0;                     // number of replayed pushes
  uint64_t version = 0;                      // version after the last replayed entry
  std::vector<SuspectPush> pushes;           // the most suspect one first
  std::vector<BisectValues> values;          // the first matches
  size_t matches = 0;                        // number of all matches
  // Stored states of the history of the newest state, by ascending log numbers.
  std::vector<StoreReader::State> states;
  // Lowest step that `tandem restore --step` can restore on this server; nullopt: none.
  std::optional<uint64_t> oldest_step;
};
// Called with the number of an entry that was replayed, and of the last entry of the log.
using BisectProgress = std::function<void(int server, uint64_t entry, uint64_t last)>;

// Reads the directory of one server. Entries that a restore undid do not count. The server may run.
// Needs the memory for the whole state of the server. Blocks. NOT_FOUND: the directory has no
// server. DATA_LOSS: it is damaged. FAILED_PRECONDITION: no stored state is as old as the log, or
// the log has no values. nullopt: the server never had initial values.
StatusOr<std::optional<ServerBisection>> BisectServer(const std::string& dir, int server,
                                                      const StateCondition& condition,
                                                      const BisectProgress& progress = nullptr);

struct JobBisection {
  std::map<int, ServerBisection> servers;
  bool sync = false;
  // The server with the earliest finding: by step in sync mode, otherwise by the times in the logs;
  // -1: the condition holds nowhere. A state in which it holds from the start is the earliest.
  int earliest = -1;
  // The state to return to: the step before the finding, or the newest snapshot that all servers
  // have and that is before all findings; nullopt: there is none.
  std::optional<uint64_t> restore_step, restore_snapshot;
};
// Reads the directories of all servers of a job, one after another. Errors: those of BisectServer
// and ServerDirs. NOT_FOUND: no server has the variable or table of the condition.
StatusOr<JobBisection> BisectJob(const std::string& data_dir, const StateCondition& condition,
                                 const BisectProgress& progress = nullptr);

}  // namespace tandem::pserver
