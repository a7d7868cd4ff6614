// The client of a job's parameter servers. Each trainer has one client; external programs can use
// it too. This header does not include gRPC.
//
// The client splits variables into slices (partition.h) and hides the slices from the caller.
// Errors name the server index, address, variable and step. Errors count steps from 1: step 0 of a
// call is step 1 in a message.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tables/update_policy.h"
#include "pserver/client/carrier/options.h"
#include "pserver/client/table_rows.h"

namespace tandem::ps {

using PsMode = UpdatePolicy;

struct PsOptimizer {
  // "momentum", "adam", ...: an operator of docs/reference/operators.md with a ParamOut
  std::string type = "sgd";
  std::map<std::string, std::variant<bool, int64_t, double, std::string>> attrs;
};

struct PsTensor {
  std::string variable;
  float* data = nullptr;
  int64_t numel = 0;  // elements of the whole variable
};
struct PsConstTensor {
  std::string variable;
  const float* data = nullptr;
  int64_t numel = 0;
};
// A table [height, dim]. The servers hold the rows that had a gradient. The values of all other
// rows follow from `seed` and `init`: the constant a; uniform in [a, b); normal with mean a and
// deviation b. `rules` may admit rows later and remove rows.
struct PsTable {
  enum class InitKind : uint8_t { kConstant, kUniform, kNormal, kXavierUniform, kMsraNormal };
  std::string variable;
  int64_t height = 0, dim = 0;
  InitKind init = InitKind::kConstant;
  float a = 0, b = 0;
  uint64_t seed = 0;
  std::string rules;  // "admit_count=5 ttl=20000", as table_rules in a job file; empty: no rules
};
// A gradient of some rows: ascending ids, and dim values for each row. With accessor=ctr, the
// numbers of shows and clicks precede the values of each row.
struct PsConstRows {
  std::string variable;
  std::span<const int64_t> ids;
  const float* values = nullptr;
};
// Rows to receive; each row has its own destination.
struct PsRows {
  std::string variable;
  std::vector<int64_t> ids;
  std::vector<float*> to;
};
using RowSink = std::function<Status(const PsTableRows& rows)>;
// Sends the initial rows of all tables to `take` in pieces. Called once for each server.
using RowSource = std::function<Status(const RowSink& take)>;
// An optimizer slot of a whole variable: one element, or as many as the variable.
struct PsSlot {
  std::string variable, slot;
  std::vector<float> values;
};

// Condition that a server must meet before it replies to a pull.
struct PullCondition {
  uint64_t version = 0;  // applied updates; in sync mode steps
  uint64_t step = 0;     // a_sync: steps pushed by every trainer that has not completed
  // Sync: exactly this version, even if a server has already reached the next.
  bool exactly = false;
};
using PsWhen = PullCondition;  // name in releases before 0.2

struct PsState {
  bool initialised = false;  // values exist: from a checkpoint, or from an earlier InitOrFetch
  bool restored = false;     // values are from a checkpoint of the servers
  uint64_t version = 0;      // in sync mode the next step; the lowest of all servers
};

struct PsServerInfo {
  std::string endpoint;
  bool configured = false, initialised = false;
  uint64_t version = 0, checkpoint_version = 0, incarnation = 0;
  size_t slices = 0;
  int64_t elements = 0;
  uint64_t rows = 0, row_bytes = 0;  // sums over all tables
  // As in TableStatus of proto/pserver.proto.
  uint64_t waiting = 0, dropped = 0, removed = 0, extended = 0;
};

// Counts of requested rows, with row_cache_bytes.
struct PsCacheCounts {
  uint64_t hits = 0, misses = 0;
};

class PsChannel;

// Client of one trainer for all servers of a job. Call Connect or Over, then Configure, then the
// other functions.
//
// Thread-safe. A callback runs on a thread of gRPC or of the client, exactly once. It must not
// block and must not destroy the client.
class PsClient {
 public:
  using Done = std::function<void(Status)>;
  using DoneVersion = std::function<void(StatusOr<uint64_t>)>;

  // `endpoints`: "host:port" in server order, the same for every trainer. Blocks until every server
  // replies. UNAVAILABLE: a server did not reply within start_timeout (the message names the first
  // such server).
  static StatusOr<std::unique_ptr<PsClient>> Connect(const std::vector<std::string>& endpoints,
                                                     PsOptions options);
  // Creates a client over the given channel (ps_channel.h), which has these servers.
  static std::unique_ptr<PsClient> Over(std::unique_ptr<PsChannel> carrier,
                                        const std::vector<std::string>& addresses,
                                        PsOptions options);
  // Cancels calls in progress and waits for their callbacks.
  ~PsClient();

  // Places the variables and sends every server its part. Call it once, before all functions below.
  // Blocks. FAILED_PRECONDITION: a server has a different configuration, or servers restored
  // checkpoints of different steps. The row buckets of tables are distributed over all servers
  // (common/tables/row_buckets.h).
  StatusOr<PsState> Configure(const std::vector<PsVariable>& variables, PsMode mode,
                              const PsOptimizer& optimizer,
                              const std::vector<PsTable>& tables = {});

