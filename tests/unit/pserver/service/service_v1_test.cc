// Tests the service tandem.pserver.v1.ParameterServer. Each call has the same effect, reply and
// errors as the corresponding call of tandem.ParameterServer.
#include "pserver/service/raw_services.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <string>

#include "common/rpc/byte_buffer.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials/session_proof.h"
#include "common/rpc/grpc_status.h"
#include "proto/pserver_v1.pb.h"
#include "pserver/client/carrier/client_session.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

constexpr char kSecret[] = "0123456789abcdef";
constexpr char kUnversioned[] = "/tandem.ParameterServer/";
constexpr char kV1[] = "/tandem.pserver.v1.ParameterServer/";

const google::protobuf::ServiceDescriptor* Service(const std::string& name) {
  // Links the file's descriptor into this program, because no other code of the program refers to
  // it.
  static const void* volatile linked = &descriptor_table_proto_2fpserver_5fv1_2eproto;
  CHECK(linked != nullptr);
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
  CHECK(service != nullptr) << name;
  return service;
}

struct Outcome {
  Status status;
  std::string reply;
};

class ServiceV1Test : public PserverTest {
 protected:
  Outcome Call(const std::string& path, const std::string& request, const std::string& stamp = {}) {
    auto channel = rpc::MakeChannel(servers_[0]->endpoint(), rpc::TlsFiles{});
    if (!channel.ok()) return {channel.status(), {}};
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(*channel);
    grpc::ClientContext context;
    if (Status s = rpc::PrepareCall(SteadyNow() + std::chrono::seconds(20), &context); !s.ok())
      return {s, {}};
    if (!stamp.empty()) context.AddMetadata(rpc::kStampMetadata, stamp);
    grpc::Slice slice(request);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    Answer<grpc::Status> answer;
    stub.UnaryCall(&context, path, {}, &sent, &received, answer.Callback());
    Outcome outcome{rpc::FromGrpc(answer.Get()), {}};
    grpc::Slice reply;
    if (outcome.status.ok() && received.DumpToSingleSlice(&reply).ok()) {
      outcome.reply = std::string(reinterpret_cast<const char*>(reply.begin()), reply.size());
    }
    return outcome;
  }
  Outcome CallEach(const rpc::PserverCallRow& row, const std::string& request) {
    const Outcome before = Call(kUnversioned + std::string(row.name), request);
    Outcome v1 = Call(std::string(kV1) + rpc::NameInV1(row.call), request);
    EXPECT_EQ(v1.status.code(), before.status.code()) << row.name << ": " << v1.status;
    EXPECT_EQ(v1.status.message(), before.status.message()) << row.name;
    EXPECT_EQ(v1.reply, before.reply) << row.name;
    return v1;
  }
};

TEST_F(ServiceV1Test, EachCallHasTheMessagesOfItsCallInTheUnversionedService) {
  const auto* before = Service("tandem.ParameterServer");
  const auto* v1 = Service("tandem.pserver.v1.ParameterServer");
  ASSERT_EQ(v1->method_count(), before->method_count());
  for (const rpc::PserverCallRow& row : rpc::PserverCallTable()) {
    const auto* method = v1->FindMethodByName(rpc::NameInV1(row.call));
    ASSERT_NE(method, nullptr) << row.name;
    const auto* same = before->FindMethodByName(row.name);
    ASSERT_NE(same, nullptr) << row.name;
    EXPECT_EQ(method->input_type(), same->input_type()) << row.name;
    EXPECT_EQ(method->output_type(), same->output_type()) << row.name;
  }
}

TEST_F(ServiceV1Test, EmptyRequestsHaveTheSameOutcome) {
  StartServers(1);
  int served = 0;
  for (const rpc::PserverCallRow& row : rpc::PserverCallTable()) {
    // OpenLane is skipped: each of its replies has a different ticket.
    if (row.call == rpc::PserverCall::kOpenShmChannel) continue;
    served += CallEach(row, "").status.ok() ? 1 : 0;
  }
  EXPECT_GE(served, 1) << "GetStatus at least";
}

TEST_F(ServiceV1Test, APushThatCameByOneServiceIsADuplicateByTheOther) {
  StartServers(1);
  auto client = Client(0, 1);
  ASSERT_TRUE(client.ok()) << client.status();
  Model model;
  ASSERT_TRUE((*client)->Configure(model.variables, ps::PsMode::kASync, {}).ok());
  ASSERT_TRUE((*client)->InitOrFetch(model.Tensors()).ok());

  StatusReply info;
  ASSERT_TRUE(info.ParseFromString(Call(std::string(kV1) + "GetStatus", "").reply));
  ASSERT_EQ(info.trainer_size(), 1);
  PullRequest pull;
  pull.set_job(info.job());
  pull.set_observer(true);
  pull.set_timeout_ms(1000);
  const std::string asked = pull.SerializeAsString();
  const Outcome pulled = Call(std::string(kV1) + "Pull", asked);
  ASSERT_EQ(pulled.status, OkStatus());
  PullReply values, same;
  ASSERT_TRUE(values.ParseFromString(pulled.reply));
  ASSERT_TRUE(same.ParseFromString(Call(std::string(kUnversioned) + "Pull", asked).reply));
  ASSERT_GT(values.slice_size(), 0);
  values.clear_times();
  same.clear_times();
  EXPECT_TRUE(values.SerializeAsString() == same.SerializeAsString());

  PushRequest push;
  push.set_job(info.job());
  push.set_incarnation(info.trainer(0).incarnation());
  push.set_sequence(1);
  push.set_learning_rate(0.5f);
  *push.mutable_slice() = values.slice();
  PushReply first, second;
  const Outcome sent = Call(std::string(kV1) + "Push", push.SerializeAsString());
  ASSERT_EQ(sent.status, OkStatus());
  ASSERT_TRUE(first.ParseFromString(sent.reply));
  EXPECT_FALSE(first.duplicate());
  EXPECT_EQ(first.version(), 1u);
  ASSERT_TRUE(second.ParseFromString(
      Call(std::string(kUnversioned) + "Push", push.SerializeAsString()).reply));
  EXPECT_TRUE(second.duplicate());
  EXPECT_EQ(second.version(), 1u);
}

TEST_F(ServiceV1Test, AProofMayHaveEitherNameOfItsCallAndNoOther) {
  PserverOptions options;
  options.secret = kSecret;
  options.job = "job";
  StartServers(1, options);
  ps::ClientSession session(kSecret, "job", endpoints_[0]);
  const OpenSessionRequest offer = session.Offer();
  const Outcome opened = Call(std::string(kV1) + "OpenSession", offer.SerializeAsString());
  ASSERT_EQ(opened.status, OkStatus());
  OpenSessionReply reply;
  ASSERT_TRUE(reply.ParseFromString(opened.reply));
  ASSERT_EQ(session.Accept(offer, reply), OkStatus());
  const auto code = [&](const std::string& path, const char* proved) {
    return Call(path, "", session.Next(proved).metadata).status.code();
  };
  const std::string call = std::string(kV1) + "SetDraining";
  EXPECT_NE(code(call, "SetDraining"), StatusCode::kUnauthenticated);
  EXPECT_NE(code(call, "RefuseBuckets"), StatusCode::kUnauthenticated);
  EXPECT_EQ(code(call, "CommitBuckets"), StatusCode::kUnauthenticated);
  EXPECT_EQ(code(std::string(kV1) + "GetStatus", "GetStatus"), StatusCode::kOk);
  EXPECT_EQ(Call(std::string(kV1) + "GetStatus", "").status.code(), StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace tandem::pserver
