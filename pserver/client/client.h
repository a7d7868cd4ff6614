// The client of a job's parameter servers. Each trainer has one client; an external program can
// also use a client. This header does not include gRPC.
//
// The client splits variables into slices (partition.h), but the caller sees only whole variables.
// Errors name the server index, address, variable and step. Messages count steps from 1: step 0 of
// a call is step 1 in a message.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tables/update_policy.h"
#include "pserver/client/carrier/options.h"
#include "pserver/client/job/ps_types.h"

namespace tandem::ps {

class PsChannel;

// The client of one trainer for all servers of a job. Call Connect or Over, then Configure, then
// the other functions.
//
// Thread-safe. Each callback runs exactly once, on a thread of gRPC or of the client. A callback
// must not block and must not destroy the client.
class PsClient {
 public:
  using Done = std::function<void(Status)>;
  using DoneVersion = std::function<void(StatusOr<uint64_t>)>;

  // Connects to the servers. `endpoints`: "host:port" in server order, the same for every trainer.
  // Blocks until every server replies, unless PsPatience::wait_for_servers is false. UNAVAILABLE: a
  // server did not reply within start_timeout (the message names the first such server).
  static StatusOr<std::unique_ptr<PsClient>> Connect(const std::vector<std::string>& endpoints,
                                                     PsOptions options);
  // Creates a client that uses the channel `carrier` (ps_channel.h). `addresses`: addresses of the
  // channel's servers, in server order.
  static std::unique_ptr<PsClient> Over(std::unique_ptr<PsChannel> carrier,
                                        const std::vector<std::string>& addresses,
                                        PsOptions options);
  // Cancels calls in progress and waits until their callbacks have run.
  ~PsClient();

  // Assigns the variables to servers and sends every server its part of the configuration. Called
  // once, before all functions below. Blocks. Distributes the row buckets of tables over all
  // servers (common/tables/row_buckets.h). FAILED_PRECONDITION: a server has a different
  // configuration, or servers restored checkpoints of different steps.
  StatusOr<PsState> Configure(const std::vector<PsVariable>& variables, PsMode mode,
                              const PsOptimizer& optimizer,
                              const std::vector<PsTable>& tables = {});

  // Gives every trainer the same initial values. Blocks. If the servers have no values yet, trainer
  // 0 sends `params`, the `slots` and `rows` that differ from their defaults, and `version` (the
  // number of steps that led to these values); the other trainers wait. Then every trainer receives
  // the servers' values into `params`. Returns the servers' version. `slots` may contain a slot of
  // a table only if the slot has one element.
  StatusOr<uint64_t> InitOrFetch(std::span<const PsTensor> params, uint64_t version = 0,
                                 std::span<const PsSlot> slots = {},
                                 std::span<const PsTableRows> rows = {});
  StatusOr<uint64_t> InitOrFetch(std::span<const PsTensor> params, uint64_t version,
                                 std::span<const PsSlot> slots, const RowSource& rows);

  // Sends gradients of `step`, which the servers sum over the trainers. A step may consist of
  // several pushes, each with other variables. Returns immediately. The memory of the gradients
  // must stay unchanged until `done` runs; after an error, until the client is destroyed. `rows`
  // are copied before Push returns. In sync mode, a step is complete when every trainer has pushed
  // every variable and every table (possibly without rows). `event_time_ms`: Unix time in
  // milliseconds of the newest sample that led to the gradients, for tables with rules in event
  // time (common/tables/table_rules.h); 0: unknown.
  void Push(uint64_t step, float learning_rate, const std::vector<PsConstTensor>& gradients,
            Done done, const std::vector<PsConstRows>& rows = {}, int64_t event_time_ms = 0);

  // Receives parameters from servers that fulfil the condition `when`. In sync mode, the parameters
  // after step s have version s + 1. `done` receives the lowest version of all servers. Returns
  // immediately. After an error, the memory of `params` may have a mixture of old and new values.
  void Pull(PullCondition when, const std::vector<PsTensor>& params, DoneVersion done);
  void Pull(uint64_t min_version, const std::vector<PsTensor>& params, DoneVersion done) {
    Pull(PullCondition{.version = min_version}, params, std::move(done));
  }

  // Combines Push and Pull: one message to each server has both requests.
  void PushPull(uint64_t step, float learning_rate, const std::vector<PsConstTensor>& gradients,
                PullCondition when, const std::vector<PsTensor>& params, DoneVersion done,
                const std::vector<PsConstRows>& rows = {}, int64_t event_time_ms = 0);

  // Receives rows of tables. For the condition and the result, see Pull.
  void PullRows(PullCondition when, std::vector<PsRows> rows, DoneVersion done);
  // Returns the rows of a table that had a gradient. Blocks until the version of the servers is at
  // least `min_version`. `slots`: whether the result has the optimizer slots.
  StatusOr<PsTableRows> PullTable(const std::string& variable, bool slots,
                                  uint64_t min_version = 0);
  // Passes the rows that had a gradient, with their slots, to `take`. Each call of `take` receives
  // all rows of one or more row buckets, in bucket order. Blocks.
  Status PullTable(const std::string& variable, uint64_t min_version, const RowSink& take);

  // Blocks until every trainer that has not completed has called Barrier with this name.
  Status Barrier(const std::string& name);
  // Declares that this trainer has completed the job and sends no more pushes. Blocks.
  Status Complete();
  // Makes every server write a checkpoint. Blocks. Returns the lowest version of all servers.
  // `delta`: each server writes only the table rows that changed since its last full checkpoint,
  // and keeps the full checkpoint. FAILED_PRECONDITION: there is no full checkpoint.
  StatusOr<uint64_t> Save(bool delta = false);
  // Makes every server restore its checkpoint. Blocks. Returns the lowest version of all servers.
  StatusOr<uint64_t> Restore();
  // Returns the optimizer slots of all variables, in the order of the variables, then the
  // one-element slots of tables. Blocks.
  StatusOr<std::vector<PsSlot>> PullState();
  // Returns the state of all servers. Blocks. Omits servers that gave all their buckets away
  // (tandem drain), because such a server may have stopped.
  StatusOr<std::vector<PsServerInfo>> ServerInfo();
  // Calls `done` with one number for each trainer: the seconds for which calls of the trainer have
  // waited for other trainers since the server started. Asks only one of the servers that have
  // parameters. Returns immediately.
  void AskWaits(std::function<void(const StatusOr<std::vector<double>>&)> done);

  const std::vector<PsSlice>& blocks() const;  // slices, as placed by Configure
  // Size in bytes of the pushes that the client keeps until a checkpoint contains the pushes
  // (durability=replayable).
  size_t kept_bytes() const;
  int shm_servers() const;     // number of servers to which Configure opened shm RPC connections
  uint64_t shm_calls() const;  // number of pushes and pulls sent through shared memory
  PsCacheCounts row_cache() const;

 private:
  PsClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the number of steps that the trainer of a client, in all its incarnations, has pushed to
// every server that owns parameters, with PsJobRules::each_step_once. Some servers may have further
// steps, which they accept as duplicates. `servers`: the result of PsClient::ServerInfo after
// Configure.
uint64_t StepsPushed(const std::vector<PsServerInfo>& servers);
// Returns the first step that this incarnation must push. This is the number of steps before
// Configure, counted as in StepsPushed.
uint64_t FirstStep(const std::vector<PsServerInfo>& servers);

}  // namespace tandem::ps

// Aliases in the namespace `tandem`, in which releases before 0.2 had all names.
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
