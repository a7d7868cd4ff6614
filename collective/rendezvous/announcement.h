// The announcement of rank 0 of a job: a few lines of text that tell the other ranks its address.
// It is signed with the job's secret. A writer without the secret can therefore keep the ranks
// apart, but cannot send them to another address. A replayed earlier announcement has no effect,
// because its nonce differs from that of the current rank 0.
#pragma once

#include <string>

#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/host_port.h"
#include "common/base/status.h"

namespace tandem::collective {

struct Announcement {
  std::string job;
  HostPort address;  // address on which rank 0 listens
  std::string host;  // name of its machine; this and the next two are for messages
  int pid = 0;
  std::string started;  // "2026-01-31T12:00:00Z"
  Nonce meeting = {};   // unique per announcement: detects ranks that use an old one

  // Example: "process 7 of node-a, since 2026-01-31T12:00:00Z".
  std::string Who() const;
};

// Returns the announcement of this process, with the current time.
Announcement MakeAnnouncement(const std::string& job, const HostPort& address,
                              const Nonce& meeting = {});

std::string SignedText(const Announcement& announcement, const std::string& secret);

// DATA_LOSS: the text is no complete announcement. FAILED_PRECONDITION: it is of another version of
// Tandem. PERMISSION_DENIED: it is signed with another secret, or belongs to another job; the
// message names its writer.
StatusOr<Announcement> ReadSignedText(const std::string& text, const std::string& job,
                                      const std::string& secret);
// Like the function above, without a check of the signature. For messages only.
StatusOr<Announcement> ReadUnverified(const std::string& text);

}  // namespace tandem::collective
