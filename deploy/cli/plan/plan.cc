// Implements `tandem plan`: predicts algorithms and times of a job's gradient allreduces.
#include <cstdio>

#include "absl/strings/numbers.h"
#include "collective/cost/cost_probe.h"
#include "common/os/files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/plan/plan_measure.h"
#include "deploy/cli/plan/plan_simulate.h"
#include "deploy/cli/plan/plan_simulate_text.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    R"(tandem plan JOB --ranks=N            on this machine: a short probe fits a cost model, which predicts
                                     each way of reducing each bucket of gradients; then each is
                                     measured, with N threads as ranks
tandem plan JOB --ranks=N --inter_latency_us=20 --inter_bandwidth_gbps=100 ...
                                     simulated: up to 4096 ranks over links of these figures
)";

constexpr int kMeasuredRanksMax = 16, kRanksMax = 4096;

const std::vector<FlagSpec>& Flags() {
  static const std::vector<FlagSpec> kFlags = {
      {"ranks", "", "N", "number of ranks of the job (default 2); simulated: the largest number"},
      {"ranks_per_host", "", "G", "simulated: ranks per host (default 1)"},
      {"latency_us", "alpha_us", "US", "simulated: latency between ranks of a host"},
      {"bandwidth_gbps", "", "GBIT", "simulated: Gbit/s between ranks of a host"},
      {"inter_latency_us", "inter_alpha_us", "US", "simulated: latency between hosts"},
      {"inter_bandwidth_gbps", "inter_gbps", "GBIT",
       "simulated: Gbit/s of a host, shared by its ranks"},
      {"message_overhead_us", "message_us", "US",
       "simulated: time of a rank per message (default 1)"},
      {"reduce_gbps", "add_gbps", "GBIT", "simulated: speed of additions (default: measured here)"},
      {"compute_ms", "", "MS", "simulated: time of a step without communication (default 0)"},
      {"straggler", "", "RANK:FACTOR", "simulated: this rank is slower by this factor"},
      {"output", "o", "FORMAT", "text (default) or json, on stdout"},
      {"svg", "", "FILE", "also draw a plot"},
  };
  return kFlags;
}

// Returns whether a flag requests a simulation.
bool IsSimulation(const ParsedArgs& args) {
  for (const FlagSpec& flag : Flags()) {
    if (std::string_view(flag.help).starts_with("simulated:") && args.Has(flag.name)) return true;
  }
  return false;
}

// Returns the latency and bandwidth of one kind of link from the flags `alpha` and `gbps`.
// INVALID_ARGUMENT: one of the flags is missing.
StatusOr<collective::WireCost> WireOf(const ParsedArgs& args, const char* alpha, const char* gbps,
                                      const char* between) {
  for (const char* flag : {alpha, gbps}) {
    if (args.Has(flag)) continue;
    return InvalidArgument(
        "--%s is missing [TD1007]; hint: set --%s and --%s for the links between %s", flag, alpha,
        gbps, between);
  }
  TD_ASSIGN_OR_RETURN(const double us, args.GetDouble(alpha, 0, 0, 1e7));
  TD_ASSIGN_OR_RETURN(const double speed, args.GetDouble(gbps, 0, 1e-6, 1e6));
  return collective::WireCost{us * 1e-6, 8e-9 / speed};
}

Status ReadStraggler(const std::string& text, SimulationRequest* request) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(0, colon), &request->slow_rank) ||
      !absl::SimpleAtod(text.substr(colon + 1), &request->slow_factor)) {
    return InvalidArgument("--straggler: expected RANK:FACTOR, such as 3:2.5, got \"%s\" [TD1011]",
                           text);
  }
  if (request->slow_rank < 0 || request->slow_rank >= request->layout.ranks) {
    return InvalidArgument(
        "--straggler: rank %d is out of range: there are %d ranks, which count from 0 [TD1004]",
        request->slow_rank, request->layout.ranks);
  }
  if (!(request->slow_factor >= 1 && request->slow_factor <= 1e6)) {
    return InvalidArgument("--straggler: expected a factor from 1 to 1e6, got %g [TD1004]",
                           request->slow_factor);
  }
  return OkStatus();
}

