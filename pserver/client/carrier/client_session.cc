#include "pserver/client/carrier/client_session.h"

#include <utility>

#include "common/base/check.h"
#include "common/rpc/credentials/session_proof.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {

ClientSession::ClientSession(std::string secret, std::string job, std::string address)
    : secret_(std::move(secret)), job_(std::move(job)), address_(std::move(address)) {
  CHECK(!secret_.empty());
}

ClientSession::Stamp ClientSession::Next(std::string_view method) {
  rpc::CallStamp stamp;
  std::string key;
  {
    MutexLock lock(mu_);
    if (id_.empty()) return {};
    key = key_;
    stamp.session = id_;
    stamp.counter = ++counter_;
  }
  stamp.proof = rpc::CallProof(key, stamp.counter, method);
  return {rpc::EncodeStamp(stamp), std::move(stamp.session)};
}

OpenSessionRequest ClientSession::Offer() const {
  OpenSessionRequest offer;
  offer.set_job(job_);
  offer.set_nonce(rpc::RandomBytes(rpc::kNonceBytes));
  return offer;
}

Status ClientSession::Accept(const OpenSessionRequest& offer, const OpenSessionReply& reply) {
  const rpc::SessionTerms terms{job_, offer.nonce(), reply.nonce(), reply.session()};
  const bool sizes =
      terms.server_nonce.size() == rpc::kNonceBytes && terms.id.size() == rpc::kSessionIdBytes;
  if (!sizes || !rpc::ProofsEqual(reply.proof(), rpc::ServerProof(secret_, terms))) {
    return Unauthenticated(
        "the program that listens on %s does not have the secret of job \"%s\" [TD6020]; hint: use "
        "the same secret file on both sides, and check which program uses the port",
        address_, job_);
  }
  std::string key = rpc::SessionKey(secret_, terms);
  MutexLock lock(mu_);
  id_ = terms.id;
  key_ = std::move(key);
  counter_ = 0;
  return OkStatus();
}

Status ClientSession::Explain(const Status& refused) const {
  if (refused.code() != StatusCode::kUnimplemented) return refused;
  return FailedPrecondition(
      "the program that listens on %s has no call OpenSession: it is an earlier version or not a "
      "pserver [TD6022]; hint: run the same version of Tandem on both sides",
      address_);
}

void ClientSession::Forget(const std::string& session) {
  MutexLock lock(mu_);
  if (id_ == session) id_.clear();
}

bool ClientSession::WasLost(StatusCode code, std::string_view message) {
  return code == StatusCode::kUnauthenticated && message.find(rpc::kNoSessionCode) != message.npos;
}

}  // namespace tandem::ps
