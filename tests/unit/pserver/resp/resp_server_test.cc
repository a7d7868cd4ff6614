// Tests the server for Redis clients over real sockets: values, errors, pipelining, AUTH, limits.
#include "pserver/resp/resp_server.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "pserver/client/reader.h"
#include "pserver/replica.h"
#include "tests/unit/pserver/pserver_fixture.h"
#include "tests/unit/pserver/resp/resp_client.h"

namespace tandem::pserver {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr Duration kPatience = std::chrono::seconds(20);
constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";
const ps::PsTable kTable = {"emb", 1000, 4, ps::PsTable::InitKind::kUniform, -0.1f, 0.1f, 1, ""};

std::string Bytes(const float* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(float)};
}

class RespTest : public PserverTest {
 protected:
  void StartServing(PserverOptions options = {}) {
    options.job = "job";
    if (!options.resp_listen) options.resp_listen = Endpoint{"127.0.0.1", 0};
    secret_ = options.secret;
    StartServers(1, options);
    ASSERT_FALSE(HasFatalFailure());
    address_ = *servers_.back()->resp_endpoint();
  }
  // Configures a table and two dense variables.
  std::unique_ptr<ps::PsClient> Trainer() {
    ps::PsOptions options;
    options.job = "job";
    options.security.secret = secret_;
    auto client = *Client(0, 1, options);
    CHECK(client
              ->Configure({{"fc.w", Shape{40, 5}}, {"fc.b", Shape{3}}}, ps::PsMode::kASync,
                          {"sgd", {}}, {kTable})
              .ok());
    return client;
  }
  void Initialise(ps::PsClient& client) {
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = static_cast<float>(i);
    const std::vector<ps::PsTensor> values = {{"fc.w", weights_.data(), 200},
                                              {"fc.b", biases_.data(), 3}};
    CHECK(client.InitOrFetch(values).ok());
  }
  // Pushes ones to the rows.
  void PushRows(ps::PsClient& client, uint64_t step, const std::vector<int64_t>& ids) {
    const std::vector<float> ones(4 * ids.size(), 1.0f);
    Answer<Status> answer;
    client.Push(step, 0.5f, {}, answer.Callback(), {{"emb", ids, ones.data()}});
    const Status status = answer.Get();
    ASSERT_TRUE(status.ok()) << status;
  }
  // Returns the bytes of a row as a reader gets it.
  std::string Row(int64_t id) {
    ps::ReaderOptions options;
    options.job = "job";
    options.security.secret = secret_;
    const auto reader = ps::Reader::Connect(endpoints_, options);
    CHECK(reader.ok()) << reader.status();
    const auto rows = (*reader)->ReadRows("emb", {&id, 1});
    CHECK(rows.ok()) << rows.status();
    return Bytes(rows->values.data(), 4);
  }

  std::vector<float> weights_ = std::vector<float>(200), biases_ = {1.5f, -2.5f, 0};
  std::string secret_;
  Endpoint address_;
};

TEST_F(RespTest, RowsAndVariables) {
  StartServing();
  const auto trainer = Trainer();
  Initialise(*trainer);
  PushRows(*trainer, 0, {3, 9});
  RespClient client(address_);
  const std::string three = Row(3), nine = Row(9), none = Row(500);
  EXPECT_NE(three, nine);
  EXPECT_EQ(client.Ask({"GET", "emb:3"}), three);
  EXPECT_EQ(client.Ask({"get", "emb:500"}), none);
  EXPECT_EQ(client.Ask({"GET", "fc.b"}), Bytes(biases_.data(), 3));
  EXPECT_EQ(client.Ask({"MGET", "emb:9", "fc.w", "emb:3", "emb:9", "fc.b"}),
            "[" + nine + "|" + Bytes(weights_.data(), 200) + "|" + three + "|" + nine + "|" +
                Bytes(biases_.data(), 3) + "]");
  EXPECT_EQ(client.Ask({"HGET", "emb", "9"}), nine);
  EXPECT_EQ(client.Ask({"HMGET", "emb", "9", "3"}), "[" + nine + "|" + three + "]");
  EXPECT_EQ(client.Ask({"HMGET", "emb", "3"}), "[" + three + "]");
  EXPECT_EQ(client.Ask({"HLEN", "emb"}), ":2");
  EXPECT_EQ(client.Ask({"EXISTS", "emb:3", "emb:3", "emb:500", "fc.w", "nothing"}), ":3");
  EXPECT_EQ(client.Ask({"HEXISTS", "emb", "9"}), ":1");
  EXPECT_EQ(client.Ask({"HEXISTS", "emb", "500"}), ":0");
  EXPECT_EQ(client.Ask({"HLEN", "emb"}), ":2") << "a read creates no row";
}

