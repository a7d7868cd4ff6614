// The client of a job's parameter servers: one object per trainer, used by the trainer itself and
// by programs outside. No gRPC in this header.
//
// A variable is cut into slices (partition.h); the client hides that. Errors name server index,
// address, variable and step, which they count from 1, as people do: step 0 of a call is step 1.
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
#include "pserver/client/carrier/options.h"

namespace tandem {

enum class PsMode : uint8_t { kSync, kASync };

struct PsOptimizer {
  std::string type =
      "sgd";  // "momentum", "adam", ...: those of docs/reference/operators.md with a ParamOut
  std::map<std::string, std::variant<bool, int64_t, double, std::string>> attrs;
};

struct PsTensor {
  std::string variable;
  float* data = nullptr;
  int64_t numel = 0;  // of the whole variable
};
struct PsConstTensor {
  std::string variable;
  const float* data = nullptr;
  int64_t numel = 0;
};
// A table [height, dim] of which the servers hold the rows that had a gradient; the others are what
// `init` (of a; [a, b); mean a, deviation b) and `seed` make of them. `rules` may admit rows later
// and remove them again.
struct PsTable {
  enum class InitKind : uint8_t { kConstant, kUniform, kNormal, kXavierUniform, kMsraNormal };
  std::string variable;
  int64_t height = 0, dim = 0;
  InitKind init = InitKind::kConstant;
  float a = 0, b = 0;
  uint64_t seed = 0;
  std::string rules;  // "admit_count=5 ttl=20000", as table_rules of a job file; empty: none
};
// A gradient of some rows: ascending ids, and dim values for each; with accessor=ctr how often it
// was shown and clicked in front of them.
struct PsConstRows {
  std::string variable;
  std::span<const int64_t> ids;
  const float* values = nullptr;
};
// Rows to receive, each to a place of its own.
struct PsRows {
  std::string variable;
  std::vector<int64_t> ids;
  std::vector<float*> to;
};
// Rows with their slots: `content` holds for each its values, then its slots.
struct PsTableRows {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;
  std::vector<std::string> slots;  // names of those in the content
  std::vector<float> slot_start;   // what they begin with
  // What is counted (TableRows of proto/pserver.proto), of each row, or none.
  struct Use {
    float show = 1;
    uint32_t age = 0;
    float click = 0;
    bool brief = false;  // accessor=ctr: it has its first value alone, and the first of each slot
    friend bool operator==(const Use&, const Use&) = default;
  };
  std::vector<Use> use;
  struct Waiting {
    uint64_t id = 0;
    uint32_t seen = 0, age = 0;
  };
  std::vector<Waiting> waiting;

  // Where in `content` each row begins, then the end.
  std::vector<size_t> Begins() const;
};
using RowSink = std::function<Status(const PsTableRows& rows)>;
// Gives the first rows of all tables piece by piece; called once for each server.
using RowSource = std::function<Status(const RowSink& take)>;
// An optimizer slot of a whole variable: as many elements as the variable, or one.
struct PsSlot {
  std::string variable, slot;
  std::vector<float> values;
};

// What must have happened before a pull is answered.
struct PullCondition {
  uint64_t version = 0;  // updates done; in sync mode steps
  uint64_t step = 0;     // a_sync: steps pushed by every trainer that has not completed
  bool exactly = false;  // sync: this version, although a server may have gone on to the next
};
using PullCondition = PullCondition;  // its name in releases before 0.2

struct PsState {
  bool initialised = false;  // values are there: from a checkpoint, or this trainer came later
  bool restored = false;     // ... from a checkpoint of the servers
  uint64_t version = 0;      // in sync mode the next step; the lowest of all servers
};

struct PsServerInfo {
  std::string endpoint;
  bool configured = false, initialised = false;
  uint64_t version = 0, checkpoint_version = 0, incarnation = 0;
  size_t slices = 0;
  int64_t elements = 0;
  uint64_t rows = 0, row_bytes = 0;  // of all tables
  // As in TableStatus of proto/pserver.proto.
  uint64_t waiting = 0, dropped = 0, removed = 0, extended = 0;
};

// Of rows asked for, with row_cache_bytes.
struct PsCacheCounts {
  uint64_t hits = 0, misses = 0;
};

class PsChannel;

// Thread-safe. Callbacks come on a thread of gRPC or of the client and must not block nor destroy
// the client; each is called exactly once.
class PsClient {
 public:
  using Done = std::function<void(Status)>;
  using DoneVersion = std::function<void(StatusOr<uint64_t>)>;

