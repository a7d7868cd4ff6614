// Takes a cut over all servers of a running a_sync job: what `tandem save --cut` runs. No gRPC in
// this header.
//
// Whoever runs it may be killed at any moment: servers hold new pushes for a lease at most, and the
// cut before, which all servers have, stays until they all have a newer one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tensor/bucket_map.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"

namespace tandem {

class CutMarkDef;
class HoldPushesReply;
class TakeCutReply;

struct GlobalSnapshotOptions {
  std::string job = "job";
  Duration call_timeout = std::chrono::seconds(5);     // to hold pushes
  Duration write_timeout = std::chrono::seconds(600);  // for the servers' writing
  Duration lease = std::chrono::seconds(2);            // pushes are held no longer
  std::set<int> drained;                               // MoverOptions
  uint64_t taker = 0;  // drawn at random: tells it from others that take a cut at the same time
};
struct ServerCut {
  int server = 0;
  std::string address;
  uint64_t version = 0, bytes = 0;
  Duration held = Duration::zero();  // so long it took no new pushes
};
struct CutReport {
  uint64_t cut = 0;  // its number
  std::vector<ServerCut> servers;
  Duration held() const;  // the longest
};

// A cut on the disks of servers. Whole: all servers of the job have it.
struct FoundCut {
  uint64_t cut = 0;
  bool whole = false;
  std::vector<ServerCut> servers;
};

// The newest cut that all of them have, each list ascending; 0: there is none.
uint64_t NewestCommon(const std::vector<std::vector<uint64_t>>& cuts);

// Not thread-safe; blocks.
class GlobalSnapshotCoordinator {
 public:
  // `carrier` has servers 0 .. addresses.size() - 1, and must outlive this.
  GlobalSnapshotCoordinator(PsChannel& carrier, std::vector<std::string> addresses,
                            GlobalSnapshotOptions options)
      : carrier_(carrier), addresses_(std::move(addresses)), options_(std::move(options)) {}

  // `number`: never used before, higher than all that were; 0: the one behind the highest that a
  // server of the job knows. Not OK: there is no such cut, and pushes go on; says which server, or
  // which push of whom, is missing. UNAVAILABLE and DEADLINE_EXCEEDED: another time it may well be.
  StatusOr<CutReport> Take(uint64_t number = 0);
  // All that are on a disk, ascending.
  StatusOr<std::vector<FoundCut>> Find();
  // All servers go back to this cut; 0: to the newest that they all have. NOT_FOUND, naming those
  // that there are, when they do not have it; FAILED_PRECONDITION when rows moved between servers
  // since. Trainers should not push meanwhile.
  StatusOr<CutReport> Restore(uint64_t cut = 0);

 private:
  // One call to each server, all at a time; all end. The first error, naming the server.
  template <typename Request, typename Reply>
  Status CallAll(const char* method, const Request& request, Duration timeout,
                 std::vector<Reply>* replies);
  Status Hold(uint64_t number, std::vector<HoldPushesReply>* held);
  // By trainer, what all servers know together.
  StatusOr<std::vector<CutMarkDef>> Merge(const std::vector<HoldPushesReply>& held) const;
  Status CheckServers(const BucketMap& map) const;  // that they are all that have rows
  StatusOr<CutReport> TakeHeld(uint64_t number);
  StatusOr<uint64_t> NextNumber();
  Status FindServers();
  void Release(uint64_t number);
  bool Has(int server) const;

  PsChannel& carrier_;
  const std::vector<std::string> addresses_;
  const GlobalSnapshotOptions options_;
  std::vector<ServedBuckets> servers_;  // of the job, as Take found them
};

}  // namespace tandem
