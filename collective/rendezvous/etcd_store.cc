#include "collective/rendezvous/etcd_store.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <thread>

#include "collective/rendezvous/rendezvous_store.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/threads/runner.h"
#include "proto/etcd.grpc.pb.h"

namespace tandem::collective {
namespace {

namespace etcd = etcdserverpb;

// Time limit of one call. Because calls are short, a rank can stop on request between two calls.
constexpr Duration kCallMax = std::chrono::seconds(1);
// Minimum time-to-live of a lease in etcd, and the interval of etcd's checks for expired leases.
constexpr Duration kLeaseMin = std::chrono::seconds(2), kLeaseLook = std::chrono::seconds(1);

class EtcdStore final : public RendezvousStore {
 public:
  EtcdStore(const HostPort& server, const std::string& prefix, std::string job, std::string secret,
            Duration ttl)
      : server_(server),
        job_(std::move(job)),
        secret_(std::move(secret)),
        key_(prefix + "/" + FileNameOf(job_) + "/rank0"),
        ttl_(std::max<Duration>(ttl, std::chrono::seconds(1))) {}
  ~EtcdStore() override;

  Status Announce(const Meeting& meeting, Time deadline) override;
  StatusOr<Meeting> Find(Time deadline) override;
  Duration lapse() const override { return std::max(ttl_, kLeaseMin) + kLeaseLook; }
  std::string name() const override { return "etcd://" + ToString(server_) + key_; }

 private:
  // Makes one unary call of at most one second. NOT_FOUND: an object that the request names, such
  // as a lease, does not exist.
  template <typename Stub, typename Request, typename Response>
  Status Call(Stub& stub,
              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
              const Request& request, Response* response, Time deadline) const;
  Status Connect();
  // Creates the key under a lease, unless the key exists. Sets placed_ to true if the key contains
  // this rank's announcement. ALREADY_EXISTS: the key has another value.
  Status Place(Time deadline);
  Status GrantLease(Time deadline);
  // Renews the lease. Returns false if the lease has expired.
  StatusOr<bool> Renew(Time deadline);
  void KeepAlive();

  const HostPort server_;
  const std::string job_, secret_, key_;
  const Duration ttl_;
  std::unique_ptr<etcd::KV::Stub> keys_;
  std::unique_ptr<etcd::Lease::Stub> leases_;
  std::string value_;  // text of the announcement, which is the value of the key
  // While the thread runs, only the thread uses the following fields.
  int64_t lease_ = 0;    // id of the lease; 0: none
  bool placed_ = false;  // true: the key exists under the lease

