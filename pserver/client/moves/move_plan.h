// Plans moves that balance the servers: by the number of row buckets, and by the bytes of slices.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::ps {

struct ServedBuckets {
  int server = 0;
  std::string address;
  std::vector<int> buckets;  // bucket numbers, ascending
  uint64_t rows = 0;         // number of rows of all tables
  // Number of slices that cannot move, because the client that configured the job does not support
  // moves.
  uint32_t slices = 0;
  std::map<int, uint64_t> slice_bytes;  // by bucket number of a slice: bytes of the slice
  bool leaving = false;                 // true: the server is being drained and accepts no buckets
  // Target server of the frozen buckets of this server; -1: no bucket is frozen.
  int frozen_for = -1;
  uint64_t version = 0;
  bool sync = false;  // true: the mode of the job is sync
};
struct BucketTransfer {
  int source = 0, target = 0;
  std::vector<int> buckets;  // bucket numbers, ascending: only row buckets, or only slices
};

// Plans to move all buckets of `server`. Row buckets move to the servers with the fewest row
// buckets. Slices move, the largest first, to the server with the fewest slice bytes. PlanDrain and
// PlanRebalance move nothing to a server that is leaving.
std::vector<BucketTransfer> PlanDrain(const std::vector<ServedBuckets>& now, int server);
// Plans moves to an equal number of row buckets on every server, with as few moves as possible, and
// to about equal slice bytes. A slice leaves the server with the most slice bytes only if its new
// owner then has fewer slice bytes than the old owner had before.
std::vector<BucketTransfer> PlanRebalance(const std::vector<ServedBuckets>& now);

}  // namespace tandem::ps
