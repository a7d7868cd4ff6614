#include "trainer/modes/comms/allreduce_choice.h"

#include <algorithm>
#include <map>

#include "collective/cost/algorithm_probe.h"
#include "collective/cost/cost_probe.h"
#include "collective/host/connect.h"
#include "common/base/check.h"

namespace tandem::trainer {
namespace {

constexpr Duration kProbeEach = std::chrono::milliseconds(50);    // time for measuring an algorithm
constexpr Duration kMeasureEach = std::chrono::milliseconds(10);  // time for measuring a bucket
constexpr size_t kScratchBytesMax = size_t{64} << 20;

// Returns whether transport `carrier` connects the ranks through shared memory.
StatusOr<bool> SharesMemory(const collective::WorldConfig& world,
                            const collective::HostCommunicatorConfig& config,
                            collective::TransportKind carrier) {
  if (carrier == collective::TransportKind::kTcp) return false;
  TD_ASSIGN_OR_RETURN(const auto communicator,
                      collective::Connect(world, config, {carrier, collective::kProbeBytesMax}));
  // Without the barrier, a rank could join the next world before rank 0 has closed this world's
  // rendezvous.
  TD_RETURN_IF_ERROR(communicator->Call({}));
  return communicator->name() == "shm";
}

std::string Told(const ReducedBucket& bucket, const std::vector<collective::AlgorithmCost>& costs,
                 int ranks, collective::AllReduceAlgorithm chosen, double measured) {
  std::string predicted;
  for (const collective::AlgorithmCost& cost : costs) {
    if (collective::ScratchBytes(cost.algorithm, ranks, bucket.bytes) > kScratchBytesMax) continue;
    predicted += absl::StrFormat("%s%s %.4g us", predicted.empty() ? "" : ", ",
                                 Name(cost.algorithm), cost.line.Seconds(bucket.bytes) * 1e6);
  }
  return absl::StrFormat("allreduce of %s, %d bytes: %s, measured %.4g us (predicted: %s)",
                         bucket.name, bucket.bytes, Name(chosen), measured * 1e6, predicted);
}

}  // namespace

StatusOr<std::vector<collective::AllReduceChoice>> ChooseByModel(
    const collective::WorldConfig& world, const collective::HostCommunicatorConfig& config,
    collective::TransportKind carrier, const std::vector<ReducedBucket>& buckets) {
  std::vector<size_t> sizes;
  for (const ReducedBucket& bucket : buckets) sizes.push_back(bucket.bytes);
  TD_ASSIGN_OR_RETURN(const bool shares, SharesMemory(world, config, carrier));
  if (shares || sizes.empty()) {
    if (world.rank == 0) {
      LOG(INFO) << "allreduce_choice: "
                << (shares ? "allreduces through shared memory have only one algorithm"
                           : "no step has an allreduce");
    }
    return std::vector<collective::AllReduceChoice>();
  }
  const size_t largest = *std::max_element(sizes.begin(), sizes.end());
  TD_ASSIGN_OR_RETURN(const auto costs,
                      collective::ProbeAlgorithms(world, config, largest, kProbeEach));
  collective::HostCommunicatorConfig chosen = config;
  chosen.rule.choices = collective::FastestOf(costs, sizes, world.size, kScratchBytesMax);
  TD_ASSIGN_OR_RETURN(
      const auto communicator,
      collective::Connect(world, chosen, {.carrier = collective::TransportKind::kTcp}));
  std::map<size_t, double> measured;
  for (const ReducedBucket& bucket : buckets) {
    const auto [it, added] = measured.try_emplace(bucket.bytes);
    if (added) {
      TD_ASSIGN_OR_RETURN(
          it->second, collective::TimeAllReduce(*communicator, bucket.bytes / 4 * 4, kMeasureEach));
    }
    if (world.rank != 0) continue;
    LOG(INFO) << Told(bucket, costs, world.size,
                      collective::ChooseAllReduce(chosen.rule, world.size, bucket.bytes),
                      it->second);
  }
  TD_RETURN_IF_ERROR(communicator->Call({}));
  return chosen.rule.choices;
}

}  // namespace tandem::trainer
