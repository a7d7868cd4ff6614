// How the tandemruns of a job find the leading one: at a known address, or in a directory or an
// etcd in which the leading one announces its address.
#pragma once

#include <memory>
#include <string>

#include "collective/rendezvous/etcd_access.h"
#include "collective/rendezvous/rendezvous_store.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

struct MeetingOptions {
  std::string job;              // name of the job
  std::string secret;           // secret of the job, not empty
  std::string rendezvous;       // URL (collective/rendezvous/rendezvous_url.h)
  std::string listen_host;      // address of this host for the others; empty: it is found out
  collective::EtcdAccess etcd;  // for a rendezvous in etcd
};

// The rendezvous, seen from one host. Not thread-safe.
class HostMeeting {
 public:
  // `options` must outlive this object.
  explicit HostMeeting(const MeetingOptions& options) : options_(options) {}

  // Makes this tandemrun the leading one, which listens from then on. Returns false if another
  // tandemrun leads, or if the store does not reply. INVALID_ARGUMENT: the URL is not valid. Other
  // errors: those of RendezvousStore::Announce.
  StatusOr<bool> TryToLead();
  // Begins to connect to the leading tandemrun. Returns a non-blocking socket. NOT_FOUND or
  // UNAVAILABLE: it cannot be found now, and another attempt may succeed.
  StatusOr<Fd> Dial(Time deadline);

  const Fd& listener() const { return listener_; }   // not valid: this tandemrun does not lead
  const std::string& name() const { return name_; }  // the address of the leading host
  // Returns the address of the leading host for the other hosts.
  const std::string& own_address() const { return own_address_; }

 private:
  const MeetingOptions& options_;
  std::unique_ptr<collective::RendezvousStore> store_;
  Fd listener_;
  std::string name_, own_address_;
};

}  // namespace tandem::deploy
