// The counters of a trainer about its pservers.
#pragma once

#include <optional>

namespace tandem::trainer {

// nullopt: the job does not count it.
using Count = std::optional<double>;

struct PsCounts {
  Count pushes, pulls;                     // requests to all servers
  Count calls;                             // calls to single servers, of all kinds
  Count sent_bytes, received_bytes;        // bytes of these calls
  Count shm_calls;                         // calls to single servers over shm RPC
  Count rows_ahead;                        // batches with rows prefetched after the previous push
  Count row_cache_hits, row_cache_misses;  // rows of batches (row_cache_mb)
  Count slices;                            // slices of parameters
  Count largest_share;                     // elements on the fullest server
  // Sums over all servers at the end of the job:
  Count rows, rows_extended, row_bytes;
};

}  // namespace tandem::trainer
