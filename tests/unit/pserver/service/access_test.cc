// Tests the roles: every combination of role and call on a real server, and the separation of jobs.
#include "pserver/service/access.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/rpc/byte_buffer.h"
#include "common/rpc/grpc_status.h"
#include "proto/pserver.pb.h"
#include "pserver/service/reader_limits.h"
#include "tests/support/tls_test_util.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

// The test deliberately repeats the product's table. A change of the product's table changes the
// rights of roles, so the test must change too.
const std::map<std::string, std::vector<rpc::PeerRole>>& Allowed() {
  using enum rpc::PeerRole;
  static const std::map<std::string, std::vector<rpc::PeerRole>> allowed = {
      {"Configure", {kTrainer}},
      {"InitParams", {kTrainer}},
      {"WaitInit", {kTrainer}},
      {"Push", {kTrainer}},
      {"Pull", {kTrainer, kReader, kAdmin}},
      {"Barrier", {kTrainer}},
      {"Complete", {kTrainer}},
      {"GetStatus", {kTrainer, kObserver, kReader, kPserver, kAdmin}},
      {"SaveCheckpoint", {kTrainer, kAdmin}},
      {"RestoreCheckpoint", {kAdmin}},
      {"PullState", {kTrainer, kAdmin}},
      {"PullTable", {kTrainer, kReader, kAdmin}},
      {"OpenLane", {kTrainer}},
      {"ExchangeMap", {kTrainer, kReader, kAdmin}},
      {"FreezeBuckets", {kAdmin}},
      {"OfferBuckets", {kAdmin}},
      {"ReleaseBuckets", {kAdmin}},
      {"RefuseBuckets", {kAdmin}},
      {"HoldPushes", {kAdmin}},
      {"TakeCut", {kAdmin}},
      {"OpenSession", {kTrainer, kObserver, kReader, kPserver, kAdmin}},
      {"FetchLog", {kPserver}},
      {"FetchCheckpoint", {kPserver}},
      {"FetchChanges", {kTrainer, kReader, kAdmin}},
  };
  return allowed;
}

class AccessTest : public PserverTest {
 protected:
  void StartTlsServer(const std::string& job) {
    PserverOptions options;
    options.rpc.tls = authority_.Issue(job, rpc::PeerRole::kPserver);
    options.data_dir = dir_ + "/data";
    options.audit_log = dir_ + "/audit.jsonl";
    StartServers(1, options);
  }
  // Returns the outcome of each call in the audit log, by "ROLE CALL". ROLE is empty for a caller
  // without a role.
  std::map<std::string, std::string> Audited() const {
    std::map<std::string, std::string> outcomes;
    std::ifstream file(dir_ + "/audit.jsonl");
    for (std::string text; std::getline(file, text);) {
      const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!line.is_object()) continue;
      EXPECT_EQ(line["job"], "j");
      EXPECT_EQ(line["proof"], "certificate");
      EXPECT_THAT(line["peer"].get<std::string>(), HasSubstr("127.0.0.1:"));
      outcomes[line["role"].get<std::string>() + " " + line["call"].get<std::string>()] =
          line["outcome"].get<std::string>();
    }
    return outcomes;
  }
  // Makes a call with an empty request, or with `message`. Returns its status.
  Status Call(const rpc::TlsFiles& tls, const std::string& method,
              const std::string& message = "") {
    const auto channel = rpc::MakeChannel(servers_[0]->endpoint(), tls);
    return channel.ok() ? Call(*channel, method, message) : channel.status();
  }
  static Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& message = "") {
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel);
    grpc::ClientContext context;
    TD_RETURN_IF_ERROR(rpc::PrepareCall(SteadyNow() + std::chrono::seconds(20), &context));
    const grpc::Slice content(message);
    const grpc::ByteBuffer request(&content, 1);
    grpc::ByteBuffer reply;
    Answer<grpc::Status> answer;
    stub.UnaryCall(&context, "/tandem.ParameterServer/" + method, {}, &request, &reply,
                   answer.Callback());
    return rpc::FromGrpc(answer.Get());
  }

  TestAuthority authority_{dir_, "ours"};
};

TEST_F(AccessTest, EveryCallHasOneRow) {
  const auto* service =
      ConfigureRequest::descriptor()->file()->FindServiceByName("ParameterServer");
  ASSERT_NE(service, nullptr);
  const auto rows = rpc::PserverCallTable();
  ASSERT_EQ(static_cast<size_t>(service->method_count()), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(rows[i].call), i) << rows[i].name;
    EXPECT_NE(service->FindMethodByName(rows[i].name), nullptr) << rows[i].name;
    EXPECT_TRUE(Allowed().contains(rows[i].name)) << rows[i].name;
    const std::string name = rows[i].name;
    EXPECT_EQ(rows[i].carries_values, name == "Push" || name == "Pull") << name;
    EXPECT_EQ(rows[i].patient, name == "Configure") << name;
  }
}

