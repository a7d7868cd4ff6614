// Tests calls that wait at a server for other trainers. A call must end if its caller dies, and
// every call has a deadline.
#include <thread>

#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/grpc_ps_channel.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class WaitingCallsTest : public PserverTest {
 protected:
  template <typename Request>
  Status Call(rpc::PserverCall call, const Request& request) {
    const auto carrier = *ps::GrpcPsChannel::Connect(endpoints_, {});
    Answer<Status> answer;
    carrier->Call(
        0, call, rpc::EncodedProto(request), SteadyNow() + std::chrono::seconds(20),
        [done = answer.Callback()](const Status& status, codec::Fragments) { done(status); });
    const Status said = answer.Get();
    carrier->Close();
    return said;
  }
};

// The connection of the dead trainer breaks, so the server ends the call of this trainer long
// before the deadline.
TEST_F(WaitingCallsTest, WhoDiesWaitingWaitsNoMore) {
  StartServers(1);
  Model model;
  auto dying = *Client(1, 2, {.transport = ps::PsTransport::kGrpc});
  const auto other = *Client(0, 2);
  for (ps::PsClient* client : {dying.get(), other.get()}) {
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  }
  ASSERT_TRUE(other->InitOrFetch(model.Tensors()).ok());
  Answer<StatusOr<uint64_t>> never;
  Model theirs;
  dying->Pull(1, theirs.Tensors(), never.Callback());
  const auto waits = [&] { return servers_[0]->Info().trainers[1].silent_seconds == 0; };
  const Time deadline = SteadyNow() + std::chrono::seconds(30);
  while (metrics_.GetGauge("tandem_pserver_waiting_calls", "").Value() != 1 &&
         SteadyNow() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(waits());
  dying.reset();
  while (waits() && SteadyNow() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(waits()) << "step_timeout is 60 s";
}

TEST_F(WaitingCallsTest, ACallThatMayNotWaitIsRefused) {
  StartServers(1);
  PushRequest push;
  push.mutable_pull()->set_job("job");
  EXPECT_THAT(ToString(Call(rpc::PserverCall::kWaitInit, WaitInitRequest())),
              HasSubstr("[TD4023]"));
  EXPECT_THAT(ToString(Call(rpc::PserverCall::kPull, PullRequest())), HasSubstr("[TD4023]"));
  EXPECT_THAT(ToString(Call(rpc::PserverCall::kPush, push)), HasSubstr("[TD4023]"));
  EXPECT_THAT(ToString(Call(rpc::PserverCall::kBarrier, BarrierRequest())), HasSubstr("[TD4023]"));
}

}  // namespace
}  // namespace tandem::pserver
