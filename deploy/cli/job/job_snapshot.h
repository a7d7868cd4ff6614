// The state of a running job at one moment, as its pservers and status pages reported it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/standby_rows.h"

namespace tandem::deploy {

struct ServerRow {
  int index = 0;
  std::string address;
  // Result of the call to the server. If it is not OK, only index, address and state are set too.
  Status status;
  // Pserver state: "serving", "waiting for the initial parameters", "waiting for the first
  // trainer", "drained, gone" or "no answer".
  std::string state;
  // Versions of the parameters and of the newest checkpoint, in updates. A checkpoint_version of 0
  // means that there is no checkpoint.
  uint64_t version = 0, checkpoint_version = 0;
  int64_t slices = 0, elements = 0;
  uint64_t rows = 0, row_bytes = 0;  // number and bytes of the rows in tables
  uint64_t rows_extended = 0;        // number of rows that have all their values
  // Term of this primary and its number among the members of the server; a term of 0 means that the
  // server has no standbys.
  uint64_t term = 0;
  int member = 0;
  std::vector<StandbyRow> standbys;
};

struct ReplicaRow {
  int server = 0, number = 0;  // index of the pserver; number among its replicas
  std::string address, redis;  // address for readers; for Redis clients ("": none)
  // Replica state: "serving", "lagging" (its values are older than five seconds) or "no answer",
  // which means that it has ended, or fetches a checkpoint.
  std::string state;
  bool answers = false;  // false: version and lag are unknown
  uint64_t version = 0;  // version of its values, in updates
  uint64_t lag_entries = 0;
  double lag_seconds = 0;  // largest age of its values
};

struct TrainerRow {
  int rank = 0;
  // Trainer state. The servers report "not connected yet", "at work", "lost" or "completed". The
  // trainer's status page takes precedence, with states such as "training".
  std::string state;
  bool on_servers = false;
  // Step of the last push, and number of pushes: minima over the servers.
  uint64_t last_step = 0, pushes = 0;
  double silent_seconds = 0;  // seconds since the trainer's last call to any server
  // Seconds for which the trainer's calls waited for other trainers: the maximum over the servers.
  // If on_servers is false, last_step, pushes, silent_seconds and waited_seconds are 0.
  double waited_seconds = 0;
  // Texts from the trainer's status page; "": it has no page.
  std::string step, samples_per_second, data_wait, remaining, checkpoint;
  // Sentence about the slowest rank; "" or "-": unknown; "none": no rank is slow.
  std::string slowest;
};

struct VariableRow {
  std::string name;
  int64_t elements = 0;  // number of elements in the slices of the variable
  uint64_t rows = 0, row_bytes = 0, rows_extended = 0;
  std::vector<int> servers;  // servers that have a part of the variable, ascending
  bool table = false;
};

struct JobSnapshot {
  std::string job;
  Time at;
  std::vector<ServerRow> servers;
  std::vector<ReplicaRow> replicas;  // by pserver, then by number
  std::vector<TrainerRow> trainers;  // the trainers of the job, by rank
  std::map<std::string, VariableRow> variables;
  size_t asked = 0;                   // number of processes that were queried
  std::vector<std::string> problems;  // one text for each process that does not reply: the cause
  // One sentence for each trainer, standby or replica that lags or has sent nothing for some time.
  std::vector<std::string> slow;

  bool AllAnswer() const { return problems.empty(); }
  bool NobodyAnswers() const { return problems.size() == asked; }
  // Returns the lowest version of the servers that reply and have parameters, in updates. 0: no
  // server has a version.
  uint64_t Version() const;
};

// Queries all processes of the job. Always succeeds: `problems` lists those that did not reply.
JobSnapshot LookAt(const JobAccess& job);

}  // namespace tandem::deploy
