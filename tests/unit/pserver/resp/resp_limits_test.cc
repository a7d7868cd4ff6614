// Tests the limits of the server for Redis clients: memory, connections, times.
#include "gmock/gmock.h"
#include "pserver/resp/resp_server.h"
#include "tests/unit/pserver/resp/resp_client.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kBigBytes = size_t{4} << 20;

// The shard's clock stands still, so waiting reads end only where a test ends them.
class NoDeadlines final : public Deadlines {
 public:
  using Deadlines::Deadlines;
  void Poke(Time) override {}
};

// A log whose callbacks wait until Release.
class HeldLog final : public WriteAheadLog {
 public:
  Status Ready(uint64_t /*bytes*/) override { return OkStatus(); }
  void Append(LogEntry /*entry*/) override {}
  void WhenLogged(Written done) override {
    {
      MutexLock lock(mu_);
      if (holds_) return void(held_.push_back(std::move(done)));
    }
    done(OkStatus());
  }
  void Hold() {
    MutexLock lock(mu_);
    holds_ = true;
  }
  void Release() {
    std::vector<Written> held;
    {
      MutexLock lock(mu_);
      holds_ = false;
      held.swap(held_);
    }
    for (const Written& done : held) done(OkStatus());
  }
  size_t held() const {
    MutexLock lock(mu_);
    return held_.size();
  }

 private:
  mutable Mutex mu_;
  bool holds_ TD_GUARDED_BY(mu_) = false;
  std::vector<Written> held_ TD_GUARDED_BY(mu_);
};

