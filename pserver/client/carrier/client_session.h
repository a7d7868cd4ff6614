// The sessions of one client with one server, one after another
// (common/rpc/credentials/session_proof.h).
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

// Opens sessions and stamps calls. Thread-safe.
class ClientSession {
 public:
  // REQUIRES: secret not empty. `address`: the server's address, for messages.
  ClientSession(std::string secret, std::string job, std::string address);

  // Data for a call of `method` ("Push"). Both fields are empty while no session is open.
  struct Stamp {
    std::string metadata;  // for kStampMetadata
    std::string session;   // for Forget
  };
  Stamp Next(std::string_view method);

  // Creates a request for a session. Several calls may open sessions at the same time; the newest
  // session is used.
  OpenSessionRequest Offer() const;
  // Accepts the reply to an offer. UNAUTHENTICATED: the reply does not prove that the server holds
  // the secret. The call must then not be made.
  Status Accept(const OpenSessionRequest& offer, const OpenSessionReply& reply);
  // Explains the rejection of an offer.
  Status Explain(const Status& refused) const;
  // Drops a session that the server does not know. Does nothing if there is a newer session.
  void Forget(const std::string& session);
  // Whether an error means that a new session must be opened.
  static bool WasLost(StatusCode code, std::string_view message);

 private:
  const std::string secret_, job_, address_;
  Mutex mu_;
  std::string id_ TD_GUARDED_BY(mu_), key_ TD_GUARDED_BY(mu_);  // empty: there is no session
  uint64_t counter_ TD_GUARDED_BY(mu_) = 0;                     // counter of the newest call
};

}  // namespace tandem::ps