// A reader may pull only as an observer, which changes nothing on the server.
TEST_F(AccessTest, AReaderIsNoTrainer) {
  StartTlsServer("j");
  const rpc::TlsFiles tls = authority_.Issue("client", {{"j", rpc::PeerRole::kReader}, {}});
  PullRequest pull;
  pull.set_job("j");
  pull.set_timeout_ms(1000);
  const Status as_trainer = Call(tls, "Pull", pull.SerializeAsString());
  EXPECT_EQ(as_trainer.code(), StatusCode::kPermissionDenied) << as_trainer;
  EXPECT_THAT(std::string(as_trainer.message()),
              HasSubstr("a caller with role reader must set observer"));
  pull.set_observer(true);
  EXPECT_NE(Call(tls, "Pull", pull.SerializeAsString()).code(), StatusCode::kPermissionDenied);
  ExchangeMapRequest map;
  map.set_job("j");
  map.set_observer(true);
  EXPECT_NE(Call(tls, "ExchangeMap", map.SerializeAsString()).code(),
            StatusCode::kPermissionDenied);
  map.mutable_known()->add_move()->set_epoch(1);
  const Status moves = Call(tls, "ExchangeMap", map.SerializeAsString());
  EXPECT_EQ(moves.code(), StatusCode::kPermissionDenied) << moves;
}

// A reader gets values, not the state of optimizers. Its requests have separate limits.
TEST_F(AccessTest, AReaderGetsValuesAlone) {
  StartTlsServer("j");
  const rpc::TlsFiles reader = authority_.Issue("client", {{"j", rpc::PeerRole::kReader}, {}});
  const rpc::TlsFiles admin = authority_.Issue("admin", {{"j", rpc::PeerRole::kAdmin}, {}});
  PullTableRequest page;
  page.set_job("j");
  page.set_variable("emb");
  page.set_slots(true);
  const Status slots = Call(reader, "PullTable", page.SerializeAsString());
  EXPECT_EQ(slots.code(), StatusCode::kPermissionDenied) << slots;
  EXPECT_THAT(std::string(slots.message()),
              HasSubstr("but not the state of the optimizer [TD6009]"));
  EXPECT_NE(Call(admin, "PullTable", page.SerializeAsString()).code(),
            StatusCode::kPermissionDenied);
  page.set_slots(false);
  page.set_bytes_max(uint64_t{256} << 20);
  const Status large = Call(reader, "PullTable", page.SerializeAsString());
  EXPECT_EQ(large.code(), StatusCode::kResourceExhausted) << large;
  EXPECT_THAT(std::string(large.message()), HasSubstr("a page of 268435456 bytes"));
  page.set_bytes_max(1 << 20);
  EXPECT_EQ(Call(reader, "PullTable", page.SerializeAsString()).code(),
            Call(admin, "PullTable", page.SerializeAsString()).code());
  EXPECT_TRUE(CheckReaderBytes(kReaderPullBytesMax).ok());
  const Status long_pull = CheckReaderBytes(kReaderPullBytesMax + 1);
  EXPECT_EQ(long_pull.code(), StatusCode::kResourceExhausted) << long_pull;
  EXPECT_THAT(std::string(long_pull.message()),
              HasSubstr("has 16777217 bytes, but the maximum is 16777216 [TD4042]"));
}

TEST_F(AccessTest, EveryRoleMayWhatItsRowSaysAndNothingElse) {
  StartTlsServer("j");
  int cells = 0, refused = 0;
  for (const rpc::PeerRole role : rpc::kPeerRoles) {
    const rpc::TlsFiles tls = authority_.Issue("client", {{"j", role}, {}});
    const auto channel = rpc::MakeChannel(servers_[0]->endpoint(), tls);
    ASSERT_TRUE(channel.ok()) << channel.status();
    for (const auto& [method, roles] : Allowed()) {
      const bool allowed = std::find(roles.begin(), roles.end(), role) != roles.end();
      const Status status = Call(*channel, method);
      ++cells;
      refused += allowed ? 0 : 1;
      // The server may reject an empty request for other reasons, but must not reject it because of
      // an allowed role.
      // The empty request of a reader is not one of an observer.
      const bool as_trainer = role == rpc::PeerRole::kReader && method == "ExchangeMap";
      EXPECT_EQ(status.code() != StatusCode::kPermissionDenied, allowed && !as_trainer)
          << rpc::RoleName(role) << " " << method << ": " << status;
      EXPECT_NE(status.code(), StatusCode::kUnavailable) << rpc::RoleName(role) << " " << method;
      if (allowed) continue;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(method + ": the caller has role " + rpc::RoleName(role) +
                            " of job \"j\", but the call needs role " + rpc::RoleName(roles[0])));
    }
  }
  EXPECT_EQ(cells, 120);
  EXPECT_EQ(refused, 78);
  // The audit log contains every call.
  const auto audited = Audited();
  EXPECT_EQ(audited.size(), 120u);
  for (const rpc::PeerRole role : rpc::kPeerRoles) {
    for (const auto& [method, roles] : Allowed()) {
      const auto it = audited.find(std::string(rpc::RoleName(role)) + " " + method);
      ASSERT_NE(it, audited.end()) << rpc::RoleName(role) << " " << method;
      const bool allowed = std::find(roles.begin(), roles.end(), role) != roles.end();
      const bool as_trainer = role == rpc::PeerRole::kReader && method == "ExchangeMap";
      EXPECT_EQ(it->second != "PERMISSION_DENIED", allowed && !as_trainer) << it->first;
    }
  }
}