// A Redis client knows one server. The error of a row that has moved names the server that has it.
TEST_F(RespTest, ARowThatMovedToAServerThatJoinedIsNamed) {
  StartServing();
  Initialise(*Trainer());
  PserverOptions options;
  options.job = "job";
  options.index = 1;
  auto joined = Pserver::Start(options, metrics_);
  ASSERT_TRUE(joined.ok()) << joined.status();
  const std::string address = ToString((*joined)->endpoint());
  const auto channel = *ps::GrpcPsChannel::Connect(endpoints_, {});
  ps::BucketMigrator migrator(*channel, endpoints_, {});
  ASSERT_TRUE(migrator.Add(address).ok());
  const int bucket = RowBucket(3);
  const auto move = [&](std::vector<int> buckets) {
    return migrator.Run({{.source = 0, .target = 1, .buckets = std::move(buckets)}},
                        [](const ps::MoveProgress&) {});
  };
  ASSERT_TRUE(move({bucket}).ok());
  RespClient client(address_);
  for (const std::string& error : {client.Ask({"GET", "emb:3"}), client.Ask({"EXISTS", "emb:3"})}) {
    EXPECT_THAT(error, AllOf(HasSubstr("moved to pserver 1 (" + address + "), which joined"),
                             HasSubstr("[TD4035]; hint: read the row from the server")));
  }
  EXPECT_EQ(client.Ask({"GET", "emb:9"}).size(), 16u);
  channel->Close();
}

TEST_F(RespTest, CommandsOfConnections) {
  StartServing();
  Initialise(*Trainer());
  RespClient client(address_);
  EXPECT_EQ(client.Ask({"PING"}), "+PONG");
  EXPECT_EQ(client.Ask({"ping", "hello"}), "hello");
  EXPECT_EQ(client.Ask({"ECHO", std::string("a\r\nb\0", 5)}), std::string("a\r\nb\0", 5));
  EXPECT_EQ(client.Ask({"SELECT", "0"}), "+OK");
  EXPECT_THAT(client.Ask({"SELECT", "1"}), StartsWith("-ERR SELECT: this server has only"));
  EXPECT_EQ(client.Ask({"COMMAND", "COUNT"}), ":15");
  EXPECT_EQ(client.Ask({"COMMAND", "DOCS", "GET"}), "[]");
  EXPECT_THAT(client.Ask({"COMMAND"}), HasSubstr("[mget|:-2|[+readonly]|:1|:-1|:1]"));
  EXPECT_EQ(client.Ask({"HELLO"}),
            "[server|tandem|proto|:2|mode|standalone|role|master|modules|[]]");
  EXPECT_THAT(client.Ask({"HELLO", "3", "SETNAME", "x"}), HasSubstr("proto|:3|"));
  EXPECT_THAT(client.Ask({"HELLO", "4"}), StartsWith("-NOPROTO "));
  EXPECT_THAT(client.Ask({"HELLO", "3", "WHAT"}), StartsWith("-ERR HELLO: expected"));
  EXPECT_THAT(client.Ask({"AUTH", "x"}), StartsWith("-ERR AUTH was sent, but this server has no"));
  EXPECT_THAT(client.Ask({"INFO"}),
              AllOf(HasSubstr("job:job\r\n"), HasSubstr("loading:0\r\n"),
                    HasSubstr("connected_clients:1\r\n"), HasSubstr("role:master\r\n"),
                    HasSubstr("row_buckets:0-"), HasSubstr("table0:name=emb,rows=0,dim=4,bytes=")));
  EXPECT_EQ(client.Ask({"QUIT"}), "+OK");
  EXPECT_EQ(client.Receive(), "closed");
}

