// Tests proofs of the job's secret. A proof is valid for one session only. A program that listens
// in place of a pserver must not gain access by recorded proofs.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/escaping.h"
#include "common/rpc/connection.h"
#include "common/rpc/credentials/session_proof.h"
#include "common/rpc/credentials/token.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/message_checksum.h"
#include "proto/pserver.grpc.pb.h"
#include "pserver/client/carrier/client_session.h"
#include "pserver/service/server_sessions.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr char kSecret[] = "0123456789abcdef", kOther[] = "0123456789abcdeX";

// Opens a session between `server` and `client`. Returns the client's result.
Status Open(ServerSessions& server, ps::ClientSession& client) {
  const OpenSessionRequest offer = client.Offer();
  OpenSessionReply reply;
  TD_RETURN_IF_ERROR(server.Open(offer, &reply));
  return client.Accept(offer, reply);
}

bool AsksForAnother(const Status& status) {
  return ps::ClientSession::WasLost(status.code(), std::string(status.message()));
}

TEST(SessionTest, ACallIsTakenOnceAndForItsMethod) {
  ServerSessions server(kSecret, "job");
  ps::ClientSession client(kSecret, "job", "a:1");
  EXPECT_EQ(client.Next("Push").metadata, "") << "there is no session yet";
  ASSERT_EQ(Open(server, client), OkStatus());
  const std::string push = client.Next("Push").metadata, pull = client.Next("Pull").metadata;
  const Status swapped = server.Check(push, "Pull");
  EXPECT_EQ(swapped.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(swapped.message()), HasSubstr("proof of call Pull is wrong"));
  EXPECT_FALSE(AsksForAnother(swapped));
  EXPECT_EQ(server.Check(pull, "Pull"), OkStatus()) << "out of order";
  EXPECT_EQ(server.Check(push, "Push"), OkStatus());
  EXPECT_TRUE(AsksForAnother(server.Check(push, "Push"))) << "replayed";
  EXPECT_TRUE(AsksForAnother(server.Check(pull, "Pull"))) << "replayed";
}

TEST(SessionTest, EveryByteOfAStampCounts) {
  ServerSessions server(kSecret, "job");
  ps::ClientSession client(kSecret, "job", "a:1");
  ASSERT_EQ(Open(server, client), OkStatus());
  const std::string good = client.Next("Push").metadata;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_EQ(server.Check(bad, "Push").code(), StatusCode::kUnauthenticated) << i;
  }
  for (const std::string& bad : {std::string(), good.substr(1), good + "x"}) {
    EXPECT_EQ(server.Check(bad, "Push").code(), StatusCode::kUnauthenticated) << bad.size();
  }
  EXPECT_EQ(server.Check(good, "Push"), OkStatus());
}

