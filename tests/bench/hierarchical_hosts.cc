// hierarchical_hosts: microseconds of an allreduce (f32 sum, in place) with the flat ring and with
// both hierarchical algorithms, and the prediction of the cost model. There are 4 emulated hosts
// (tests/support/emulated_hosts.h) of 2 ranks each. A link between hosts has a delay of 1 ms and a
// bandwidth of 1 Gbit/s.
#include <algorithm>

#include "collective/cost/cost_probe.h"
#include "collective/cost/step_simulator.h"
#include "collective/host/connect.h"
#include "tests/bench/allreduce_ranks.h"
#include "tests/bench/report.h"
#include "tests/support/emulated_hosts.h"

namespace tandem::bench {
namespace {

using enum collective::AllReduceAlgorithm;

constexpr collective::RankLayout kLayout = {8, 2};
constexpr collective::AllReduceAlgorithm kAlgorithms[] = {kRing, kLeaders, kShards};
constexpr size_t kHostSizes[] = {4 << 10, 256 << 10, 4 << 20, 64 << 20};
// Number of unmeasured calls, during which the TCP connections reach their full speed.
constexpr size_t kWarmUps = 2;
// Bytes of IP and TCP headers per packet, including time stamps.
constexpr double kHeaderBytes = 52;
constexpr int kPort = 4700;

HostLink Link() {
  HostLink link;
  link.bytes_per_second = 125e6;
  link.delay = std::chrono::milliseconds(1);
  return link;
}

// Returns the number of calls for one size and one algorithm. All sizes and algorithms together
// last about `seconds` at the speed of a link.
size_t CallsOf(size_t bytes, double seconds) {
  const double share = seconds / (std::size(kHostSizes) * std::size(kAlgorithms));
  const double each = 8e-3 + 2 * static_cast<double>(bytes) / Link().bytes_per_second;
  return std::max<size_t>(3, static_cast<size_t>(share / each));
}

Status RunRank(const EmulatedHosts& hosts, int rank, double seconds, Times times) {
  TD_RETURN_IF_ERROR(hosts.Enter(rank / kLayout.ranks_per_host));
  collective::WorldConfig world;
  world.rank = rank;
  world.size = kLayout.ranks;
  world.job = "hierarchical_hosts";
  world.secret = "of a benchmark";
  std::unique_ptr<collective::Communicator> last;
  int port = kPort;
  for (const collective::AllReduceAlgorithm algorithm : kAlgorithms) {
    world.rendezvous = absl::StrFormat("%s:%d", EmulatedHosts::Address(0), port++);
    TD_ASSIGN_OR_RETURN(
        auto comm, collective::Connect(
                       world, {.rule = collective::Always(algorithm, kLayout.ranks_per_host)}));
    TD_ASSIGN_OR_RETURN(const Buffer data, comm->Allocate(*std::max_element(std::begin(kHostSizes),
                                                                            std::end(kHostSizes))));
    float* const values = reinterpret_cast<float*>(data.get());
    for (const size_t bytes : kHostSizes) {
      const size_t calls = CallsOf(bytes, seconds);
      TD_RETURN_IF_ERROR(MeasureAllReduce(*comm, values, bytes, kWarmUps, times));
      TD_RETURN_IF_ERROR(MeasureAllReduce(*comm, values, bytes, calls, times));
      times += calls;
    }
    TD_RETURN_IF_ERROR(comm->Call({}));
  }
  return OkStatus();
}

// Returns the cost model. Costs inside a host are measured on this machine. Costs between hosts are
// the parameters of the emulated link.
StatusOr<collective::CostModel> Model() {
  TD_ASSIGN_OR_RETURN(collective::CostModel model,
                      collective::ProbeTcp(std::chrono::milliseconds(50)));
  const HostLink link = Link();
  model.between.latency = Seconds(link.delay) + model.inside.latency;
  model.between.byte = link.mtu / (link.mtu - kHeaderBytes) / link.bytes_per_second;
  // 0: one core per rank. The emulated hosts share the cores of this machine, so the model has no
  // limit per host.
  model.cores = 0;
  return model;
}

}  // namespace

StatusOr<Report> HierarchicalHosts(const RunOptions& options) {
  TD_ASSIGN_OR_RETURN(const collective::CostModel model, Model());
  TD_ASSIGN_OR_RETURN(const auto hosts,
                      EmulatedHosts::Create(kLayout.ranks / kLayout.ranks_per_host, Link()));
  size_t slots = 0;
  for (const size_t bytes : kHostSizes) slots += CallsOf(bytes, options.seconds);
  slots *= std::size(kAlgorithms);
  TD_ASSIGN_OR_RETURN(
      const std::vector<double> times,
      ForkRanks(
          kLayout.ranks, slots,
          [&](int r, Times own) { return RunRank(*hosts, r, options.seconds, own); },
          [&] { hosts->Start(); }));
  Report report;
  report.Add("bytes", std::vector<double>(std::begin(kHostSizes), std::end(kHostSizes)));
  size_t at = 0;
  for (const collective::AllReduceAlgorithm algorithm : kAlgorithms) {
    std::vector<double> measured, predicted;
    for (const size_t bytes : kHostSizes) {
      const size_t calls = CallsOf(bytes, options.seconds);
      measured.push_back(MedianOfSlowest(times, kLayout.ranks, at, calls));
      at += calls;
      TD_ASSIGN_OR_RETURN(const std::vector<double> ends,
                          collective::SimulateAllReduce(algorithm, kLayout, kLayout.ranks_per_host,
                                                        bytes / 4, 4, model));
      predicted.push_back(*std::max_element(ends.begin(), ends.end()) * 1e6);
    }
    report.Add(Name(algorithm) + std::string("_us"), measured);
    report.Add(Name(algorithm) + std::string("_predicted_us"), predicted);
  }
  return report;
}

}  // namespace tandem::bench
