// The values that the functions of the client receive and return (pserver/client/client.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/tables/update_policy.h"
#include "pserver/client/job/table_rows.h"

namespace tandem::ps {

using PsMode = UpdatePolicy;

struct PsOptimizer {
  // Name of an optimizer, such as "momentum" or "adam": an operator of docs/reference/operators.md
  // that has an output ParamOut.
  std::string type = "sgd";
  std::map<std::string, std::variant<bool, int64_t, double, std::string>> attrs;
};

struct PsTensor {
  std::string variable;
  float* data = nullptr;
  int64_t numel = 0;  // number of elements of the whole variable
};
struct PsConstTensor {
  std::string variable;
  const float* data = nullptr;
  int64_t numel = 0;
};
// A table [height, dim]. The servers store only the rows that had a gradient. The initial values of
// the other rows follow from `seed` and `init`: kConstant: the constant a; kUniform: uniform in [a,
// b); kNormal: normal with mean a and deviation b. `rules` may delay the creation of rows and may
// remove rows.
struct PsTable {
  enum class InitKind : uint8_t { kConstant, kUniform, kNormal, kXavierUniform, kMsraNormal };
  std::string variable;
  int64_t height = 0, dim = 0;
  InitKind init = InitKind::kConstant;
  float a = 0, b = 0;
  uint64_t seed = 0;
  // Rules, as table_rules in a job file: "admit_count=5 ttl=20000"; empty: no rules.
  std::string rules;
};
// A gradient of some rows of a table: ascending ids, and dim values for each row. With
// accessor=ctr, two more numbers precede the values of each row: shows and clicks.
struct PsConstRows {
  std::string variable;
  std::span<const int64_t> ids;
  const float* values = nullptr;
};
// Rows of a table to pull. The client writes row ids[i] to to[i].
struct PsRows {
  std::string variable;
  std::vector<int64_t> ids;
  std::vector<float*> to;
};
using RowSink = std::function<Status(const PsTableRows& rows)>;
// A function that passes the initial rows of all tables, in pieces, to its argument. The client
// calls the function once for each server.
using RowSource = std::function<Status(const RowSink& take)>;
// An optimizer slot of a whole variable. The slot has one element, or as many elements as the
// variable.
struct PsSlot {
  std::string variable, slot;
  std::vector<float> values;
};

// The condition under which a server replies to a pull.
struct PullCondition {
  uint64_t version = 0;  // minimum number of applied updates (sync mode: of steps)
  // a_sync: minimum number of steps that every trainer has pushed, except trainers that completed.
  uint64_t step = 0;
  // sync: the pull receives exactly `version`, even if a server has already reached the next
  // version.
  bool exactly = false;
};
using PsWhen = PullCondition;  // former name, from releases before 0.2

struct PsState {
  // true: the servers have values, from a checkpoint or from an earlier InitOrFetch.
  bool initialised = false;
  bool restored = false;  // true: the values are from a checkpoint of the servers
  uint64_t version = 0;   // lowest version of all servers; in sync mode also the next step
};

struct PsServerInfo {
  std::string endpoint;
  bool configured = false, initialised = false;
  uint64_t version = 0, checkpoint_version = 0, incarnation = 0;
  size_t slices = 0;
  int64_t elements = 0;
  uint64_t rows = 0, row_bytes = 0;  // number of rows and their size in bytes, in all tables
  // Row counts, as in TableStatus of proto/pserver.proto.
  uint64_t waiting = 0, dropped = 0, removed = 0, extended = 0;
  bool owns_parameters = false;
  uint64_t steps = 0;  // number of steps of the client's trainer, as in TrainerStatus
  // Number of the trainer's steps up to its last push, in any incarnation; 0: no push is known.
  uint64_t pushed_steps = 0;
  // For FirstStep: the trainer's steps before Configure that all servers with parameters had then.
  // `steps` may be the number of a primary that was replaced. UINT64_MAX: no parameters.
  uint64_t steps_before = 0;
};

// Numbers of requested rows that were in the row cache (hits) and were not in the row cache
// (misses).
struct PsCacheCounts {
  uint64_t hits = 0, misses = 0;
};

}  // namespace tandem::ps