TEST_F(RespTest, Errors) {
  StartServing();
  RespClient client(address_);
  EXPECT_THAT(client.Ask({"GET", "emb:3"}), StartsWith("-ERR "));
  const auto trainer = Trainer();
  Initialise(*trainer);
  EXPECT_THAT(client.Ask({"SET", "emb:3", "x"}),
              StartsWith("-ERR unknown command 'SET', because this server only answers reads "
                         "[TD4041]"));
  EXPECT_THAT(client.Ask({"FLUSHALL\r\n+OK"}), Not(HasSubstr("\n")));
  EXPECT_THAT(client.Ask({"GET"}), StartsWith("-ERR wrong number of arguments for 'GET'"));
  EXPECT_THAT(client.Ask({"GET", "a", "b"}), StartsWith("-ERR wrong number of arguments"));
  EXPECT_THAT(client.Ask({"MGET", "emb:3", "none:3"}),
              StartsWith("-ERR \"none:3\" is no row (table:id) of a table and no dense variable"));
  EXPECT_THAT(client.Ask({"HGET", "none", "3"}), StartsWith("-ERR this server has no table"));
  EXPECT_THAT(client.Ask({"HLEN", "none"}), StartsWith("-ERR this server has no table"));
  for (const char* id : {"", "-1", "x", "1.0", "99999999999999999999"}) {
    EXPECT_THAT(client.Ask({"HGET", "emb", id}), HasSubstr("is no row id of table emb")) << id;
  }
  EXPECT_THAT(client.Ask({"GET", "emb:1000"}), AllOf(StartsWith("-ERR "), HasSubstr("1000")));
  EXPECT_EQ(client.Ask({"PING"}), "+PONG") << "an error does not end the connection";
  EXPECT_TRUE(client.Send("PING\r\n"));
  EXPECT_THAT(client.Receive(), StartsWith("-ERR Protocol error: 'P' at the begin of a command"));
  EXPECT_EQ(client.Receive(), "closed");
}

TEST_F(RespTest, PipelinedAndSplitCommands) {
  StartServing();
  const auto trainer = Trainer();
  Initialise(*trainer);
  RespClient client(address_);
  constexpr int kCommands = 3000;
  std::string commands;
  for (int i = 0; i < kCommands; ++i) {
    commands += Encoded({"ECHO", std::to_string(i)}) + Encoded({"GET", "fc.w"});
  }
  std::thread sender([&] { EXPECT_TRUE(client.Send(commands)); });
  for (int i = 0; i < kCommands; ++i) {
    ASSERT_EQ(client.Receive(), std::to_string(i));
    ASSERT_EQ(client.Receive(), Bytes(weights_.data(), 200));
  }
  sender.join();
  const std::string some = Encoded({"HGET", "emb", "7"}) + Encoded({"PING"});
  const std::string seven = Row(7);
  for (size_t cut = 1; cut < some.size(); ++cut) {
    ASSERT_TRUE(client.Send(some.substr(0, cut)) && client.Send(some.substr(cut)));
    ASSERT_EQ(client.Receive(), seven) << cut;
    ASSERT_EQ(client.Receive(), "+PONG") << cut;
  }
  for (const char byte : some) ASSERT_TRUE(client.Send({&byte, 1}));
  EXPECT_EQ(client.Receive(), seven);
  EXPECT_EQ(client.Receive(), "+PONG");
}

