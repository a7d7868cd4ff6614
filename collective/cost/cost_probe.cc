#include "collective/cost/cost_probe.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "collective/schedule/algorithms.h"
#include "collective/shared/shm_collectives.h"
#include "common/tensor/reduce.h"

namespace tandem::collective {
namespace {

constexpr int kCallsMin = 3, kCallsMax = 400;
constexpr size_t kSmall = 8, kMiddle = 64 << 10, kLarge = 1 << 20, kLarger = 4 << 20;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Makes the collective whose time is measured. `data`: buffer that TimeSome allocates.
using MakeCall = std::function<Collective(int rank, std::byte* data)>;

// Measures the time of `calls` calls, each on its slowest rank. Returns the median in seconds,
// which is the same on all ranks.
StatusOr<double> TimeSome(Communicator& own, const MakeCall& make, size_t bytes, int calls) {
  TD_ASSIGN_OR_RETURN(const Buffer data, own.Allocate(bytes));
  std::memset(data.get(), 0, bytes);
  const Collective call = make(own.rank(), data.get());
  std::vector<int64_t> nanos;
  for (int i = -1; i < calls; ++i) {   // call -1 is a warm-up without a measurement
    TD_RETURN_IF_ERROR(own.Call({}));  // a barrier, so that all ranks start together
    const Time start = SteadyNow();
    TD_RETURN_IF_ERROR(own.Call(call));
    if (i >= 0) nanos.push_back((SteadyNow() - start).count());
  }
  Collective slowest;
  slowest.op = CollectiveOp::kAllReduce;
  slowest.in = slowest.out = nanos.data();
  slowest.count = nanos.size();
  slowest.dtype = DType::kI64;
  slowest.reduce = ReduceOp::kMax;
  TD_RETURN_IF_ERROR(own.Call(slowest));
  return Median({nanos.begin(), nanos.end()}) * 1e-9;
}

StatusOr<double> TimeFor(Communicator& own, const MakeCall& make, size_t bytes, Duration budget) {
  TD_ASSIGN_OR_RETURN(const double once, TimeSome(own, make, bytes, 1));
  const double affordable = Seconds(budget) / std::max(once, 1e-6);
  const int calls = static_cast<int>(std::clamp<double>(affordable, kCallsMin, kCallsMax));
  return TimeSome(own, make, bytes, calls);
}

StatusOr<double> TimeFor(LocalWorld& world, const MakeCall& make, size_t bytes, Duration budget) {
  double seconds = 0;
  TD_RETURN_IF_ERROR(world.OnEveryRank([&](Communicator& own) -> Status {
    TD_ASSIGN_OR_RETURN(const double mine, TimeFor(own, make, bytes, budget));
    if (own.rank() == 0) seconds = mine;
    return OkStatus();
  }));
  return seconds;
}

MakeCall AllReduceOf(size_t bytes) {
  return [bytes](int, std::byte* data) {
    Collective call;
    call.op = CollectiveOp::kAllReduce;
    call.in = call.out = data;
    call.count = bytes / sizeof(float);
    return call;
  };
}

// Measures an exchange between two ranks: each rank sends `bytes` bytes and receives as many,
// without adding. Returns seconds.
StatusOr<double> TimeExchange(LocalWorld& pair, size_t bytes, Duration budget) {
  const MakeCall make = [bytes](int rank, std::byte* data) {
    Collective call;
    call.op = CollectiveOp::kAllGather;
    call.in = data + static_cast<size_t>(rank) * bytes;
    call.out = data;
    call.count = bytes / sizeof(float);
    return call;
  };
  return TimeFor(pair, make, 2 * bytes, budget);
}

// Measures how long a rank takes to send small messages one after another, without waiting for its
// peer. Returns seconds per message.
StatusOr<double> TimeSends(LocalWorld& pair) {
  constexpr int kSends = 64;
  double seconds = 0;
  TD_RETURN_IF_ERROR(pair.OnEveryRank([&](Communicator& own) -> Status {
    float value = 0;
    Collective call;
    call.op = CollectiveOp::kBroadcast;
    call.in = call.out = &value;
    call.count = 1;
    TD_RETURN_IF_ERROR(own.Call({}));
    const Time start = SteadyNow();
    for (int i = 0; i < kSends; ++i) TD_RETURN_IF_ERROR(own.Call(call));
    if (own.rank() == 0) seconds = Seconds(SteadyNow() - start) / kSends;
    return own.Call({});
  }));
  return seconds;
}

}  // namespace

StatusOr<double> TimeAllReduce(Communicator& own, size_t bytes, Duration budget) {
  return TimeFor(own, AllReduceOf(bytes), bytes, budget);
}

StatusOr<double> TimeAllReduce(LocalWorld& world, size_t bytes, Duration budget) {
  return TimeFor(world, AllReduceOf(bytes), bytes, budget);
}

double ProbeAdding() {
  constexpr size_t kCount = kMiddle / sizeof(float);
  constexpr int kRounds = 9;
  std::vector<float> sum(kCount, 0), in(kCount, 1);
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) {
    const Time start = SteadyNow();
    ReduceInto(ReduceOp::kSum, DType::kF32, sum.data(), in.data(), kCount, true);
    seconds.push_back(Seconds(SteadyNow() - start));
  }
  return Median(seconds) / kMiddle;
}

