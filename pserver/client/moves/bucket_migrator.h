// Moves row buckets and dense slices between servers while trainers run (`tandem rebalance`).
// Slices have bucket numbers too, from kRowBuckets on. This header does not include gRPC.
//
// The process that runs the migrator may be killed at any time. Each move is then either complete
// or has no effect: the source server decides this (Shard::Migrations::Release), and trainers
// forward its decision to the target. In sync mode, each batch moves before a step that neither the
// source nor the target has begun. With PsJobRules::each_step_once, each batch moves when source
// and target have the same steps of each trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/moves/move_plan.h"

namespace tandem {
class BucketMap;
class BucketMapDef;
class ExchangeMapReply;
class FreezeBucketsRequest;
class ParcelDef;
}  // namespace tandem

namespace tandem::ps {

struct MoverOptions {
  std::string job = "job";
  Duration call_timeout = std::chrono::seconds(5);  // time limit of one call
  // Maximum time for which calls to an unresponsive server are retried.
  Duration patience = std::chrono::seconds(60);
  Duration lease = std::chrono::seconds(2);  // maximum time for which buckets stay frozen
  size_t parcel_bytes = 4 << 20;  // approximate number of bytes that are frozen and moved together
  std::set<int> drained;          // servers that gave all their buckets away and may have stopped
};
struct MoveProgress {
  int source = 0, target = 0;
  size_t done = 0, buckets = 0;  // buckets moved so far, and buckets of all transfers
  uint64_t bytes = 0;            // bytes of the rows and slices moved so far
  // Longest time for which the buckets of one batch were unavailable.
  Duration frozen = Duration::zero();
};

// Runs moves between the servers of a job. Not thread-safe. Calls block.
class BucketMigrator {
 public:
  // `carrier` has servers 0 .. addresses.size() - 1 and must outlive this object.
  BucketMigrator(PsChannel& carrier, std::vector<std::string> addresses, MoverOptions options)
      : carrier_(carrier),
        addresses_(std::move(addresses)),
        first_servers_(static_cast<int>(addresses_.size())),
        options_(std::move(options)) {}

  // Adds a server that joins the running job and that the trainers do not know yet. The server must
  // run with the next free --index.
  Status Add(const std::string& address);
  // Exchanges the bucket maps of all servers, which completes unfinished moves. Returns the buckets
  // of each server, including servers that only other servers know. After Where, a leaving server
  // without buckets may stop permanently. If a server without buckets does not reply, the result
  // omits the server, provided that it joined later or was drained. UNAVAILABLE: any other server
  // does not reply, or other moves continue for longer than options.patience.
  StatusOr<std::vector<ServedBuckets>> Where();
  // Makes the server reject buckets until Stay. Waits until no buckets are moving to the server.
  // UNAVAILABLE: buckets are still moving to the server after options.patience.
  Status Leave(int server);
  Status Stay(int server) { return Refuse(server, false); }
  // Sync: waits until trainers have made one more step. After this step, no trainer calls a former
  // owner for rows. UNAVAILABLE: no step ended within options.patience.
  Status AwaitStep();
  // Runs the transfers. Stops at the first error. Completed moves stay in effect.
  Status Run(const std::vector<BucketTransfer>& transfers,
             const std::function<void(const MoveProgress&)>& progress);

 private:
  // The step before which a batch moves.
  struct MoveStep {
    uint64_t step = 0;  // sync; 0: the mode is a_sync
    bool once = false;  // the job has PsJobRules::each_step_once
    bool both = false;  // the target also takes part in steps, so it must freeze too
    bool between() const { return step != 0 || once; }
  };
  StatusOr<MoveStep> NextStep(int source, int target);
  // Freezes the buckets and returns their contents. Sets `held` to the time at which pushes began
  // to wait.
  StatusOr<ParcelDef> Freeze(int source, int target, const FreezeBucketsRequest& request,
                             const MoveStep& at, Time& held);
  // The same with PsJobRules::each_step_once. ABORTED: the two servers have different steps of a
  // trainer, and did not get the missing steps within options.lease.
  StatusOr<ParcelDef> FreezeOnce(int source, int target, FreezeBucketsRequest request, bool both);
  // Ends the freeze of both servers. If a call fails, the freeze ends with its lease.
  void Unfreeze(int source, int target, FreezeBucketsRequest request, bool both);
  // Returns the end index of the batch that begins at index `begin`. `row_bucket_bytes`: estimated
  // bytes of a row bucket.
  size_t EndOfParcel(const BucketTransfer& transfer, size_t begin, uint64_t row_bucket_bytes) const;
  // Returns the time by which the slices among `buckets` extend the lease of the batch and the
  // deadlines of its calls.
  Duration TimeFor(const std::vector<int>& buckets) const;
  // Moves one batch of buckets.
  Status Move(int source, int target, const std::vector<int>& buckets, MoveProgress& progress);
  Status Deliver(int source, int target, const ParcelDef& parcel);
  Status Refuse(int server, bool refuse);
  Status Exchange(int server, const BucketMap& known, Duration patience, ExchangeMapReply* reply);
  Status Tell(int server, const BucketMapDef& map);
  // Pauses before a call is repeated.
  Status Pause(Duration pause = std::chrono::milliseconds(20));
  // Makes a call. Retries after connection errors for up to `patience`.
  template <typename Request, typename Reply>
  Status Call(int server, rpc::PserverCall call, const Request& request, Reply* reply,
              Duration patience);
  template <typename Request, typename Reply>
  Status Call(int server, rpc::PserverCall call, const Request& request, Reply* reply) {
    return Call(server, call, request, reply, options_.patience);
  }
  std::string NameOf(int server) const;

  PsChannel& carrier_;
  std::vector<std::string> addresses_;
  const int first_servers_;  // number of servers that the trainers configured
  const MoverOptions options_;
  // Slice sizes in bytes, by bucket; set by Where.
  std::map<int, uint64_t> slice_bytes_;
  Duration more_{};        // TimeFor of the batch in progress
  bool any_time_ = false;  // buckets of the job need not move between steps
  // Number of steps between the announcement of a move and the move. Both servers must receive the
  // announcement before the step begins.
  uint64_t ahead_ = 1;
};

}  // namespace tandem::ps
