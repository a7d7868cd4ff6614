// Takes a global snapshot over all servers of a running a_sync job (`tandem save --snapshot`). This
// header does not include gRPC.
//
// The process that runs it may be killed at any time. Servers hold new pushes for at most one
// lease. The previous snapshot that all servers have is kept until all have a newer one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tables/bucket_map.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"

namespace tandem {
class CutMarkDef;
class HoldPushesReply;
class TakeCutReply;
}  // namespace tandem

namespace tandem::ps {

struct GlobalSnapshotOptions {
  std::string job = "job";
  Duration call_timeout = std::chrono::seconds(5);     // for holding pushes
  Duration write_timeout = std::chrono::seconds(600);  // for the servers to write
  Duration lease = std::chrono::seconds(2);            // maximum time for which pushes are held
  std::set<int> drained;                               // as in MoverOptions
  uint64_t taker = 0;  // random number that distinguishes concurrent coordinators
};
struct ServerSnapshot {
  int server = 0;
  std::string address;
  uint64_t version = 0, bytes = 0;
  Duration held = Duration::zero();  // time without new pushes
};
struct GlobalSnapshotReport {
  uint64_t number = 0;
  std::vector<ServerSnapshot> servers;
  Duration held() const;  // the longest of all servers
};

// A global snapshot on the disks of servers. `whole`: all servers of the job have it.
struct FoundGlobalSnapshot {
  uint64_t number = 0;
  bool whole = false;
  std::vector<ServerSnapshot> servers;
};

// The newest snapshot in all lists (each ascending); 0: none.
uint64_t NewestCommon(const std::vector<std::vector<uint64_t>>& lists);

// Takes, lists and restores global snapshots. Not thread-safe. Calls block.
class GlobalSnapshotCoordinator {
 public:
  // `carrier` has servers 0 .. addresses.size() - 1 and must outlive this.
  GlobalSnapshotCoordinator(PsChannel& carrier, std::vector<std::string> addresses,
                            GlobalSnapshotOptions options)
      : carrier_(carrier), addresses_(std::move(addresses)), options_(std::move(options)) {}

  // Takes a snapshot. `number`: higher than all numbers used before; 0: one above the highest that
  // a server of the job knows. On an error there is no such snapshot and pushes continue; the
  // message names the server, or the missing push and its trainer. UNAVAILABLE, DEADLINE_EXCEEDED:
  // a later attempt may succeed.
  StatusOr<GlobalSnapshotReport> Take(uint64_t number = 0);
  // All snapshots on disks, ascending.
  StatusOr<std::vector<FoundGlobalSnapshot>> Find();
  // Restores this snapshot on all servers; 0: the newest that all have. Trainers should not push
  // meanwhile. NOT_FOUND: not all servers have it (the message names those that exist).
  // FAILED_PRECONDITION: rows have moved between servers since.
  StatusOr<GlobalSnapshotReport> Restore(uint64_t number = 0);

 private:
  // Makes one call to each server concurrently and waits for all. Returns the first error, which
  // names the server.
  template <typename Request, typename Reply>
  Status CallAll(rpc::PserverCall call, const Request& request, Duration timeout,
                 std::vector<Reply>* replies);
  Status Hold(uint64_t number, std::vector<HoldPushesReply>* held);
  // Combines the marks of all servers, by trainer.
  StatusOr<std::vector<CutMarkDef>> Merge(const std::vector<HoldPushesReply>& held) const;
  // Checks that `map` names all servers that have rows.
  Status CheckServers(const BucketMap& map) const;
  StatusOr<GlobalSnapshotReport> TakeHeld(uint64_t number);
  StatusOr<uint64_t> NextNumber();
  Status FindServers();
  void Release(uint64_t number);
  bool Has(int server) const;

  PsChannel& carrier_;
  const std::vector<std::string> addresses_;
  const GlobalSnapshotOptions options_;
  std::vector<ServedBuckets> servers_;  // servers of the job, as found by Take
};

}  // namespace tandem::ps
