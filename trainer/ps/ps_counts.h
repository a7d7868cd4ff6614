// The counters of a trainer about its pservers.
#pragma once

#include <optional>

namespace tandem::trainer {

using Count = std::optional<double>;  // the value of a counter; nullopt: the job does not count it

struct PsCounts {
  Count pushes, pulls;  // pushes, and pulls of dense parameters; each goes to all servers
  Count calls;          // calls of all kinds; each goes to one server
  Count sent_bytes, received_bytes;  // bytes sent and received by `calls`
  Count shm_calls;                   // calls to single servers over shm RPC
  Count rows_ahead;                  // batches whose rows were requested after the previous push
  // Rows of batches that the row cache (row_cache_mb) contained, and rows that it did not contain.
  Count row_cache_hits, row_cache_misses;
  Count slices;         // number of slices of the parameters
  Count largest_share;  // elements of parameters on the server that has the most
  // Rows, extended rows, and bytes of all rows: sums over all servers at the end of the job.
  Count rows, rows_extended, row_bytes;
};

}  // namespace tandem::trainer