  // Gives every trainer the same initial values. Blocks. If the servers have no values yet, trainer
  // 0 sends them and the other trainers wait. Trainer 0 sends `params`, `slots` and `rows` that
  // differ from their defaults, and `version` (the number of steps that led to these values). Then
  // every trainer receives the servers' values into `params`. Returns the servers' version. For
  // tables, `slots` holds only slots of one number.
  StatusOr<uint64_t> InitOrFetch(std::span<const PsTensor> params, uint64_t version = 0,
                                 std::span<const PsSlot> slots = {},
                                 std::span<const PsTableRows> rows = {});
  StatusOr<uint64_t> InitOrFetch(std::span<const PsTensor> params, uint64_t version,
                                 std::span<const PsSlot> slots, const RowSource& rows);

  // Sends gradients of `step`, which the servers sum over the trainers. A step may consist of
  // several pushes, each variable in one of them. Returns immediately. The memory of the gradients
  // must stay unchanged until `done` runs; after an error, until the client is destroyed. `rows`
  // are copied before Push returns. In sync mode, a step is complete when every trainer has pushed
  // every variable and every table (possibly without rows).
  void Push(uint64_t step, float learning_rate, std::vector<PsConstTensor> gradients, Done done,
            const std::vector<PsConstRows>& rows = {});

  // Receives parameters of at least `min_version` (sync: step + 1) and passes the lowest version of
  // all servers to `done`. Returns immediately. After an error, the memory holds a mixture of old
  // and new values.
  void Pull(PullCondition when, std::vector<PsTensor> params, DoneVersion done);
  void Pull(uint64_t min_version, std::vector<PsTensor> params, DoneVersion done) {
    Pull(PullCondition{.version = min_version}, std::move(params), std::move(done));
  }

  // Push and Pull combined, in one message to each server.
  void PushPull(uint64_t step, float learning_rate, std::vector<PsConstTensor> gradients,
                PullCondition when, std::vector<PsTensor> params, DoneVersion done,
                const std::vector<PsConstRows>& rows = {});

  // Receives rows of tables, as Pull receives parameters.
  void PullRows(PullCondition when, std::vector<PsRows> rows, DoneVersion done);
  // Returns all rows of a table that had a gradient, with or without optimizer slots, once the
  // servers' version is at least `min_version`. Blocks.
  StatusOr<PsTableRows> PullTable(const std::string& variable, bool slots,
                                  uint64_t min_version = 0);
  // Passes all rows with slots to `take` in pieces of whole buckets, in bucket order.
  Status PullTable(const std::string& variable, uint64_t min_version, const RowSink& take);

  // Blocks until every trainer that has not completed has called Barrier.
  Status Barrier(const std::string& name);
  // Declares that this trainer sends no more pushes. Blocks.
  Status Complete();
  // Makes every server write a checkpoint. Blocks. Returns the lowest version. `delta`: for tables,
  // writes only rows that changed since the last full checkpoint, which is kept.
  // FAILED_PRECONDITION: there is no full checkpoint.
  StatusOr<uint64_t> Save(bool delta = false);
  // Makes every server restore its checkpoint. Blocks. Returns the lowest version.
  StatusOr<uint64_t> Restore();
  // Returns the optimizer slots of all variables in their order, then the one-number slots of
  // tables. Blocks.
  StatusOr<std::vector<PsSlot>> PullState();
  // Returns the state of all servers except those that gave all their buckets away (tandem drain),
  // which may have stopped.
  StatusOr<std::vector<PsServerInfo>> ServerInfo();
  // Passes to `done`, by trainer, the seconds its calls have waited for other trainers since the
  // server started. Calls one of the servers that have parameters. Returns immediately.
  void AskWaits(std::function<void(const StatusOr<std::vector<double>>&)> done);

  const std::vector<PsSlice>& blocks() const;  // as placed by Configure
  // Bytes of pushes kept until a checkpoint holds them (durability=replayable).
  size_t kept_bytes() const;
  int shm_servers() const;     // servers that Configure reached through shared memory
  uint64_t shm_calls() const;  // pushes and pulls sent through shared memory
  PsCacheCounts row_cache() const;

 private:
  PsClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::ps

// The names of releases before 0.2, which had one namespace.
namespace tandem {
using ps::PartitionOptions;
using ps::PsCacheCounts;
using ps::PsCall;
using ps::PsClient;
using ps::PsConstRows;
using ps::PsConstTensor;
using ps::PsDispatcher;
using ps::PsMode;
using ps::PsNonfinite;
using ps::PsOptimizer;
using ps::PsOptions;
using ps::PsRows;
using ps::PsServerInfo;
using ps::PsSlot;
using ps::PsState;
using ps::PsTable;
using ps::PsTableRows;
using ps::PsTensor;
using ps::PsTransport;
using ps::PsVariable;
using ps::PsWhen;
using ps::RowSink;
using ps::RowSource;
using rpc::TlsFiles;
}  // namespace tandem
