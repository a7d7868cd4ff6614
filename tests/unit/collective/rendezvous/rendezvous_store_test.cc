// The rendezvous store, from which ranks learn the address of rank 0. The store in a shared
// directory and the store in etcd pass the same tests.
#include "collective/rendezvous/rendezvous_store.h"
#include "collective/rendezvous/etcd_store.h"
#include "collective/rendezvous/file_store.h"
#include "collective/rendezvous/local_address.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <latch>

#include "collective/rendezvous/listener.h"
#include "tests/support/etcd_test_util.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kSecret[] = "the secret of the test";
const HostPort kAddress = {"127.0.0.1", 4711};

std::string Text(const Status& status) { return std::string(status.message()); }

TEST(RendezvousUrlTest, Forms) {
  const auto of = [](const std::string& text) {
    const auto url = ParseRendezvousUrl(text);
    return url.ok() ? ToString(*url) : Text(url.status());
  };
  EXPECT_EQ(of("10.0.0.1:80"), "10.0.0.1:80");
  EXPECT_EQ(of("tcp://[::1]:80"), "[::1]:80");
  EXPECT_EQ(of("file:///mnt/jobs/"), "file:///mnt/jobs");
  EXPECT_EQ(of("etcd://node-1:2379"), "etcd://node-1:2379");
  EXPECT_EQ(of("etcds://node-1:2379/a"), "etcds://node-1:2379/a");
  EXPECT_EQ(of("etcd://[fe::1]:2379/a/b/"), "etcd://[fe::1]:2379/a/b");
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"", "expected HOST:PORT"},
           {"tcp://host", "expected HOST:PORT"},
           {"etcd:///prefix", "expected HOST:PORT"},
           {"file://jobs", "names no absolute directory"},
           {"redis://host:1", "expected tcp://HOST:PORT, file:///DIR or etcd://"}}) {
    EXPECT_EQ(ParseRendezvousUrl(text).status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(of(text), HasSubstr(expected));
  }
}

TEST(AnnouncementTest, IsBelievedWholeAndSignedAlone) {
  const std::string text = SignedText(MakeAnnouncement("job", kAddress), kSecret);
  const auto read = ReadSignedText(text, "job", kSecret);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToString(read->address), ToString(kAddress));
  EXPECT_EQ(read->pid, getpid());
  EXPECT_EQ(ReadSignedText(text, "other", kSecret).status().code(), StatusCode::kPermissionDenied);
  const Status guessed = ReadSignedText(text, "job", "a guess").status();
  EXPECT_EQ(guessed.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(guessed), HasSubstr(absl::StrFormat("by process %d of ", getpid())));
  // The signature detects any changed or missing byte.
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = other[i] == '1' ? '2' : '1';
    EXPECT_FALSE(ReadSignedText(other, "job", kSecret).ok()) << i;
    EXPECT_FALSE(ReadSignedText(text.substr(0, i), "job", kSecret).ok()) << i;
  }
  EXPECT_FALSE(ReadSignedText(text + "\n", "job", kSecret).ok());
  EXPECT_FALSE(ReadSignedText(text + std::string(5000, 'x'), "job", kSecret).ok());
}

TEST(AnnouncementTest, NamesAreMadePlain) {
  EXPECT_EQ(FileNameOf("lenet_5-a"), "lenet_5-a");
  EXPECT_EQ(FileNameOf("../a b"), "%2e%2e%2fa%20b");
  EXPECT_EQ(FileNameOf(""), "%");
  const std::string text = SignedText(MakeAnnouncement("a\nb\x1b[2J", kAddress), kSecret);
  const auto read = ReadSignedText(text, "a\nb\x1b[2J", kSecret);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job, "a?b?[2J");
}

