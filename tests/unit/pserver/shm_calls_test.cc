// Tests pushes and pulls through shm RPC, which must give the same bits as gRPC. Also tests faults
// and unauthorised clients.
#include "common/shm_rpc/shm_rpc_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <atomic>
#include <random>
#include <thread>

#include "proto/pserver.grpc.pb.h"
#include "pserver/client/carrier/shm_rpc_connection.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class PserverLaneTest : public PserverTest {
 protected:
  static ps::PsTable Table() {
    return {"emb", 1000, 3, ps::PsTable::InitKind::kUniform, -1.0f, 1.0f, 5, "admit_count=2"};
  }
  static std::vector<float> Rows(ps::PsClient& client, uint64_t version) {
    std::vector<float> all(3000);
    ps::PsRows rows{"emb", {}, {}};
    for (int64_t id = 0; id < 1000; ++id) {
      rows.ids.push_back(id);
      // Each row is pulled into a separate location.
      rows.to.push_back(all.data() + 3 * (999 - id));
    }
    Answer<StatusOr<uint64_t>> answer;
    client.PullRows({.version = version}, {rows}, answer.Callback());
    const StatusOr<uint64_t> got = answer.Get();
    EXPECT_TRUE(got.ok()) << got.status();
    return all;
  }
  // Requests a ticket for shm RPC from server 0, for the newest incarnation of trainer `trainer`.
  std::pair<grpc::Status, shm_rpc::ShmRpcTicket> Invite(uint32_t trainer) {
    const auto stub = ParameterServer::NewStub(
        grpc::CreateChannel(endpoints_[0], grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    OpenLaneRequest request;
    OpenLaneReply reply;
    request.set_job("job");
    request.set_trainer_id(trainer);
    request.set_incarnation(UINT64_MAX / 2);
    const grpc::Status status = stub->OpenLane(&context, request, &reply);
    return {status, shm_rpc::ShmRpcTicket{reply.socket(), reply.ticket()}};
  }
  // Runs ten steps of two trainers, one trainer after the other. Returns the dense parameters and
  // the rows.
  std::vector<std::vector<float>> Train(ps::PsMode mode, ps::PsTransport a, ps::PsTransport b) {
    servers_.clear();
    endpoints_.clear();
    StartServers(2);
    Model model;
    // The gradient of this variable is so large that it is sent without a copy.
    model.variables.push_back({"large", Shape{40000}});
    model.params.emplace_back(40000, 0.5f);
    std::unique_ptr<ps::PsClient> clients[2] = {*Client(0, 2, {.transport = a}),
                                                *Client(1, 2, {.transport = b})};
    for (auto& client : clients) {
      EXPECT_TRUE(client->Configure(model.variables, mode, {"momentum", {}}, {Table()}).ok());
    }
    for (auto& client : clients) EXPECT_TRUE(client->InitOrFetch(model.Tensors()).ok());
    for (uint64_t step = 0; step < 10; ++step) {
      for (int t : {0, 1}) {
        const auto g = model.Gradients(t, step);
        std::vector<int64_t> ids;
        for (int64_t id = t; id < 1000; id += 7 + static_cast<int64_t>(step % 3)) ids.push_back(id);
        const std::vector<float> values(ids.size() * 3, 0.25f * static_cast<float>(step + 1));
        Answer<Status> pushed;
        clients[t]->Push(step, 0.05f, model.View(g), pushed.Callback(),
                         {{"emb", ids, values.data()}});
        const Status status = pushed.Get();
        EXPECT_TRUE(status.ok()) << status;
      }
      const auto pulled = PullAndWait(*clients[step % 2], mode == ps::PsMode::kSync ? step + 1 : 0,
                                      model.Tensors());
      EXPECT_TRUE(pulled.ok()) << pulled.status();
    }
    for (int t : {0, 1}) {
      const bool shm = (t == 0 ? a : b) != ps::PsTransport::kGrpc;
      EXPECT_EQ(clients[t]->shm_servers(), shm ? 2 : 0);
      // Each client calls two servers: ten pushes, five pulls and the pull of the initial values,
      // to each server.
      EXPECT_EQ(clients[t]->shm_calls(), shm ? 32u : 0u);
    }
    auto all = model.params;
    all.push_back(Rows(*clients[0], mode == ps::PsMode::kSync ? 10 : 0));
    EXPECT_EQ(all.back(), Rows(*clients[1], 0));
    return all;
  }
};

TEST_F(PserverLaneTest, TheSameBitsByEitherRoad) {
  for (const ps::PsMode mode : {ps::PsMode::kSync, ps::PsMode::kASync}) {
    const auto grpc = Train(mode, ps::PsTransport::kGrpc, ps::PsTransport::kGrpc);
    EXPECT_EQ(Train(mode, ps::PsTransport::kAuto, ps::PsTransport::kShm), grpc);
    EXPECT_EQ(Train(mode, ps::PsTransport::kShm, ps::PsTransport::kGrpc), grpc);
  }
}

// The client checks values for NaN while it copies them into shared memory. The server does not
// check these values again.
TEST_F(PserverLaneTest, GradientsThatAreNotFiniteAreNamedAndThoseLookedAtTaken) {
  StartServers(1);
  constexpr size_t kNumel = 40000;
  std::vector<float> values(kNumel, 0.0f), gradient(kNumel, 1.0f);
  const ps::PsTensor tensor = {"w", values.data(), kNumel};
  auto client = *Client(0, 1, {.transport = ps::PsTransport::kShm});
  ASSERT_TRUE(client->Configure({{"w", Shape{kNumel}}}, ps::PsMode::kASync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch({&tensor, 1}).ok());
  for (const size_t bad : {size_t{0}, kNumel / 2, kNumel - 1}) {
    gradient[bad] = NAN;
    EXPECT_THAT(PushAndWait(*client, 0, 1, {{"w", gradient.data(), kNumel}}).ToString(),
                HasSubstr("gradient of w, element " + std::to_string(bad) + " is NaN"));
    gradient[bad] = 1;
  }
  ASSERT_TRUE(PushAndWait(*client, 0, 1, {{"w", gradient.data(), kNumel}}).ok());
  ASSERT_TRUE(PullAndWait(*client, 0, {tensor}).ok());
  EXPECT_EQ(values, std::vector<float>(kNumel, -1.0f));
  EXPECT_GE(client->shm_calls(), 5u);

  auto [status, invitation] = Invite(0);
  ASSERT_TRUE(status.ok()) << status.error_message();
  auto lane = shm_rpc::ShmRpcClient::Connect(invitation, SteadyNow() + seconds(10));
  ASSERT_TRUE(lane.ok()) << lane.status();
  std::thread serve([&] { (void)(*lane)->Run(); });
  gradient[7] = NAN;
  const auto push = [&](uint64_t sequence, bool finite) {
    codec::CodedPush coded;
    coded.header = {.caller = {"job", 0, UINT64_MAX / 2}, .sequence = sequence};
    coded.slices.push_back(
        {.variable = "w", .desc = {DType::kF32, {kNumel}}, .data = gradient.data()});
    coded.header.finite = finite;
    Answer<Status> answer;
    const auto done = answer.Callback();
    CHECK((*lane)->Call(LANE_METHOD_PUSH, codec::EncodePush(coded), SteadyNow() + seconds(30),
                        [&done](const Status& got, codec::Fragments) { done(got); }));
    return answer.Get();
  };
  EXPECT_EQ(push(1, false).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(push(1, true).ok());
  (*lane)->Stop();
  serve.join();
}

// The server has a log, so the parameters outlive its process.
TEST_F(PserverLaneTest, AServerThatIsStartedAgainIsReachedByGrpcAndThenByALane) {
  PserverOptions options;
  options.data_dir = dir_;
  options.durability = Durability::kLogged;
  StartServers(1, options);
  options.rpc.listen = servers_[0]->endpoint();
  const std::vector<float> one(1000, 1.0f);
  std::vector<float> values(1000, 0.0f);
  const ps::PsTensor tensor = {"w", values.data(), 1000};
  auto client = *Client(0, 1, {.transport = ps::PsTransport::kShm});
  ASSERT_TRUE(client->Configure({{"w", Shape{1000}}}, ps::PsMode::kASync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch({&tensor, 1}).ok());
  uint64_t step = 0;
  const auto push = [&] {
    const Status status = PushAndWait(*client, step++, -1.0f, {{"w", one.data(), 1000}});
    ASSERT_TRUE(status.ok()) << status;
  };
  for (int restart = 0; restart < 3; ++restart) {
    for (int i = 0; i < 5; ++i) push();
    servers_.clear();
    auto again = Pserver::Start(options, metrics_);
    ASSERT_TRUE(again.ok()) << again.status();
    servers_.push_back(*std::move(again));
    const uint64_t before = client->shm_calls();
    push();  // this push may use any transport
    const Time deadline = SteadyNow() + seconds(60);
    while (client->shm_calls() < before + 3 && SteadyNow() < deadline) push();
    EXPECT_GE(client->shm_calls(), before + 3) << "no lane to the server that was started again";
  }
  ASSERT_TRUE(PullAndWait(*client, 0, {tensor}).ok());
  EXPECT_EQ(values, std::vector<float>(1000, static_cast<float>(step)));
}

TEST_F(PserverLaneTest, AServerWithoutLanesIsNamedOrReachedByGrpc) {
  StartServers(1);
  PserverOptions options;
  options.shm_rpc = false;
  StartServers(1, options);
  Model model;
  auto asked = *Client(0, 1, {.transport = ps::PsTransport::kShm});
  const Status refused = asked->Configure(model.variables, ps::PsMode::kSync, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(endpoints_[1]));
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  EXPECT_EQ(client->shm_servers(), 1);
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  Status status;
  TrainSync(client.get(), &model, 0, 0, 3, &status);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(PserverLaneTest, ATrainerThatWasReplacedIsRefusedOnItsLane) {
  StartServers(1);
  Model model;
  auto old = *Client(0, 1, {.incarnation = 1, .transport = ps::PsTransport::kShm});
  ASSERT_TRUE(old->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(old->InitOrFetch(model.Tensors()).ok());
  auto now = *Client(0, 1, {.incarnation = 2});
  ASSERT_TRUE(now->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  const Status late = PushAndWait(*old, 0, 0.1f, model.View(model.params));
  EXPECT_EQ(late.code(), StatusCode::kFailedPrecondition) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("was restarted as incarnation"));
  EXPECT_GT(old->shm_calls(), 0u);
}

// The server does not reply to the first two requests for a ticket. The connection must repeat the
// request until it gets a ticket.
TEST_F(PserverLaneTest, AServerThatDoesNotAnswerForAMomentIsAskedAgain) {
  StartServers(1);
  Model model;
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kASync, {}).ok());
  std::atomic<int> asked = 0;
  const auto invite = [&]() -> StatusOr<shm_rpc::ShmRpcTicket> {
    if (++asked < 3) return DeadlineExceeded("no reply within 5");
    auto [status, invitation] = Invite(0);
    if (!status.ok()) return Internal("%s", status.error_message());
    return invitation;
  };
  ps::ShmRpcConnection patient("patient", invite);
  const Status opened = patient.WaitForFirst(SteadyNow() + seconds(60), nullptr);
  EXPECT_TRUE(opened.ok()) << opened;
  EXPECT_EQ(asked, 3);
  ps::ShmRpcConnection silent("silent", [] { return DeadlineExceeded("no reply within 5"); });
  EXPECT_EQ(silent.WaitForFirst(SteadyNow(), nullptr).code(), StatusCode::kDeadlineExceeded);
  ps::ShmRpcConnection refused("refused", [] { return FailedPrecondition("another job"); });
  EXPECT_EQ(refused.WaitForFirst(Time::max(), nullptr).code(), StatusCode::kFailedPrecondition);
}

// The server must reject a message that is not a push, and continue. The parameters must not
// change.
TEST_F(PserverLaneTest, GarbageOnALaneChangesNothing) {
  StartServers(1);
  Model model;
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kASync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  const auto before = model.params;
  EXPECT_EQ(Invite(9).first.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  auto [invited, invitation] = Invite(0);
  ASSERT_TRUE(invited.ok()) << invited.error_message();
  auto lane = shm_rpc::ShmRpcClient::Connect(invitation, SteadyNow() + seconds(10));
  ASSERT_TRUE(lane.ok()) << lane.status();
  std::thread serve([&] { (void)(*lane)->Run(); });
  std::mt19937 random(5);
  const auto call = [&](uint32_t method, const codec::EncodedMessage& message) {
    Answer<Status> answer;
    const auto done = answer.Callback();
    CHECK((*lane)->Call(method, message, SteadyNow() + seconds(30),
                        [&done](const Status& status, codec::Fragments) { done(status); }));
    return answer.Get();
  };
  const codec::CodedPush good{
      {{"job", 0, UINT64_MAX / 2}, 1, 0, 0.1f},
      {{.variable = "fc_0.w", .offset = 0, .desc = {DType::kF32, {407}}, .data = before[0].data()}},
      ""};
  std::string bytes;
  for (const auto& piece : codec::EncodePush(good).pieces) {
    bytes += piece.data == nullptr ? piece.owned
                                   : std::string(static_cast<const char*>(piece.data), piece.bytes);
  }
  for (int i = 0; i < 2000; ++i) {
    // The message is too short for a whole gradient.
    std::string bad = bytes.substr(0, random() % 60);
    for (int flips = 0; flips < 3 && !bad.empty(); ++flips) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    EXPECT_FALSE(
        call(random() % 2 == 0 ? LANE_METHOD_PUSH : 77, {{{bad, nullptr, 0, nullptr}}}).ok());
    call(LANE_METHOD_PULL, {{{bad, nullptr, 0, nullptr}}}).IgnoreError();
  }
  auto again = *Client(0, 1, {.incarnation = UINT64_MAX / 2 + 1});
  ASSERT_TRUE(again->Configure(model.variables, ps::PsMode::kASync, {}).ok());
  ASSERT_EQ(*PullAndWait(*again, 0, model.Tensors()), 0u);
  EXPECT_EQ(model.params, before);
  (*lane)->Stop();
  serve.join();
}

}  // namespace
}  // namespace tandem::pserver