TEST_F(AccessTest, JobsDoNotMix) {
  StartTlsServer("j");
  for (const rpc::PeerRole role : rpc::kPeerRoles) {
    const auto other = rpc::MakeChannel(servers_[0]->endpoint(), authority_.Issue("other", role));
    ASSERT_TRUE(other.ok()) << other.status();
    for (const auto& [method, roles] : Allowed()) {
      const Status status = Call(*other, method);
      EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << method << ": " << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("of job \"other\", but this server serves"));
    }
  }
  // A client must not accept the server of another job.
  ps::PsOptions options;
  options.job = "other";
  options.security.tls = authority_.Issue("other", rpc::PeerRole::kTrainer);
  const auto client = Client(0, 1, options);
  EXPECT_EQ(client.status().code(), StatusCode::kPermissionDenied) << client.status();
  EXPECT_THAT(std::string(client.status().message()),
              HasSubstr("identifies itself as spiffe://tandem/job/j/role/pserver, expected "
                        "spiffe://tandem/job/other/role/pserver [TD6006]"));
}

TEST_F(AccessTest, CallersWithoutOneRoleAreRefused) {
  const auto said = [](std::vector<std::string_view> uris) {
    return std::string(CheckAccess(PserverCall::kPush, "j", uris).message());
  };
  EXPECT_THAT(said({}), HasSubstr("has 0 URIs"));
  EXPECT_THAT(said({"spiffe://tandem/job/j/role/trainer", "spiffe://tandem/job/j/role/admin"}),
              HasSubstr("has 2 URIs"));
  EXPECT_THAT(said({"https://example.org/"}), HasSubstr("names no role"));
  EXPECT_EQ(said({"spiffe://tandem/job/j/role/trainer"}), "");
}

TEST_F(AccessTest, AServerNeedsItsOwnRole) {
  PserverOptions options;
  options.rpc.tls = authority_.Issue("j", rpc::PeerRole::kTrainer);
  auto server = Pserver::Start(options, metrics_);
  EXPECT_EQ(server.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("--job=JOB --role=pserver"));
  options.rpc.tls = authority_.Issue("j", rpc::PeerRole::kPserver);
  options.job = "k";
  server = Pserver::Start(options, metrics_);
  EXPECT_THAT(
      std::string(server.status().message()),
      HasSubstr(
          "is for role pserver of job \"j\", but this process is a pserver of job \"k\" [TD6010]"));
  // TLS without client certificates does not restrict who may call. Therefore the server rejects
  // this setting for a network address.
  options.job = "";
  options.rpc.tls.ca = "";
  options.rpc.listen = {"0.0.0.0", 0};
  server = Pserver::Start(options, metrics_);
  EXPECT_EQ(server.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("hint: set tls_ca"));
}

// Trains with roles and a secret at the same time, over both transports.
TEST_F(AccessTest, ATrainerTrains) {
  PserverOptions server;
  server.rpc.tls = authority_.Issue("j", rpc::PeerRole::kPserver);
  server.secret = "0123456789abcdef";
  server.job = "j";
  StartServers(2, server);
  for (const ps::PsTransport transport : {ps::PsTransport::kGrpc, ps::PsTransport::kAuto}) {
    ps::PsOptions options;
    options.job = "j";
    options.security.tls = authority_.Issue("j", rpc::PeerRole::kTrainer);
    options.transport = transport;
    auto stolen = Client(0, 1, options);
    ASSERT_TRUE(stolen.ok()) << stolen.status();
    Model model;
    EXPECT_EQ((*stolen)->Configure(model.variables, ps::PsMode::kSync, {}).status().code(),
              StatusCode::kUnauthenticated)
        << "a certificate alone, without the secret";
    options.security.secret = server.secret;
    auto client = Client(0, 1, options);
    ASSERT_TRUE(client.ok()) << client.status();
    const auto state = (*client)->Configure(model.variables, ps::PsMode::kSync, {});
    ASSERT_TRUE(state.ok()) << state.status();
    ASSERT_TRUE((*client)->InitOrFetch(model.Tensors()).ok());
    Status trained;
    TrainSync(client->get(), &model, 0, state->version, state->version + 3, &trained);
    EXPECT_EQ(trained, OkStatus());
    EXPECT_EQ((*client)->shm_servers(), transport == ps::PsTransport::kAuto ? 2 : 0);
  }
}

}  // namespace
}  // namespace tandem::pserver
