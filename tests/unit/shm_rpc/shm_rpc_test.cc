// Tests shm RPC: calls and replies, their order and limits, and the faults of hostile and dead
// clients.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <latch>
#include <random>
#include <thread>

#include "common/base/check.h"
#include "common/shm/unix_socket.h"
#include "common/shm_rpc/shm_rpc_client.h"
#include "common/shm_rpc/shm_rpc_server.h"
#include "gmock/gmock.h"

namespace tandem::shm_rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr size_t kServerBytes = size_t{64} << 20, kCallBytes = size_t{16} << 20;
enum Method : uint32_t { kEcho = 1, kKeep = 2, kFail = 3, kBig = 4 };

Time In(int s) { return SteadyNow() + seconds(s); }

std::string Text(codec::Fragments pieces) {
  std::string text;
  for (const auto& p : pieces) text.append(reinterpret_cast<const char*>(p.data()), p.size());
  return text;
}
codec::EncodedMessage Message(std::string text) {
  return {{{std::move(text), nullptr, 0, nullptr}}};
}

// Waits for the reply to a single call.
class Reply {
 public:
  ShmRpcClient::Reply Callback() {
    return [this](const Status& status, codec::Fragments answer) {
      MutexLock lock(mu_);
      CHECK(!status_) << "answered twice";
      status_ = status;
      text_ = Text(answer);
      cv_.NotifyAll();
    };
  }
  Status Get(std::string* text = nullptr) {
    MutexLock lock(mu_);
    const Time deadline = In(60);
    while (!status_ && cv_.WaitUntil(mu_, deadline)) {
    }
    CHECK(status_.has_value()) << "no answer";
    if (text != nullptr) *text = text_;
    return *status_;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  std::optional<Status> status_ TD_GUARDED_BY(mu_);
  std::string text_ TD_GUARDED_BY(mu_);
};

// A client, together with the thread that receives its replies.
class Served {
 public:
  explicit Served(const ShmRpcTicket& invitation) {
    auto made = ShmRpcClient::Connect(invitation, In(10));
    CHECK(made.ok()) << made.status();
    client_ = *std::move(made);
    thread_ = std::thread([this] { ended_ = client_->Run(); });
  }
  ~Served() {
    if (thread_.joinable()) End().IgnoreError();
  }
  Status End() {
    client_->Stop();
    return Join();
  }
  Status Join() {
    thread_.join();
    return ended_;
  }
  ShmRpcClient* operator->() { return client_.get(); }
  Status Call(uint32_t method, codec::EncodedMessage message, std::string* answer = nullptr) {
    Reply reply;
    if (!client_->Call(method, message, In(60), reply.Callback())) return Internal("not sent");
    return reply.Get(answer);
  }

