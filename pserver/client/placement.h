// Which server owns which rows and slices, and which servers there are.
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
#include "pserver/client/job_tables.h"
#include "pserver/client/owner_map.h"
#include "pserver/client/request_filler.h"
#include "pserver/client/resender.h"
#include "pserver/client/row_cache.h"
#include "pserver/client/silence_watch.h"

namespace tandem {
class BucketMapDef;
}  // namespace tandem

namespace tandem::ps {

struct PsServer {
  const int index;
  const std::string address, name;  // name: "pserver 0 (127.0.0.1:1234)"
};

// Follows buckets that move between servers. Learns moves from servers, and tells each server what
// the others said. Thread-safe. The arguments of the constructor must outlive this.
class Placement {
 public:
  struct Parts {
    PsChannel& channel;
    const RequestFiller& requests;
    Resender& resender;
    SilenceWatch& silence;
    RowCache* cache;  // null: no cache
  };
  // Begins with the owners of Configure.
  Placement(const Parts& parts, const std::vector<std::string>& addresses, const JobTables& tables);

  std::shared_ptr<const OwnerMap> Owners() const;
  bool OwnsAny(const PsServer& server) const;
  // Whether, as far as this client knows, the server gave all its buckets away. It may have
  // stopped, and the client does not call it.
  bool HasLeft(const PsServer& server) const;

  // Servers that Configure calls, then servers that joined the running job.
  std::vector<const PsServer*> Servers() const;
  const std::vector<std::unique_ptr<const PsServer>>& first_servers() const { return servers_; }
  bool IsAdded(const PsServer& server) const;
  // REQUIRES: the server is known.
  const PsServer& ServerAt(size_t index) const;
  // One more than the highest index of a known server.
  size_t server_count() const;

  // Learns what a server said of moves, in its ExchangeMapReply or ConfigureReply.
  void Learn(size_t server, const BucketMapDef& map, uint64_t generation);
  // Exchanges bucket maps with these servers, then calls `then`, even if they do not reply.
  void Exchange(const std::set<size_t>& with, std::function<void()> then);
  // Exchanges with all owners and `also`, `rounds` times. The first round collects what each server
  // knows about moves; a second round learns it from servers that were called too early in the
  // first.
  void ExchangeAll(std::set<size_t> also, int rounds, std::function<void()> then);

 private:
  // Adds a server. false: its address is unknown.
  bool Meet(size_t index, const BucketMap& map) TD_REQUIRES(mu_);

  const Parts parts_;
  std::vector<std::unique_ptr<const PsServer>> servers_;  // constant
  mutable Mutex mu_;
  // Servers that joined the running job; never removed.
  std::map<size_t, std::unique_ptr<const PsServer>> added_ TD_GUARDED_BY(mu_);
  std::shared_ptr<const OwnerMap> owners_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
