// The store in etcd, with an etcd that fails at chosen moments. The etcd is a stand-in with etcd's
// interface, in the process of the test.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "collective/rendezvous/etcd_store.h"
#include "collective/rendezvous/rendezvous_store.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/os/own_files.h"
#include "proto/etcd.grpc.pb.h"
#include "tests/support/etcd_test_util.h"
#include "tests/support/tls_test_util.h"
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
    builder.RegisterService(&users_);
    server_ = builder.BuildAndStart();
  }
  ~FakeEtcd() { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1)); }

  HostPort address() const { return {"127.0.0.1", static_cast<uint16_t>(port_)}; }
  int transactions() const { return transactions_; }
  // From now on, reads need a token of this number. A token of another number has expired.
  void RequireToken(int number) { token_ = number; }
  int logins() const { return logins_; }
  // Makes all leases expire. The keys of the leases disappear too.
  void Forget() {
    MutexLock lock(mu_);
    granted_.clear();
    values_.clear();
  }

 private:
  struct Keys final : etcd::KV::Service {
    explicit Keys(FakeEtcd& all) : all(all) {}
    grpc::Status Range(grpc::ServerContext* context, const etcd::RangeRequest* request,
                       etcd::RangeResponse* response) override {
      if (grpc::Status known = all.Check(*context); !known.ok()) return known;
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
  struct Users final : etcd::Auth::Service {
    explicit Users(FakeEtcd& all) : all(all) {}
    grpc::Status Authenticate(grpc::ServerContext*, const etcd::AuthenticateRequest* request,
                              etcd::AuthenticateResponse* response) override {
      if (request->name() != "tandem" || request->password() != "the password") {
        return {grpc::StatusCode::INVALID_ARGUMENT, "authentication failed"};
      }
      response->set_token(all.Token());
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

  std::string Token() {
    ++logins_;
    return "token " + std::to_string(token_);
  }
  grpc::Status Check(const grpc::ServerContext& context) const {
    if (token_ == 0) return grpc::Status::OK;
    const auto sent = context.client_metadata().find("token");
    if (sent == context.client_metadata().end()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: user name is empty"};
    }
    const std::string token(sent->second.data(), sent->second.size());
    if (token == "token " + std::to_string(token_)) return grpc::Status::OK;
    return token_ % 2 == 0
               ? grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "etcdserver: invalid auth token")
               : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                              "etcdserver: revision of auth store is old");
  }

  const std::function<grpc::StatusCode(int)> before_;
  std::atomic<int> token_{0}, logins_{0};
  std::atomic<int> transactions_{0};
  Mutex mu_;
  int64_t last_lease_ TD_GUARDED_BY(mu_) = 0;
  std::set<int64_t> granted_ TD_GUARDED_BY(mu_);
  std::map<std::string, std::string> values_ TD_GUARDED_BY(mu_);
  Keys keys_;
  Leases leases_;
  Users users_{*this};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<RendezvousStore> Store(const FakeEtcd& etcd) {
  const RendezvousUrl url{RendezvousUrl::Kind::kEtcd, etcd.address(), "/jobs"};
  return MakeEtcdStore(url, "job", kSecret, {}, std::chrono::seconds(1));
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

// ---- Users and TLS ------------------------------------------------------------------------------

std::string Text(const Status& status) { return std::string(status.message()); }

class EtcdAccessTest : public ::testing::Test {
 protected:
  EtcdAccessTest() {
    std::string pattern = ::testing::TempDir() + "/tandem-etcd-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~EtcdAccessTest() override { std::filesystem::remove_all(folder_); }

  EtcdAccess User(const std::string& name, const std::string& password) const {
    EtcdAccess access;
    access.user = name;
    access.password_file = folder_ + "/password." + name;
    CHECK_EQ(WriteOwnFile(access.password_file, password + "\n"), OkStatus());
    return access;
  }
  static std::unique_ptr<RendezvousStore> Store(const std::string& url, const EtcdAccess& access) {
    const auto parsed = ParseRendezvousUrl(url);
    CHECK(parsed.ok()) << parsed.status();
    return MakeEtcdStore(*parsed, "job", kSecret, access, std::chrono::seconds(2));
  }
  static Status Find(const std::string& url, const EtcdAccess& access) {
    return Store(url, access)->Find(In(10)).status();
  }
  // Runs etcdctl, which must succeed.
  void Etcdctl(const std::string& address, const std::vector<std::string>& args) const {
    std::vector<std::string> all = {"--endpoints=http://" + address};
    all.insert(all.end(), args.begin(), args.end());
    ChildProcess process(kEtcdctlProgram, all, {{"ETCDCTL_API", "3"}}, folder_ + "/etcdctl.out");
    ASSERT_EQ(process.Wait(), 0) << process.Output();
  }

  std::string folder_;
};

TEST_F(EtcdAccessTest, ANewTokenReplacesAnExpiredOne) {
  FakeEtcd etcd([](int) { return grpc::StatusCode::OK; });
  etcd.RequireToken(1);
  const std::string url = "etcd://" + ToString(etcd.address()) + "/jobs";
  const auto store = Store(url, User("tandem", "the password"));
  EXPECT_EQ(store->Find(In(10)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->Find(In(10)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(etcd.logins(), 1);
  for (const int token : {2, 3}) {
    etcd.RequireToken(token);
    EXPECT_EQ(store->Find(In(10)).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(etcd.logins(), token);
  }
  const Status wrong = Find(url, User("tandem", "another password"));
  EXPECT_EQ(wrong.code(), StatusCode::kPermissionDenied) << wrong;
  EXPECT_THAT(Text(wrong), HasSubstr("authentication failed (INVALID_ARGUMENT) [TD6030]"));
  for (const EtcdAccess& access : {EtcdAccess(), User("tandem", "the password")}) {
    const Status late = Store(url, access)->Find(SteadyNow()).status();
    EXPECT_EQ(late.code(), StatusCode::kUnavailable) << late;
    EXPECT_THAT(Text(late), HasSubstr("no reply in time"));
  }
  const Status nobody = Find(url, {});
  EXPECT_EQ(nobody.code(), StatusCode::kPermissionDenied) << nobody;
  EXPECT_THAT(Text(nobody), HasSubstr("user name is empty"));
  EXPECT_THAT(Text(nobody), HasSubstr("hint: set TANDEM_ETCD_USER"));
}

TEST_F(EtcdAccessTest, WrongSettingsAreRefusedBeforeACall) {
  const auto refused = [&](const std::string& url, const EtcdAccess& access, StatusCode code,
                           const std::string& why) {
    const Status status = Find(url, access);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Text(status), HasSubstr(why));
  };
  refused("etcd://240.0.0.1:2379", User("a", "b"), StatusCode::kPermissionDenied,
          "the password of etcd user a would go to 240.0.0.1:2379 over the network without "
          "encryption [TD6023]");
  refused("etcds://127.0.0.1:2379", {}, StatusCode::kInvalidArgument,
          "needs the authority of etcd's certificate [TD6015]");
  EtcdAccess half;
  half.user = "a";
  refused("etcd://127.0.0.1:2379", half, StatusCode::kInvalidArgument, "[TD1005]; hint: set both");
  EtcdAccess files;
  files.tls.ca = "ca.crt";
  refused("etcd://127.0.0.1:2379", files, StatusCode::kInvalidArgument, "write etcds://");
  EtcdAccess open = User("c", "d");
  std::filesystem::permissions(open.password_file, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  refused("etcd://127.0.0.1:2379", open, StatusCode::kPermissionDenied, "[TD6012]");
}

TEST_F(EtcdAccessTest, ARealEtcdWithUsers) {
  if (!EtcdServer::Installed() || !std::filesystem::exists(kEtcdctlProgram)) {
    GTEST_SKIP() << "no etcd or etcdctl (Debian's packages etcd-server and etcd-client)";
  }
  const EtcdServer server(folder_);
  const std::string address = server.address(), url = "etcd://" + address + "/jobs";
  const Status none = Find(url, User("tandem", "the password"));
  EXPECT_THAT(Text(none), HasSubstr("has no users"));
  EXPECT_THAT(Text(none), HasSubstr("[TD6030]"));
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"user", "add", "root:the root"},
           {"user", "grant-role", "root", "root"},
           {"user", "add", "tandem:the password"},
           {"user", "add", "other:the other"},
           {"role", "add", "jobs"},
           {"role", "grant-permission", "jobs", "--prefix=true", "readwrite", "/jobs/"},
           {"user", "grant-role", "tandem", "jobs"},
           {"auth", "enable"}}) {
    Etcdctl(address, args);
  }
  const auto first = Store(url, User("tandem", "the password"));
  ASSERT_EQ(first->Announce(kAddress, In(30)), OkStatus());
  EXPECT_EQ(Find(url, User("tandem", "the password")), OkStatus());
  for (const EtcdAccess& access :
       {EtcdAccess(), User("tandem", "a guess"), User("other", "the other")}) {
    const Status status = Find(url, access);
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(Text(status), HasSubstr("[TD6030]; hint: set TANDEM_ETCD_USER"));
  }
}

TEST_F(EtcdAccessTest, ARealEtcdWithTls) {
  if (!EtcdServer::Installed()) {
    GTEST_SKIP() << "no " << kEtcdProgram << " (Debian's package etcd-server)";
  }
  const TestAuthority authority(folder_, "etcd"), other(folder_ + "/other", "other");
  const EtcdServer server(folder_, authority.Issue("etcd", rpc::PeerRole::kPserver));
  const std::string url = "etcds://" + server.address() + "/jobs";
  const auto with = [](const rpc::TlsFiles& tls) {
    EtcdAccess access;
    access.tls = tls;
    return access;
  };
  const rpc::TlsFiles client = authority.Issue("etcd", rpc::PeerRole::kTrainer);
  const auto first = Store(url, with(client));
  ASSERT_EQ(first->Announce(kAddress, In(30)), OkStatus());
  EXPECT_THAT(first->name(), HasSubstr("etcds://127.0.0.1:"));
  EXPECT_EQ(Find(url, with(client)), OkStatus());
  const auto denied = [&](const std::string& at, const EtcdAccess& access, const std::string& why) {
    const Status status = Find(at, access);
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(Text(status), HasSubstr(why));
  };
  denied(url, with({"", "", client.ca}), "[TD6007]; hint: check TANDEM_ETCD_CA");
  denied(url, with(other.Issue("etcd", rpc::PeerRole::kTrainer)), "[TD6005]");
  // An error that a retry cannot mend stays that error, also for a user who has not logged in.
  EtcdAccess user = User("tandem", "the password");
  user.tls = other.Issue("etcd", rpc::PeerRole::kTrainer);
  const auto store = Store(url, user);
  for (int i = 0; i < 2; ++i) {
    const Status status = store->Find(In(10)).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(Text(status), HasSubstr("[TD6005]"));
    EXPECT_THAT(Text(status), ::testing::Not(HasSubstr("[TD6030]")));
  }
  denied("etcd" + url.substr(5), {}, "uses TLS [TD6003]; hint: write etcds://127.0.0.1:");
  FakeEtcd plain([](int) { return grpc::StatusCode::OK; });
  denied("etcds://" + ToString(plain.address()), with(client),
         "does not use TLS [TD6004]; hint: write etcd://127.0.0.1:");
}

}  // namespace
}  // namespace tandem::collective
