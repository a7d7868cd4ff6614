// A server that SIGTERM ends cancels calls. The client retries such a call like a call whose
// connection broke, and reports CANCELLED only for calls that the client itself cancelled.
#include "pserver/client/carrier/raw_call.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "proto/pserver.grpc.pb.h"
#include "pserver/client/carrier/blocking_call.h"

namespace tandem::ps {
namespace {

using ::testing::HasSubstr;

// Cancels the first `count` calls of Barrier. Other calls of Barrier and GetStatus succeed.
class CancellingServer final : public ParameterServer::Service {
 public:
  explicit CancellingServer(int count) : count_(count) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }
  ~CancellingServer() override { server_->Shutdown(); }

  grpc::Status Barrier(grpc::ServerContext*, const BarrierRequest*, BarrierReply*) override {
    if (++barriers_ > count_) return grpc::Status::OK;
    return {grpc::StatusCode::CANCELLED, "CANCELLED"};
  }
  grpc::Status GetStatus(grpc::ServerContext*, const StatusRequest*, StatusReply*) override {
    return grpc::Status::OK;
  }

  RawServer raw() const { return {.channel = channel_, .session = nullptr}; }
  int barriers() const { return barriers_; }

 private:
  const int count_;
  std::atomic<int> barriers_{0};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Makes a call of Barrier with at most `retries` retries.
Status CallBarrier(const CancellingServer& server, int retries) {
  const Time deadline = SteadyNow() + std::chrono::seconds(60);
  std::promise<Status> ended;
  (void)RawCall::Start(
      nullptr, server.raw(), rpc::PserverCall::kBarrier, rpc::SerializeMessage(BarrierRequest()),
      CallRetries(retries, deadline, 0),
      [&](const Status& status, const grpc::ByteBuffer&) { ended.set_value(status); });
  return ended.get_future().get();
}

TEST(RawCallTest, ACallThatTheServerCancelsIsSentOnceMore) {
  const CancellingServer server(1);
  EXPECT_TRUE(CallBarrier(server, 3).ok());
  EXPECT_EQ(server.barriers(), 2);
}

TEST(RawCallTest, TheLastAttemptThatTheServerCancelsIsUnavailable) {
  const CancellingServer server(100);
  const Status status = CallBarrier(server, 1);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("attempt 2: the server cancelled the call: CANCELLED"));
  EXPECT_EQ(server.barriers(), 2);
}

TEST(RawCallTest, ACallThatTheClientCancelsIsCancelled) {
  // No server listens, so the call waits until the client cancels it.
  BlockingCalls calls({.channel = grpc::CreateChannel("unix:/nonexistent/tandem",
                                                      grpc::InsecureChannelCredentials()),
                       .session = nullptr});
  auto status = std::async(std::launch::async, [&] {
    BarrierReply reply;
    return calls.Call(rpc::PserverCall::kBarrier, BarrierRequest(), &reply,
                      SteadyNow() + std::chrono::seconds(60));
  });
  calls.Cancel();
  EXPECT_EQ(status.get().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace tandem::ps
