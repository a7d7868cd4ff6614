#include "deploy/cli/plan/plan_measure.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "collective/cost/step_simulator.h"
#include "common/base/require.h"
#include "deploy/cli/console.h"
#include "deploy/cli/plan/plot.h"

namespace tandem::deploy {
namespace {

// Time for the measurements of the cost model. TCP and shared memory each get half of this time.
constexpr Duration kProbe = std::chrono::milliseconds(50);
// Time to measure one algorithm for one bucket.
constexpr Duration kEach = std::chrono::milliseconds(20);
constexpr size_t kBytesMax = size_t{2} << 30;
constexpr size_t kArenaMin = 2 * collective::kProbeBytesMax;
constexpr const char* kMemory = "shared memory";

// Returns the bytes of the buffers and scratch memory of all ranks together.
size_t BytesOf(collective::AllReduceAlgorithm algorithm, int ranks, size_t bytes) {
  const auto n = static_cast<size_t>(ranks);
  return n * bytes * (algorithm == collective::AllReduceAlgorithm::kDirect ? n + 1 : 1);
}

// Measures all buckets of a job with all algorithms.
class Measuring {
 public:
  Measuring(const PlanJob& job, int ranks) : job_(job) {
    TD_REQUIRE(ranks > 1);
    plan_.ranks = ranks;
    for (const PlanBucket& bucket : job.buckets) {
      largest_ = std::max(largest_, bucket.bytes());
    }
    plan_.buckets.resize(job.buckets.size());
  }

  StatusOr<MeasuredPlan> Take();

 private:
  Status Probe();
  Status TakeTcp(collective::AllReduceAlgorithm algorithm);
  Status TakeMemory();
  // Returns the measured time of a bucket in seconds, or nullopt if the bucket is too large.
  // Buckets of equal size are measured only once.
  StatusOr<std::optional<double>> TimeOf(collective::LocalWorld& world, size_t bytes, size_t memory,
                                         std::map<size_t, double>* known) const;
  void Mark();