class RespLimitsTest : public ShardFixture {
 protected:
  // Serves a shard with a variable of 4 MiB. Without `values`, its initial values are missing.
  void Serve(const RespLimits& limits, const std::string& secret = "", bool values = true) {
    constexpr int64_t kNumel = kBigBytes / sizeof(float);
    ShardConfig config = Config(1, UpdatePolicy::kASync);
    config.slices = {{"big", Shape{kNumel}, 0, kNumel}};
    if (table_)
      config.tables = {{.variable = "emb", .shape = Shape{100, 2}, .bucket_end = kRowBuckets}};
    if (table_) Make({.log = &log_, .keep_first = [](const ShardSnapshot&) { return OkStatus(); }});
    if (table_) {
      ASSERT_TRUE(shard_->Configure(Rank(0), config).ok());
      const std::vector<float> zeros(static_cast<size_t>(kNumel));
      const auto whole = shard_->InitParams(Rank(0), 0, {{"big", 0, kNumel, FloatBuffer(zeros)}},
                                            {}, {{.variable = "emb", .last = true}});
      ASSERT_TRUE(whole.ok() && *whole) << whole.status();
    } else if (values) {
      Start(config);
    } else {
      Make();
      ASSERT_TRUE(shard_->Configure(Rank(0), config).ok());
    }
    RespTarget target;
    target.shard = shard_.get();
    target.deadlines = &deadlines_;
    target.secret = secret;
    target.limits = limits;
    auto server = RespServer::Start({.listen = {"127.0.0.1", 0}, .has_secret = !secret.empty()},
                                    target, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Returns a number in the reply to INFO.
  static size_t Info(RespClient& client, const std::string& name) {
    const std::string info = client.Ask({"INFO"});
    const size_t at = info.find(name + ":");
    CHECK(at != std::string::npos) << info;
    return std::stoul(info.substr(at + name.size() + 1));
  }

  // Waits until the log holds `count` callbacks.
  void AwaitHeld(size_t count) const {
    const Time until = SteadyNow() + seconds(20);
    while (log_.held() < count && SteadyNow() < until) {
    }
    ASSERT_GE(log_.held(), count);
  }

  HeldLog log_;
  bool table_ = false;  // the shard has a table, and the log log_
  NoDeadlines deadlines_{clock_};
  std::unique_ptr<RespServer> server_;  // destroyed before the shard
};

// A client that does not receive cannot fill the memory, and its connection ends.
TEST_F(RespLimitsTest, AClientThatDoesNotReceive) {
  Serve({.unsent_timeout = milliseconds(300)});
  RespClient slow(server_->endpoint()), other(server_->endpoint());
  std::string commands;
  constexpr int kCommands = 1000;  // 4 GB of replies
  for (int i = 0; i < kCommands; ++i) commands += Encoded({"GET", "big"});
  ASSERT_TRUE(slow.Send(commands));
  size_t most = 0;
  const Time until = SteadyNow() + seconds(20);
  while (Info(other, "connected_clients") == 2 && SteadyNow() < until) {
    most = std::max(most, Info(other, "buffer_bytes"));
  }
  EXPECT_EQ(Info(other, "connected_clients"), 1u);
  EXPECT_GE(most, kBigBytes);
  EXPECT_LT(most, 4 * kBigBytes);
  EXPECT_LT(Info(other, "buffer_bytes"), kBigBytes) << "its memory was not released";
}

// A client that receives slowly, but receives, keeps its connection.
TEST_F(RespLimitsTest, AClientThatReceivesSlowly) {
  Serve({.unsent_timeout = seconds(20)});
  RespClient slow(server_->endpoint());
  std::string commands;
  constexpr int kCommands = 50;
  for (int i = 0; i < kCommands; ++i) commands += Encoded({"GET", "big"});
  ASSERT_TRUE(slow.Send(commands));
  for (int i = 0; i < kCommands; ++i) ASSERT_EQ(slow.Receive().size(), kBigBytes) << i;
}

TEST_F(RespLimitsTest, MemoryOfAllConnections) {
  Serve({.memory_bytes_max = kBigBytes});
  RespClient client(server_->endpoint());
  EXPECT_THAT(client.Ask({"GET", "big"}), HasSubstr("(memory_bytes_max) [TD4041]"));
  EXPECT_EQ(client.Ask({"PING"}), "+PONG");
  // A command that does not fit ends its connection.
  EXPECT_TRUE(client.Send("*2\r\n$4\r\nECHO\r\n$8000000\r\n"));
  std::string part(8'000'000, 'x');
  (void)client.Send(part);
  EXPECT_THAT(client.Receive(), HasSubstr("(memory_bytes_max) [TD4041]"));
}

TEST_F(RespLimitsTest, CommandsAndReplies) {
  Serve({.command_bytes_max = 100, .arguments_max = 3, .reply_bytes_max = kBigBytes});
  RespClient client(server_->endpoint()), wide(server_->endpoint()), large(server_->endpoint());
  EXPECT_THAT(client.Ask({"GET", "big"}), HasSubstr("the reply exceeds 4194304 bytes"));
  EXPECT_EQ(client.Ask({"PING"}), "+PONG");
  EXPECT_THAT(wide.Ask({"MGET", "a", "b", "c"}), HasSubstr("(arguments_max) [TD4041]"));
  EXPECT_EQ(wide.Receive(), "closed");
  EXPECT_THAT(large.Ask({"ECHO", std::string(100, 'x')}), HasSubstr("(command_bytes_max)"));
  EXPECT_EQ(large.Receive(), "closed");
}

TEST_F(RespLimitsTest, AnAddressThatIsInUse) {
  Serve({});
  const auto second = RespServer::Start(
      {.listen = server_->endpoint()}, {.shard = shard_.get(), .deadlines = &deadlines_}, metrics_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(StartsWith("cannot listen on 127.0.0.1:"),
                    HasSubstr("for Redis clients: Address already in use [TD4009]; hint: choose "
                              "another --resp_listen")));
}

TEST_F(RespLimitsTest, Connections) {
  Serve({.connections_max = 2});
  auto first = std::make_unique<RespClient>(server_->endpoint());
  RespClient second(server_->endpoint());
  EXPECT_EQ(first->Ask({"PING"}), "+PONG");
  EXPECT_EQ(second.Ask({"PING"}), "+PONG");
  RespClient third(server_->endpoint());
  EXPECT_THAT(third.Receive(), StartsWith("-ERR max number of clients reached: 2"));
  EXPECT_EQ(third.Receive(), "closed");
  first.reset();
  const Time until = SteadyNow() + seconds(20);
  while (Info(second, "connected_clients") == 2 && SteadyNow() < until) {
  }
  RespClient fourth(server_->endpoint());
  EXPECT_EQ(fourth.Ask({"PING"}), "+PONG");
}

TEST_F(RespLimitsTest, AClientWithoutAuthIsDisconnected) {
  Serve({.auth_timeout = milliseconds(200)}, "0123456789abcdef");
  RespClient silent(server_->endpoint()), admitted(server_->endpoint());
  EXPECT_EQ(admitted.Ask({"AUTH", "0123456789abcdef"}), "+OK");
  EXPECT_EQ(silent.Receive(), "closed");
  EXPECT_EQ(admitted.Ask({"PING"}), "+PONG");
}

// Numbers of rows are sent when the log has the rows, in the order of the commands.
TEST_F(RespLimitsTest, CountsWaitForTheLog) {
  table_ = true;
  Serve({});
  RespClient client(server_->endpoint());
  EXPECT_EQ(client.Ask({"HLEN", "emb"}), ":0");
  log_.Hold();
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"HLEN", "emb"}, {"EXISTS", "emb:1", "emb:2"}, {"HEXISTS", "emb", "1"}}) {
    ASSERT_TRUE(client.Send(Encoded(command) + Encoded({"ECHO", "after"})));
    AwaitHeld(1);
    log_.Release();
    EXPECT_EQ(client.Receive(), ":0") << command[0];
    EXPECT_EQ(client.Receive(), "after");
    log_.Hold();
  }
  EXPECT_THAT(client.Ask({"HLEN", "none"}), HasSubstr("no table \"none\" [TD4034]"));
  log_.Release();
}

