// Tests the checksums of messages: a server rejects each damaged request before it has an effect,
// and a client repeats a call whose reply is damaged.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <string>

#include "common/rpc/byte_buffer.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/message_checksum.h"
#include "common/rpc/server.h"
#include "proto/pserver.grpc.pb.h"
#include "pserver/client/carrier/blocking_call.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

constexpr char kUnversioned[] = "/tandem.ParameterServer/";

grpc::ByteBuffer Bytes(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Flipped(std::string bytes, size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

class ChecksumTest : public PserverTest {
 protected:
  struct Outcome {
    Status status;
    std::string reply;
    bool has_checksum = false;
  };
  // Sends `request` with `checksum`; "": without a checksum.
  Outcome Call(const std::string& path, const std::string& request, const std::string& checksum) {
    if (channel_ == nullptr) channel_ = *rpc::MakeChannel(servers_[0]->endpoint(), rpc::TlsFiles{});
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel_);
    grpc::ClientContext context;
    CHECK(rpc::PrepareCall(SteadyNow() + std::chrono::seconds(20), &context).ok());
    if (!checksum.empty()) context.AddMetadata(rpc::kChecksumMetadata, checksum);
    const grpc::ByteBuffer sent = Bytes(request);
    grpc::ByteBuffer received;
    Answer<grpc::Status> answer;
    stub.UnaryCall(&context, path, {}, &sent, &received, answer.Callback());
    const grpc::Status status = answer.Get();
    Outcome outcome{rpc::FromGrpc(status), {}};
    grpc::Slice reply;
    if (status.ok() && received.DumpToSingleSlice(&reply).ok()) {
      outcome.reply = std::string(reinterpret_cast<const char*>(reply.begin()), reply.size());
    }
    const rpc::Metadata& metadata = context.GetServerTrailingMetadata();
    outcome.has_checksum = rpc::HasChecksum(metadata);
    const std::string method = path.substr(path.rfind('/') + 1);
    EXPECT_TRUE(
        rpc::CompareChecksum(metadata, rpc::ReplyChecksum(method, status, received), path).ok());
    return outcome;
  }
  static std::string Of(const std::string& method, const std::string& request) {
    return rpc::RequestChecksum(method, Bytes(request));
  }
  StatusReply ServerStatus() {
    StatusReply info;
    CHECK(info.ParseFromString(Call(std::string(kUnversioned) + "GetStatus", "", "").reply));
    return info;
  }
  // Starts a server with a model, and returns a push that it accepts.
  PushRequest StartWithPush() {
    StartServers(1);
    client_ = *Client(0, 1);
    Model model;
    CHECK(client_->Configure(model.variables, ps::PsMode::kASync, {}).ok());
    CHECK(client_->InitOrFetch(model.Tensors()).ok());
    const StatusReply info = ServerStatus();
    PushRequest push;
    push.set_job(info.job());
    push.set_incarnation(info.trainer(0).incarnation());
    push.set_sequence(1);
    push.set_learning_rate(0.5f);
    PullRequest pull;
    pull.set_job(info.job());
    pull.set_observer(true);
    pull.set_timeout_ms(1000);
    PullReply values;
    CHECK(values.ParseFromString(
        Call(std::string(kUnversioned) + "Pull", pull.SerializeAsString(), "").reply));
    for (const SliceTensor& slice : values.slice()) {
      if (slice.variable() == "fc_0.b") *push.add_slice() = slice;
    }
    CHECK(push.slice_size() == 1);
    return push;
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ps::PsClient> client_;
};

TEST_F(ChecksumTest, EachFlippedBitOfAPushIsRejectedAndTheRetryAppliesItOnce) {
  const std::string push = StartWithPush().SerializeAsString();
  const std::string path = std::string(kUnversioned) + "Push", checksum = Of("Push", push);
  for (size_t bit = 0; bit < 8 * push.size(); ++bit) {
    const Outcome damaged = Call(path, Flipped(push, bit), checksum);
    ASSERT_EQ(damaged.status.code(), StatusCode::kUnavailable) << "bit " << bit;
    ASSERT_THAT(std::string(damaged.status.message()), HasSubstr("[TD4043]"));
    ASSERT_TRUE(damaged.has_checksum);
  }
  for (size_t bit = 0; bit < 8 * checksum.size(); ++bit) {
    ASSERT_EQ(Call(path, push, Flipped(checksum, bit)).status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(ServerStatus().version(), 0u) << "a damaged push had an effect";
  PushReply first, second;
  const Outcome intact = Call(path, push, checksum);
  ASSERT_EQ(intact.status, OkStatus());
  EXPECT_TRUE(intact.has_checksum);
  ASSERT_TRUE(first.ParseFromString(intact.reply));
  EXPECT_FALSE(first.duplicate());
  ASSERT_TRUE(second.ParseFromString(Call(path, push, checksum).reply));
  EXPECT_TRUE(second.duplicate());
  EXPECT_EQ(ServerStatus().version(), 1u);
}

TEST_F(ChecksumTest, ARequestWithoutAChecksumIsAcceptedAndItsReplyHasNone) {
  const std::string push = StartWithPush().SerializeAsString();
  const Outcome old = Call(std::string(kUnversioned) + "Push", push, "");
  EXPECT_EQ(old.status, OkStatus());
  EXPECT_FALSE(old.has_checksum);
}

TEST_F(ChecksumTest, EveryCallOfBothServicesComparesTheChecksum) {
  StartServers(1);
  const std::string v1 = "/tandem.pserver.v1.ParameterServer/";
  for (const rpc::PserverCallRow& row : rpc::PserverCallTable()) {
    for (const std::string& path :
         {kUnversioned + std::string(row.name), v1 + std::string(rpc::NameInV1(row.call))}) {
      const std::string name = path.substr(path.rfind('/') + 1);
      const Outcome damaged = Call(path, "", Of(name, "x"));
      EXPECT_EQ(damaged.status.code(), StatusCode::kUnavailable) << path;
      EXPECT_THAT(std::string(damaged.status.message()), HasSubstr("[TD4043]")) << path;
      EXPECT_TRUE(damaged.has_checksum) << path;
      const Outcome other = Call(path, "", Of("Other", ""));
      EXPECT_EQ(other.status.code(), StatusCode::kUnavailable) << path << ": another method";
      const Outcome intact = Call(path, "", Of(name, ""));
      EXPECT_THAT(std::string(intact.status.message()), Not(HasSubstr("[TD4043]"))) << path;
      EXPECT_TRUE(intact.has_checksum) << path;
    }
  }
}

TEST_F(ChecksumTest, EachFlippedBitOfAReplyChangesItsChecksum) {
  const std::string reply = "\x08\x01\x12\x04name";
  const grpc::Status failed(grpc::StatusCode::OUT_OF_RANGE, "moved");
  const std::string checksum = rpc::ReplyChecksum("Pull", grpc::Status::OK, Bytes(reply));
  for (size_t bit = 0; bit < 8 * reply.size(); ++bit) {
    EXPECT_NE(rpc::ReplyChecksum("Pull", grpc::Status::OK, Bytes(Flipped(reply, bit))), checksum);
  }
  EXPECT_NE(rpc::ReplyChecksum("Push", grpc::Status::OK, Bytes(reply)), checksum);
  EXPECT_NE(rpc::ReplyChecksum("Pull", failed, Bytes(reply)), checksum);
  EXPECT_EQ(rpc::ReplyChecksum("Pull", failed, Bytes(reply)),
            rpc::ReplyChecksum("Pull", failed, Bytes("")));
  EXPECT_NE(rpc::ReplyChecksum("Pull", failed, Bytes("")),
            rpc::ReplyChecksum("Pull", {grpc::StatusCode::ABORTED, "moved"}, Bytes("")));
}

// A server whose first replies to GetStatus are damaged.
class DamagingServer final : public ParameterServer::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext* context, const StatusRequest*,
                         StatusReply* reply) override {
    ++calls;
    reply->set_job("job");
    requests_with_checksum += rpc::HasChecksum(context->client_metadata()) ? 1 : 0;
    if (checksums) {
      context->AddTrailingMetadata(
          rpc::kChecksumMetadata,
          rpc::ReplyChecksum("GetStatus", grpc::Status::OK, Bytes(reply->SerializeAsString())));
    }
    if (damaged-- > 0) reply->set_job("jof");
    if (fails) return {grpc::StatusCode::NOT_FOUND, "the status is damaged"};
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0, damaged = 0, requests_with_checksum = 0;
  std::atomic<bool> checksums = true, fails = false;
};

class DamagedReplyTest : public testing::Test {
 protected:
  DamagedReplyTest() {
    auto server = rpc::RpcServer::Start({}, {&service_});
    CHECK(server.ok());
    server_ = *std::move(server);
    raw_ = ps::MakeRawServer(server_->endpoint(), {}, *rpc::MakeCredentials({}), "", "job");
  }
  // Returns the name of the job in the reply.
  StatusOr<std::string> GetStatus(int retries) {
    const auto leases = std::make_shared<ps::WaitGroup>();
    const ps::CallRetries attempts(retries, SteadyNow() + std::chrono::seconds(20), 0);
    Answer<StatusOr<std::string>> answer;
    const auto done = [take = answer.Callback()](const Status& status,
                                                 const grpc::ByteBuffer& bytes) {
      StatusReply reply;
      if (!status.ok()) return take(status);
      CHECK(rpc::ParseMessage(bytes, &reply).ok());
      take(reply.job());
    };
    ps::RawCall::Start(ps::WaitGroup::Take(leases), raw_, rpc::PserverCall::kGetStatus,
                       rpc::SerializeMessage(StatusRequest()), attempts, done);
    StatusOr<std::string> got = answer.Get();
    CHECK(leases->WaitForNone(SteadyNow() + std::chrono::seconds(20)));
    return got;
  }

  DamagingServer service_;
  std::unique_ptr<rpc::RpcServer> server_;
  ps::RawServer raw_;
};

TEST_F(DamagedReplyTest, TheClientRepeatsTheCall) {
  service_.damaged = 1;
  EXPECT_EQ(GetStatus(/*retries=*/2), StatusOr<std::string>("job"));
  EXPECT_GE(service_.calls, 2);
  EXPECT_EQ(service_.requests_with_checksum, service_.calls);
}

TEST_F(DamagedReplyTest, TheCallFailsAfterTheLastRetry) {
  service_.damaged = 100;
  const StatusOr<std::string> got = GetStatus(/*retries=*/0);
  EXPECT_EQ(got.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("[TD4043]"));
}

TEST_F(DamagedReplyTest, AChangedStatusIsNoticed) {
  service_.fails = true;
  const StatusOr<std::string> got = GetStatus(/*retries=*/0);
  EXPECT_EQ(got.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("[TD4043]"));
}

TEST_F(DamagedReplyTest, AReplyWithoutAChecksumIsAccepted) {
  service_.checksums = false;
  EXPECT_EQ(GetStatus(/*retries=*/0), StatusOr<std::string>("job"));
}

TEST_F(DamagedReplyTest, TlsAndUnixSocketsNeedNoChecksums) {
  rpc::TlsFiles tls;
  tls.ca = "ca.crt";
  EXPECT_TRUE(rpc::NeedsChecksums({"127.0.0.1", 1}, {}));
  EXPECT_TRUE(rpc::NeedsChecksums({"host", 1}, {}));
  EXPECT_FALSE(rpc::NeedsChecksums({"host", 1}, tls));
  EXPECT_FALSE(rpc::NeedsChecksums(*ParseEndpoint("unix:/tmp/socket"), {}));
}

}  // namespace
}  // namespace tandem::pserver