// Reads that follow each other are one pull of the shard. A mistake concerns only its command.
TEST_F(RespTest, MistakesInPipelines) {
  StartServing();
  const auto trainer = Trainer();
  Initialise(*trainer);
  PushRows(*trainer, 0, {3, 9});
  const std::string three = Row(3), nine = Row(9), bias = Bytes(biases_.data(), 3);
  struct Case {
    std::vector<std::string> command;
    std::string reply;  // or its begin
  };
  const std::vector<Case> cases = {
      {{"GET", "emb:3"}, three},
      {{"GET", "emb:1000"}, "-ERR "},
      {{"MGET", "emb:9", "fc.b", "emb:3"}, "[" + nine + "|" + bias + "|" + three + "]"},
      {{"HGET", "none", "1"}, "-ERR this server has no table"},
      {{"HMGET", "emb", "9", "x"}, "-ERR \"x\" is no row id"},
      {{"HMGET", "emb", "9", "3"}, "[" + nine + "|" + three + "]"},
      {{"GET", "fc.b"}, bias},
      {{"GET", "emb:9"}, nine},
      {{"GET"}, "-ERR wrong number of arguments for 'GET'"},
      {{"PING"}, "+PONG"},
      {{"MGET", "emb:3"}, "[" + three + "]"},
      {{"SET", "emb:3", "x"}, "-ERR unknown command 'SET'"},
      {{"EXISTS", "emb:3", "emb:4"}, ":1"},
      {{"GET", "emb:3"}, three},
      {{"GET", "emb:9"}, nine}};
  // All orders in which neighbours differ: the cases from each of them on, twice.
  for (size_t first = 0; first < cases.size(); ++first) {
    RespClient client(address_);
    std::string commands;
    for (size_t i = 0; i < 2 * cases.size(); ++i) {
      commands += Encoded(cases[(first + i) % cases.size()].command);
    }
    ASSERT_TRUE(client.Send(commands + Encoded({"QUIT"}) + Encoded({"GET", "emb:3"})));
    for (size_t i = 0; i < 2 * cases.size(); ++i) {
      const Case& one = cases[(first + i) % cases.size()];
      ASSERT_THAT(client.Receive(), StartsWith(one.reply)) << first << " " << i;
    }
    EXPECT_EQ(client.Receive(), "+OK");
    EXPECT_EQ(client.Receive(), "closed");
  }
  // The reads before an invalid command have their replies.
  RespClient client(address_);
  ASSERT_TRUE(client.Send(Encoded({"GET", "emb:3"}) + Encoded({"GET", "emb:9"}) + "PING\r\n"));
  EXPECT_EQ(client.Receive(), three);
  EXPECT_EQ(client.Receive(), nine);
  EXPECT_THAT(client.Receive(), StartsWith("-ERR Protocol error"));
  EXPECT_EQ(client.Receive(), "closed");
}

// All values of a reply are of one version: each push changes all rows by the same amount.
TEST_F(RespTest, TheValuesOfAReplyAreOfOneVersion) {
  StartServing();
  const auto trainer = Trainer();
  Initialise(*trainer);
  std::vector<int64_t> ids;
  std::vector<std::string> command = {"HMGET", "emb"};
  for (int64_t id = 0; id < 50; ++id) {
    ids.push_back(id);
    command.push_back(std::to_string(id));
  }
  RespClient client(address_);
  const auto firsts = [&] {
    EXPECT_TRUE(client.Send(Encoded(command)));
    const std::string reply = client.Receive();
    std::vector<float> values(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(&values[i], reply.data() + 1 + i * 17, sizeof(float));
    }
    return values;
  };
  const std::vector<float> before = firsts();
  std::atomic<bool> ended = false;
  std::thread pusher([&] {
    for (uint64_t step = 0; step < 300; ++step) PushRows(*trainer, step, ids);
    ended = true;
  });
  while (!ended) {
    const std::vector<float> now = firsts();
    for (size_t i = 1; i < ids.size(); ++i) {
      ASSERT_NEAR(before[i] - now[i], before[0] - now[0], 0.01) << i;
    }
  }
  pusher.join();
}

