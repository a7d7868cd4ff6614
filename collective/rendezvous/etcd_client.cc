#include "collective/rendezvous/etcd_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"
#include "common/base/endpoint.h"
#include "common/base/require.h"
#include "common/os/own_files.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials/tls_probe.h"
#include "common/rpc/grpc_status.h"
#include "proto/etcd.grpc.pb.h"

namespace tandem::collective {
namespace {

namespace etcd = etcdserverpb;

constexpr uint64_t kPasswordBytesMax = 4096;
constexpr char kTokenMetadata[] = "token";  // etcd reads the token of a user under this key

}  // namespace

struct EtcdClient::Stubs {
  std::unique_ptr<etcd::KV::StubInterface> keys;
  std::unique_ptr<etcd::Lease::StubInterface> leases;
  std::unique_ptr<etcd::Auth::StubInterface> auth;
};

EtcdClient::EtcdClient(const HostPort& server, bool tls, const EtcdAccess& access)
    : server_(server), tls_(tls), access_(access) {}

EtcdClient::~EtcdClient() = default;

Status EtcdClient::Connect() {
  if (stubs_ != nullptr) return OkStatus();
  const Endpoint endpoint{server_.host, server_.port};
  if (tls_ && access_.tls.ca.empty()) {
    return InvalidArgument(
        "etcds://%s needs the authority of etcd's certificate [TD6015]; hint: set TANDEM_ETCD_CA "
        "to its file",
        ToString(server_));
  }
  if (!tls_ && access_.tls.enabled()) {
    return InvalidArgument(
        "TANDEM_ETCD_CA, TANDEM_ETCD_CERT or TANDEM_ETCD_KEY is set, but etcd://%s uses no TLS "
        "[TD1005]; hint: write etcds://%s",
        ToString(server_), ToString(server_));
  }
  if (access_.user.empty() != access_.password_file.empty()) {
    return InvalidArgument(
        "only one of TANDEM_ETCD_USER and TANDEM_ETCD_PASSWORD_FILE is set [TD1005]; hint: set "
        "both");
  }
  if (!access_.user.empty()) {
    if (!tls_ && !IsLoopback(endpoint)) {
      return PermissionDenied(
          "the password of etcd user %s would go to %s over the network without encryption "
          "[TD6023]; hint: write etcds://%s and set TANDEM_ETCD_CA",
          access_.user, ToString(server_), ToString(server_));
    }
    TD_ASSIGN_OR_RETURN(password_,
                        ReadOwnFile(access_.password_file, kPasswordBytesMax, OwnRule::kSecret));
    password_ = std::string(absl::StripSuffix(password_, "\n"));
  }
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      rpc::MakeChannel(endpoint, tls_ ? access_.tls : rpc::TlsFiles{}));
  stubs_ = std::make_unique<Stubs>(Stubs{etcd::KV::NewStub(channel), etcd::Lease::NewStub(channel),
                                         etcd::Auth::NewStub(channel)});
  return OkStatus();
}

Status EtcdClient::SetDeadline(Time deadline, grpc::ClientContext* context) const {
  const Time end = std::min(deadline, SteadyNow() + kCallMax);
  if (rpc::PrepareCall(end, context).ok()) return OkStatus();
  return Unavailable("etcd at %s: no reply in time", ToString(server_));
}

Status EtcdClient::Prepare(Time deadline, grpc::ClientContext* context) {
  TD_REQUIRE(stubs_ != nullptr);
  if (!access_.user.empty() && token_.empty()) TD_RETURN_IF_ERROR(LogIn(deadline));
  TD_RETURN_IF_ERROR(SetDeadline(deadline, context));
  if (!token_.empty()) context->AddMetadata(kTokenMetadata, token_);
  return OkStatus();
}

template <typename Stub, typename Method, typename Request, typename Response>
Status EtcdClient::Call(Stub& stub, Method method, const Request& request, Response* response,
                        Time deadline) {
  for (bool again = true;; again = false) {
    grpc::ClientContext context;
    TD_RETURN_IF_ERROR(Prepare(deadline, &context));
    const Status status = rpc::FromGrpc((stub.*method)(&context, request, response));
    if (!again || !LoggedOut(status)) return Result(status);
  }
}

StatusOr<std::optional<std::string>> EtcdClient::Get(const std::string& key, Time deadline) {
  TD_REQUIRE(stubs_ != nullptr);
  etcd::RangeRequest request;
  request.set_key(key);
  etcd::RangeResponse response;
  TD_RETURN_IF_ERROR(
      Call(*stubs_->keys, &etcd::KV::StubInterface::Range, request, &response, deadline));
  if (response.kvs_size() == 0) return std::optional<std::string>();
  return std::optional(response.kvs(0).value());
}

StatusOr<std::optional<std::string>> EtcdClient::Create(const std::string& key,
                                                        const std::string& value, int64_t lease,
                                                        Time deadline) {
  TD_REQUIRE(stubs_ != nullptr);
  etcd::TxnRequest request;
  etcd::Compare& absent = *request.add_compare();
  absent.set_target(etcd::Compare::VERSION);
  absent.set_key(key);
  absent.set_version(0);
  etcd::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
  put.set_lease(lease);
  request.add_failure()->mutable_request_range()->set_key(key);
  etcd::TxnResponse response;
  TD_RETURN_IF_ERROR(
      Call(*stubs_->keys, &etcd::KV::StubInterface::Txn, request, &response, deadline));
  if (response.succeeded()) return std::optional<std::string>();
  if (response.responses_size() != 1 || response.responses(0).response_range().kvs_size() != 1) {
    return std::optional<std::string>("");
  }
  return std::optional(response.responses(0).response_range().kvs(0).value());
}

