// Prints the result of a simulation by `tandem plan`.
#include "deploy/cli/plan/plan_simulate_text.h"

#include <nlohmann/json.hpp>

#include "deploy/cli/console.h"
#include "deploy/cli/plan/plot.h"

namespace tandem::deploy {
namespace {

std::string Ms(const std::optional<double>& seconds) {
  return seconds ? absl::StrFormat("%.4g", *seconds * 1e3) : "-";
}

std::string Wire(const collective::WireCost& wire) {
  return absl::StrFormat("%.4g us and %.4g Gbit/s", wire.latency * 1e6, 8e-9 / wire.byte);
}

std::string Links(const SimulationRequest& request) {
  const collective::RankLayout& layout = request.layout;
  std::string text;
  if (layout.ranks_per_host > 1) text = "inside a host " + Wire(request.model.inside);
  if (layout.ranks > layout.ranks_per_host) {
    text +=
        (text.empty() ? "" : ", ") + std::string("between hosts ") + Wire(request.model.between);
  }
  text += absl::StrFormat("; a message %.4g us, adding %.4g Gbit/s",
                          request.model.thread.message * 1e6, 8e-9 / request.model.thread.add_byte);
  if (request.slow_rank >= 0) {
    text += absl::StrFormat("; rank %d is slower by a factor of %.4g", request.slow_rank,
                            request.slow_factor);
  }
  return text;
}

std::string BucketTable(const PlanJob& job, const ScalePoint& point) {
  std::vector<std::vector<std::string>> rows = {{"bucket", "bytes"}};
  for (const collective::AllReduceAlgorithm algorithm : collective::kAllReduceAlgorithms) {
    rows[0].push_back(Name(algorithm) + std::string(" ms"));
  }
  rows[0].insert(rows[0].end(), {"best", "the job's choice"});
  for (size_t b = 0; b < job.buckets.size(); ++b) {
    const PlanBucket& bucket = job.buckets[b];
    rows.push_back({bucket.name, std::to_string(bucket.bytes())});
    for (const auto& seconds : point.buckets[b]) rows.back().push_back(Ms(seconds));
    rows.back().push_back(Name(BestOf(point.buckets[b])));
    rows.back().push_back(Name(collective::ChooseAllReduce(job.rule, point.ranks, bucket.bytes())));
  }
  return TableText(rows);
}

std::string ScaleTable(const SimulationRequest& request, const Simulation& simulation) {
  std::vector<std::vector<std::string>> rows = {{"ranks", "hosts"}};
  for (const collective::AllReduceAlgorithm algorithm : collective::kAllReduceAlgorithms) {
    rows[0].push_back(Name(algorithm) + std::string(" ms"));
  }
  rows[0].push_back("step ms");
  if (request.compute > 0) rows[0].push_back("efficiency");
  for (const ScalePoint& point : simulation.points) {
    rows.push_back({std::to_string(point.ranks), std::to_string(point.hosts)});
    for (const auto& seconds : point.all) rows.back().push_back(Ms(seconds));
    rows.back().push_back(Ms(point.step));
    if (request.compute > 0) {
      rows.back().push_back(absl::StrFormat("%.1f %%", 100 * request.compute / point.step));
    }
  }
  return TableText(rows);
}

nlohmann::json Seconds(const AlgorithmSeconds& seconds) {
  nlohmann::json json = nlohmann::json::object();
  for (size_t a = 0; a < seconds.size(); ++a) {
    if (seconds[a]) json[Name(collective::kAllReduceAlgorithms[a])] = *seconds[a];
  }
  return json;
}

}  // namespace

std::string SimulationText(const PlanJob& job, const SimulationRequest& request,
                           const Simulation& simulation) {
  const ScalePoint& last = simulation.points.back();
  std::string text =
      absl::StrFormat("# %s: simulated, not measured\n# %s\n", job.name, Links(request));
  text +=
      absl::StrFormat("\nsimulated: each gradient bucket of a step with %d ranks on %d hosts\n%s",
                      last.ranks, last.hosts, BucketTable(job, last));
  text += absl::StrFormat(
      "\nsimulated: all %d gradient buckets one after the other, and a step%s with the best "
      "algorithm for each\n%s",
      job.buckets.size(),
      request.compute > 0 ? absl::StrFormat(" with %.4g ms of computation", request.compute * 1e3)
                          : std::string(" without computation"),
      ScaleTable(request, simulation));
  for (const auto& seconds : last.all) {
    if (seconds) continue;
    return text +
           "-: no algorithm for this number of ranks, or too many schedule steps to simulate\n";
  }
  return text;
}

std::string SimulationJson(const PlanJob& job, const SimulationRequest& request,
                           const Simulation& simulation) {
  nlohmann::json json = {{"job", job.name},
                         {"simulated", true},
                         {"ranks_per_host", request.layout.ranks_per_host},
                         {"compute_s", request.compute}};
  for (const ScalePoint& point : simulation.points) {
    nlohmann::json scale = {{"ranks", point.ranks},
                            {"hosts", point.hosts},
                            {"seconds", Seconds(point.all)},
                            {"step_s", point.step}};
    for (size_t b = 0; b < job.buckets.size(); ++b) {
      const PlanBucket& bucket = job.buckets[b];
      scale["buckets"].push_back(
          {{"name", bucket.name},
           {"bytes", bucket.bytes()},
           {"seconds", Seconds(point.buckets[b])},
           {"best", Name(BestOf(point.buckets[b]))},
           {"chosen", Name(collective::ChooseAllReduce(job.rule, point.ranks, bucket.bytes()))}});
    }
    json["scales"].push_back(std::move(scale));
  }
  return json.dump(2) + "\n";
}

std::string SimulationSvg(const PlanJob& job, const SimulationRequest& request,
                          const Simulation& simulation) {
  Plot plot;
  plot.title = job.name + ": allreduce of a step's gradients (simulated)";
  plot.note = Links(request);
  plot.x_name = "ranks";
  plot.x_base = 2;
  plot.y_name = "ms";
  for (size_t a = 0; a < collective::kAllReduceAlgorithms.size(); ++a) {
    PlotSeries series = {Name(collective::kAllReduceAlgorithms[a]), {}};
    for (const ScalePoint& point : simulation.points) {
      if (point.all[a]) series.points.emplace_back(point.ranks, *point.all[a] * 1e3);
    }
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  PlotSeries step = {"step, best of each", {}, /*dots=*/true};
  for (const ScalePoint& point : simulation.points) {
    step.points.emplace_back(point.ranks, point.step * 1e3);
  }
  plot.series.push_back(std::move(step));
  return PlotSvg(plot);
}

}  // namespace tandem::deploy