// The parameter is the kind of the store: "file" or "etcd".
class RendezvousStoreTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (etcd() && !EtcdServer::Installed()) {
      GTEST_SKIP() << "no " << kEtcdProgram << " (Debian's package etcd-server)";
    }
    std::string pattern = (fs::temp_directory_path() / "tandem-rendezvous-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    if (etcd()) server_ = std::make_unique<EtcdServer>(folder_);
  }
  void TearDown() override {
    server_.reset();
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  bool etcd() const { return GetParam() == "etcd"; }
  std::string url() const {
    return etcd() ? "etcd://" + server_->address() + "/jobs" : "file://" + folder_;
  }
  std::unique_ptr<RendezvousStore> Store(const std::string& job = "job",
                                         const std::string& secret = kSecret) const {
    const auto parsed = ParseRendezvousUrl(url());
    if (!etcd()) return MakeRendezvousStore(*parsed, job, secret);
    return MakeEtcdStore(*parsed, job, secret, {}, std::chrono::seconds(1));
  }
  // Starts a process that announces kAddress as the address of rank 0 of "job". The announcement
  // lasts until the test kills the process.
  std::unique_ptr<ChildProcess> OtherRankZero(const std::string& secret = kSecret) const {
    auto process = std::make_unique<ChildProcess>(
        "/proc/self/exe",
        std::vector<std::string>{"--gtest_also_run_disabled_tests",
                                 "--gtest_filter=Program.DISABLED_RankZero"},
        std::map<std::string, std::string>{{"TEST_RENDEZVOUS", url()}, {"TEST_SECRET", secret}},
        folder_ + "/other.out");
    EXPECT_TRUE(process->WaitForText("announced", 20)) << process->Output();
    return process;
  }
  WorldConfig World(int rank, int size) const {
    WorldConfig world;
    world.rank = rank;
    world.size = size;
    world.job = "job";
    world.secret = kSecret;
    world.rendezvous = url();
    world.timeout = std::chrono::seconds(20);
    world.network_allowed = false;
    return world;
  }

  std::string folder_;
  std::unique_ptr<EtcdServer> server_;
};

// The body of the process that OtherRankZero starts.
TEST(Program, DISABLED_RankZero) {
  const auto url = ParseRendezvousUrl(std::getenv("TEST_RENDEZVOUS"));
  const std::string secret = std::getenv("TEST_SECRET");
  const auto store = url->kind == RendezvousUrl::Kind::kFile
                         ? MakeFileStore(url->path, "job", secret)
                         : MakeEtcdStore(*url, "job", secret, {}, std::chrono::seconds(1));
  const Status status = store->Announce(kAddress, In(10));
  std::cout << (status.ok() ? "announced" : tandem::ToString(status)) << std::endl;
  std::this_thread::sleep_for(std::chrono::minutes(5));
}

TEST_P(RendezvousStoreTest, IsThereUntilItIsWithdrawn) {
  auto first = Store();
  const auto other = Store();
  const Status absent = other->Find(In(60)).status();
  EXPECT_EQ(absent.code(), StatusCode::kNotFound) << absent;
  EXPECT_THAT(Text(absent), HasSubstr(other->name()));
  ASSERT_EQ(first->Announce(kAddress, In(60)), OkStatus());
  const auto found = other->Find(In(60));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ToString(found->address), ToString(kAddress));
  EXPECT_EQ(Store("another job")->Find(In(60)).status().code(), StatusCode::kNotFound);
  first.reset();
  EXPECT_EQ(other->Find(In(60)).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Store()->Announce(kAddress, In(60)), OkStatus()) << "the next world of the job";
}

TEST_P(RendezvousStoreTest, SecondRankZeroIsRefused) {
  const auto first = Store(), second = Store();
  ASSERT_EQ(first->Announce(kAddress, In(60)), OkStatus());
  const Status taken = second->Announce(HostPort{"127.0.0.1", 4712}, In(60));
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists) << taken;
  EXPECT_THAT(Text(taken), HasSubstr("another process is already rank 0 in "));
  EXPECT_THAT(Text(taken), HasSubstr(absl::StrFormat(": process %d of ", getpid())));
  EXPECT_EQ(second->Find(In(60))->address.port, kAddress.port);
}

