// Finds the pushes that made a row of a table, in the logs of a job's servers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/history/log_replay.h"

namespace tandem::pserver {

// A push that has the row.
struct RowPush {
  PushFacts facts;
  double gradient_norm = 0;  // Euclidean norm of the row's gradient
  bool restored = false;     // another state was restored between the push before and this one
  uint64_t version = 0;      // version of the server that has the push first; 0: unknown
  // The row after the push, and in sync mode after its whole step; nullopt: unknown, because no
  // stored state is as old as the log, or because the step is not complete.
  std::optional<std::vector<float>> after;
};
struct RowHistory {
  uint64_t first_entry = 0, last_entry = 0;  // numbers of the entries of the log; 0: it is empty
  int64_t begin_us = 0;                      // time of the first entry; 0: unknown
  // Number of the first entry after which values are known; 0: none is known.
  uint64_t values_from = 0;
  bool has_table = false;  // a stored state of the server has the table
  std::vector<RowPush> pushes;
};

// Reads the directory of one server, such as DIR/pserver-0/shard-0. `server`: its index. Needs the
// memory for the whole state of the server. Blocks. The server may run; then the result has what it
// had logged when this call began. A server without initial values has no pushes. NOT_FOUND: the
// directory has no server. DATA_LOSS: it is damaged.
StatusOr<RowHistory> HistoryOfRow(const std::string& dir, int server, const std::string& table,
                                  uint64_t id);

// Returns the directories of the servers in `data_dir` (tandemrun --pserver_data_dir), by index. If
// a server has standbys, returns the directory with a checkpoint whose log has the latest term, and
// of these the longest log. NOT_FOUND: there is none. Other errors: a directory cannot be read.
StatusOr<std::map<int, std::string>> ServerDirs(const std::string& data_dir);

}  // namespace tandem::pserver