StatusOr<int64_t> EtcdClient::GrantLease(int64_t seconds, Time deadline) {
  TD_REQUIRE(stubs_ != nullptr);
  etcd::LeaseGrantRequest request;
  request.set_ttl(seconds);
  etcd::LeaseGrantResponse response;
  TD_RETURN_IF_ERROR(
      Call(*stubs_->leases, &etcd::Lease::StubInterface::LeaseGrant, request, &response, deadline));
  return response.id();
}

StatusOr<bool> EtcdClient::RenewLease(int64_t lease, Time deadline) {
  TD_REQUIRE(stubs_ != nullptr);
  grpc::ClientContext context;
  TD_RETURN_IF_ERROR(Prepare(deadline, &context));
  const auto stream = stubs_->leases->LeaseKeepAlive(&context);
  etcd::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcd::LeaseKeepAliveResponse response;
  const bool answered = stream->Write(request) && stream->Read(&response);
  stream->WritesDone();
  if (answered) {
    context.TryCancel();
    stream->Finish().IgnoreError();
    return response.ttl() > 0;
  }
  const Status status = rpc::FromGrpc(stream->Finish());
  LoggedOut(status);
  return Result(status);
}

Status EtcdClient::RevokeLease(int64_t lease, Time deadline) {
  TD_REQUIRE(stubs_ != nullptr);
  etcd::LeaseRevokeRequest request;
  request.set_id(lease);
  etcd::LeaseRevokeResponse response;
  return Call(*stubs_->leases, &etcd::Lease::StubInterface::LeaseRevoke, request, &response,
              deadline);
}

Status EtcdClient::LogIn(Time deadline) {
  grpc::ClientContext context;
  TD_RETURN_IF_ERROR(SetDeadline(deadline, &context));
  etcd::AuthenticateRequest request;
  request.set_name(access_.user);
  request.set_password(password_);
  etcd::AuthenticateResponse response;
  const Status status = rpc::FromGrpc(stubs_->auth->Authenticate(&context, request, &response));
  if (status.ok()) {
    token_ = response.token();
    return OkStatus();
  }
  if (status.code() == StatusCode::kFailedPrecondition) {  // etcd has no users
    return PermissionDenied(
        "etcd at %s has no users (%s) [TD6030]; hint: unset TANDEM_ETCD_USER and "
        "TANDEM_ETCD_PASSWORD_FILE",
        ToString(server_), std::string(status.message()));
  }
  return Result(status);
}

bool EtcdClient::LoggedOut(const Status& status) {
  // INVALID_ARGUMENT: users or roles have changed since etcd gave the token.
  const bool old = status.code() == StatusCode::kUnauthenticated ||
                   status.code() == StatusCode::kInvalidArgument;
  if (token_.empty() || !old) return false;
  token_.clear();
  return true;
}

Status EtcdClient::Result(const Status& status) {
  if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kDeadlineExceeded) {
    answered_ = true;
  }
  if (status.ok()) return status;
  if (!answered_) TD_RETURN_IF_ERROR(TlsError());
  const std::string text =
      absl::StrFormat("etcd at %s: %s", ToString(server_),
                      status.code() == StatusCode::kDeadlineExceeded ? "no reply in time"
                                                                     : tandem::ToString(status));
  switch (status.code()) {
    case StatusCode::kNotFound:
      return NotFound("%s", text);
    case StatusCode::kInvalidArgument:  // etcd has users, and this client has none or another one
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
      return PermissionDenied(
          "%s [TD6030]; hint: set TANDEM_ETCD_USER and TANDEM_ETCD_PASSWORD_FILE to a user that "
          "may read and write the prefix of the rendezvous",
          text);
    case StatusCode::kUnimplemented:
      return PermissionDenied("%s", text);
    default:
      return Unavailable("%s", text);
  }
}

Status EtcdClient::TlsError() const {
  const std::string at = ToString(server_);
  const Status probe = rpc::ProbeConnection(Endpoint{server_.host, server_.port},
                                            tls_ ? access_.tls : rpc::TlsFiles{}, "", kCallMax);
  switch (probe.code()) {
    case StatusCode::kFailedPrecondition:
      return tls_ ? PermissionDenied(
                        "etcd at %s does not use TLS [TD6004]; hint: write etcd://%s in the "
                        "rendezvous",
                        at, at)
                  : PermissionDenied(
                        "etcd at %s uses TLS [TD6003]; hint: write etcds://%s in the rendezvous "
                        "and set TANDEM_ETCD_CA",
                        at, at);
    case StatusCode::kUnauthenticated:
    case StatusCode::kPermissionDenied: {
      const std::string text(probe.message());
      return PermissionDenied(
          "etcd: %s; hint: check TANDEM_ETCD_CA, TANDEM_ETCD_CERT and TANDEM_ETCD_KEY with tandem "
          "certs show",
          text.substr(0, text.find("; hint: ")));
    }
    default:
      return OkStatus();
  }
}

}  // namespace tandem::collective
