// A running job as one looks at it: what its pservers and status pages said at one moment.
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
  Status status;      // what follows is there when it is OK
  std::string state;  // serving; waiting for the first values; waiting for the first trainer
  uint64_t version = 0, checkpoint_version = 0;  // updates; 0: no checkpoint
  int64_t slices = 0, elements = 0;
  uint64_t rows = 0, row_bytes = 0;  // of tables
  uint64_t rows_extended = 0;        // of `rows`: those with all their values
};

struct TrainerRow {
  int rank = 0;
  std::string state;  // not seen yet, at work, completed; or its page's: training, ...
  bool on_servers = false;
  uint64_t last_step = 0, pushes = 0;  // on_servers: the least over the servers
  double silent_seconds = 0;           // on_servers: since any server heard of it
  double waited_seconds = 0;           // on_servers: for other trainers, on one of them
  // Of its page; "" without one.
  std::string step, samples_per_second, data_wait, remaining, checkpoint;
  std::string slowest;  // the rank that the others wait for
};

struct VariableRow {
  std::string name;
  int64_t elements = 0;  // of slices
  uint64_t rows = 0, row_bytes = 0, rows_extended = 0;
  std::vector<int> servers;  // that hold a part, ascending
  bool table = false;
};

struct JobSnapshot {
  std::string job;
  Time at;
  std::vector<ServerRow> servers;
  std::vector<TrainerRow> trainers;  // by rank
  std::map<std::string, VariableRow> variables;
  size_t asked = 0;                   // processes
  std::vector<std::string> problems;  // who does not answer, and why
  // Trainers that are behind the others, or of which nothing is heard; a sentence each.
  std::vector<std::string> slow;

  bool AllAnswer() const { return problems.empty(); }
  bool NobodyAnswers() const { return problems.size() == asked; }
  // Version of the slowest server that answers: updates of the job.
  uint64_t Version() const;
};

// Asks everybody; never fails, but says who did not answer.
JobSnapshot LookAt(const JobAccess& job);

// For people, with tables. `before`: an earlier look, for updates per second; may be null.
std::string StatusText(const JobSnapshot& now, const JobSnapshot* before);
std::string VariablesText(const JobSnapshot& now);
// One JSON object each, with stable names.
std::string StatusJson(const JobSnapshot& now);
std::string VariablesJson(const JobSnapshot& now);

}  // namespace tandem::deploy
