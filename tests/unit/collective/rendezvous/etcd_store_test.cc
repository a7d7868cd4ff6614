// The store in etcd, with an etcd that fails at chosen moments. The etcd is a stand-in with etcd's
// interface, in the process of the test.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <set>

#include "collective/rendezvous/etcd_store.h"
#include "collective/rendezvous/rendezvous_store.h"
#include "common/base/mutex.h"
#include "proto/etcd.grpc.pb.h"
#include "tests/support/process_test_util.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

namespace etcd = etcdserverpb;
using ::testing::HasSubstr;

constexpr char kSecret[] = "the secret of the test";
const HostPort kAddress = {"127.0.0.1", 4711};

// A stand-in for etcd. A key exists as long as its lease. A lease lasts until Forget.
class FakeEtcd {
 public:
  // The stand-in calls `before` for every transaction, with the number of the transaction, from 0.
  // A code other than OK becomes the reply. ALREADY_EXISTS: the reply says that another client has
  // the key.
  explicit FakeEtcd(std::function<grpc::StatusCode(int)> before)
      : before_(std::move(before)), keys_(*this), leases_(*this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&keys_);
    builder.RegisterService(&leases_);
    server_ = builder.BuildAndStart();
  }
  ~FakeEtcd() { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1)); }

  HostPort address() const { return {"127.0.0.1", static_cast<uint16_t>(port_)}; }
  int transactions() const { return transactions_; }
  // Makes all leases expire. The keys of the leases disappear too.
  void Forget() {
    MutexLock lock(mu_);
    granted_.clear();
    values_.clear();
  }

 private:
  struct Keys final : etcd::KV::Service {
    explicit Keys(FakeEtcd& all) : all(all) {}
    grpc::Status Range(grpc::ServerContext*, const etcd::RangeRequest* request,
                       etcd::RangeResponse* response) override {
      MutexLock lock(all.mu_);
      const auto it = all.values_.find(request->key());
      if (it != all.values_.end()) response->add_kvs()->set_value(it->second);
      return grpc::Status::OK;
    }
    grpc::Status Txn(grpc::ServerContext*, const etcd::TxnRequest* request,
                     etcd::TxnResponse* response) override {
      const grpc::StatusCode code = all.before_(all.transactions_++);
      if (code == grpc::StatusCode::ALREADY_EXISTS) return grpc::Status::OK;
      if (code != grpc::StatusCode::OK) return grpc::Status(code, "of the test");
      MutexLock lock(all.mu_);
      const etcd::PutRequest& put = request->success(0).request_put();
      if (!all.granted_.contains(put.lease())) return {grpc::StatusCode::NOT_FOUND, "no lease"};
      response->set_succeeded(all.values_.emplace(put.key(), put.value()).second);
      return grpc::Status::OK;
    }
    FakeEtcd& all;
  };
  struct Leases final : etcd::Lease::Service {
    explicit Leases(FakeEtcd& all) : all(all) {}
    grpc::Status LeaseGrant(grpc::ServerContext*, const etcd::LeaseGrantRequest* request,
                            etcd::LeaseGrantResponse* response) override {
      MutexLock lock(all.mu_);
      response->set_id(++all.last_lease_);
      response->set_ttl(request->ttl());
      all.granted_.insert(all.last_lease_);
      return grpc::Status::OK;
    }
    grpc::Status LeaseRevoke(grpc::ServerContext*, const etcd::LeaseRevokeRequest*,
                             etcd::LeaseRevokeResponse*) override {
      return grpc::Status::OK;
    }
    grpc::Status LeaseKeepAlive(
        grpc::ServerContext*,
        grpc::ServerReaderWriter<etcd::LeaseKeepAliveResponse, etcd::LeaseKeepAliveRequest>* stream)
        override {
      for (etcd::LeaseKeepAliveRequest request; stream->Read(&request);) {
        etcd::LeaseKeepAliveResponse response;
        response.set_id(request.id());
        {
          MutexLock lock(all.mu_);
          response.set_ttl(all.granted_.contains(request.id()) ? 1 : 0);
        }
        stream->Write(response);
      }
      return grpc::Status::OK;
    }
    FakeEtcd& all;
  };

  const std::function<grpc::StatusCode(int)> before_;
  std::atomic<int> transactions_{0};
  Mutex mu_;
  int64_t last_lease_ TD_GUARDED_BY(mu_) = 0;
  std::set<int64_t> granted_ TD_GUARDED_BY(mu_);
  std::map<std::string, std::string> values_ TD_GUARDED_BY(mu_);
  Keys keys_;
  Leases leases_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<RendezvousStore> Store(const FakeEtcd& etcd) {
  return MakeEtcdStore(etcd.address(), "/jobs", "job", kSecret, std::chrono::seconds(1));
}

// After all leases have expired, the store gets a new lease, but its first puts of the key fail.
// The store must repeat the put until the put succeeds.
TEST(EtcdStoreTest, APutThatFailedIsTriedAgain) {
  FakeEtcd etcd([](int transaction) {
    const bool fails = transaction == 1 || transaction == 2;
    return fails ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::OK;
  });
  const auto first = Store(etcd), other = Store(etcd);
  ASSERT_EQ(first->Announce(kAddress, In(10)), OkStatus());
  ASSERT_TRUE(other->Find(In(10)).ok());
  etcd.Forget();
  EXPECT_TRUE(WaitUntil([&] { return other->Find(In(10)).ok(); }, 30))
      << other->Find(In(10)).status();
  EXPECT_EQ(etcd.transactions(), 4);
}

// The time limit for a taken key begins when etcd first reports the key as taken. Time before that
// without replies from etcd does not count.
TEST(EtcdStoreTest, TheWaitForAPlaceBeginsWhenItIsSeenTaken) {
  const Time start = SteadyNow();
  Duration silent = Duration::zero();
  std::atomic<int> taken{0};
  FakeEtcd etcd([&](int) {
    if (SteadyNow() < start + silent) return grpc::StatusCode::UNAVAILABLE;
    return taken++ == 0 ? grpc::StatusCode::ALREADY_EXISTS : grpc::StatusCode::OK;
  });
  const auto url = ParseRendezvousUrl("etcd://" + ToString(etcd.address()));
  silent = MakeRendezvousStore(*url, "job", kSecret)->lapse() + std::chrono::seconds(1);
  OnEveryRank(2, [&](int r) {
    WorldConfig world;
    world.rank = r;
    world.size = 2;
    world.job = "job";
    world.secret = kSecret;
    world.rendezvous = ToString(*url);
    world.network_allowed = false;
    const auto comm = ConnectTcp(world);
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ((*comm)->Barrier()->Wait(In(30)), OkStatus());
  });
  EXPECT_GE(taken, 2);
}

}  // namespace
}  // namespace tandem::collective
