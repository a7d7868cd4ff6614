#include "trainer/modes/allreduce_choice.h"

#include <algorithm>
#include <map>

#include "collective/cost/algorithm_probe.h"
#include "collective/cost/cost_probe.h"
#include "collective/host/connect.h"
#include "common/base/check.h"

namespace tandem {
namespace {

constexpr Duration kProbeEach = std::chrono::milliseconds(50);    // of an algorithm
constexpr Duration kMeasureEach = std::chrono::milliseconds(10);  // of a bucket
constexpr size_t kScratchBytesMax = size_t{64} << 20;

// Whether the ranks would share memory.
StatusOr<bool> SharesMemory(const WorldConfig& world, const HostCommunicatorConfig& config,
                            TransportKind carrier) {
  if (carrier == TransportKind::kTcp) return false;
  TD_ASSIGN_OR_RETURN(const auto communicator, Connect(world, config, {carrier, kProbeBytesMax}));
  // Nobody asks for the next world before rank 0 has closed the door of this one.
  TD_RETURN_IF_ERROR(communicator->Call({}));
  return communicator->name() == "shm";
}

std::string Told(const ReducedBucket& bucket, const std::vector<AlgorithmCost>& costs, int ranks,
                 AllReduceAlgorithm chosen, double measured) {
  std::string predicted;
  for (const AlgorithmCost& cost : costs) {
    if (ScratchBytes(cost.algorithm, ranks, bucket.bytes) > kScratchBytesMax) continue;
    predicted += absl::StrFormat("%s%s %.4g us", predicted.empty() ? "" : ", ",
                                 Name(cost.algorithm), cost.line.Seconds(bucket.bytes) * 1e6);
  }
  return absl::StrFormat("allreduce of %s, %d bytes: %s, measured %.4g us (predicted: %s)",
                         bucket.name, bucket.bytes, Name(chosen), measured * 1e6, predicted);
}

}  // namespace

StatusOr<std::vector<AllReduceChoice>> ChooseByModel(const WorldConfig& world,
                                                     const HostCommunicatorConfig& config,
                                                     TransportKind carrier,
                                                     const std::vector<ReducedBucket>& buckets) {
  std::vector<size_t> sizes;
  for (const ReducedBucket& bucket : buckets) sizes.push_back(bucket.bytes);
  TD_ASSIGN_OR_RETURN(const bool shares, SharesMemory(world, config, carrier));
  if (shares || sizes.empty()) {
    if (world.rank == 0) {
      LOG(INFO) << "allreduce_choice: "
                << (shares ? "the ranks share memory, which needs no algorithm"
                           : "no step has an allreduce");
    }
    return std::vector<AllReduceChoice>();
  }
  const size_t largest = *std::max_element(sizes.begin(), sizes.end());
  TD_ASSIGN_OR_RETURN(const auto costs, ProbeAlgorithms(world, config, largest, kProbeEach));
  HostCommunicatorConfig chosen = config;
  chosen.rule.choices = FastestOf(costs, sizes, world.size, kScratchBytesMax);
  TD_ASSIGN_OR_RETURN(const auto communicator,
                      Connect(world, chosen, {.carrier = TransportKind::kTcp}));
  std::map<size_t, double> measured;
  for (const ReducedBucket& bucket : buckets) {
    const auto [it, added] = measured.try_emplace(bucket.bytes);
    if (added) {
      TD_ASSIGN_OR_RETURN(it->second,
                          TimeAllReduce(*communicator, bucket.bytes / 4 * 4, kMeasureEach));
    }
    if (world.rank != 0) continue;
    LOG(INFO) << Told(bucket, costs, world.size,
                      ChooseAllReduce(chosen.rule, world.size, bucket.bytes), it->second);
  }
  TD_RETURN_IF_ERROR(communicator->Call({}));
  return chosen.rule.choices;
}

}  // namespace tandem
