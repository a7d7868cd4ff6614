// What rank 0 of a job says of itself where the others look for it: a few lines of text, signed
// with the job's secret, so that whoever can write there can keep the ranks apart, but not send
// them elsewhere. An earlier announcement, put there again, leads nowhere: its nonce is not that
// of the rank 0 that listens now.
#pragma once

#include <string>

#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/host_port.h"
#include "common/base/status.h"

namespace tandem {

struct Announcement {
  std::string job;
  HostPort address;  // where it listens
  std::string host;  // the name of its machine; this and the next two are for messages
  int pid = 0;
  std::string started;  // "2026-01-31T12:00:00Z"
  Nonce meeting = {};   // another one in each announcement: who comes by an old one is known

  // "process 7 of node-a, since 2026-01-31T12:00:00Z"
  std::string Who() const;
};

// Of this process, now.
Announcement MakeAnnouncement(const std::string& job, const HostPort& address,
                              const Nonce& meeting = {});

std::string SignedText(const Announcement& announcement, const std::string& secret);

// DATA_LOSS when this is no whole announcement; FAILED_PRECONDITION: one of another version of
// Tandem; PERMISSION_DENIED, naming who wrote it, when it is
// signed with another secret, or is another job's.
StatusOr<Announcement> ReadSignedText(const std::string& text, const std::string& job,
                                      const std::string& secret);
// The same, whoever signed it: for messages alone.
StatusOr<Announcement> ReadUnverified(const std::string& text);

}  // namespace tandem