StatusOr<CostModel> ProbeTcp(Duration budget, size_t bytes_max) {
  const ConnectOptions tcp = {.carrier = TransportKind::kTcp};
  AllReduceRule direct = Always(AllReduceAlgorithm::kPair, 1);
  // All-gathers and broadcasts of any size are direct, so they have one schedule step.
  direct.direct_bytes_max = direct.pair_bytes_max;
  direct.direct_ranks_max = 2;
  TD_ASSIGN_OR_RETURN(LocalWorld pair, LocalWorld::Join(2, {.rule = direct}, tcp));
  TD_ASSIGN_OR_RETURN(LocalWorld ring,
                      LocalWorld::Join(2, {.rule = Always(AllReduceAlgorithm::kRing, 1)}, tcp));
  const Duration each = budget / 5;
  TD_ASSIGN_OR_RETURN(const double one_step, TimeAllReduce(pair, kSmall, each));
  TD_ASSIGN_OR_RETURN(const double two_steps, TimeAllReduce(ring, kSmall, each));
  TD_ASSIGN_OR_RETURN(const double middle, TimeExchange(pair, kMiddle, each));
  TD_ASSIGN_OR_RETURN(const double large, TimeExchange(pair, kLarge, each));
  TD_ASSIGN_OR_RETURN(const double added, TimeAllReduce(pair, kLarge, each));
  TD_ASSIGN_OR_RETURN(const double send, TimeSends(pair));
  CostModel model;
  // The time of a schedule step is one send, one receive and the latency. The rest is the call's
  // start.
  const double step = std::clamp(two_steps - one_step, 0.0, one_step);
  model.thread.start = one_step - step;
  model.thread.message = std::min(send, step / 2);
  model.inside.latency = step - 2 * model.thread.message;
  model.thread.byte = std::max(0.0, (large - middle) / (2.0 * (kLarge - kMiddle)));
  model.thread.add_byte = std::max(0.0, (added - large) / static_cast<double>(kLarge));
  model.between = model.inside;
  if (bytes_max > kLarge) {
    TD_ASSIGN_OR_RETURN(const double far, TimeExchange(pair, kProbeBytesMax, each));
    TD_ASSIGN_OR_RETURN(const double far_added, TimeAllReduce(pair, kProbeBytesMax, each));
    constexpr double kFar = kProbeBytesMax - kLarge;
    model.far.near_bytes = kLarge;
    model.far.byte = std::max(model.thread.byte, (far - large) / (2 * kFar));
    model.far.add_byte =
        std::max(model.thread.add_byte, ((far_added - added) - (far - large)) / kFar);
  }
  model.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return model;
}

StatusOr<SharedMemoryCost> ProbeSharedMemory(LocalWorld& world, Duration budget, size_t bytes_max) {
  SharedMemoryCost cost;
  cost.posted_max = ShmRankBlock::kInlineMax;
  const Duration each = budget / 3;
  TD_ASSIGN_OR_RETURN(cost.posted, TimeAllReduce(world, cost.posted_max / 2, each));
  for (const size_t bytes : {kMiddle, kLarge, kLarger, kProbeBytesMax}) {
    if (bytes > kLarge && bytes_max <= kLarge) break;
    TD_ASSIGN_OR_RETURN(const double seconds, TimeAllReduce(world, bytes, each));
    cost.line.points.emplace_back(bytes, seconds);
  }
  return cost;
}

}  // namespace tandem::collective