// A rank that waits for the place of rank 0 must get it, even if the wait is longer than the
// lifetime of an unrenewed lease.
TEST_P(RendezvousStoreTest, PlaceCanBeWaitedFor) {
  auto first = Store();
  const auto second = Store();
  ASSERT_EQ(first->Announce(kAddress, In(60)), OkStatus());
  const HostPort other = {"127.0.0.1", 4712};
  EXPECT_EQ(second->Announce(other, In(60)).code(), StatusCode::kAlreadyExists);
  std::this_thread::sleep_for(second->lapse() * 3 / 2);
  first.reset();
  Status status;
  EXPECT_TRUE(WaitUntil(
      [&] {
        status = second->Announce(other, In(1));
        return status.ok() || status.code() != StatusCode::kUnavailable;
      },
      30));
  EXPECT_EQ(status, OkStatus());
  EXPECT_EQ(Store()->Find(In(60))->address.port, other.port);
}

TEST_P(RendezvousStoreTest, AnotherSecretIsNamed) {
  const auto first = Store("job", "another secret");
  ASSERT_EQ(first->Announce(kAddress, In(60)), OkStatus());
  const Status denied = Store()->Find(In(60)).status();
  EXPECT_EQ(denied.code(), StatusCode::kPermissionDenied) << denied;
  EXPECT_THAT(Text(denied), HasSubstr("the announcement by process"));
}

// After a wait longer than the lease, the dead rank's announcement has expired, or the store
// recognises it as stale.
TEST_P(RendezvousStoreTest, DeadRankZeroIsNotFound) {
  const auto store = Store();
  auto process = OtherRankZero();
  std::this_thread::sleep_for(store->lapse());
  ASSERT_TRUE(store->Find(In(60)).ok()) << store->Find(In(5)).status();
  process.reset();
  Status gone;
  ASSERT_TRUE(WaitUntil(
      [&] {
        gone = store->Find(In(60)).status();
        return !gone.ok();
      },
      30));
  EXPECT_EQ(gone.code(), StatusCode::kNotFound) << gone;
  if (!etcd()) {
    EXPECT_THAT(Text(gone), HasSubstr("was written by process"));
    EXPECT_THAT(Text(gone), HasSubstr("which no longer runs"));
  }
  ASSERT_EQ(Store()->Announce(kAddress, In(60)), OkStatus());
}

TEST_P(RendezvousStoreTest, RanksMeetWhoeverComesFirst) {
  for (const int late : {0, 1}) {
    std::latch others_wait(2);
    OnEveryRank(3, [&](int r) {
      WorldConfig world = World(r, 3);
      if (r == late) {
        others_wait.wait();
      } else {
        others_wait.count_down();
      }
      for (int again = 0; again < 2; ++again) {
        auto comm = ConnectTcp(world);
        ASSERT_TRUE(comm.ok()) << comm.status();
        float value = 1;
        const Status sum =
            (*comm)
                ->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, {.what = "w"})
                ->Wait(In(10));
        EXPECT_EQ(sum, OkStatus());
        EXPECT_EQ(value, 3);
        EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
      }
    });
  }
  const auto left = Store()->Find(In(60)).status();
  EXPECT_EQ(left.code(), StatusCode::kNotFound) << left;
}