// A reply does not wait for the log for longer than its limit. Later replies of the log are
// ignored.
TEST_F(RespLimitsTest, ALogThatTakesTooLong) {
  table_ = true;
  Serve({.reply_timeout = milliseconds(200)});
  RespClient client(server_->endpoint());
  log_.Hold();
  EXPECT_THAT(client.Ask({"HLEN", "emb"}), HasSubstr("(reply_timeout) [TD4041]"));
  EXPECT_THAT(client.Ask({"GET", "emb:1"}), HasSubstr("(reply_timeout) [TD4041]"));
  ASSERT_TRUE(client.Send(Encoded({"MGET", "emb:1"}) + Encoded({"HGET", "emb", "2"}) +
                          Encoded({"ECHO", "after"})));
  EXPECT_THAT(client.Receive(), HasSubstr("(reply_timeout)"));
  EXPECT_THAT(client.Receive(), HasSubstr("(reply_timeout)"));
  EXPECT_EQ(client.Receive(), "after");
  log_.Release();
  EXPECT_EQ(client.Ask({"HLEN", "emb"}), ":0");
  EXPECT_EQ(client.Ask({"GET", "emb:1"}).size(), 8u);
}

// The commands of a client are answered in order, whatever the length of its turns is.
TEST_F(RespLimitsTest, TurnsOfOneCommand) {
  Serve({.commands_of_turn = 1});
  RespClient client(server_->endpoint());
  std::string commands;
  for (int i = 0; i < 300; ++i) {
    commands += Encoded({"ECHO", std::to_string(i)}) + Encoded({"EXISTS", "big"});
  }
  ASSERT_TRUE(client.Send(commands));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(client.Receive(), std::to_string(i));
    ASSERT_EQ(client.Receive(), ":1");
  }
}

TEST_F(RespLimitsTest, AReadThatWaitsTooLong) {
  Serve({}, "", /*values=*/false);
  RespClient client(server_->endpoint());
  ASSERT_TRUE(client.Send(Encoded({"MGET", "big"}) + Encoded({"ECHO", "after"})));
  const Time until = SteadyNow() + seconds(20);
  while (shard_->NextDeadline() == Time::max() && SteadyNow() < until) {
  }
  clock_.Advance(seconds(6));
  shard_->ExpireWaiters();
  EXPECT_THAT(client.Receive(), StartsWith("-ERR "));
  EXPECT_EQ(client.Receive(), "after");
  // The server may end while a read waits.
  ASSERT_TRUE(client.Send(Encoded({"GET", "big"})));
  while (shard_->NextDeadline() == Time::max() && SteadyNow() < until) {
  }
  server_.reset();
  EXPECT_EQ(client.Receive(), "closed");
}

}  // namespace
}  // namespace tandem::pserver
