// The state of a running job, as its pservers and status pages reported it at one moment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "deploy/cli/job/job_access.h"

namespace tandem::deploy {

struct ServerRow {
  int index = 0;
  std::string address;
  Status status;      // if not OK, the other fields are unset
  std::string state;  // serving; waiting for the first values; waiting for the first trainer
  uint64_t version = 0, checkpoint_version = 0;  // in updates; 0: no checkpoint
  int64_t slices = 0, elements = 0;
  uint64_t rows = 0, row_bytes = 0;  // in tables
  uint64_t rows_extended = 0;        // rows that have all their values
};

struct TrainerRow {
  int rank = 0;
  std::string state;  // not seen yet, at work, completed; or from its page: training, ...
  bool on_servers = false;
  uint64_t last_step = 0, pushes = 0;  // on_servers: minimum over the servers
  double silent_seconds = 0;           // on_servers: since its last call to any server
  double waited_seconds = 0;           // on_servers: for other trainers, on one of the servers
  // From its page; "": no page.
  std::string step, samples_per_second, data_wait, remaining, checkpoint;
  std::string slowest;  // the straggler that the others wait for
};

struct VariableRow {
  std::string name;
  int64_t elements = 0;  // elements of slices
  uint64_t rows = 0, row_bytes = 0, rows_extended = 0;
  std::vector<int> servers;  // servers with a part, ascending
  bool table = false;
};

struct JobSnapshot {
  std::string job;
  Time at;
  std::vector<ServerRow> servers;
  std::vector<TrainerRow> trainers;  // by rank
  std::map<std::string, VariableRow> variables;
  size_t asked = 0;                   // number of processes queried
  std::vector<std::string> problems;  // processes that do not reply, with the cause
  // Trainers that lag, or that have sent nothing for some time; a sentence each.
  std::vector<std::string> slow;

  bool AllAnswer() const { return problems.empty(); }
  bool NobodyAnswers() const { return problems.size() == asked; }
  // Version of the slowest server that replies, in updates of the job.
  uint64_t Version() const;
};

// Queries all processes. Never fails; problems lists the processes that did not reply.
JobSnapshot LookAt(const JobAccess& job);

}  // namespace tandem::deploy
