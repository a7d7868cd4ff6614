// Events that occur only between processes: foreign connections, wrong secrets, missing ranks and
// ranks that die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <latch>

#include "collective/rendezvous/handshake.h"
#include "collective/transport/message.h"
#include "common/launcher/elastic_world.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::HasSubstr;

std::string Text(const Status& status) { return std::string(status.message()); }

Status Sum(Communicator& comm, size_t count, const std::string& what) {
  std::vector<float> data(count, 1.0f);
  Status status =
      comm.AllReduce(data.data(), data.data(), count, DType::kF32, ReduceOp::kSum, {.what = what})
          ->Wait(In(20));
  if (status.ok()) {
    EXPECT_THAT(data, ::testing::Each(static_cast<float>(comm.size())));
  }
  return status;
}

void Send(int fd, std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}
void Send(const Fd& fd, std::string_view text) { Send(fd.get(), text); }

// Waits until the peer has closed the connection. Returns false after 10 s.
bool Closed(const Fd& fd) {
  char buffer[256];
  const timeval limit = {10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  while (true) {
    const ssize_t n = ::recv(fd.get(), buffer, sizeof(buffer), 0);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return true;
    if (n < 0) return false;
  }
}

TEST(RendezvousTest, AddressesAreParsed) {
  const auto good = [](const std::string& text, const std::string& host, int port) {
    const auto parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
    EXPECT_EQ(ToString(*parsed), text);
  };
  good("127.0.0.1:80", "127.0.0.1", 80);
  good("[::1]:65535", "::1", 65535);
  good("[fe80::1%eth0]:2", "fe80::1%eth0", 2);
  good("node-1.example:1", "node-1.example", 1);
  for (const char* bad :
       {"", ":", "host", "host:", ":80", "host:0", "host:65536", "host:8o", "::1:80", "host:123456",
        "host:-1", "[a/b:c]:2", "[host]:2", "a b:1", "a\n:1"}) {
    EXPECT_EQ(ParseHostPort(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(RendezvousTest, BadConfigIsRefused) {
  const Door door = BindLoopbackSocket();
  const Fd owner(door.fd);
  const auto code = [&](const std::function<void(WorldConfig&)>& change) {
    WorldConfig world = TestWorld(door, 1, 2);
    change(world);
    return ConnectTcp(world).status().code();
  };
  EXPECT_EQ(code([](WorldConfig& w) { w.rank = 2; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](WorldConfig& w) { w.size = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](WorldConfig& w) { w.secret = ""; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](WorldConfig& w) { w.rendezvous = "here"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](WorldConfig& w) { w.job = std::string(64, 'j'); }),
            StatusCode::kInvalidArgument);
}

TEST(RendezvousTest, TakenPortIsNamed) {
  const Door door = BindLoopbackSocket();
  const Fd owner(door.fd);
  ASSERT_EQ(::listen(door.fd, 1), 0);
  WorldConfig world = TestWorld(door, 0, 2);
  world.listen_fd = -1;
  const Status status = ConnectTcp(world).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr(door.address()));
}

TEST(RendezvousTest, MissingRankIsNamedOnAllRanks) {
  const Door door = BindLoopbackSocket();
  std::atomic<int> told{0};
  OnEveryRank(3, [&](int r) {
    if (r == 1) return;
    WorldConfig world = TestWorld(door, r, 3);
    // Rank 0 has the shorter time limit, so rank 2 gets the error message of rank 0. Both limits
    // exceed the time until the first progress message.
    world.timeout = std::chrono::milliseconds(r == 0 ? 2300 : 10000);
    world.progress = [&](const std::string& text) {
      EXPECT_THAT(text, HasSubstr("waiting for rank"));
      told.fetch_add(1);
    };
    const Status status = ConnectTcp(world).status();
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Text(status), HasSubstr("rank 1 did not join"));
    EXPECT_THAT(Text(status), HasSubstr("[TD3002]"));
  });
  EXPECT_GE(told.load(), 2);
}

TEST(RendezvousTest, AbsentRankZeroIsNamed) {
  Door door = BindLoopbackSocket();  // the socket is bound, but nothing listens on it
  const Fd owner(door.fd);
  WorldConfig world = TestWorld(door, 1, 2);
  world.timeout = std::chrono::milliseconds(200);
  const Status status = ConnectTcp(world).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status), HasSubstr("rank 0 at " + door.address()));
  EXPECT_THAT(Text(status), HasSubstr("refused"));
}

// Rank 0 must reject a rank with a changed configuration. The rejected rank must not disturb the
// job at the same address.
void IntruderIsRefused(const std::function<void(WorldConfig&)>& change, StatusCode code,
                       const std::string& message) {
  const Door door = BindLoopbackSocket();
  std::latch refused(1);
  OnEveryRank(3, [&](int r) {
    if (r == 2) {
      WorldConfig intruder = TestWorld(door, 1, 2);
      change(intruder);
      const Status status = ConnectTcp(intruder).status();
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_THAT(Text(status), HasSubstr(message));
      refused.count_down();
      return;
    }
    if (r == 1) refused.wait();
    auto comm = ConnectTcp(TestWorld(door, r, 2));
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ(Sum(**comm, 1000, "w"), OkStatus());
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
}

TEST(RendezvousTest, IntrudersAreRefused) {
  IntruderIsRefused([](WorldConfig& w) { w.secret = "a guess"; }, StatusCode::kPermissionDenied,
                    "secret");
  IntruderIsRefused([](WorldConfig& w) { w.job = "other"; }, StatusCode::kFailedPrecondition,
                    "this is job \"test\", but the caller is of job \"other\" [TD3007]");
  IntruderIsRefused(
      [](WorldConfig& w) {
        w.size = 4;
        w.rank = 3;
      },
      StatusCode::kFailedPrecondition, "this job has 2 ranks, but the caller expects 4 [TD3007]");
}

TEST(RendezvousTest, TakenRankIsRefused) {
  const Door door = BindLoopbackSocket();
  std::atomic<int> good{0}, taken{0};
  std::latch one_refused(1);
  OnEveryRank(4, [&](int r) {
    // The third rank joins late, so the job stays incomplete until one rank is rejected.
    if (r == 3) one_refused.wait();
    auto comm = ConnectTcp(TestWorld(door, r == 3 ? 2 : r == 2 ? 1 : r, 3));
    if (comm.ok()) {
      EXPECT_EQ(Sum(**comm, 10, "w"), OkStatus());
      EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
      good.fetch_add(1);
      return;
    }
    EXPECT_EQ(comm.status().code(), StatusCode::kAlreadyExists) << comm.status();
    EXPECT_THAT(Text(comm.status()), HasSubstr("rank 1 is already connected"));
    EXPECT_THAT(Text(comm.status()), HasSubstr("[TD3008]"));
    taken.fetch_add(1);
    one_refused.count_down();
  });
  EXPECT_EQ(good.load(), 3);
  EXPECT_EQ(taken.load(), 1);
}

// A rank that leaves before the world is complete may join again. The other ranks must wait for
// this rank.
TEST(RendezvousTest, WhoLeftMayComeAgain) {
  const Door door = BindLoopbackSocket();
  std::latch left(1);
  OnEveryRank(3, [&](int r) {
    if (r == 1) {
      WorldConfig world = TestWorld(door, 1, 3);
      const Time until = In(0.5);
      world.stop = [until] { return SteadyNow() > until; };
      EXPECT_EQ(ConnectTcp(world).status().code(), StatusCode::kCancelled);
      left.count_down();
    }
    if (r == 2) left.wait();  // rank 2 joins after rank 1 has left
    auto comm = ConnectTcp(TestWorld(door, r, 3));
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ(Sum(**comm, 1000, "w"), OkStatus());
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
}

// Ranks whose JoinWorld has returned may leave the world at once, while the JoinWorld of a slow
// rank is still running.
TEST(RendezvousTest, WhoLeavesAtOnceHarmsNobody) {
  for (int slow = 0; slow < 4; ++slow) {
    SCOPED_TRACE("slow rank " + std::to_string(slow));
    const Door door = BindLoopbackSocket();
    OnEveryRank(4, [&](int r) {
      WorldConfig world = TestWorld(door, r, 4);
      world.stop = [slow, r] {
        if (r == slow) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return false;
      };
      const StatusOr<Mesh> mesh = JoinWorld(world);
      EXPECT_TRUE(mesh.ok()) << mesh.status();
    });
  }
}

// A process that is not rank 0 listens at the address of rank 0.
TEST(RendezvousTest, ImpostorAtTheDoorIsNotBelieved) {
  const Door door = BindLoopbackSocket();
  const Fd listener(door.fd);
  ASSERT_EQ(::listen(door.fd, 8), 0);
  std::thread impostor([&] {
    const Fd guest(::accept(door.fd, nullptr, nullptr));
    Challenge challenge;
    Send(guest, {reinterpret_cast<const char*>(&challenge), sizeof(challenge)});
    char buffer[sizeof(Hello) + sizeof(Proof)];
    EXPECT_EQ(::recv(guest.get(), buffer, sizeof(buffer), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(buffer)));
    Welcome welcome;  // a welcome that accepts the rank but has an invalid proof
    Send(guest, {reinterpret_cast<const char*>(&welcome), sizeof(welcome)});
    Closed(guest);
  });
  const Status status = ConnectTcp(TestWorld(door, 1, 2)).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(status), HasSubstr("does not know the secret"));
  EXPECT_THAT(Text(status), HasSubstr("[TD6014]"));
  impostor.join();
}

TEST(RendezvousTest, OtherServiceAtTheDoorIsNamed) {
  const Door door = BindLoopbackSocket();
  const Fd listener(door.fd);
  ASSERT_EQ(::listen(door.fd, 8), 0);
  std::thread other([&] {
    const Fd guest(::accept(door.fd, nullptr, nullptr));
    Send(guest, "HTTP/1.1 400 Bad Request\r\n\r\n");
    Closed(guest);
  });
  const Status status = ConnectTcp(TestWorld(door, 1, 2)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("the peer is not a rank of Tandem"));
  EXPECT_THAT(Text(status), HasSubstr(door.address()));
  other.join();
}

TEST(RendezvousTest, StrangersDoNotDisturb) {
  const Door door = BindLoopbackSocket();
  std::latch strangers_done(1);
  OnEveryRank(3, [&](int r) {
    if (r == 2) {
      std::vector<Fd> silent;
      // Opens more connections than may wait for their handshake.
      for (int i = 0; i < 40; ++i) silent.push_back(Dial(door.port));
      EXPECT_TRUE(Closed(silent[0]));  // rank 0 closed the oldest connection for a new one
      const Fd eight = Dial(door.port);
      Send(eight, "\x8f\x11\x02\x93\x5a\x5a\x01\x07");
      EXPECT_TRUE(Closed(eight));
      const Fd http = Dial(door.port);
      Send(http, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      EXPECT_TRUE(Closed(http));
      const Fd replay = Dial(door.port);  // sends a valid greeting with an invalid proof
      const Hello hello;
      Send(replay, {reinterpret_cast<const char*>(&hello), sizeof(hello)});
      Send(replay, std::string(sizeof(Proof), 'x'));
      EXPECT_TRUE(Closed(replay));
      strangers_done.count_down();
      return;
    }
    if (r == 1) strangers_done.wait();
    WorldConfig world = TestWorld(door, r, 2);
    auto comm = ConnectTcp(world);
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ(Sum(**comm, 1000, "w"), OkStatus());
    if (r == 1) {
      // After the world is complete, rank 0 has closed its listening socket.
      Fd late(::socket(AF_INET, SOCK_STREAM, 0));
      EXPECT_FALSE(ConnectTcp([&] {
                     WorldConfig again = TestWorld(door, 1, 2);
                     again.timeout = std::chrono::milliseconds(50);
                     return again;
                   }())
                       .ok());
    }
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
}

TEST(RendezvousTest, HalfOpenStrangerIsDroppedInTime) {
  const Door door = BindLoopbackSocket();
  std::latch dropped(1);
  OnEveryRank(3, [&](int r) {
    if (r == 2) {
      const Fd silent = Dial(door.port);
      EXPECT_TRUE(Closed(silent));
      dropped.count_down();
      return;
    }
    if (r == 1) dropped.wait();
    WorldConfig world = TestWorld(door, r, 2);
    // The limit of rank 0 also applies to the handshake of rank 1.
    if (r == 0) world.handshake_timeout = std::chrono::seconds(1);
    auto comm = ConnectTcp(world);
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
}

// The process of a rank ends, and the connections of the rank close without a message.
TEST(TcpTest, DeadRankIsNamedByAllLongBeforeTheDeadline) {
  for (const bool idle : {false, true}) {
    const Door door = BindLoopbackSocket();
    const int size = 4, victim = 2;
    std::latch ready(size);
    OnEveryRank(size, [&](int r) {
      if (r == victim) {
        auto mesh = JoinWorld(TestWorld(door, r, size));
        ASSERT_TRUE(mesh.ok()) << mesh.status();
        ready.arrive_and_wait();
        return;  // the return closes all connections of this rank
      }
      auto comm = ConnectTcp(TestWorld(door, r, size));
      ASSERT_TRUE(comm.ok()) << comm.status();
      std::vector<float> data(100000);
      const auto start = [&] {
        return (*comm)->AllReduce(data.data(), data.data(), data.size(), DType::kF32,
                                  ReduceOp::kSum, {.what = "fc_0.w_0@GRAD"});
      };
      std::shared_ptr<Work> work;
      if (!idle) work = start();
      ready.arrive_and_wait();
      const Time died = SteadyNow();
      if (idle) work = start();
      const Status status = work->Wait(In(120));
      EXPECT_LT(Seconds(SteadyNow() - died), 60.0);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
      EXPECT_THAT(Text(status), HasSubstr("rank 2 (127.0.0.1:"));
      EXPECT_THAT(Text(status), HasSubstr("is lost"));
      EXPECT_THAT(Text(status), HasSubstr("[TD3005]"));
      EXPECT_THAT(Text(status),
                  HasSubstr("AllReduce(sum, f32[100000]) of \"fc_0.w_0@GRAD\", operation 1"));
      const Status later = Sum(**comm, 1, "other");
      EXPECT_THAT(Text(later), HasSubstr("rank 2 (127.0.0.1:"));
      EXPECT_THAT(Text(later), HasSubstr("operation 2"));
    });
  }
}

TEST(TcpTest, SilentRankIsNamedAtTheDeadline) {
  const Door door = BindLoopbackSocket();
  std::latch done(2);
  OnEveryRank(2, [&](int r) {
    auto comm = ConnectTcp(TestWorld(door, r, 2));
    ASSERT_TRUE(comm.ok()) << comm.status();
    if (r == 0) {
      std::vector<float> data(1 << 20);
      const Time before = SteadyNow();
      const Status status = (*comm)
                                ->AllReduce(data.data(), data.data(), data.size(), DType::kF32,
                                            ReduceOp::kSum, {.what = "w", .deadline = In(0.2)})
                                ->Wait(In(120));
      EXPECT_LT(Seconds(SteadyNow() - before), 60.0);
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
      EXPECT_THAT(Text(status), testing::AllOf(HasSubstr("timed out, because this peer"),
                                               HasSubstr("rank 1 (127.0.0.1:")));
    }
    done.arrive_and_wait();
    if (r == 1) {
      // The call is too late, because the deadline of rank 0 has passed.
      const Status status = Sum(**comm, 1 << 20, "w");
      EXPECT_THAT(Text(status), HasSubstr("rank 0 (127.0.0.1:"));
      EXPECT_THAT(Text(status),
                  testing::AllOf(HasSubstr("timed out, because this peer"), HasSubstr("rank 1")));
      EXPECT_THAT(Text(status), HasSubstr("[TD3006]")) << "a code goes from rank to rank";
    }
  });
}

// Rank 2 hangs: its connections stay open, and it sends nothing. The launcher then publishes a
// world without rank 2.
TEST(TcpTest, WorldWithoutAHangingRankEndsTheOperationsOfTheOtherRanks) {
  const TempDir dir;
  const std::string file = dir / "world";
  for (const TransportKind carrier : {TransportKind::kTcp, TransportKind::kSharedMemory}) {
    const Door door = BindLoopbackSocket();
    const int size = 3, hanging = 2;
    std::latch ready(size), ended(size);
    ASSERT_EQ(WriteElasticWorld(file, {1, 1, false, {0, 1, 2}}), OkStatus());
    OnEveryRank(size, [&](int r) {
      WorldConfig world = TestWorld(door, r, size);
      world.check = [&] { return CheckMembers(file, 1, {0, 1, 2}); };
      auto comm = Connect(world, {}, {.carrier = carrier, .arena_bytes = size_t{64} << 20});
      ASSERT_TRUE(comm.ok()) << comm.status();
      ASSERT_EQ(Sum(**comm, 1000, "w"), OkStatus());
      std::vector<float> data(100000);
      std::shared_ptr<Work> work;
      if (r != hanging) {
        work = (*comm)->AllReduce(data.data(), data.data(), data.size(), DType::kF32,
                                  ReduceOp::kSum, {.what = "w"});
      }
      ready.arrive_and_wait();
      if (r == 0) {
        EXPECT_EQ(work->Wait(In(0.3)).code(), StatusCode::kDeadlineExceeded);
        // A rank that joins does not end the operation.
        ASSERT_EQ(WriteElasticWorld(file, {2, 1, false, {0, 1, 2, 3}}), OkStatus());
        EXPECT_EQ(work->Wait(In(0.3)).code(), StatusCode::kDeadlineExceeded);
        ASSERT_EQ(WriteElasticWorld(file, {3, 1, false, {0, 1, 3}}), OkStatus());
      }
      if (r != hanging) {
        const Time begin = SteadyNow();
        const Status status = work->Wait(In(60));
        EXPECT_LT(Seconds(SteadyNow() - begin), 20);
        EXPECT_EQ(status.code(), StatusCode::kAborted) << status;
        EXPECT_THAT(Text(status), HasSubstr("trainer 2 is lost: world 3 of the job"));
      }
      ended.arrive_and_wait();
    });
  }
}

// A faulty peer sends stray bytes on an authenticated connection.
TEST(TcpTest, GarbageInTheStreamEndsTheJobWithAName) {
  for (const bool control : {false, true}) {
    const Door door = BindLoopbackSocket();
    std::latch failed(1);
    OnEveryRank(2, [&](int r) {
      if (r == 1) {
        auto mesh = JoinWorld(TestWorld(door, r, 2));
        ASSERT_TRUE(mesh.ok()) << mesh.status();
        Send((control ? mesh->control : mesh->data)[0].fd(), std::string(2048, '\x5a'));
        failed.wait();
        return;
      }
      auto comm = ConnectTcp(TestWorld(door, r, 2));
      ASSERT_TRUE(comm.ok()) << comm.status();
      const Status status = Sum(**comm, 1000, "w");
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
      EXPECT_THAT(Text(status), HasSubstr("rank 1 (127.0.0.1:"));
      failed.count_down();
    });
  }
}

TEST(RendezvousTest, RanksOfAnotherVersionAreToldSo) {
  const Door door = BindLoopbackSocket();
  std::latch refused(1);
  OnEveryRank(3, [&](int r) {
    if (r == 2) {
      const Fd older = Dial(door.port);
      Hello hello;
      hello.greeting.version = Greeting::kVersion - 1;
      Send(older, {reinterpret_cast<const char*>(&hello), sizeof(hello)});
      Greeting answer;
      EXPECT_EQ(::recv(older.get(), &answer, sizeof(answer), MSG_WAITALL),
                static_cast<ssize_t>(sizeof(answer)));
      EXPECT_EQ(answer.version, Greeting::kVersion);
      refused.count_down();
      return;
    }
    if (r == 1) refused.wait();
    auto comm = ConnectTcp(TestWorld(door, r, 2));
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
  Greeting greeting;
  greeting.version = 3;
  EXPECT_THAT(Text(CheckGreeting(greeting)),
              HasSubstr("version 3 of the handshake between ranks, this program speaks version 5 "
                        "[TD3013]; hint: "));
}

TEST(MessageTest, TheTextOfAPeerIsMadePlain) {
  Collective call;
  call.what = "w\x1b[2J\nfake line";
  const std::string text = ToString(MakeHeader(call, 1, 1));
  EXPECT_THAT(text, HasSubstr("w?[2J?fake line"));
}

TEST(TcpTest, WorldOfOneNeedsNobody) {
  WorldConfig world;
  world.job = "test";
  auto comm = ConnectTcp(world);
  ASSERT_TRUE(comm.ok()) << comm.status();
  EXPECT_EQ(Sum(**comm, 100, "w"), OkStatus());
  EXPECT_EQ((*comm)->name(), "tcp");
}

}  // namespace
}  // namespace tandem::collective
