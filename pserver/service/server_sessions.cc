#include "pserver/service/server_sessions.h"

#include <utility>

#include "common/rpc/credentials/session_proof.h"
#include "proto/pserver.pb.h"

namespace tandem::pserver {

ServerSessions::ServerSessions(std::string secret, std::string job, Limits limits)
    : secret_(std::move(secret)), job_(std::move(job)), limits_(limits) {}

void ServerSessions::Table::Add(std::shared_ptr<Session> session, size_t limit) {
  if (order.size() >= limit) {
    by_id.erase(order.back()->id);
    order.pop_back();
  }
  order.push_front(std::move(session));
  by_id[order.front()->id] = order.begin();
}

std::shared_ptr<ServerSessions::Session> ServerSessions::Table::Use(const std::string& id) {
  const auto it = by_id.find(id);
  if (it == by_id.end()) return nullptr;
  order.splice(order.begin(), order, it->second);
  return *it->second;
}

void ServerSessions::Table::Remove(const std::string& id) {
  const auto it = by_id.find(id);
  if (it == by_id.end()) return;
  order.erase(it->second);
  by_id.erase(it);
}

Status ServerSessions::Open(const OpenSessionRequest& request, OpenSessionReply* reply) {
  if (!asks()) {
    return FailedPrecondition(
        "the caller has a secret, but this server has none [TD6020]; hint: start the server with "
        "the TANDEM_SECRET_FILE of the job");
  }
  if (request.nonce().size() != rpc::kNonceBytes) {
    return InvalidArgument("OpenSession: the nonce has %d bytes, expected %d bytes",
                           request.nonce().size(), rpc::kNonceBytes);
  }
  if (request.job() != job_) {
    return Unauthenticated(
        "this server serves job \"%s\", but the caller asks for another job [TD6011]; hint: use "
        "the name of the job, or the address of its servers",
        job_);
  }
  const rpc::SessionTerms terms{job_, request.nonce(), rpc::RandomBytes(rpc::kNonceBytes),
                                rpc::RandomBytes(rpc::kSessionIdBytes)};
  auto session = std::make_shared<Session>();
  session->id = terms.id;
  session->key = rpc::SessionKey(secret_, terms);
  reply->set_session(terms.id);
  reply->set_nonce(terms.server_nonce);
  reply->set_proof(rpc::ServerProof(secret_, terms));
  MutexLock lock(mu_);
  unproven_.Add(std::move(session), limits_.unproven);
  return OkStatus();
}

Status ServerSessions::Check(std::string_view bytes, std::string_view method,
                             std::string_view other_name) {
  const auto stamp = rpc::DecodeStamp(bytes);
  if (!stamp) {
    return Unauthenticated("metadata %s has %d bytes, but no valid proof [TD6011]",
                           rpc::kStampMetadata, bytes.size());
  }
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mu_);
    session = proven_.Use(stamp->session);
    if (session == nullptr) session = unproven_.Use(stamp->session);
  }
  if (session == nullptr)
    return Unauthenticated("the session of the caller is unknown to this server [TD6021]");
  const auto proves = [&](std::string_view name) {
    return rpc::ProofsEqual(stamp->proof, rpc::CallProof(session->key, stamp->counter, name));
  };
  if (!proves(method) && (other_name.empty() || !proves(other_name))) {
    return Unauthenticated(
        "the proof of call %s is wrong, because the caller does not have the secret of job \"%s\" "
        "[TD6011]",
        std::string(method), job_);
  }
  MutexLock lock(mu_);
  if (session->counters.Look(stamp->counter) != SequenceWindow::Seen::kNew) {
    return Unauthenticated("the proof of call %s was already used or has expired [TD6021]",
                           std::string(method));
  }
  session->counters.Take(stamp->counter);
  if (proven_.Use(stamp->session) == nullptr) {
    unproven_.Remove(stamp->session);
    proven_.Add(std::move(session), limits_.proven);
  }
  return OkStatus();
}

size_t ServerSessions::unproven() const {
  MutexLock lock(mu_);
  return unproven_.order.size();
}

size_t ServerSessions::proven() const {
  MutexLock lock(mu_);
  return proven_.order.size();
}

}  // namespace tandem::pserver
