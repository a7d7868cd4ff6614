#include "deploy/launch/job_scale.h"

#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "common/os/ports.h"

namespace tandem::deploy {
namespace {

using nlohmann::json;

constexpr int kPserversMax = 1024;  // as for --servers of tandemrun
constexpr uint64_t kFileBytesMax = 1 << 20;

std::string FileIn(const std::string& log_dir) { return log_dir + "/scale.json"; }

const ProcessPlan* FirstPserver(const LaunchPlan& plan) {
  const auto it = std::ranges::find_if(
      plan.processes, [](const ProcessPlan& p) { return p.role == Role::kPserver && p.rank == 0; });
  return it == plan.processes.end() ? nullptr : &*it;
}

ScaleSide WorkersOf(const LaunchPlan& plan) {
  ScaleSide side{.desired = plan.workers, .least = plan.workers, .most = plan.workers};
  if (plan.hosts.several || plan.hosts.remote_workers) {
    side.obstacle = ScaleObstacle::kSeveralHosts;
  } else if (!plan.elastic()) {
    side.obstacle = ScaleObstacle::kNotElastic;
  } else {
    side.least = plan.ranks_least;
  }
  return side;
}

ScaleSide PserversOf(const LaunchPlan& plan) {
  ScaleSide side{.desired = plan.servers, .least = plan.servers, .most = plan.servers};
  const auto here = std::ranges::count_if(
      plan.processes, [](const ProcessPlan& p) { return p.role == Role::kPserver; });
  if (plan.servers == 0) {
    side.obstacle = ScaleObstacle::kNoPservers;
  } else if (plan.standbys > 0 || plan.replicas > 0) {
    side.obstacle = ScaleObstacle::kStandbys;
  } else if (plan.hosts.several || plan.hosts.remote_workers || here != plan.servers) {
    side.obstacle = ScaleObstacle::kSeveralHosts;
  } else if (plan.pserver_data_dir.empty() || FirstPserver(plan)->forgets) {
    side.obstacle = ScaleObstacle::kNotDurable;
  } else {
    side.most = kPserversMax;
  }
  return side;
}

json ToJson(const ScaleSide& side) {
  return {{"now", side.now},
          {"desired", side.desired},
          {"min", side.least},
          {"max", side.most},
          {"obstacle", static_cast<int>(side.obstacle)}};
}

ScaleSide SideFrom(const json& from) {
  ScaleSide side{.now = from.at("now").get<int>(),
                 .desired = from.at("desired").get<int>(),
                 .least = from.at("min").get<int>(),
                 .most = from.at("max").get<int>()};
  const int obstacle = from.at("obstacle").get<int>();
  // An obstacle of a later version forbids changes too.
  const bool known = obstacle >= 0 && obstacle <= static_cast<int>(ScaleObstacle::kNotDurable);
  side.obstacle = known ? static_cast<ScaleObstacle>(obstacle) : ScaleObstacle::kSeveralHosts;
  return side;
}

// Replaces the number of pserver 0 in the name of a file or directory, such as "logs/serverlog.0".
std::string Renumbered(const std::string& of_first, const std::string& before, int rank,
                       const std::string& after = "") {
  const std::string end = absl::StrCat(before, "0", after);
  TD_REQUIRE(of_first.ends_with(end));
  return absl::StrCat(of_first.substr(0, of_first.size() - end.size()), before, rank, after);
}

// Returns the argument of pserver `rank` for `argument` of pserver 0.
std::string ArgumentOf(const std::string& argument, const ProcessPlan& added) {
  if (absl::StartsWith(argument, "--listen=")) return "--listen=" + added.endpoint.Text();
  if (absl::StartsWith(argument, "--index=")) return absl::StrCat("--index=", added.rank);
  if (absl::StartsWith(argument, "--data_dir=")) return Renumbered(argument, "-", added.rank);
  if (absl::StartsWith(argument, "--audit_log=")) {
    return Renumbered(argument, "audit.", added.rank, ".jsonl");
  }
  return argument;
}

}  // namespace

JobScale::JobScale(const LaunchPlan& plan) : plan_(plan) {
  state_.workers = WorkersOf(plan);
  state_.pservers = PserversOf(plan);
}

StatusOr<const ProcessPlan*> JobScale::PlanOf(int rank) {
  TD_REQUIRE(rank >= plan_.servers && state_.pservers.obstacle == ScaleObstacle::kNone);
  if (const auto it = added_.find(rank); it != added_.end()) return &it->second;
  const ProcessPlan& first = *FirstPserver(plan_);
  ProcessPlan added = first;
  added.rank = rank;
  if (first.endpoint.is_unix()) {
    added.endpoint.path = absl::StrCat(
        first.endpoint.path.substr(0, first.endpoint.path.rfind('/')), "/pserver-", rank);
  } else {
    TD_ASSIGN_OR_RETURN(added.endpoint.port, FreePorts(first.endpoint.host, 1));
  }
  // The status pages of the other processes have consecutive ports, which `tandem status` knows.
  std::erase_if(added.argv, [](const std::string& argument) {
    return absl::StartsWith(argument, "--status_listen=");
  });
  added.status_page.clear();
  added.status_port = 0;
  for (std::string& argument : added.argv) argument = ArgumentOf(argument, added);
  const std::string address = added.endpoint.Text();
  added.env["TANDEM_SERVER_INDEX"] = std::to_string(rank);
  added.env["POD_IP"] = address.substr(0, address.find(':'));
  added.env["PADDLE_PORT"] = address.substr(address.find(':') + 1);
  added.log_file = Renumbered(first.log_file, ".", rank);
  return &added_.emplace(rank, std::move(added)).first->second;
}

Status JobScale::Update(const JobProcesses& processes) {
  ScaleState now = state_;
  now.workers.now = now.pservers.now = now.changing = 0;
  now.added.clear();
  for (const auto& process : processes.all()) {
    if (!process->running()) continue;
    const int rank = process->plan->rank;
    if (process->is(Role::kTrainer)) {
      ++(process->member ? now.workers.now : now.changing);
    } else if (process->is(Role::kPserver) && !process->standby) {
      ++now.pservers.now;
      if (rank >= plan_.servers) now.added[rank] = process->plan->endpoint.Text();
    }
  }
  if (written_ && now == state_) return OkStatus();
  state_ = std::move(now);
  written_ = false;  // until the file has this state; a failed write is repeated
  json added = json::object();
  for (const auto& [rank, address] : state_.added) added[std::to_string(rank)] = address;
  const json whole = {{"workers", ToJson(state_.workers)},
                      {"pservers", ToJson(state_.pservers)},
                      {"changing_workers", state_.changing},
                      {"added_pservers", added}};
  // A reader sees either the old or the new content.
  const std::string path = FileIn(plan_.log_dir), next = path + ".next";
  TD_RETURN_IF_ERROR(WriteOwnFile(next, whole.dump(2) + "\n"));
  if (rename(next.c_str(), path.c_str()) != 0) return FileError(path, "cannot be replaced", errno);
  written_ = true;
  return OkStatus();
}

StatusOr<ScaleState> ReadScaleState(const std::string& log_dir) {
  TD_ASSIGN_OR_RETURN(const std::string text,
                      ReadOwnFile(FileIn(log_dir), kFileBytesMax, OwnRule::kUser));
  const json whole = json::parse(text, nullptr, /*allow_exceptions=*/false);
  ScaleState state;
  // If a field is missing or has a wrong type, the JSON library throws an exception.
  try {
    state.workers = SideFrom(whole.at("workers"));
    state.pservers = SideFrom(whole.at("pservers"));
    state.changing = whole.at("changing_workers").get<int>();
    for (const auto& [rank, address] : whole.at("added_pservers").items()) {
      state.added[std::stoi(rank)] = address.get<std::string>();
    }
  } catch (const std::exception& error) {
    return DataLoss("%s is not a file of tandemrun: %s [TD7002]", FileIn(log_dir), error.what());
  }
  return state;
}

}  // namespace tandem::deploy