TEST_F(RespTest, AReadWaitsForInitialValues) {
  StartServing();
  const auto trainer = Trainer();
  RespClient client(address_), gone(address_), other(address_);
  EXPECT_TRUE(gone.Send(Encoded({"GET", "fc.b"})));
  EXPECT_TRUE(client.Send(Encoded({"GET", "emb:3"}) + Encoded({"GET", "fc.b"}) +
                          Encoded({"GET", "emb:3"}) + Encoded({"GET", "emb:1000"}) +
                          Encoded({"ECHO", "after"})));
  EXPECT_EQ(other.Ask({"PING"}), "+PONG");
  shutdown(gone.fd(), SHUT_RDWR);
  EXPECT_THAT(other.Ask({"INFO"}), HasSubstr("loading:1\r\n"));
  Initialise(*trainer);
  EXPECT_EQ(client.Receive(), Row(3));
  EXPECT_EQ(client.Receive(), Bytes(biases_.data(), 3));
  EXPECT_EQ(client.Receive(), Row(3));
  EXPECT_THAT(client.Receive(), StartsWith("-ERR "));
  EXPECT_EQ(client.Receive(), "after");
}

TEST_F(RespTest, Secret) {
  PserverOptions options;
  options.secret = kSecret;
  options.audit_log = dir_ + "/audit.jsonl";
  StartServing(options);
  Initialise(*Trainer());
  RespClient client(address_);
  EXPECT_THAT(client.Ask({"GET", "fc.b"}), StartsWith("-NOAUTH Authentication required."));
  EXPECT_THAT(client.Ask({"PING"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.Ask({"NONE"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.Ask({"HELLO", "3"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.Ask({"AUTH", "wrong"}), StartsWith("-WRONGPASS"));
  EXPECT_THAT(client.Ask({"HELLO", "3", "AUTH", "default", "wrong"}), StartsWith("-WRONGPASS"));
  EXPECT_THAT(client.Ask({"GET", "fc.b"}), StartsWith("-NOAUTH"));
  EXPECT_EQ(client.Ask({"AUTH", kSecret}), "+OK");
  EXPECT_EQ(client.Ask({"GET", "fc.b"}), Bytes(biases_.data(), 3));
  RespClient hello(address_);
  EXPECT_THAT(hello.Ask({"HELLO", "3", "AUTH", "default", kSecret}), HasSubstr("proto|:3"));
  EXPECT_EQ(hello.Ask({"PING"}), "+PONG");
  // Before AUTH, a command has at most 8 arguments and 4096 bytes.
  RespClient wide(address_), large(address_);
  EXPECT_THAT(wide.Ask({"MGET", "1", "2", "3", "4", "5", "6", "7", "8"}),
              HasSubstr("(arguments_max)"));
  EXPECT_EQ(wide.Receive(), "closed");
  EXPECT_THAT(large.Ask({"AUTH", std::string(5000, 'x')}), HasSubstr("(command_bytes_max)"));
  servers_.clear();  // writes the audit log
  std::ifstream file(dir_ + "/audit.jsonl");
  const std::string audit{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(audit, AllOf(HasSubstr("\"call\":\"RESP GET\""), HasSubstr("\"call\":\"RESP AUTH\""),
                           HasSubstr("UNAUTHENTICATED"), HasSubstr("\"proof\":\"secret\""),
                           HasSubstr("\"peer\":\"ipv4:127.0.0.1:"), Not(HasSubstr(kSecret))));
}

TEST_F(RespTest, AUnixDomainSocket) {
  PserverOptions options;
  options.resp_listen = Endpoint{"", 0, dir_ + "/resp"};
  StartServing(options);
  Initialise(*Trainer());
  RespClient client(address_);
  EXPECT_EQ(client.Ask({"GET", "fc.b"}), Bytes(biases_.data(), 3));
}

TEST_F(RespTest, Metrics) {
  StartServing();
  RespClient client(address_), other(address_);
  EXPECT_EQ(client.Ask({"PING"}), "+PONG");
  EXPECT_EQ(other.Ask({"PING"}), "+PONG");
  EXPECT_THAT(client.Ask({"NONE"}), StartsWith("-ERR"));
  const std::string text = metrics_.Text();
  EXPECT_THAT(text, HasSubstr("tandem_pserver_resp_connections 2\n"));
  EXPECT_THAT(text, HasSubstr("tandem_pserver_resp_commands_total 3\n"));
  EXPECT_THAT(text, HasSubstr("tandem_pserver_resp_refused_total 1\n"));
}

TEST_F(RespTest, AReplica) {
  PserverOptions options;
  options.durability = Durability::kLogged;
  options.shm_rpc = false;
  options.data_dir = dir_ + "/a";
  options.cold_dir = dir_ + "/cold-a";
  StartServing(options);
  const auto trainer = Trainer();
  Initialise(*trainer);
  PushRows(*trainer, 0, {3});
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  options.job = "job";
  options.data_dir = dir_ + "/r";
  options.cold_dir = dir_ + "/cold-r";
  options.resp_listen = Endpoint{"127.0.0.1", 0};
  auto replica = *Replica::Start(options, servers_[0]->endpoint(), metrics_);
  const Time until = SteadyNow() + kPatience;
  while ((!replica->resp_endpoint() || replica->progress().position.last < 1) &&
         SteadyNow() < until) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(replica->resp_endpoint());
  RespClient client(*replica->resp_endpoint());
  EXPECT_EQ(client.Ask({"GET", "emb:3"}), Row(3));
  EXPECT_THAT(client.Ask({"HELLO"}), HasSubstr("role|replica"));
  EXPECT_THAT(client.Ask({"INFO"}),
              AllOf(HasSubstr("lag_entries:0\r\n"), HasSubstr("primary_link:up\r\n")));
  PushRows(*trainer, 1, {3});
  const std::string want = Row(3);
  while (client.Ask({"GET", "emb:3"}) != want && SteadyNow() < until) {
  }
  EXPECT_EQ(client.Ask({"GET", "emb:3"}), want);
  // When its state is replaced, the replica closes the connections, then listens at the same
  // address.
  const Endpoint address = *replica->resp_endpoint();
  ASSERT_EQ(*trainer->Restore(), 1u);
  const std::string restored = Row(3);
  EXPECT_NE(restored, want);
  while (client.Ask({"PING"}) != "closed" && SteadyNow() < until) {
  }
  while (!replica->resp_endpoint() && SteadyNow() < until) std::this_thread::yield();
  ASSERT_TRUE(replica->resp_endpoint());
  EXPECT_EQ(replica->resp_endpoint()->port, address.port);
  RespClient again(address);
  EXPECT_EQ(again.Ask({"GET", "emb:3"}), restored);
  replica.reset();
  EXPECT_EQ(again.Ask({"PING"}), "closed");
}

TEST(RespListenTest, NetworkAddressesNeedConsent) {
  const Endpoint local = {"127.0.0.1", 0}, network = {"0.0.0.0", 0};
  EXPECT_TRUE(CheckRespListen({.listen = local}).ok());
  EXPECT_TRUE(CheckRespListen({.listen = local, .tls = true, .has_secret = true}).ok());
  EXPECT_TRUE(CheckRespListen({.listen = network, .insecure_allow_network = true}).ok());
  EXPECT_THAT(std::string(CheckRespListen({.listen = network}).message()),
              HasSubstr("is a network address, but Redis clients have no TLS [TD6001]; hint: "
                        "listen on 127.0.0.1"));
  EXPECT_THAT(
      std::string(
          CheckRespListen(
              {.listen = network, .tls = true, .has_secret = true, .insecure_allow_network = true})
              .message()),
      HasSubstr("which this server has for its other calls [TD6001]"));
  EXPECT_THAT(std::string(CheckRespListen({.listen = local, .tls = true}).message()),
              HasSubstr("Redis clients have no certificates"));
}

}  // namespace
}  // namespace tandem::pserver