StatusOr<SimulationRequest> RequestOf(const ParsedArgs& args) {
  SimulationRequest request;
  collective::RankLayout& layout = request.layout;
  TD_ASSIGN_OR_RETURN(layout.ranks, args.GetInt("ranks", 2, 2, kRanksMax));
  TD_ASSIGN_OR_RETURN(layout.ranks_per_host, args.GetInt("ranks_per_host", 1, 1, layout.ranks));
  if (layout.ranks % layout.ranks_per_host != 0) {
    return InvalidArgument(
        "--ranks=%d is not a multiple of --ranks_per_host=%d [TD1004]; hint: use the same number "
        "of ranks on each host",
        layout.ranks, layout.ranks_per_host);
  }
  if (layout.ranks_per_host > 1) {
    TD_ASSIGN_OR_RETURN(request.model.inside,
                        WireOf(args, "latency_us", "bandwidth_gbps", "ranks of a host"));
  } else if (args.Has("latency_us") || args.Has("bandwidth_gbps")) {
    return InvalidArgument(
        "--latency_us and --bandwidth_gbps have no effect, because each host has only one rank "
        "[TD1005]; hint: use --ranks_per_host=N, or --inter_latency_us and --inter_bandwidth_gbps");
  }
  if (layout.ranks > layout.ranks_per_host) {
    TD_ASSIGN_OR_RETURN(request.model.between,
                        WireOf(args, "inter_latency_us", "inter_bandwidth_gbps", "hosts"));
  } else if (args.Has("inter_latency_us") || args.Has("inter_bandwidth_gbps")) {
    return InvalidArgument(
        "--inter_latency_us and --inter_bandwidth_gbps have no effect, because all %d ranks are on "
        "one host [TD1005]; hint: use a smaller --ranks_per_host, or --latency_us and "
        "--bandwidth_gbps",
        layout.ranks);
  }
  TD_ASSIGN_OR_RETURN(const double message, args.GetDouble("message_overhead_us", 1, 0, 1e6));
  TD_ASSIGN_OR_RETURN(const double add, args.GetDouble("reduce_gbps", 0, 1e-6, 1e6));
  TD_ASSIGN_OR_RETURN(const double compute, args.GetDouble("compute_ms", 0, 0, 1e7));
  request.model.thread.message = message * 1e-6;
  request.model.thread.add_byte = args.Has("reduce_gbps") ? 8e-9 / add : collective::ProbeAdding();
  request.compute = compute * 1e-3;
  if (args.Has("straggler")) {
    TD_RETURN_IF_ERROR(ReadStraggler(args.Get("straggler"), &request));
  }
  return request;
}

struct Shown {
  std::string text, svg;
};

StatusOr<Shown> PlanSimulated(const ParsedArgs& args, bool json) {
  TD_ASSIGN_OR_RETURN(const SimulationRequest request, RequestOf(args));
  // The job is built for 2 workers, because a small batch cannot be divided among thousands of
  // workers. The buckets do not depend on the number of workers.
  TD_ASSIGN_OR_RETURN(const PlanJob job, PlanJobOf(args.positional[0], 2));
  TD_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(job, request));
  return Shown{
      json ? SimulationJson(job, request, simulation) : SimulationText(job, request, simulation),
      SimulationSvg(job, request, simulation)};
}

StatusOr<Shown> PlanMeasured(const ParsedArgs& args, bool json) {
  TD_ASSIGN_OR_RETURN(const int ranks, args.GetInt("ranks", 2, 2, kRanksMax));
  if (ranks > kMeasuredRanksMax) {
    return InvalidArgument(
        "--ranks=%d is too large: at most %d ranks are measured on one machine [TD1004]; hint: "
        "simulate more ranks with --inter_latency_us and --inter_bandwidth_gbps",
        ranks, kMeasuredRanksMax);
  }
  TD_ASSIGN_OR_RETURN(const PlanJob job, PlanJobOf(args.positional[0], ranks));
  TD_ASSIGN_OR_RETURN(const MeasuredPlan plan, MeasurePlan(job, ranks));
  return Shown{json ? MeasuredJson(job, plan) : MeasuredText(job, plan), MeasuredSvg(job, plan)};
}

Status Plan(const ParsedArgs& args) {
  if (args.positional.size() != 1) {
    return InvalidArgument(
        "expected one job file, got %d [TD1007]; hint: run tandem plan JOB --ranks=2",
        args.positional.size());
  }
  TD_ASSIGN_OR_RETURN(const bool json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const Shown shown,
                      IsSimulation(args) ? PlanSimulated(args, json) : PlanMeasured(args, json));
  if (args.Has("svg")) TD_RETURN_IF_ERROR(WriteTextFile(args.Get("svg"), shown.svg));
  std::fputs(shown.text.c_str(), stdout);
  return OkStatus();
}

}  // namespace

int RunPlan(const Args& args) { return RunBody("plan", kUsage, Flags(), args, Plan); }

}  // namespace tandem::deploy