TEST(SessionTest, ASecretIsProvedByBothSides) {
  ServerSessions server(kSecret, "job"), wrong(kOther, "job"), none("", "job");
  ps::ClientSession client(kSecret, "job", "a:1");
  const Status stranger = Open(wrong, client);
  EXPECT_EQ(stranger.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(
      std::string(stranger.message()),
      HasSubstr(
          "the program that listens on a:1 does not have the secret of job \"job\" [TD6020]"));
  EXPECT_EQ(Open(none, client).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(client.Next("Push").metadata, "") << "no session with either";
  // A caller without the secret may ignore the server's proof, but cannot compute the session key.
  const OpenSessionRequest offer = client.Offer();
  OpenSessionReply reply;
  ASSERT_EQ(server.Open(offer, &reply), OkStatus());
  const rpc::SessionTerms terms{"job", offer.nonce(), reply.nonce(), reply.session()};
  const std::string key = rpc::SessionKey(kOther, terms);
  EXPECT_THAT(
      std::string(
          server.Check(rpc::EncodeStamp({terms.id, 1, rpc::CallProof(key, 1, "Push")}), "Push")
              .message()),
      HasSubstr("[TD6011]"));
  // The reply to one offer is invalid for another offer, so a recorded proof opens no session.
  EXPECT_EQ(client.Accept(client.Offer(), reply).code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(client.Accept(offer, reply), OkStatus());
}

TEST(SessionTest, AServerOfAnotherJobWithTheSameSecretIsRefused) {
  ServerSessions other(kSecret, "other");
  ps::ClientSession client(kSecret, "job", "a:1");
  EXPECT_EQ(Open(other, client).code(), StatusCode::kUnauthenticated);
  // A relay replaces the name of the job in the offer by another job. It gets a proof, but the
  // client's job makes this proof invalid.
  OpenSessionRequest offer = client.Offer();
  const std::string nonce = offer.nonce();
  offer.set_job("other");
  OpenSessionReply reply;
  ASSERT_EQ(other.Open(offer, &reply), OkStatus());
  offer.set_job("job");
  EXPECT_EQ(client.Accept(offer, reply).code(), StatusCode::kUnauthenticated);
}

TEST(SessionTest, NoProofServesAnotherPurpose) {
  const rpc::SessionTerms terms{"job", std::string(rpc::kNonceBytes, 'c'),
                                std::string(rpc::kNonceBytes, 's'),
                                std::string(rpc::kSessionIdBytes, 'i')};
  rpc::SessionTerms turned = terms;
  std::swap(turned.client_nonce, turned.server_nonce);
  const std::set<std::string> all = {
      rpc::ServerProof(kSecret, terms),   rpc::SessionKey(kSecret, terms),
      rpc::ServerProof(kSecret, turned),  rpc::SessionKey(kSecret, turned),
      rpc::CallProof(kSecret, 1, "Push"), rpc::CallProof(kSecret, 2, "Push"),
      rpc::CallProof(kSecret, 1, "Pull"), rpc::ServerProof(kOther, terms),
  };
  EXPECT_EQ(all.size(), 8u);
  // Python's hmac module computed the expected values from the description in proto/pserver.proto.
  EXPECT_EQ(absl::BytesToHexString(rpc::ServerProof(kSecret, terms)),
            "15ef492642f800eab6fa066a49caa95ecacf4d85f2dd58fc4672c5bb3bba84af");
  EXPECT_EQ(absl::BytesToHexString(rpc::SessionKey(kSecret, terms)),
            "0550455f81939a53c10770c64beb35984f002ef9ff942cbfddbc9a771aaf4add");
  EXPECT_EQ(absl::BytesToHexString(rpc::CallProof(kSecret, 258, "Push")),
            "d9d25b3139f908c378046eafce783baaa2ea780c1817e948dc3a90f31f2f2d2b");
}

TEST(SessionTest, CallsMayOvertakeOneAnotherWithinTheWindow) {
  ServerSessions server(kSecret, "job");
  ps::ClientSession client(kSecret, "job", "a:1");
  ASSERT_EQ(Open(server, client), OkStatus());
  std::vector<std::string> stamps;
  for (uint64_t i = 0; i <= SequenceWindow::kSize + 1; ++i) {
    stamps.push_back(client.Next("Push").metadata);
  }
  EXPECT_EQ(server.Check(stamps.back(), "Push"), OkStatus());
  EXPECT_TRUE(AsksForAnother(server.Check(stamps[0], "Push"))) << "too late by one";
  EXPECT_EQ(server.Check(stamps[1], "Push"), OkStatus()) << "the oldest that is remembered";
  EXPECT_TRUE(AsksForAnother(server.Check(stamps[1], "Push"))) << "replayed";
  EXPECT_EQ(server.Check(stamps[300], "Push"), OkStatus());
}

TEST(SessionTest, AFloodOfStrangersDropsNoProvenSession) {
  ServerSessions server(kSecret, "job", {.unproven = 8, .proven = 3});
  ps::ClientSession proven(kSecret, "job", "a:1"), waiting(kSecret, "job", "a:1");
  ASSERT_EQ(Open(server, proven), OkStatus());
  ASSERT_EQ(server.Check(proven.Next("Push").metadata, "Push"), OkStatus());
  ASSERT_EQ(Open(server, waiting), OkStatus());
  for (int i = 0; i < 1000; ++i) {
    ps::ClientSession stranger(kOther, "job", "a:1");
    EXPECT_FALSE(Open(server, stranger).ok());
    EXPECT_LE(server.unproven(), 8u);
  }
  EXPECT_EQ(server.Check(proven.Next("Push").metadata, "Push"), OkStatus());
  const ps::ClientSession::Stamp lost = waiting.Next("Push");
  EXPECT_TRUE(AsksForAnother(server.Check(lost.metadata, "Push"))) << "it had proved nothing";
  waiting.Forget(lost.session);
  EXPECT_EQ(waiting.Next("Push").metadata, "");
  // If there are too many authenticated sessions, the server drops the session that has been idle
  // longest.
  std::vector<std::unique_ptr<ps::ClientSession>> more;
  for (int i = 0; i < 3; ++i) {
    if (i == 2) {
      EXPECT_EQ(server.Check(proven.Next("Push").metadata, "Push"), OkStatus());
    }
    more.push_back(std::make_unique<ps::ClientSession>(kSecret, "job", "a:1"));
    ASSERT_EQ(Open(server, *more.back()), OkStatus());
    ASSERT_EQ(server.Check(more.back()->Next("Pull").metadata, "Pull"), OkStatus());
  }
  EXPECT_EQ(server.proven(), 3u);
  EXPECT_EQ(server.Check(proven.Next("Push").metadata, "Push"), OkStatus()) << "it was used";
  EXPECT_TRUE(AsksForAnother(server.Check(more[0]->Next("Pull").metadata, "Pull")));
  EXPECT_EQ(server.Check(more[1]->Next("Pull").metadata, "Pull"), OkStatus());
}

TEST(SessionTest, ANewerSessionIsNotForgottenForAnOlderOne) {
  ServerSessions server(kSecret, "job");
  ps::ClientSession client(kSecret, "job", "a:1");
  ASSERT_EQ(Open(server, client), OkStatus());
  const std::string older = client.Next("Push").session;
  ASSERT_EQ(Open(server, client), OkStatus());
  client.Forget(older);
  const ps::ClientSession::Stamp newer = client.Next("Push");
  ASSERT_NE(newer.session, "");
  EXPECT_NE(newer.session, older);
  EXPECT_EQ(server.Check(newer.metadata, "Push"), OkStatus());
}

// A program that listens in place of a pserver and records the data that callers send.
class Thief final : public ParameterServer::Service {
 public:
  explicit Thief(bool knows_sessions) : knows_sessions_(knows_sessions) {}

  grpc::Status OpenSession(grpc::ServerContext* context, const OpenSessionRequest* request,
                           OpenSessionReply* reply) override {
    Note("OpenSession", *context);
    if (!knows_sessions_) return {grpc::StatusCode::UNIMPLEMENTED, ""};
    reply->set_session(rpc::RandomBytes(rpc::kSessionIdBytes));
    reply->set_nonce(request->nonce());
    reply->set_proof(rpc::RandomBytes(rpc::kProofBytes));
    return grpc::Status::OK;
  }
  grpc::Status Configure(grpc::ServerContext* context, const ConfigureRequest*,
                         ConfigureReply*) override {
    return Note("Configure", *context);
  }
  grpc::Status GetStatus(grpc::ServerContext* context, const StatusRequest*,
                         StatusReply*) override {
    return Note("GetStatus", *context);
  }
  std::set<std::string> noted() {
    const std::lock_guard lock(mu_);
    return noted_;
  }

 private:
  grpc::Status Note(const std::string& call, const grpc::ServerContext& context) {
    const std::lock_guard lock(mu_);
    noted_.insert(call);
    for (const auto& [key, value] : context.client_metadata()) {
      const std::string name(key.data(), key.size());
      if (name.starts_with("x-tandem")) noted_.insert(name);
    }
    return grpc::Status::OK;
  }
  const bool knows_sessions_;
  std::mutex mu_;
  std::set<std::string> noted_;
};

class SessionServerTest : public PserverTest {
 protected:
  void StartServer(const Endpoint& listen = {"127.0.0.1", 0}) {
    PserverOptions options;
    options.job = "job";
    options.secret = kSecret;
    options.rpc.listen = listen;
    StartServers(1, options);
  }
  // Connects a client with the secret to `thief`. Returns the client's status.
  Status Meet(Thief& thief) {
    auto server = rpc::RpcServer::Start({}, {&thief});
    EXPECT_TRUE(server.ok()) << server.status();
    endpoints_ = {ToString((*server)->endpoint())};
    auto client = Client(0, 1, {.security = {.secret = kSecret}});
    EXPECT_TRUE(client.ok()) << client.status();
    Model model;
    return (*client)->Configure(model.variables, ps::PsMode::kSync, {}).status();
  }
  // Calls GetStatus with this metadata, as a program that is not a Tandem client might do.
  Status Ask(const std::string& key, const std::string& value) {
    const auto stub =
        ParameterServer::NewStub(*rpc::MakeChannel(*ParseEndpoint(endpoints_[0]), rpc::TlsFiles{}));
    grpc::ClientContext context;
    TD_RETURN_IF_ERROR(rpc::PrepareCall(SteadyNow() + std::chrono::seconds(30), &context));
    if (!key.empty()) context.AddMetadata(key, value);
    StatusReply reply;
    return rpc::FromGrpc(stub->GetStatus(&context, {}, &reply));
  }
};

// The call and the metadata of an offer. The checksum is that of the offer, without a secret.
const std::set<std::string> kOffer = {"OpenSession", rpc::kChecksumMetadata};

TEST_F(SessionServerTest, WhoTookThePortGetsNothing) {
  Thief thief(/*knows_sessions=*/true);
  const Status said = Meet(thief);
  EXPECT_EQ(said.code(), StatusCode::kUnauthenticated) << said;
  EXPECT_THAT(std::string(said.message()), HasSubstr("pserver 0 (" + endpoints_[0] + ")"));
  EXPECT_THAT(std::string(said.message()),
              HasSubstr("the program that listens on " + endpoints_[0] +
                        " does not have the secret of job \"job\" [TD6020]"));
  EXPECT_EQ(thief.noted(), kOffer) << "no proof, and no other call";
}

TEST_F(SessionServerTest, AServerOfAnEarlierVersionIsNamed) {
  Thief earlier(/*knows_sessions=*/false);
  const Status said = Meet(earlier);
  EXPECT_EQ(said.code(), StatusCode::kFailedPrecondition) << said;
  EXPECT_THAT(std::string(said.message()), HasSubstr("an earlier version or not a pserver"));
  EXPECT_THAT(std::string(said.message()), HasSubstr("[TD6022]"));
  EXPECT_EQ(earlier.noted(), kOffer);
}

TEST_F(SessionServerTest, CallsWithoutASessionAreRefused) {
  StartServer();
  // The token is HMAC-SHA256(secret, job). Earlier versions of Tandem sent it with each call.
  const Status token =
      Ask(rpc::kTokenMetadata, "6b1db5025a8994007171b26e603ea4ed72816ef365fc75dccf1dcd734a0a0610");
  EXPECT_EQ(token.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(token.message()), HasSubstr("run the same version of Tandem"));
  EXPECT_THAT(std::string(token.message()), HasSubstr("[TD6022]"));
  const Status none = Ask("", "");
  EXPECT_EQ(none.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(none.message()), HasSubstr("[TD6011]"));
  const Status made_up =
      Ask(rpc::kStampMetadata, rpc::EncodeStamp({rpc::RandomBytes(rpc::kSessionIdBytes), 1,
                                                 rpc::RandomBytes(rpc::kProofBytes)}));
  EXPECT_TRUE(AsksForAnother(made_up)) << made_up;
  EXPECT_THAT(std::string(made_up.message()), HasSubstr("[TD6021]"));
}

// The sessions of a server end with its process.
TEST_F(SessionServerTest, AClientGoesOnAfterTheServerStartedAgain) {
  StartServer();
  const Endpoint where = servers_[0]->endpoint();
  auto client = Client(0, 1, {.security = {.secret = kSecret}});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->ServerInfo().ok());
  for (int again = 0; again < 2; ++again) {
    servers_.clear();
    StartServer(where);
    const auto info = (*client)->ServerInfo();
    ASSERT_TRUE(info.ok()) << info.status();
  }
}

// A server accepts only few bytes on a new connection before it has authenticated a first call.
// Therefore a client makes a small call first after a connection breaks.
TEST_F(SessionServerTest, ALargePushFollowsASmallCallOnANewConnection) {
  PserverOptions options;
  options.job = "job";
  options.secret = kSecret;
  options.shm_rpc = false;
  StartServers(1, options);
  auto client = Client(0, 1, {.security = {.secret = kSecret}, .patience = {.retries = 3}});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<ps::PsVariable> variables = {{"w", Shape{1024, 1024}}};  // a variable of 4 MiB
  ASSERT_TRUE((*client)->Configure(variables, ps::PsMode::kSync, {}).ok());
  std::vector<float> values(1 << 20, 0.5f);
  const ps::PsTensor first[] = {{"w", values.data(), 1 << 20}};
  ASSERT_TRUE((*client)->InitOrFetch(first).ok());
  ASSERT_EQ(PushAndWait(**client, 0, 0.1f, {{"w", values.data(), 1 << 20}}), OkStatus());
  for (uint64_t step = 1; step < 4; ++step) {
    int ended = 0;
    for (int fd = 3; fd < 1024; ++fd) {
      if (const auto connection = rpc::Connection::Of(fd)) {
        connection->End();
        ++ended;
      }
    }
    EXPECT_GT(ended, 0);
    EXPECT_EQ(PushAndWait(**client, step, 0.1f, {{"w", values.data(), 1 << 20}}), OkStatus());
  }
}

// The file of a Unix-domain socket outlives its server. The next server replaces the file.
TEST_F(SessionServerTest, AUnixSocketIsBoundAgain) {
  const Endpoint where{"", 0, dir_ + "/pserver-0"};
  StartServer(where);
  EXPECT_EQ(endpoints_[0], "unix:" + where.path);
  auto client = Client(0, 1, {.security = {.secret = kSecret}});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->ServerInfo().ok());
  PserverOptions second;
  second.rpc.listen = where;
  EXPECT_THAT(std::string(Pserver::Start(second, metrics_).status().message()),
              HasSubstr("cannot listen on unix:" + where.path + ": Address already in use"));
  servers_.clear();
  ASSERT_TRUE(std::filesystem::exists(where.path));
  StartServer(where);
  ASSERT_TRUE((*client)->ServerInfo().ok());
  // The directory is writable for other users, so the socket in it could belong to another user.
  std::filesystem::create_directory(dir_ + "/open");
  std::filesystem::permissions(dir_ + "/open", std::filesystem::perms::all);
  second.rpc.listen.path = dir_ + "/open/pserver-0";
  EXPECT_THAT(std::string(Pserver::Start(second, metrics_).status().message()),
              HasSubstr("other users may write to directory " + dir_ + "/open"));
}

TEST_F(SessionServerTest, NothingCrossesANetworkInTheClear) {
  endpoints_ = {"192.0.2.1:7000"};  // an address that is never assigned (RFC 5737)
  ps::PsOptions options{.security = {.secret = kSecret}, .patience = {.wait_for_servers = false}};
  const auto refused = Client(0, 1, options);
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("pserver 0 (192.0.2.1:7000): gradients and parameters would go to "
                        "192.0.2.1:7000 over the network without encryption"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("[TD6023]"));
  options.security.insecure_allow_network = true;
  EXPECT_TRUE(Client(0, 1, options).ok());
}

// Many threads call through one client. The client opens the sessions that the calls need.
TEST_F(SessionServerTest, ManyCallsAtOnce) {
  StartServer();
  auto client = Client(0, 1, {.security = {.secret = kSecret}});
  ASSERT_TRUE(client.ok()) << client.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&client] {
      for (int i = 0; i < 50; ++i) {
        const auto info = (*client)->ServerInfo();
        EXPECT_TRUE(info.ok()) << info.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tandem::pserver
