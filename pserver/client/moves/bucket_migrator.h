// Moves row buckets and dense slices between servers while trainers run (`tandem rebalance`).
// Slices have bucket numbers too, from kRowBuckets on. This header does not include gRPC.
//
// The process that runs it may be killed at any time: each move is then either complete or has no
// effect. The source server decides (Shard::Migrations::Release), and trainers forward its decision
// to the target. In sync mode, each batch waits for a step that neither of its two servers has
// begun.
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
  Duration call_timeout = std::chrono::seconds(5);  // of one call
  Duration patience = std::chrono::seconds(60);     // limit for an unresponsive server
  Duration lease = std::chrono::seconds(2);         // maximum time for which buckets stay frozen
  size_t parcel_bytes = 4 << 20;                    // approximate bytes that are frozen together
  std::set<int> drained;  // servers that were drained and may have stopped
};
struct ServedBuckets {
  int server = 0;
  std::string address;
  std::vector<int> buckets;  // ascending
  uint64_t rows = 0;         // of all tables
  // Slices that cannot move: the client that began the job does not support moves.
  uint32_t slices = 0;
  std::map<int, uint64_t> slice_bytes;  // bytes of those `buckets` that are slices
  bool leaving = false;                 // accepts no buckets
  int frozen_for = -1;                  // target server of its frozen buckets; -1: none is frozen
  uint64_t version = 0;
  bool sync = false;  // the job's mode
};
struct BucketTransfer {
  int source = 0, target = 0;
  std::vector<int> buckets;  // ascending; of rows, or slices
};
struct MoveProgress {
  int source = 0, target = 0;
  size_t done = 0, buckets = 0;        // of all transfers
  uint64_t bytes = 0;                  // of rows and slices, so far
  Duration frozen = Duration::zero();  // longest time for which some buckets were unavailable
};

// Plans the move of all buckets of `server`. Row buckets go to the servers with the fewest. Slices
// go, from the largest on, to the server with the fewest slice bytes. Here and below, servers that
// are leaving get none.
std::vector<BucketTransfer> PlanDrain(const std::vector<ServedBuckets>& now, int server);
// Plans an equal number of row buckets on every server with as few moves as possible, and about
// equal slice bytes. A slice moves while the server with the most bytes has a slice that leaves the
// new owner less full than the old owner was.
std::vector<BucketTransfer> PlanRebalance(const std::vector<ServedBuckets>& now);

// Runs moves between the servers of a job. Not thread-safe. Calls block.
class BucketMigrator {
 public:
  // `carrier` has servers 0 .. addresses.size() - 1 and must outlive this.
  BucketMigrator(PsChannel& carrier, std::vector<std::string> addresses, MoverOptions options)
      : carrier_(carrier),
        addresses_(std::move(addresses)),
        first_servers_(static_cast<int>(addresses_.size())),
        options_(std::move(options)) {}

  // Adds a server that joins the running job and that trainers do not know yet. It was started with
  // the next --index.
  Status Add(const std::string& address);
  // Exchanges what the servers know about moves, then returns the buckets of each server, including
  // servers that only other servers know. The exchange completes unfinished moves; after it, a
  // leaving server without buckets may stop permanently. A server that joined later or was drained,
  // serves nothing and does not reply is left out. UNAVAILABLE: another server does not reply, or
  // other moves continue for longer than options.patience.
  StatusOr<std::vector<ServedBuckets>> Where();
  // Makes the server reject buckets until Stay, and waits until no buckets are on the way to it.
  // UNAVAILABLE: some are still on the way after options.patience.
  Status Leave(int server);
  Status Stay(int server) { return Refuse(server, false); }
  // Sync: waits until trainers have made one more step. After that, no trainer calls a former owner
  // for rows. UNAVAILABLE: no step within options.patience.
  Status AwaitStep();
  // Runs the transfers. Stops at the first error; completed moves stay in effect.
  Status Run(const std::vector<BucketTransfer>& transfers,
             const std::function<void(const MoveProgress&)>& progress);

 private:
  // The step before which a batch moves; 0: a_sync.
  struct MoveStep {
    uint64_t step = 0;
    bool both = false;  // the target already makes steps and must wait too
  };
  StatusOr<MoveStep> NextStep(int source, int target);
  // `held`: time since which pushes wait.
  StatusOr<ParcelDef> Freeze(int source, int target, const FreezeBucketsRequest& request,
                             const MoveStep& at, Time& held);
  // End of the batch that begins at `begin`, according to the bytes per row bucket of the last
  // batches.
  size_t EndOfParcel(const BucketTransfer& transfer, size_t begin, uint64_t row_bucket_bytes) const;
  // Time in addition to the lease, for large slices.
  Duration TimeFor(const std::vector<int>& buckets) const;
  // Moves one batch.
  Status Move(int source, int target, const std::vector<int>& buckets, MoveProgress& progress);
  Status Deliver(int source, int target, const ParcelDef& parcel);
  Status Refuse(int server, bool refuse);
  Status Exchange(int server, const BucketMap& known, Duration patience, ExchangeMapReply* reply);
  Status Tell(int server, const BucketMapDef& map);
  Status Pause();  // before a call is repeated
  // Makes a call. Retries errors of a broken connection for up to `patience`.
  template <typename Request, typename Reply>
  Status Call(int server, const char* method, const Request& request, Reply* reply,
              Duration patience);
  template <typename Request, typename Reply>
  Status Call(int server, const char* method, const Request& request, Reply* reply) {
    return Call(server, method, request, reply, options_.patience);
  }
  std::string NameOf(int server) const;

  PsChannel& carrier_;
  std::vector<std::string> addresses_;
  const int first_servers_;  // servers configured by the trainers
  const MoverOptions options_;
  std::map<int, uint64_t> slice_bytes_;  // as reported to Where
  Duration more_{};                      // TimeFor the batch in progress
  bool a_sync_ = false;                  // as reported by a server
  uint64_t ahead_ = 1;  // steps of notice, so that both servers learn of the move in time
};

}  // namespace tandem::ps
