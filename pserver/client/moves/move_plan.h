// Plans moves that balance the servers: row buckets by their number, slices by their bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::ps {

struct ServedBuckets {
  int server = 0;
  std::string address;
  std::vector<int> buckets;  // ascending
  uint64_t rows = 0;         // rows of all tables
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

// Plans the move of all buckets of `server`. Row buckets go to the servers with the fewest. Slices
// go, from the largest on, to the server with the fewest slice bytes. Here and below, servers that
// are leaving get none.
std::vector<BucketTransfer> PlanDrain(const std::vector<ServedBuckets>& now, int server);
// Plans an equal number of row buckets on every server with as few moves as possible, and about
// equal slice bytes. A slice moves while the server with the most bytes has a slice that leaves the
// new owner less full than the old owner was.
std::vector<BucketTransfer> PlanRebalance(const std::vector<ServedBuckets>& now);

}  // namespace tandem::ps
