// The sessions of one client with one server (common/rpc/credentials/session_proof.h). If a session
// is lost, a new session replaces it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem {
class OpenSessionReply;
class OpenSessionRequest;
}  // namespace tandem

namespace tandem::ps {

// Opens sessions, and makes a stamp for each call. A stamp proves that the call belongs to the
// session. Thread-safe.
class ClientSession {
 public:
  // `address`: the server's address, for messages. REQUIRES: `secret` is not empty.
  ClientSession(std::string secret, std::string job, std::string address);

  // Proof that a call belongs to the session. Both fields are "" if no session is open.
  struct Stamp {
    std::string metadata;  // value of the metadata kStampMetadata
    std::string session;   // id of the session, for Forget
  };
  Stamp Next(std::string_view method);

  // Creates a request that opens a session. Several calls may open sessions at the same time; the
  // client then uses the newest session.
  OpenSessionRequest Offer() const;
  // Accepts the reply to `offer` and uses the new session. UNAUTHENTICATED: the reply does not
  // prove that the server has the secret, so the client must not make the call.
  Status Accept(const OpenSessionRequest& offer, const OpenSessionReply& reply);
  // Returns `refused`, the error with which the server rejected an offer, with an explanation for
  // the user.
  Status Explain(const Status& refused) const;
  // Drops a session that the server does not know. Has no effect if the client already has a newer
  // session.
  void Forget(const std::string& session);
  // Returns whether an error means that the client must open a new session.
  static bool WasLost(StatusCode code, std::string_view message);

 private:
  const std::string secret_, job_, address_;
  Mutex mu_;
  // Id and key of the session; "": no session is open.
  std::string id_ TD_GUARDED_BY(mu_), key_ TD_GUARDED_BY(mu_);
  uint64_t counter_ TD_GUARDED_BY(mu_) = 0;  // counter of the newest call in the session
};

}  // namespace tandem::ps
