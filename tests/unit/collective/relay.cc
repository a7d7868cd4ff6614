#include "tests/unit/collective/relay.h"

#include "gmock/gmock.h"

namespace tandem::collective {

std::vector<Status> SumThroughRelay(Relay& relay, const Door& door, size_t count,
                                    const rpc::TlsFiles& tls) {
  std::vector<Status> said(2);
  OnEveryRank(2, [&](int r) {
    WorldConfig world = TestWorld(door, r, 2);
    if (r == 1) world.rendezvous = "127.0.0.1:" + std::to_string(relay.port());
    world.tls = tls;
    auto comm = ConnectTcp(world);
    if (!comm.ok()) {
      said[static_cast<size_t>(r)] = comm.status();
      return;
    }
    std::vector<float> data(count, 1.0f);
    said[static_cast<size_t>(r)] = (*comm)
                                       ->AllReduce(data.data(), data.data(), count, DType::kF32,
                                                   ReduceOp::kSum, {.what = "the gradient"})
                                       ->Wait(In(20));
    if (said[static_cast<size_t>(r)].ok()) {
      EXPECT_THAT(data, ::testing::Each(2.0f));
    }
  });
  return said;
}

}  // namespace tandem::collective
