// The sessions of a server with its callers (common/rpc/credentials/session_proof.h). A proof in a
// session shows that the caller has the job's secret.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/state/sequence_window.h"

namespace tandem {
class OpenSessionReply;
class OpenSessionRequest;
}  // namespace tandem

namespace tandem::pserver {

// Opens sessions and checks the proofs of calls. Thread-safe.
class ServerSessions {
 public:
  // Maximum numbers of sessions: unproven (no proven call yet) and proven. A new session replaces
  // the least recently used session of the same kind. Callers without the secret can open only
  // unproven sessions, so they cannot remove proven sessions.
  struct Limits {
    size_t unproven = 4096, proven = 16384;
  };

  // `secret`: the job's secret; empty: callers need no proof.
  ServerSessions(std::string secret, std::string job)
      : ServerSessions(std::move(secret), std::move(job), Limits()) {}
  ServerSessions(std::string secret, std::string job, Limits limits);

  bool asks() const { return !secret_.empty(); }
  // Opens a session and fills `reply`. FAILED_PRECONDITION: the server has no secret.
  // UNAUTHENTICATED: the caller belongs to another job. INVALID_ARGUMENT: the request is malformed.
  Status Open(const OpenSessionRequest& request, OpenSessionReply* reply);
  // Checks that the caller has the key of a session, and that the counter of this call was not used
  // before. UNAUTHENTICATED: the check fails; the message contains kNoSessionCode if a new session
  // would help. `method`: name of the method for which the proof must be. `other_name`: another
  // name of the method that the proof may contain instead; "": none.
  Status Check(std::string_view stamp, std::string_view method, std::string_view other_name = {});

  size_t unproven() const;
  size_t proven() const;

 private:
  struct Session {
    std::string id, key;      // constant after construction
    SequenceWindow counters;  // counters of the accepted calls; guarded by mu_
  };
  // Sessions in the order of their last use.
  struct Table {
    std::list<std::shared_ptr<Session>> order;  // most recently used session first
    absl::flat_hash_map<std::string, std::list<std::shared_ptr<Session>>::iterator> by_id;

    void Add(std::shared_ptr<Session> session, size_t limit);
    std::shared_ptr<Session> Use(const std::string& id);  // null: the id is unknown
    void Remove(const std::string& id);
  };

  const std::string secret_, job_;
  const Limits limits_;
  mutable Mutex mu_;
  Table unproven_ TD_GUARDED_BY(mu_), proven_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
