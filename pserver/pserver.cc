#include "pserver/pserver.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "pserver/server_front.h"
#include "pserver/server_parts.h"
#include "pserver/shard/durable_shard.h"

namespace tandem::pserver {
namespace {

// PERMISSION_DENIED: the server would listen on a network address with TLS, but accept every
// caller. Encryption alone does not restrict access.
Status CheckExposure(const PserverOptions& options) {
  const bool knows_callers = options.rpc.tls.mutual() || !options.secret.empty();
  if (knows_callers || !options.rpc.tls.enabled() || IsLoopback(options.rpc.listen) ||
      options.rpc.insecure_allow_network) {
    return OkStatus();
  }
  return PermissionDenied(
      "cannot listen on %s, because it is a network address, and the server could not check its "
      "callers without tls_ca or a secret [TD6001]; "
      "hint: set tls_ca or a secret, or insecure_allow_network in a trusted network",
      ToString(options.rpc.listen));
}

}  // namespace

struct Pserver::Impl {
  std::unique_ptr<ServerParts> parts;
  uint64_t restored_version = 0;
  std::unique_ptr<ServerFront> front;  // destroyed before the parts, which its calls use
};

StatusOr<Durability> ParseDurability(const std::string& text) {
  if (text == "none") return Durability::kNone;
  if (text == "logged") return Durability::kLogged;
  if (text == "replayable") return Durability::kReplayable;
  return InvalidArgument(
      "unknown durability \"%s\", expected none, replayable or logged [TD1006]%s", text,
      OrDidYouMean(text, {"none", "replayable", "logged"}));
}

Pserver::Pserver() : impl_(std::make_unique<Impl>()) {}

Status CheckOptions(PserverOptions& options) {
  if (!options.secret.empty() && options.job.empty()) {
    return InvalidArgument(
        "the server has a secret, but the name of its job is not set [TD1007]; hint: set "
        "--job=NAME");
  }
  for (const int threads :
       {options.calls.pushes, options.calls.pulls, options.calls.row_pulls, options.calls.others}) {
    if (threads >= 1 && threads <= 1024) continue;
    return InvalidArgument("the server would have %d threads, expected 1 to 1024 [TD1004]",
                           threads);
  }
  if (options.member < 0 || options.member > options.standbys) {
    return InvalidArgument(
        "a server with %d standbys has no member %d [TD4028]; hint: number its members from 0 to "
        "%d",
        options.standbys, options.member, options.standbys);
  }
  TD_RETURN_IF_ERROR(CheckExposure(options));
  if (options.resp_listen) TD_RETURN_IF_ERROR(CheckRespListen(RespListenOf(options)));
  if (!options.rpc.tls.mutual()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const rpc::PeerIdentity self,
                      rpc::RequireIdentity(options.rpc.tls, rpc::PeerRole::kPserver, options.job));
  options.job = self.job;
  return OkStatus();
}

StatusOr<std::unique_ptr<Pserver>> Pserver::Start(PserverOptions options, Metrics& metrics) {
  TD_RETURN_IF_ERROR(CheckOptions(options));
  auto pserver = std::unique_ptr<Pserver>(new Pserver());
  Impl* impl = pserver->impl_.get();
  TD_ASSIGN_OR_RETURN(impl->parts, ServerParts::Open(options, metrics));
  const Time begin = SteadyNow();
  const StatusOr<uint64_t> restored = impl->parts->Recover();
  if (!restored.ok()) return Annotate(restored.status(), "cannot restore " + options.data_dir);
  LOG_IF(INFO, *restored != 0) << "version " << *restored << " was restored in "
                               << Seconds(SteadyNow() - begin) << " s";
  impl->restored_version = *restored;
  if (impl->parts->source() != nullptr) TD_RETURN_IF_ERROR(impl->parts->ResumeReplication());
  TD_ASSIGN_OR_RETURN(impl->front, ServerFront::Start(std::move(options), *impl->parts, metrics));
  return pserver;
}

StatusOr<std::unique_ptr<Pserver>> Pserver::Serve(PserverOptions options,
                                                  std::unique_ptr<ServerParts> parts,
                                                  Metrics& metrics) {
  auto pserver = std::unique_ptr<Pserver>(new Pserver());
  TD_REQUIRE(parts != nullptr);
  pserver->impl_->restored_version = parts->durable().shard().Info().version;
  pserver->impl_->parts = std::move(parts);
  TD_ASSIGN_OR_RETURN(pserver->impl_->front,
                      ServerFront::Start(std::move(options), *pserver->impl_->parts, metrics));
  return pserver;
}

Pserver::~Pserver() {
  if (impl_->parts != nullptr) impl_->parts->End();
}

const Endpoint& Pserver::endpoint() const { return impl_->front->endpoint(); }
std::optional<Endpoint> Pserver::resp_endpoint() const { return impl_->front->resp_endpoint(); }
ShardInfo Pserver::Info() const { return impl_->parts->durable().shard().Info(); }
Status Pserver::StorageStatus() const { return impl_->parts->durable().StorageStatus(); }
uint64_t Pserver::restored_version() const { return impl_->restored_version; }

std::vector<StandbyInfo> Pserver::standbys() const {
  const LogSource* const source = impl_->parts->source();
  return source == nullptr ? std::vector<StandbyInfo>() : source->standbys();
}

StatusOr<SavedCheckpoint> Pserver::SaveCheckpoint() {
  return impl_->parts->durable().Save(false, 0, CheckpointThrottle::kAnswer);
}

LogTerm Pserver::term() const {
  const LogSource* const source = impl_->parts->source();
  return source == nullptr ? LogTerm() : source->term();
}

Status Pserver::HandOver(Time deadline) {
  ServerParts& parts = *impl_->parts;
  TD_REQUIRE(parts.source() != nullptr);
  impl_->front->StopServing();
  parts.durable().shard().Shutdown();
  TD_RETURN_IF_ERROR(parts.AwaitLogged());
  return parts.source()->AwaitStandbys(deadline);
}

void Pserver::GiveUp(Time deadline) {
  impl_->front->StopServing();
  impl_->parts->End();
  impl_->front->Stop(deadline);
}

Status Pserver::Drain(Time deadline) {
  impl_->front->StopServing();
  Status saved;
  ServerParts& parts = *impl_->parts;
  if (parts.storage() != nullptr && Info().initialised) saved = parts.durable().Save().status();
  parts.End();
  impl_->front->Stop(deadline);
  return saved;
}

}  // namespace tandem::pserver