  const PlanJob& job_;
  size_t largest_ = 0;
  MeasuredPlan plan_;
  std::optional<collective::LocalWorld> memory_;
};

StatusOr<MeasuredPlan> Measuring::Take() {
  TD_RETURN_IF_ERROR(Probe());
  for (const collective::AllReduceAlgorithm algorithm : collective::kAllReduceAlgorithms) {
    if (collective::Serves(algorithm, plan_.ranks, job_.rule.group))
      TD_RETURN_IF_ERROR(TakeTcp(algorithm));
  }
  if (memory_) TD_RETURN_IF_ERROR(TakeMemory());
  Mark();
  return std::move(plan_);
}

Status Measuring::Probe() {
  const Time start = SteadyNow();
  TD_ASSIGN_OR_RETURN(plan_.tcp, collective::ProbeTcp(kProbe / 2, largest_));
  if (job_.shares_memory()) {
    const size_t arena = std::max(kArenaMin, std::min(largest_, kBytesMax) + (1 << 20));
    TD_ASSIGN_OR_RETURN(
        memory_, collective::LocalWorld::Join(plan_.ranks, {},
                                              {collective::TransportKind::kSharedMemory, arena}));
    TD_ASSIGN_OR_RETURN(plan_.memory,
                        collective::ProbeSharedMemory(*memory_, kProbe / 2, largest_));
  }
  plan_.probe = Seconds(SteadyNow() - start);
  return OkStatus();
}

StatusOr<std::optional<double>> Measuring::TimeOf(collective::LocalWorld& world, size_t bytes,
                                                  size_t memory,
                                                  std::map<size_t, double>* known) const {
  if (memory > kBytesMax) return std::optional<double>();
  const auto [it, added] = known->try_emplace(bytes);
  if (added) {
    TD_ASSIGN_OR_RETURN(it->second, collective::TimeAllReduce(world, bytes, kEach));
  }
  return std::optional<double>(it->second);
}

Status Measuring::TakeTcp(collective::AllReduceAlgorithm algorithm) {
  TD_ASSIGN_OR_RETURN(collective::LocalWorld world,
                      collective::LocalWorld::Join(
                          plan_.ranks, {.rule = collective::Always(algorithm, job_.rule.group)},
                          {.carrier = collective::TransportKind::kTcp}));
  std::map<size_t, double> known;
  for (size_t b = 0; b < job_.buckets.size(); ++b) {
    const PlanBucket& bucket = job_.buckets[b];
    AlgorithmTiming way = {.name = Name(algorithm)};
    TD_ASSIGN_OR_RETURN(
        const std::vector<double> ends,
        collective::SimulateAllReduce(algorithm, {plan_.ranks, plan_.ranks}, job_.rule.group,
                                      bucket.count, bucket.element_bytes, plan_.tcp));
    way.predicted = *std::max_element(ends.begin(), ends.end());
    TD_ASSIGN_OR_RETURN(way.measured,
                        TimeOf(world, bucket.bytes() / 4 * 4,
                               BytesOf(algorithm, plan_.ranks, bucket.bytes()), &known));
    way.chosen = !memory_ && !job_.by_model &&
                 collective::ChooseAllReduce(job_.rule, plan_.ranks, bucket.bytes()) == algorithm;
    plan_.buckets[b].push_back(way);
  }
  return OkStatus();
}

Status Measuring::TakeMemory() {
  std::map<size_t, double> known;
  for (size_t b = 0; b < job_.buckets.size(); ++b) {
    const size_t bytes = job_.buckets[b].bytes();
    AlgorithmTiming way = {
        .name = kMemory, .predicted = plan_.memory.Seconds(bytes), .chosen = true};
    TD_ASSIGN_OR_RETURN(way.measured, TimeOf(*memory_, bytes / 4 * 4,
                                             bytes * static_cast<size_t>(plan_.ranks), &known));
    plan_.buckets[b].push_back(way);
  }
  return OkStatus();
}

void Measuring::Mark() {
  for (auto& ways : plan_.buckets) {
    TD_REQUIRE(!ways.empty());
    const auto less = [](const AlgorithmTiming& a, const AlgorithmTiming& b) {
      return a.predicted < b.predicted;
    };
    const auto best = std::min_element(ways.begin(), ways.end(), less);
    best->best = true;
    if (job_.by_model && !memory_) best->chosen = true;
  }
}

std::string Us(double seconds) { return absl::StrFormat("%.4g", seconds * 1e6); }

std::string Fitted(const MeasuredPlan& plan) {
  const collective::ThreadCost& thread = plan.tcp.thread;
  std::string text = absl::StrFormat(
      "TCP: start %s us, message %s us, way %s us, byte %.3g ns, adding %.3g ns a byte, %d cores",
      Us(thread.start), Us(thread.message), Us(plan.tcp.inside.latency), thread.byte * 1e9,
      thread.add_byte * 1e9, plan.tcp.cores);
  if (const collective::CacheMissCost& far = plan.tcp.far; far.near_bytes > 0) {
    text += absl::StrFormat("; beyond %d bytes %.3g ns and %.3g ns a byte", far.near_bytes,
                            far.byte * 1e9, far.add_byte * 1e9);
  }
  if (plan.memory.posted_max == 0) return text;
  text += absl::StrFormat("; shared memory: up to %d bytes %s us", plan.memory.posted_max,
                          Us(plan.memory.posted));
  for (const auto& [bytes, seconds] : plan.memory.line.points) {
    text += absl::StrFormat(", %d %s us", bytes, Us(seconds));
  }
  return text;
}

std::string Marks(const AlgorithmTiming& way) {
  return way.best && way.chosen ? "best, chosen" : way.best ? "best" : way.chosen ? "chosen" : "";
}

}  // namespace

StatusOr<MeasuredPlan> MeasurePlan(const PlanJob& job, int ranks) {
  return Measuring(job, ranks).Take();
}

std::string MeasuredText(const PlanJob& job, const MeasuredPlan& plan) {
  TD_REQUIRE(plan.buckets.size() == job.buckets.size());
  std::string text = absl::StrFormat(
      "# %s: %d ranks on this machine, each gradient bucket reduced separately\n# fitted in %.0f "
      "ms: %s\n",
      job.name, plan.ranks, plan.probe * 1e3, Fitted(plan));
  std::vector<std::vector<std::string>> rows = {
      {"bucket", "bytes", "way", "predicted us", "measured us", "predicted / measured"}};
  for (size_t b = 0; b < job.buckets.size(); ++b) {
    for (const AlgorithmTiming& way : plan.buckets[b]) {
      const bool first = &way == &plan.buckets[b].front();
      rows.push_back({first ? job.buckets[b].name : "",
                      first ? std::to_string(job.buckets[b].bytes()) : "", way.name,
                      Us(way.predicted), way.measured ? Us(*way.measured) : "-",
                      way.measured ? absl::StrFormat("%.2f", way.predicted / *way.measured) : "-",
                      Marks(way)});
    }
  }
  return text + TableText(rows);
}

std::string MeasuredJson(const PlanJob& job, const MeasuredPlan& plan) {
  const collective::ThreadCost& thread = plan.tcp.thread;
  nlohmann::json json = {{"job", job.name},
                         {"simulated", false},
                         {"ranks", plan.ranks},
                         {"tcp",
                          {{"start_s", thread.start},
                           {"message_s", thread.message},
                           {"latency_s", plan.tcp.inside.latency},
                           {"byte_s", thread.byte},
                           {"add_byte_s", thread.add_byte},
                           {"near_bytes", plan.tcp.far.near_bytes},
                           {"far_byte_s", plan.tcp.far.byte},
                           {"far_add_byte_s", plan.tcp.far.add_byte},
                           {"cores", plan.tcp.cores}}}};
  if (plan.memory.posted_max > 0) {
    json["shared_memory"] = {{"posted_bytes_max", plan.memory.posted_max},
                             {"posted_s", plan.memory.posted},
                             {"points", plan.memory.line.points}};
  }
  for (size_t b = 0; b < job.buckets.size(); ++b) {
    nlohmann::json bucket = {{"name", job.buckets[b].name}, {"bytes", job.buckets[b].bytes()}};
    for (const AlgorithmTiming& way : plan.buckets[b]) {
      nlohmann::json row = {{"way", way.name},
                            {"predicted_s", way.predicted},
                            {"best", way.best},
                            {"chosen", way.chosen}};
      if (way.measured) row["measured_s"] = *way.measured;
      bucket["ways"].push_back(std::move(row));
    }
    json["buckets"].push_back(std::move(bucket));
  }
  return json.dump(2) + "\n";
}

std::string MeasuredSvg(const PlanJob& job, const MeasuredPlan& plan) {
  // Predicted and measured time in us, by name of the algorithm and by bytes of the bucket.
  std::map<std::string, std::map<double, std::pair<double, double>>> ways;
  for (size_t b = 0; b < job.buckets.size(); ++b) {
    for (const AlgorithmTiming& way : plan.buckets[b]) {
      ways[way.name][static_cast<double>(job.buckets[b].bytes())] = {
          way.predicted * 1e6, way.measured.value_or(0) * 1e6};
    }
  }
  Plot plot;
  plot.title = absl::StrFormat("%s: allreduce of its buckets, %d ranks here", job.name, plan.ranks);
  plot.note = "lines: predicted; dots: measured";
  plot.x_name = "bytes of the bucket";
  plot.y_name = "us";
  for (const auto& [name, points] : ways) {
    PlotSeries predicted = {name, {}}, measured = {name + ", measured", {}, /*dots=*/true};
    for (const auto& [bytes, us] : points) {
      predicted.points.emplace_back(bytes, us.first);
      measured.points.emplace_back(bytes, us.second);
    }
    plot.series.push_back(std::move(predicted));
    plot.series.push_back(std::move(measured));
  }
  return PlotSvg(plot);
}

}  // namespace tandem::deploy
