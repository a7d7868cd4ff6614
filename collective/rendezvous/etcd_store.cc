#include "collective/rendezvous/etcd_store.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "collective/rendezvous/etcd_client.h"
#include "collective/rendezvous/rendezvous_store.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::collective {
namespace {

// Minimum time-to-live of a lease in etcd, and the interval of etcd's checks for expired leases.
constexpr Duration kLeaseMin = std::chrono::seconds(2), kLeaseLook = std::chrono::seconds(1);

class EtcdStore final : public RendezvousStore {
 public:
  EtcdStore(const RendezvousUrl& url, const EtcdAccess& access, std::string job, std::string secret,
            Duration ttl)
      : client_(url.address, url.tls, access),
        job_(std::move(job)),
        secret_(std::move(secret)),
        key_(url.path + "/" + FileNameOf(job_) + "/rank0"),
        server_(ToString(RendezvousUrl{url.kind, url.address, "", url.tls})),
        ttl_(std::max<Duration>(ttl, std::chrono::seconds(1))) {}
  ~EtcdStore() override;

  Status Announce(const Meeting& meeting, Time deadline) override;
  StatusOr<Meeting> Find(Time deadline) override;
  Duration lapse() const override { return std::max(ttl_, kLeaseMin) + kLeaseLook; }
  std::string name() const override { return server_ + key_; }

 private:
  // Creates the key under a lease, unless the key exists. Sets placed_ to true if the key contains
  // this rank's announcement. ALREADY_EXISTS: the key has another value.
  Status Place(Time deadline);
  void KeepAlive();

  EtcdClient client_;
  const std::string job_, secret_, key_, server_;  // server_: without the path, for messages
  const Duration ttl_;
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
  const Status gone = client_.RevokeLease(lease_, SteadyNow() + EtcdClient::kCallMax);
  if (!gone.ok())
    LOG(WARNING) << name() << ": the announcement of rank 0 remains for " << FormatDuration(ttl_)
                 << ": " << gone;
}

Status EtcdStore::Place(Time deadline) {
  if (lease_ == 0) {
    const double seconds = std::max(1.0, Seconds(ttl_) + 0.5);
    TD_ASSIGN_OR_RETURN(lease_, client_.GrantLease(static_cast<int64_t>(seconds), deadline));
  }
  const auto there = client_.Create(key_, value_, lease_, deadline);
  if (there.status().code() == StatusCode::kNotFound) {  // NOT_FOUND: the lease has expired
    lease_ = 0;
    return Unavailable("%s", std::string(there.status().message()));
  }
  TD_RETURN_IF_ERROR(there.status());
  // An equal value: an earlier attempt succeeded, but its reply was lost.
  placed_ = !there->has_value() || **there == value_;
  if (placed_) return OkStatus();
  const StatusOr<Announcement> other = ReadUnverified(**there);
  return AlreadyExists(
      "another process is already rank 0 in %s%s [TD3008]; hint: stop that process, or use "
      "another rendezvous",
      name(), other.ok() ? ": " + other->Who() : "");
}

Status EtcdStore::Announce(const Meeting& meeting, Time deadline) {
  TD_RETURN_IF_ERROR(client_.Connect());
  value_ = SignedText(MakeAnnouncement(job_, meeting.address, meeting.meeting), secret_);
  TD_RETURN_IF_ERROR(Place(deadline));
  if (!thread_.joinable()) thread_ = std::thread([this] { KeepAlive(); });
  return OkStatus();
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
    const Time deadline = SteadyNow() + EtcdClient::kCallMax;
    const StatusOr<bool> renewed = client_.RenewLease(lease_, deadline);
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
  TD_RETURN_IF_ERROR(client_.Connect());
  TD_ASSIGN_OR_RETURN(const std::optional<std::string> value, client_.Get(key_, deadline));
  if (!value) return NotFound("rank 0 has not announced its address in %s yet", name());
  const StatusOr<Announcement> announcement = ReadSignedText(*value, job_, secret_);
  if (!announcement.ok()) return Annotate(announcement.status(), name());
  return Meeting(announcement->address, announcement->meeting);
}

}  // namespace

std::unique_ptr<RendezvousStore> MakeEtcdStore(const RendezvousUrl& url, const std::string& job,
                                               const std::string& secret, const EtcdAccess& access,
                                               Duration ttl) {
  TD_REQUIRE(url.kind == RendezvousUrl::Kind::kEtcd);
  return std::make_unique<EtcdStore>(url, access, job, secret, ttl);
}

}  // namespace tandem::collective
