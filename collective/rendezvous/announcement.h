// The announcement of rank 0: a text that contains the address of rank 0 for the other ranks. Rank
// 0 signs the announcement with the job's secret. Without the secret, an attacker can prevent the
// ranks from connecting, but cannot direct them to another address. Rank 0 rejects a rank that read
// a replayed earlier announcement, because the nonce differs from that of the current announcement.
#pragma once

#include <string>

#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/host_port.h"
#include "common/base/status.h"

namespace tandem::collective {

struct Announcement {
  std::string job;
  HostPort address;  // address on which rank 0 listens
  std::string host;  // name of rank 0's machine; `host`, `pid` and `started` are only for messages
  int pid = 0;
  std::string started;  // start time of rank 0, such as "2026-01-31T12:00:00Z"
  Nonce meeting = {};   // nonce of this announcement; with it rank 0 detects older announcements

  // Describes rank 0 for messages: "process 7 of node-a, since 2026-01-31T12:00:00Z".
  std::string Who() const;
};

// Returns the announcement of this process, with the current time.
Announcement MakeAnnouncement(const std::string& job, const HostPort& address,
                              const Nonce& meeting = {});

std::string SignedText(const Announcement& announcement, const std::string& secret);

// Parses an announcement and checks its signature. DATA_LOSS: the text is not a complete
// announcement. FAILED_PRECONDITION: another version of Tandem wrote it. PERMISSION_DENIED: the
// announcement is signed with another secret (the message names its writer) or is for another job
// (the message names both jobs).
StatusOr<Announcement> ReadSignedText(const std::string& text, const std::string& job,
                                      const std::string& secret);
// Like ReadSignedText, but without a check of the signature. Use the result for messages only.
StatusOr<Announcement> ReadUnverified(const std::string& text);

}  // namespace tandem::collective