  Mutex mu_;
  CondVar ended_;
  bool end_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

EtcdStore::~EtcdStore() {
  {
    MutexLock lock(mu_);
    end_ = true;
    ended_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  if (lease_ == 0) return;
  etcd::LeaseRevokeRequest request;
  request.set_id(lease_);
  etcd::LeaseRevokeResponse response;
  const Status gone =
      Call<etcd::Lease::StubInterface>(*leases_, &etcd::Lease::StubInterface::LeaseRevoke, request,
                                       &response, SteadyNow() + kCallMax);
  if (!gone.ok())
    LOG(WARNING) << name() << ": the announcement of rank 0 remains for " << FormatDuration(ttl_)
                 << ": " << gone;
}

template <typename Stub, typename Request, typename Response>
Status EtcdStore::Call(Stub& stub,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                    Response*),
                       const Request& request, Response* response, Time deadline) const {
  grpc::ClientContext context;
  Status status = rpc::PrepareCall(std::min(deadline, SteadyNow() + kCallMax), &context);
  if (status.ok()) status = rpc::FromGrpc((stub.*method)(&context, request, response));
  if (status.ok()) return status;
  const std::string text =
      absl::StrFormat("etcd at %s: %s", ToString(server_),
                      status.code() == StatusCode::kDeadlineExceeded ? "no reply in time"
                                                                     : tandem::ToString(status));
  if (status.code() == StatusCode::kNotFound) return NotFound("%s", text);
  // After these three errors a retry does not help: the server denies access or is not etcd. After
  // any other error a retry may help.
  const bool denied = status.code() == StatusCode::kPermissionDenied ||
                      status.code() == StatusCode::kUnauthenticated ||
                      status.code() == StatusCode::kUnimplemented;
  return denied ? PermissionDenied("%s", text) : Unavailable("%s", text);
}

Status EtcdStore::Connect() {
  if (keys_ != nullptr) return OkStatus();
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                      rpc::MakeChannel(Endpoint{server_.host, server_.port}, rpc::TlsFiles{}));
  keys_ = etcd::KV::NewStub(channel);
  leases_ = etcd::Lease::NewStub(channel);
  return OkStatus();
}

Status EtcdStore::GrantLease(Time deadline) {
  etcd::LeaseGrantRequest request;
  request.set_ttl(static_cast<int64_t>(std::max(1.0, Seconds(ttl_) + 0.5)));
  etcd::LeaseGrantResponse response;
  TD_RETURN_IF_ERROR(Call<etcd::Lease::StubInterface>(
      *leases_, &etcd::Lease::StubInterface::LeaseGrant, request, &response, deadline));
  lease_ = response.id();
  return OkStatus();
}

Status EtcdStore::Place(Time deadline) {
  if (lease_ == 0) TD_RETURN_IF_ERROR(GrantLease(deadline));
  etcd::TxnRequest request;
  etcd::Compare& absent = *request.add_compare();
  absent.set_target(etcd::Compare::VERSION);
  absent.set_key(key_);
  absent.set_version(0);
  etcd::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key_);
  put.set_value(value_);
  put.set_lease(lease_);
  request.add_failure()->mutable_request_range()->set_key(key_);
  etcd::TxnResponse response;
  const Status called = Call<etcd::KV::StubInterface>(*keys_, &etcd::KV::StubInterface::Txn,
                                                      request, &response, deadline);
  if (called.code() == StatusCode::kNotFound) {  // NOT_FOUND: the lease has expired
    lease_ = 0;
    return Unavailable("%s", std::string(called.message()));
  }
  TD_RETURN_IF_ERROR(called);
  placed_ = response.succeeded();
  if (placed_) return OkStatus();
  std::string there;
  if (response.responses_size() == 1 && response.responses(0).response_range().kvs_size() == 1) {
    there = response.responses(0).response_range().kvs(0).value();
  }
  placed_ = there == value_;  // true: an earlier attempt succeeded, but its reply was lost
  if (placed_) return OkStatus();
  const StatusOr<Announcement> other = ReadUnverified(there);
  return AlreadyExists(
      "another process is already rank 0 in %s%s [TD3008]; hint: stop that process, or use "
      "another rendezvous",
      name(), other.ok() ? ": " + other->Who() : "");
}

Status EtcdStore::Announce(const Meeting& meeting, Time deadline) {
  TD_RETURN_IF_ERROR(Connect());
  value_ = SignedText(MakeAnnouncement(job_, meeting.address, meeting.meeting), secret_);
  TD_RETURN_IF_ERROR(Place(deadline));
  if (!thread_.joinable()) thread_ = std::thread([this] { KeepAlive(); });
  return OkStatus();
}

StatusOr<bool> EtcdStore::Renew(Time deadline) {
  grpc::ClientContext context;
  TD_RETURN_IF_ERROR(rpc::PrepareCall(std::min(deadline, SteadyNow() + kCallMax), &context));
  const auto stream = leases_->LeaseKeepAlive(&context);
  etcd::LeaseKeepAliveRequest request;
  request.set_id(lease_);
  etcd::LeaseKeepAliveResponse response;
  const bool answered = stream->Write(request) && stream->Read(&response);
  stream->WritesDone();
  if (answered) {
    context.TryCancel();
    stream->Finish().IgnoreError();
    return response.ttl() > 0;
  }
  return rpc::FromGrpc(stream->Finish());
}

void EtcdStore::KeepAlive() {
  SetThreadName("etcd-lease");
  while (true) {
    {
      MutexLock lock(mu_);
      const Time next = SteadyNow() + ttl_ / 3;
      while (!end_ && SteadyNow() < next) ended_.WaitUntil(mu_, next);
      if (end_) return;
    }
    const Time deadline = SteadyNow() + kCallMax;
    const StatusOr<bool> renewed = Renew(deadline);
    Status status = renewed.status();
    if (renewed.ok() && !*renewed) {  // the lease has expired, or etcd has lost the lease
      lease_ = 0;
      placed_ = false;
    }
    if (status.ok() && !placed_) status = Place(deadline);
    if (!status.ok())
      LOG(WARNING) << name() << ": cannot renew the announcement of rank 0: " << status;
  }
}

StatusOr<Meeting> EtcdStore::Find(Time deadline) {
  TD_RETURN_IF_ERROR(Connect());
  etcd::RangeRequest request;
  request.set_key(key_);
  etcd::RangeResponse response;
  TD_RETURN_IF_ERROR(Call<etcd::KV::StubInterface>(*keys_, &etcd::KV::StubInterface::Range, request,
                                                   &response, deadline));
  if (response.kvs_size() == 0)
    return NotFound("rank 0 has not announced its address in %s yet", name());
  const StatusOr<Announcement> announcement =
      ReadSignedText(response.kvs(0).value(), job_, secret_);
  if (!announcement.ok()) return Annotate(announcement.status(), name());
  return Meeting(announcement->address, announcement->meeting);
}

}  // namespace

std::unique_ptr<RendezvousStore> MakeEtcdStore(const HostPort& server, const std::string& prefix,
                                               const std::string& job, const std::string& secret,
                                               Duration ttl) {
  return std::make_unique<EtcdStore>(server, prefix, job, secret, ttl);
}

}  // namespace tandem::collective