 private:
  std::unique_ptr<ShmRpcClient> client_;
  Status ended_;
  std::thread thread_;
};

class LaneTest : public testing::Test {
 protected:
  void SetUp() override {
    auto memory = ServerMemory::Make(kServerBytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *memory;
    auto server = ShmRpcServer::Start(
        memory_,
        [this](uint32_t method, codec::Fragments message, ReplyFn answer) {
          Handle(method, message, std::move(answer));
        },
        kCallBytes);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Handle(uint32_t method, codec::Fragments message, ReplyFn answer) {
    ++calls_;
    if (method == kEcho) return answer(OkStatus(), Message(Text(message)));
    if (method == kFail) return answer(NotFound("there is no \"%s\"", Text(message)), {});
    if (method == kBig) return answer(OkStatus(), Message(std::string(kServerBytes, 'x')));
    MutexLock lock(mu_);
    kept_.push_back(std::move(answer));
  }
  std::vector<ReplyFn> Kept(size_t count) {
    const Time deadline = In(60);
    while (SteadyNow() < deadline) {
      MutexLock lock(mu_);
      if (kept_.size() >= count) return std::exchange(kept_, {});
    }
    return {};
  }
  bool LanesBecome(int lanes) {
    const Time deadline = In(60);
    while (server_->connections() != lanes && SteadyNow() < deadline) std::this_thread::yield();
    return server_->connections() == lanes;
  }

  ServerMemory memory_;
  std::atomic<int> calls_ = 0;
  Mutex mu_;
  std::vector<ReplyFn> kept_ TD_GUARDED_BY(mu_);
  std::unique_ptr<ShmRpcServer> server_;
};

TEST_F(LaneTest, CallsOfAllSizesAroundTheRing) {
  Served client(*server_->Invite());
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string text(i % 50 == 0 ? 3'000'000 : random() % 300, 'a'), answer;
    for (char& c : text) c = static_cast<char>(random());
    codec::EncodedMessage message = Message(text.substr(0, text.size() / 3));
    message.pieces.push_back(
        {"", text.data() + text.size() / 3, text.size() - text.size() / 3, nullptr});
    ASSERT_TRUE(client.Call(kEcho, message, &answer).ok()) << i;
    ASSERT_EQ(answer, text) << i;
  }
  EXPECT_EQ(client.Call(kFail, Message("w")), NotFound("there is no \"w\""));
  EXPECT_TRUE(client.End().ok());
  EXPECT_TRUE(LanesBecome(0));
}

TEST_F(LaneTest, MemoryThatACallRefersToIsNotHandedOutAgainBeforeItsAnswer) {
  Served client(*server_->Invite());
  Buffer memory = client->Allocate(1000);
  const void* const place = memory.get();
  ASSERT_TRUE(client->Call(kKeep, {{{"", place, 1000, std::exchange(memory, nullptr)}}}, In(60),
                           [](const Status&, codec::Fragments) {}));
  EXPECT_NE(client->Allocate(1000).get(), place);
  Kept(1).at(0)(OkStatus(), Message("read"));
  ASSERT_TRUE(client.Call(kEcho, Message("the call before has ended")).ok());
  EXPECT_EQ(client->Allocate(1000).get(), place);
}

TEST_F(LaneTest, ManyCallersOnManyLanes) {
  std::vector<std::thread> threads;
  Served clients[] = {Served(*server_->Invite()), Served(*server_->Invite())};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string text = std::to_string(t * 1000 + i);
        std::string answer;
        EXPECT_TRUE(clients[t % 2].Call(kEcho, Message(text), &answer).ok());
        EXPECT_EQ(answer, text);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(LaneTest, AnswersComeInAnyOrderFromAnyThread) {
  Served client(*server_->Invite());
  Reply replies[ShmRpcRing::kEntries];
  for (auto& reply : replies) {
    ASSERT_TRUE(client->Call(kKeep, Message("?"), In(60), reply.Callback()));
  }
  Reply none;
  EXPECT_FALSE(client->Call(kKeep, Message("one too many"), In(60), none.Callback()));
  auto kept = Kept(ShmRpcRing::kEntries);
  ASSERT_EQ(kept.size(), ShmRpcRing::kEntries);
  std::thread other([&kept] {
    for (size_t i = kept.size(); i-- > 0;) kept[i](OkStatus(), Message(std::to_string(i)));
  });
  for (size_t i = 0; i < ShmRpcRing::kEntries; ++i) {
    std::string answer;
    ASSERT_TRUE(replies[i].Get(&answer).ok());
    EXPECT_EQ(answer, std::to_string(i));
  }
  other.join();
  EXPECT_TRUE(client.Call(kEcho, Message("there is room again")).ok());
}

// The client reads a reply in place, in the memory of the server.
TEST_F(LaneTest, AnswersInSharedMemoryAreNotCopied) {
  Served client(*server_->Invite());
  Buffer values = memory_.arena->Allocate(1 << 20);
  const std::weak_ptr<std::byte> alive = values;
  Reply reply;
  ASSERT_TRUE(client->Call(kKeep, Message(""), In(60), reply.Callback()));
  values.get()[77] = std::byte{'x'};
  auto kept = Kept(1);
  ASSERT_EQ(kept.size(), 1u);
  kept[0](OkStatus(), {{{"", values.get() + 77, 1, values}}});
  values.reset();
  std::string answer;
  ASSERT_TRUE(reply.Get(&answer).ok());
  EXPECT_EQ(answer, "x");
  // The server frees the reply during a later call, after the client has released it.
  for (int i = 0; !alive.expired(); ++i) ASSERT_TRUE(i < 99999 && client.Call(kEcho, {}).ok());
}

TEST_F(LaneTest, WhatHasNoRoomIsRefused) {
  Served client(*server_->Invite());
  Reply reply;
  const std::string large(kCallBytes, 'x');
  EXPECT_FALSE(client->Call(kEcho, Message(large), In(60), reply.Callback()));
  EXPECT_EQ(client.Call(kBig, Message("")).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(client.Call(kEcho, Message("small")).ok());
}

TEST_F(LaneTest, DeadlinesPassAndLateAnswersDoNoHarm) {
  Served client(*server_->Invite());
  Reply late;
  ASSERT_TRUE(client->Call(kKeep, Message(""), SteadyNow() + milliseconds(500), late.Callback()));
  EXPECT_EQ(late.Get().code(), StatusCode::kDeadlineExceeded);
  auto kept = Kept(1);
  ASSERT_EQ(kept.size(), 1u);
  kept[0](OkStatus(), Message("late"));
  std::string answer;
  EXPECT_TRUE(client.Call(kEcho, Message("in time"), &answer).ok());
  EXPECT_EQ(answer, "in time");
}

TEST_F(LaneTest, AServerThatGoesIsNoticedAtOnce) {
  Served client(*server_->Invite());
  Reply reply;
  ASSERT_TRUE(client->Call(kKeep, Message(""), In(600), reply.Callback()));
  const auto kept = Kept(1);
  server_.reset();
  EXPECT_EQ(reply.Get().code(), StatusCode::kUnavailable);
  EXPECT_EQ(client.Join().code(), StatusCode::kUnavailable);
  Reply none;
  EXPECT_FALSE(client->Call(kEcho, Message(""), In(60), none.Callback()));
  kept[0](OkStatus(), Message("in vain"));
}

TEST_F(LaneTest, AClientThatGoesIsNoticedAtOnce) {
  {
    Served client(*server_->Invite());
    Reply reply;
    ASSERT_TRUE(client->Call(kKeep, Message(""), In(600), reply.Callback()));
    EXPECT_TRUE(LanesBecome(1));
    EXPECT_EQ(Kept(1).size(), 1u);
    EXPECT_TRUE(client.End().ok());
    EXPECT_EQ(reply.Get().code(), StatusCode::kUnavailable);
  }
  EXPECT_TRUE(LanesBecome(0));
}

// The limit of open files rises by one per round, so that client and server reach it at different
// places. Each round must end with an error or a connection. After the last round, a connect must
// succeed.
TEST_F(LaneTest, NoMoreFilesAreNoEnd) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int refused = 0;
  for (rlim_t more = 0; more < 12; ++more) {
    const ShmRpcTicket invitation = *server_->Invite();
    const Fd lowest(::dup(0));
    rlimit low = before;
    low.rlim_cur = static_cast<rlim_t>(lowest.get()) + 1 + more;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    const auto client = ShmRpcClient::Connect(invitation, SteadyNow() + milliseconds(300));
    refused += client.ok() ? 0 : 1;
    const auto another = ShmRpcServer::Start(memory_, [](uint32_t, codec::Fragments, ReplyFn) {});
    refused += another.ok() ? 0 : 1;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  EXPECT_GT(refused, 0);
  Served client(*server_->Invite());
  EXPECT_TRUE(client.Call(kEcho, Message("alive")).ok());
}

// ---- Hostile clients ----------------------------------------------------------------------------

TEST(BellTest, WhoNeverStopsRingingKeepsNobody) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd near(ends[0]), far(ends[1]);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(RingBell(far.get()));
  EXPECT_TRUE(DrainBells(near.get()));
  char bell;
  EXPECT_EQ(::recv(near.get(), &bell, 1, MSG_DONTWAIT | MSG_PEEK), 1) << "all were taken at once";
  while (::recv(near.get(), &bell, 1, MSG_DONTWAIT) == 1) {
  }
  EXPECT_TRUE(DrainBells(near.get())) << "nothing to take";
  far.Reset();
  EXPECT_FALSE(DrainBells(near.get()));
}

// A client that can violate each rule of the protocol.
struct Hostile {
  Hostile(const ShmRpcTicket& invitation, size_t server_bytes) {
    socket = *ConnectAbstract(invitation.socket);
    Hello hello;
    std::memcpy(hello.ticket, invitation.ticket.data(), sizeof(hello.ticket));
    CHECK_EQ(::send(socket.get(), &hello, sizeof(hello), 0), ssize_t{sizeof(hello)});
    Welcome welcome;
    auto fds = ReceiveFds(socket.get(), std::as_writable_bytes(std::span(&welcome, 1)), 2, In(10));
    CHECK(fds.ok()) << fds.status();
    CHECK_EQ(welcome.server_bytes, server_bytes);
    memory = *SealedMemory::Map(std::move((*fds)[0]), welcome.connection_bytes,
                                SealedMemory::Others::kWrite);
    control = reinterpret_cast<RingHeader*>(memory->bytes().data());
  }
  void Ring() { (void)RingBell(socket.get()); }
  Fd socket;
  std::shared_ptr<SealedMemory> memory;
  RingHeader* control;
};

TEST_F(LaneTest, AClientWithManyCallsIsWokenUpForSeveralAnswers) {
  Hostile client(*server_->Invite(), kServerBytes);
  ASSERT_TRUE(LanesBecome(1));
  const auto call = [&client](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) client.control->calls.entries[i] = {i + 1, kEcho, 0, 0};
    client.control->answers.sleeps = 1;
    client.control->calls.written = to;
    client.Ring();
  };
  const auto bell = [&client](Duration wait) {
    pollfd fd = {client.socket.get(), POLLIN, 0};
    char byte;
    return ::poll(&fd, 1, static_cast<int>(Millis(wait))) == 1 &&
           ::recv(client.socket.get(), &byte, 1, 0) == 1;
  };
  const auto answered = [&client](uint64_t count) {
    const Time deadline = In(60);
    while (client.control->answers.written != count && SteadyNow() < deadline) {
      std::this_thread::yield();
    }
    return client.control->answers.written == count;
  };
  call(0, 20);
  ASSERT_TRUE(bell(seconds(60)));
  EXPECT_GE(client.control->answers.written, 4u);
  EXPECT_TRUE(answered(20));
  EXPECT_FALSE(bell({})) << "it did not sleep again";
  call(20, 22);
  EXPECT_TRUE(bell(seconds(60)));
  EXPECT_TRUE(answered(22));
  EXPECT_FALSE(bell({}));
}

TEST_F(LaneTest, AClientIsWokenUpWhenHalfOfItsCallsAreAnswered) {
  std::latch second(2), go_on(1);
  int calls = 0;
  const auto server = ShmRpcServer::Start(
      memory_,
      [&](uint32_t, codec::Fragments, const ReplyFn& answer) {
        if (++calls == 2) {
          second.arrive_and_wait();
          go_on.wait();
        }
        answer(OkStatus(), Message(""));
      },
      kCallBytes);
  ASSERT_TRUE(server.ok()) << server.status();
  Hostile client(*(*server)->Invite(), kServerBytes);
  for (uint64_t i = 0; i < 5; ++i) client.control->calls.entries[i] = {i + 1, kEcho, 0, 0};
  client.control->answers.sleeps = 1;
  client.control->calls.written = 5;
  client.Ring();
  const auto bell = [&client](Duration wait) {
    pollfd fd = {client.socket.get(), POLLIN, 0};
    return ::poll(&fd, 1, static_cast<int>(Millis(wait))) == 1;
  };
  second.arrive_and_wait();
  EXPECT_EQ(client.control->answers.written, 1u);
  EXPECT_FALSE(bell({})) << "three others wait";
  go_on.count_down();
  EXPECT_TRUE(bell(seconds(60)));
  EXPECT_GE(client.control->answers.written, 3u);
}

TEST_F(LaneTest, WhoWasNotInvitedIsRefused) {
  ShmRpcTicket invitation = *server_->Invite();
  const ShmRpcTicket good = invitation;
  invitation.ticket[3] = static_cast<char>(invitation.ticket[3] ^ 1);
  EXPECT_FALSE(ShmRpcClient::Connect(invitation, In(10)).ok());
  invitation.ticket = "short";
  EXPECT_FALSE(ShmRpcClient::Connect(invitation, In(10)).ok());
  const Fd garbage = *ConnectAbstract(good.socket);
  ASSERT_EQ(::send(garbage.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  EXPECT_TRUE(ShmRpcClient::Connect(good, In(10)).ok());
  EXPECT_FALSE(ShmRpcClient::Connect(good, In(10)).ok()) << "a ticket is good for one";
  EXPECT_FALSE(ShmRpcClient::Connect({"tandem-nobody", good.ticket}, In(10)).ok());
}

// Each row is one violation of the protocol. The server must close the connection of this client
// only.
TEST_F(LaneTest, GarbageClosesTheLaneAndNothingElse) {
  Served bystander(*server_->Invite());
  using Do = std::function<void(Hostile&)>;
  const uint64_t arena = kCallBytes;
  const auto post = [](RingEntry entry, std::vector<RingFragment> table) -> Do {
    return [entry, table](Hostile& h) {
      if (!table.empty()) {
        std::memcpy(h.memory->bytes().data() + kControlBytes, table.data(),
                    table.size() * sizeof(RingFragment));
      }
      h.control->calls.entries[0] = entry;
      h.control->calls.written = 1;
    };
  };
  const std::vector<std::pair<const char*, Do>> rows = {
      {"too many", [](Hostile& h) { h.control->calls.written = ShmRpcRing::kEntries + 1; }},
      {"backwards", [](Hostile& h) { h.control->calls.written = UINT64_MAX; }},
      {"table outside", post({1, kEcho, 1, arena}, {})},
      {"table far outside", post({1, kEcho, 1, UINT64_MAX - 15}, {})},
      {"table across the end", post({1, kEcho, 2, arena - 16}, {})},
      {"table not aligned", post({1, kEcho, 1, 3}, {})},
      {"pieces without end", post({1, kEcho, UINT32_MAX, 0}, {})},
      {"piece outside", post({1, kEcho, 1, 0}, {{arena, 1}})},
      {"piece across the end", post({1, kEcho, 1, 0}, {{arena - 8, 9}})},
      {"piece around the end", post({1, kEcho, 1, 0}, {{16, UINT64_MAX}})},
      {"the same twice", post({1, kEcho, 2, 0}, {{0, arena}, {0, arena}})},
      {"answers taken that were not given", [&](Hostile& h) {
         h.control->answers.taken = 5;
         post({1, kEcho, 0, 0}, {})(h);
       }}};
  for (const auto& [what, garbage] : rows) {
    Hostile hostile(*server_->Invite(), kServerBytes);
    ASSERT_TRUE(LanesBecome(2)) << what;
    garbage(hostile);
    hostile.Ring();
    EXPECT_TRUE(LanesBecome(1)) << what;
    EXPECT_TRUE(bystander.Call(kEcho, Message("alive")).ok()) << what;
  }
}

TEST_F(LaneTest, RandomMemoryHurtsNobody) {
  Served bystander(*server_->Invite());
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    Hostile hostile(*server_->Invite(), kServerBytes);
    for (int i = 0; i < 50; ++i) {
      auto* const words = reinterpret_cast<uint64_t*>(hostile.memory->bytes().data());
      for (int w = 0; w < 40; ++w) {
        const uint64_t small = random() % 200, any = random();
        words[random() % (kControlBytes / 8 + 512)] = random() % 2 == 0 ? small : any;
      }
      hostile.control->calls.written = random() % 80;
      hostile.Ring();
    }
    EXPECT_TRUE(bystander.Call(kEcho, Message("alive")).ok());
  }
  EXPECT_GT(calls_, 200);
}

// If a client changes values while the server reads them, the server may read wrong values. The
// changes must have no other effect.
TEST_F(LaneTest, AMessageThatChangesWhileItIsRead) {
  Hostile hostile(*server_->Invite(), kServerBytes);
  std::atomic<bool> stop = false;
  std::thread changer([&] {
    std::mt19937_64 random(3);
    auto* const words = reinterpret_cast<uint64_t*>(hostile.memory->bytes().data() + kControlBytes);
    while (!stop) {
      words[random() % 16] = random() % 4 == 0 ? random() : random() % kCallBytes;
    }
  });
  for (uint64_t i = 1; i < 2000; ++i) {
    hostile.control->calls.entries[(i - 1) % ShmRpcRing::kEntries] = {i, kEcho, 4, 0};
    hostile.control->calls.written = i;
    hostile.Ring();
    if (server_->connections() == 0) break;
    hostile.control->answers.taken = hostile.control->answers.written.load();
  }
  stop = true;
  changer.join();
  EXPECT_TRUE(Served(*server_->Invite()).Call(kEcho, Message("alive")).ok());
}

}  // namespace
}  // namespace tandem::shm_rpc
