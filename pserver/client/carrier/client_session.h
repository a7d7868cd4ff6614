// The sessions of one client with one server, one after another (common/rpc/session_proof.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem {

class OpenSessionReply;
class OpenSessionRequest;

// Thread-safe.
class ClientSession {
 public:
  // REQUIRES: secret not empty. `address`: of the server, for messages.
  ClientSession(std::string secret, std::string job, std::string address);

  // What a call of `method` ("Push") carries; both empty while a session must be opened first.
  struct Stamp {
    std::string metadata;  // for kStampMetadata
    std::string session;   // for Forget
  };
  Stamp Next(std::string_view method);

  // Several calls may open sessions at the same time; the newest is used.
  OpenSessionRequest Offer() const;
  // UNAUTHENTICATED when the answer does not prove that the server holds the secret: then the call
  // must not be made.
  Status Accept(const OpenSessionRequest& offer, const OpenSessionReply& reply);
  // What it means that the server did not answer an offer.
  Status Explain(const Status& refused) const;
  // The server does not know that session; nothing to do when there is a newer one.
  void Forget(const std::string& session);
  // Whether an answer says that another session must be opened.
  static bool WasLost(StatusCode code, std::string_view message);

 private:
  const std::string secret_, job_, address_;
  Mutex mu_;
  std::string id_ TD_GUARDED_BY(mu_), key_ TD_GUARDED_BY(mu_);  // empty: there is none
  uint64_t counter_ TD_GUARDED_BY(mu_) = 0;                     // of the newest call
};

}  // namespace tandem
