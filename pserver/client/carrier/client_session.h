// The sessions of one client with one server (common/rpc/credentials/session_proof.h). A new
// session replaces a lost one.
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

// Opens sessions, and makes a stamp for each call. The stamp proves that the call belongs to the
// session. Thread-safe.
class ClientSession {
 public:
  // `address`: the server's address, for messages. REQUIRES: `secret` is not empty.
  ClientSession(std::string secret, std::string job, std::string address);

  // Proof that a call belongs to the session. Both fields are empty if no session is open.
  struct Stamp {
    std::string metadata;  // value of the metadata kStampMetadata
    std::string session;   // id of the session, for Forget
  };
  Stamp Next(std::string_view method);

  // Creates a request that opens a session. Several calls may open sessions at the same time. The
  // newest session is used.
  OpenSessionRequest Offer() const;
  // Accepts the reply to `offer`. UNAUTHENTICATED: the reply does not prove that the server holds
  // the secret. The client must then not make the call.
  Status Accept(const OpenSessionRequest& offer, const OpenSessionReply& reply);
  // Returns `refused`, the server's rejection of an offer, with an explanation for the user.
  Status Explain(const Status& refused) const;
  // Drops a session that the server does not know. Does nothing if the client has a newer session.
  void Forget(const std::string& session);
  // Returns whether an error means that the client must open a new session.
  static bool WasLost(StatusCode code, std::string_view message);

 private:
  const std::string secret_, job_, address_;
  Mutex mu_;
  // Session id and its key; empty: there is no session.
  std::string id_ TD_GUARDED_BY(mu_), key_ TD_GUARDED_BY(mu_);
  uint64_t counter_ TD_GUARDED_BY(mu_) = 0;  // counter of the newest call in the session
};

}  // namespace tandem::ps