  // `endpoints`: "host:port" in server order, the same for every trainer. Blocks until every server
  // answers; UNAVAILABLE naming the first that does not within start_timeout.
  static StatusOr<std::unique_ptr<PsClient>> Connect(const std::vector<std::string>& endpoints,
                                                     PsOptions options);
  // The same over a carrier of one's own (carrier.h), which has these servers.
  static std::unique_ptr<PsClient> Over(std::unique_ptr<PsChannel> carrier,
                                        const std::vector<std::string>& addresses,
                                        PsOptions options);
  // Cancels what is under way and waits for its callbacks.
  ~PsClient();

  // Places the variables and tells every server its part. Blocking. Once, before all that follows.
  // FAILED_PRECONDITION when a server was told something else, or when servers come back from
  // checkpoints of different steps.
  // Tables are spread over all servers by their rows' buckets (common/tensor/row_buckets.h).
  StatusOr<PsState> Configure(const std::vector<PsVariable>& variables, PsMode mode,
                              const PsOptimizer& optimizer,
                              const std::vector<PsTable>& tables = {});

  // Brings every trainer to the same first values; blocking. Where the servers have none yet,
  // trainer 0 gives those in `params` (and `slots`, `rows` that are otherwise than at first, and
  // `version`: the steps behind them), the others wait for it. Then all receive the servers' values
  // into `params`. Gives the servers' version. Of tables, `slots` holds those of one number.
  StatusOr<uint64_t> InitOrFetch(std::span<const PsTensor> params, uint64_t version = 0,
                                 std::span<const PsSlot> slots = {},
                                 std::span<const PsTableRows> rows = {});
  StatusOr<uint64_t> InitOrFetch(std::span<const PsTensor> params, uint64_t version,
                                 std::span<const PsSlot> slots, const RowSource& rows);

  // Sends gradients of `step`, of which the servers make the sum over the trainers; several pushes
  // may make up one step (each variable once). Returns at once. The memory must stay as it is until
  // `done` came; after an error, until the client is gone. `rows` are copied before it returns. In
  // sync mode a step is complete when all pushed every variable and table, with rows or without.
  void Push(uint64_t step, float learning_rate, std::vector<PsConstTensor> gradients, Done done,
            const std::vector<PsConstRows>& rows = {});

  // Receives parameters whose version is at least `min_version` (sync: step + 1) and gives the
  // version (the lowest over the servers). Returns at once. After an error the memory holds a
  // mixture.
  void Pull(PullCondition when, std::vector<PsTensor> params, DoneVersion done);
  void Pull(uint64_t min_version, std::vector<PsTensor> params, DoneVersion done) {
    Pull(PullCondition{.version = min_version}, std::move(params), std::move(done));
  }

  // Both, in one message to each server.
  void PushPull(uint64_t step, float learning_rate, std::vector<PsConstTensor> gradients,
                PullCondition when, std::vector<PsTensor> params, DoneVersion done,
                const std::vector<PsConstRows>& rows = {});

  // Receives rows of tables, as Pull does parameters.
  void PullRows(PullCondition when, std::vector<PsRows> rows, DoneVersion done);
  // All rows of a table that had a gradient, with optimizer slots or without, once the servers'
  // version is at least `min_version`. Blocking.
  StatusOr<PsTableRows> PullTable(const std::string& variable, bool slots,
                                  uint64_t min_version = 0);
  // The same with slots, in pieces of some whole buckets, in their order.
  Status PullTable(const std::string& variable, uint64_t min_version, const RowSink& take);

  // Blocks until every trainer that has not completed is here.
  Status Barrier(const std::string& name);
  // This trainer pushes no more. Blocking.
  Status Complete();
  // Every server writes a checkpoint; blocking. Gives the version (the lowest). `delta`: of tables
  // the rows that changed since the last whole one, which stays; FAILED_PRECONDITION when there is
  // none.
  StatusOr<uint64_t> Save(bool delta = false);
  // Every server goes back to its checkpoint; blocking. Gives the version (the lowest).
  StatusOr<uint64_t> Restore();
  // Optimizer slots of all variables, in their order; then those of tables that are one number.
  // Blocking.
  StatusOr<std::vector<PsSlot>> PullState();
  // Of all but those that gave everything away (tandem drain), which may be gone.
  StatusOr<std::vector<PsServerInfo>> ServerInfo();
  // For how many seconds the calls of each trainer, by number, have waited for other trainers, on
  // one of the servers that have parameters, since that one started. Returns at once.
  void AskWaits(std::function<void(const StatusOr<std::vector<double>>&)> done);

  const std::vector<PsSlice>& blocks() const;  // as placed by Configure
  size_t kept_bytes() const;    // of pushes, until a checkpoint holds them (durability replayable)
  int lanes() const;            // servers that shared memory reached in Configure
  uint64_t lane_calls() const;  // pushes and pulls that it carried
  PsCacheCounts row_cache() const;

 private:
  PsClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
