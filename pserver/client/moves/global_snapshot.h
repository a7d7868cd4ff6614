// Takes a global snapshot over all servers of a running job (`tandem save --snapshot`). This
// header does not include gRPC.
//
// The process that takes the snapshot may be killed at any time, because servers hold new pushes
// for at most one lease. The servers keep the newest snapshot that all servers have until all
// servers have a newer snapshot.
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
class StatusReply;
class TakeCutReply;
class TakeCutRequest;
}  // namespace tandem

namespace tandem::ps {

struct GlobalSnapshotOptions {
  std::string job = "job";
  Duration call_timeout = std::chrono::seconds(5);  // time limit of a call that holds pushes
  // Time limit for the servers to write the snapshot.
  Duration write_timeout = std::chrono::seconds(600);
  Duration lease = std::chrono::seconds(2);  // maximum time for which servers hold pushes
  std::set<int> drained;  // servers that gave all their buckets away and may have stopped
  uint64_t taker = 0;     // random number that distinguishes concurrent coordinators
  int64_t time_us = 0;    // time of the snapshot in microseconds of Unix time; 0: unknown
};
struct ServerSnapshot {
  int server = 0;
  std::string address;
  uint64_t version = 0, bytes = 0;
  Duration held = Duration::zero();  // time for which the server held new pushes
};
struct GlobalSnapshotReport {
  uint64_t number = 0;  // number of the global snapshot
  std::vector<ServerSnapshot> servers;
  Duration held() const;  // longest time for which a server held new pushes
};

// A global snapshot on the disks of servers. `whole`: all servers of the job have the snapshot.
struct FoundGlobalSnapshot {
  uint64_t number = 0;
  bool whole = false;
  bool abandoned = false;  // no predecessor of the present state (StatusReply.cut_abandoned)
  int64_t time_us = 0;  // the time in microseconds of Unix time that the coordinator chose; 0: none
  std::vector<ServerSnapshot> servers;
  uint64_t bytes() const;  // sum over the servers
};

// Returns the numbers that all lists contain. The numbers of each list, and of the result, ascend.
std::vector<uint64_t> CommonNumbers(const std::vector<std::vector<uint64_t>>& lists);
// Returns the newest snapshot that all servers have and that was taken at `time_us` or before, also
// an abandoned one.
// NOT_FOUND: there is none (the message names the oldest).
StatusOr<uint64_t> NumberAt(const std::vector<FoundGlobalSnapshot>& found, int64_t time_us);

// Takes, lists and restores global snapshots. Not thread-safe. Calls block.
class GlobalSnapshotCoordinator {
 public:
  // `carrier` has servers 0 .. addresses.size() - 1 and must outlive this object.
  GlobalSnapshotCoordinator(PsChannel& carrier, std::vector<std::string> addresses,
                            GlobalSnapshotOptions options)
      : carrier_(carrier), addresses_(std::move(addresses)), options_(std::move(options)) {}

  // Takes a snapshot. `number`: must be higher than all numbers used before; 0: one above the
  // highest number that a server of the job knows. On an error, some servers may have their part of
  // this snapshot, and pushes continue. The message names the server, or the missing push and its
  // trainer. UNAVAILABLE, DEADLINE_EXCEEDED: a later attempt may succeed.
  StatusOr<GlobalSnapshotReport> Take(uint64_t number = 0);
  // Makes a snapshot of step `step`, which is over, from older states and the logs of the servers
  // (sync mode only). Changes no state. Returns the number of the snapshot. FAILED_PRECONDITION: a
  // server cannot (the message names it and the reason); the others may have their part of it.
  StatusOr<uint64_t> Rebuild(uint64_t step);
  // Returns all snapshots on the disks of the servers, in ascending order.
  StatusOr<std::vector<FoundGlobalSnapshot>> Find();
  // Restores snapshot `number` on all servers; 0: the newest snapshot that all servers have and
  // that is not abandoned.
  // Trainers should not push during this call. NOT_FOUND: not all servers have the snapshot (the
  // message names the snapshots that all servers have). FAILED_PRECONDITION: rows have moved
  // between servers since the snapshot.
  StatusOr<GlobalSnapshotReport> Restore(uint64_t number = 0);

 private:
  // Makes one call to each server, all at the same time, and waits for all replies. Returns the
  // error of the first server whose call failed; the message names the server.
  template <typename Request, typename Reply>
  Status CallAll(rpc::PserverCall call, const Request& request, Duration timeout,
                 std::vector<Reply>* replies);
  Status Hold(uint64_t number, std::vector<HoldPushesReply>* held);
  // Merges the push marks of all servers into one mark for each trainer.
  StatusOr<std::vector<CutMarkDef>> Merge(const std::vector<HoldPushesReply>& held) const;
  // UNAVAILABLE: a server that owns buckets in `map` is not in servers_.
  Status CheckServers(const BucketMap& map) const;
  StatusOr<GlobalSnapshotReport> TakeHeld(uint64_t number);
  StatusOr<std::vector<StatusReply>> States();
  // Returns the number of the next snapshot.
  static StatusOr<uint64_t> NextNumber(const std::vector<StatusReply>& states);
  Status FindServers();
  void Release(uint64_t number);
  bool Has(int server) const;

  PsChannel& carrier_;
  const std::vector<std::string> addresses_;
  const GlobalSnapshotOptions options_;
  std::vector<ServedBuckets> servers_;  // servers of the job, as found by FindServers
};

}  // namespace tandem::ps
