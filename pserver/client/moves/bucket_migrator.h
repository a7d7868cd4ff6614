// Moves buckets of rows and dense slices from server to server while trainers go on: what `tandem
// rebalance` runs. Slices are buckets too, from kRowBuckets on. No gRPC in this header.
//
// Whoever runs it may be killed at any moment: a move is then completed or never was. The source
// decides (Shard::ReleaseBuckets), and trainers bring its word to the target. In sync mode each
// parcel waits for a step that neither of its servers has begun.
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

struct MoverOptions {
  std::string job = "job";
  Duration call_timeout = std::chrono::seconds(5);  // of one call
  Duration patience = std::chrono::seconds(60);     // with a server that does not answer
  Duration lease = std::chrono::seconds(2);         // buckets are frozen no longer
  size_t parcel_bytes = 4 << 20;                    // of what is frozen together, about
  std::set<int> drained;                            // servers that were, and may be gone
};
struct ServedBuckets {
  int server = 0;
  std::string address;
  std::vector<int> buckets;  // ascending
  uint64_t rows = 0;         // of all tables
  uint32_t slices = 0;  // that do not move: their job was begun by a client that knows no moves
  std::map<int, uint64_t> slice_bytes;  // of those of `buckets` that are slices
  bool leaving = false;                 // takes none
  int frozen_for = -1;  // some of them are on their way to that server; -1: none are
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
  Duration frozen = Duration::zero();  // the longest time that some could not be used
};

// All buckets of `server` to those of the others that have fewest, slices from the largest on to
// those that have the fewest bytes of them. Servers that are leaving get none here and below.
std::vector<BucketTransfer> PlanDrain(const std::vector<ServedBuckets>& now, int server);
// As many buckets of rows on every server, with as few moves as can be; of slices about as many
// bytes: moves while the server with most of them has one that makes another server less full than
// it was itself.
std::vector<BucketTransfer> PlanRebalance(const std::vector<ServedBuckets>& now);

// Not thread-safe; blocks.
class BucketMigrator {
 public:
  // `carrier` has servers 0 .. addresses.size() - 1, and must outlive this.
  BucketMigrator(PsChannel& carrier, std::vector<std::string> addresses, MoverOptions options)
      : carrier_(carrier),
        addresses_(std::move(addresses)),
        first_servers_(static_cast<int>(addresses_.size())),
        options_(std::move(options)) {}

  // A server that comes to the running job, of which trainers do not know: started with the next
  // --index.
  Status Add(const std::string& address);
  // Who serves what, servers that others know of among them, after every server was told what the
  // others know: moves that somebody left unfinished are completed by that, and a server that is
  // leaving and has no buckets then may go for good. Servers that came later
  // or were drained, serve nothing and do not answer are gone, and left out. UNAVAILABLE naming
  // another one that does not answer, or when others move buckets for longer than options.patience.
  StatusOr<std::vector<ServedBuckets>> Where();
  // From now on this server takes no buckets, and none are on their way to it, of whomever: it is
  // leaving, until Stay. UNAVAILABLE when some are, for longer than options.patience.
  Status Leave(int server);
  Status Stay(int server) { return Refuse(server, false); }
  // Sync: until trainers made a step since; then none of them asks any more where rows were before.
  // UNAVAILABLE when they make none for options.patience.
  Status AwaitStep();
  // Stops at the first error; what was moved by then stays where it is.
  Status Run(const std::vector<BucketTransfer>& transfers,
             const std::function<void(const MoveProgress&)>& progress);

 private:
  // Before which step a parcel moves; 0: a_sync.
  struct MoveStep {
    uint64_t step = 0;
    bool both = false;  // the target makes steps already, and must wait too
  };
  StatusOr<MoveStep> NextStep(int source, int target);
  // `held`: since when pushes wait.
  StatusOr<ParcelDef> Freeze(int source, int target, const FreezeBucketsRequest& request,
                             const MoveStep& at, Time& held);
  // What goes together from `begin` on: so many bytes, by what the last parcels of rows had.
  size_t EndOfParcel(const BucketTransfer& transfer, size_t begin, uint64_t row_bucket_bytes) const;
  // Beside the lease, for large slices.
  Duration TimeFor(const std::vector<int>& buckets) const;
  // One parcel.
  Status Move(int source, int target, const std::vector<int>& buckets, MoveProgress& progress);
  Status Deliver(int source, int target, const ParcelDef& parcel);
  Status Refuse(int server, bool refuse);
  Status Exchange(int server, const BucketMap& known, Duration patience, ExchangeMapReply* reply);
  Status Tell(int server, const BucketMapDef& map);
  Status Pause();  // before a call is repeated
  // With repetitions, for as long as `patience`, of what a broken connection explains.
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
  const int first_servers_;  // that trainers configure
  const MoverOptions options_;
  std::map<int, uint64_t> slice_bytes_;  // as Where heard
  Duration more_{};                      // TimeFor what is on its way
  bool a_sync_ = false;                  // as a server said
  uint64_t ahead_ = 1;                   // steps, so that both servers hear of it in time
};

}  // namespace tandem
