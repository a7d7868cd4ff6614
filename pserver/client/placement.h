// The owners of rows and slices, and the servers of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/job/owner_map.h"
#include "pserver/client/pushes/resender.h"
#include "pserver/client/request_filler.h"
#include "pserver/client/row_cache.h"
#include "pserver/client/silence_watch.h"

namespace tandem {
class BucketMapDef;
}  // namespace tandem

namespace tandem::ps {

struct PsServer {
  const int index;
  const std::string address, name;  // `name`: the name in messages, "pserver 0 (127.0.0.1:1234)"
};

// Tracks the buckets that move between servers. Learns moves from servers, and tells each server
// the moves that other servers reported. Thread-safe. The arguments of the constructor must outlive
// this object.
class Placement {
 public:
  struct Parts {
    PsChannel& channel;
    const RequestFiller& requests;
    Resender& resender;
    SilenceWatch& silence;
    RowCache* cache;  // null: rows are not cached
  };
  // Begins with the owners that Configure assigns (JobTables::FirstOwners).
  Placement(const Parts& parts, const std::vector<std::string>& addresses, const JobTables& tables);

  std::shared_ptr<const OwnerMap> Owners() const;
  bool OwnsAny(const PsServer& server) const;
  // Returns whether the server gave all its buckets away, as far as this client knows. The client
  // does not call such a server, because the server may have stopped.
  bool HasLeft(const PsServer& server) const;

  // Returns the servers that Configure calls, followed by the servers that joined the running job.
  std::vector<const PsServer*> Servers() const;
  const std::vector<std::unique_ptr<const PsServer>>& first_servers() const { return servers_; }
  bool IsAdded(const PsServer& server) const;
  // REQUIRES: the client knows a server with this index.
  const PsServer& ServerAt(size_t index) const;
  // Returns one more than the highest index of the known servers.
  size_t server_count() const;

  // Learns the moves that server `server` reported in an ExchangeMapReply or ConfigureReply.
  void Learn(size_t server, const BucketMapDef& map, uint64_t generation);
  // Exchanges bucket maps with the servers `with`. Calls `then` when each of these servers has
  // replied or its call has failed.
  void Exchange(const std::set<size_t>& with, std::function<void()> then);
  // Exchanges maps, `rounds` times, with all owners and with the servers `also`. The first round
  // collects the moves that each server knows. In the second round, a server learns the moves that
  // other servers reported after its first exchange.
  void ExchangeAll(std::set<size_t> also, int rounds, std::function<void()> then);

 private:
  // Adds server `index` if the client does not know the server. Returns false if `map` lacks its
  // address or the address is invalid.
  bool Meet(size_t index, const BucketMap& map) TD_REQUIRES(mu_);

  const Parts parts_;
  std::vector<std::unique_ptr<const PsServer>> servers_;  // servers that Configure calls; constant
  mutable Mutex mu_;
  // Servers that joined the running job. Entries are never removed.
  std::map<size_t, std::unique_ptr<const PsServer>> added_ TD_GUARDED_BY(mu_);
  std::shared_ptr<const OwnerMap> owners_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