// A rank of a job with another secret died. The store must wait until the announcement of this rank
// has expired, or overwrite the announcement.
TEST_P(RendezvousStoreTest, AnEarlierJobIsOutlived) {
  auto earlier = OtherRankZero("another secret");
  earlier.reset();
  OnEveryRank(2, [&](int r) {
    const auto comm = ConnectTcp(World(r, 2));
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
}

TEST_P(RendezvousStoreTest, AbsentRankZeroIsNamed) {
  auto earlier = OtherRankZero();
  earlier.reset();
  WorldConfig world = World(1, 2);
  world.timeout = std::chrono::milliseconds(3500);
  const Status status = ConnectTcp(world).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Text(status), HasSubstr("cannot reach rank 0 at "));
  EXPECT_THAT(Text(status), HasSubstr(Store()->name()));
  if (!etcd()) {
    EXPECT_THAT(Text(status), HasSubstr("was written by process"));
  }
}

TEST_P(RendezvousStoreTest, NetworkMustBeAllowed) {
  WorldConfig world = World(0, 2);
  world.listen_host = "192.0.2.7";
  Status status = ConnectTcp(world).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(Text(status), HasSubstr("--insecure_allow_network"));
  const auto first = Store();
  ASSERT_EQ(first->Announce(HostPort{"192.0.2.7", 4711}, In(60)), OkStatus());
  status = ConnectTcp(World(1, 2)).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(Text(status), HasSubstr("192.0.2.7"));
  world = World(0, 2);
  world.network_allowed = true;
  world.listen_host = "0.0.0.0";
  EXPECT_EQ(ConnectTcp(world).status().code(), StatusCode::kInvalidArgument);
}

// Each rank must get the error, with a rendezvous store and with the address of rank 0.
TEST_P(RendezvousStoreTest, ListeningOnTheNetworkMustBeAllowed) {
  for (const int rank : {0, 1}) {
    for (const std::string& rendezvous : {url(), std::string("127.0.0.1:4711")}) {
      WorldConfig world = World(rank, 2);
      world.rendezvous = rendezvous;
      world.listen_host = "0.0.0.0";
      const Status status = ConnectTcp(world).status();
      EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
      EXPECT_THAT(Text(status), HasSubstr("--insecure_allow_network"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RendezvousStoreTest, ::testing::Values("file", "etcd"),
                         [](const auto& instance) { return instance.param; });

TEST(ListenerTest, LocalAddressIsThatOfTheWay) {
  const auto loopback = LocalAddressTowards("127.0.0.1");
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  EXPECT_EQ(*loopback, "127.0.0.1");
  EXPECT_EQ(LocalAddressTowards("no.such.host.invalid").status().code(), StatusCode::kNotFound);
}

TEST(FileStoreTest, FolderMustBeThere) {
  const auto store = MakeFileStore("/nowhere/at/all", "job", kSecret);
  const Status status = store->Announce(kAddress, In(60));
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(
      Text(status),
      HasSubstr("cannot write /nowhere/at/all/job.lock: No such file or directory [TD3010]"));
}

// The announcement fails because JOB.rank0 is a directory. The store must remove the temporary file
// of the announcement.
TEST_P(RendezvousStoreTest, NothingStaysOfAnAnnouncementThatFailed) {
  if (etcd()) GTEST_SKIP() << "of a folder";
  fs::create_directories(folder_ + "/job.rank0");
  const Status status = Store()->Announce(kAddress, In(60));
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(Text(status), HasSubstr("cannot write "));
  EXPECT_FALSE(fs::exists(folder_ + "/job.rank0.new"));
}

class EtcdStoreTest : public RendezvousStoreTest {};

TEST_P(EtcdStoreTest, AbsentEtcdIsNamed) {
  server_->Kill();
  WorldConfig world = World(1, 2);
  world.timeout = std::chrono::milliseconds(1500);
  for (const int rank : {0, 1}) {
    world.rank = rank;
    const Status status = ConnectTcp(world).status();
    EXPECT_EQ(status.code(), rank == 0 ? StatusCode::kUnavailable : StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Text(status), HasSubstr("etcd at " + server_->address() + ": no reply in time"));
  }
}

// A waiting rank must continue after etcd has restarted and rank 0 has repeated its announcement.
TEST_P(EtcdStoreTest, EtcdMayComeBack) {
  const auto first = Store();
  ASSERT_EQ(first->Announce(kAddress, In(60)), OkStatus());
  const auto other = Store();
  server_->Kill();
  EXPECT_EQ(other->Find(In(1)).status().code(), StatusCode::kUnavailable);
  fs::remove_all(folder_ + "/etcd");  // etcd loses all its data
  server_->Start();
  EXPECT_TRUE(WaitUntil([&] { return other->Find(In(1)).ok(); }, 30))
      << other->Find(In(1)).status();
}

INSTANTIATE_TEST_SUITE_P(Kinds, EtcdStoreTest, ::testing::Values("etcd"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace tandem::collective
