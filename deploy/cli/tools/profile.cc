#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/os/files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "trainer/monitoring/step_profile.h"

namespace tandem::deploy {
namespace {

using nlohmann::json;

constexpr uint64_t kTimelineBytesMax = uint64_t{1} << 32;
constexpr char kProfileUsage[] =
    "tandem profile DIR [FILE]: merges the timelines that the trainers of a job wrote into "
    "its\nprofile.dir, for Perfetto (ui.perfetto.dev) or chrome://tracing\nThe default of FILE is "
    "DIR/timeline.json. With enable_rpc_profiler the timeline also shows the\nupdates of the "
    "pservers, with arrows for push, update and pull.\n";

// For each pserver: lower and upper bound, in us, of the offset that is added to the pserver's
// clock to get the trainer's clock.
using Clocks = std::map<std::string, std::pair<double, double>>;

double Middle(const std::pair<double, double>& bounds) {
  return (bounds.first + bounds.second) / 2;
}

// A trainer's timeline (trainer/monitoring/step_profile.h).
struct Timeline {
  std::string path;
  json events;
  int rank = 0;
  // Time 0 of the timeline on the steady and the wall clock, in us.
  double first_us = 0, first_unix_us = 0;
  std::string boot;  // boot id of the host; processes with equal boot ids share the steady clock
  Clocks pserver_clocks;  // offsets from the pservers' clocks to the trainer's clock
};

StatusOr<Timeline> Read(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kTimelineBytesMax));
  const json trace = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto bad = [&path](const char* what) {
    return DataLoss("%s cannot be read: %s", path, what);
  };
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
    return bad("the file is not a timeline, or it is truncated");
  }
  const json head = trace.value("otherData", json());
  if (!head.is_object()) return bad("the timeline names no clock; hint: profile the job again");
  Timeline timeline{.path = path, .events = trace["traceEvents"]};
  try {
    timeline.rank = head.at("rank").get<int>();
    timeline.first_us = head.at("first_us").get<double>();
    timeline.first_unix_us = head.at("first_unix_us").get<double>();
    timeline.boot = head.at("boot").get<std::string>();
    timeline.pserver_clocks = head.at("pserver_clocks").get<Clocks>();
    // Without a boot id, the trainer's host is treated as different from all other hosts.
    if (timeline.boot.empty()) timeline.boot = path;
    for (const json& event : timeline.events) {
      (void)event.at("ph").get_ref<const std::string&>();
      (void)event.at("pid").get<int>();
      (void)event.value("name", "");
      (void)event.value("dur", 0.0);
      if (event.contains("ts")) (void)event["ts"].get<double>();
      if (event.contains("args")) (void)event["args"].value("version", uint64_t{0});
    }
  } catch (const json::exception&) {
    return bad("the header or an event lacks a required field");
  }
  return timeline;
}

StatusOr<std::vector<Timeline>> ReadAll(const std::string& dir) {
  std::vector<Timeline> timelines;
  const StatusOr<std::vector<std::string>> names = ListDir(dir);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const bool one = name.starts_with("timeline.") && name.ends_with(".json") &&
                     std::count(name.begin(), name.end(), '.') == 2;
    if (!one) continue;
    TD_ASSIGN_OR_RETURN(timelines.emplace_back(), Read(dir + "/" + name));
  }
  if (!names.ok()) {
    return Status(
        names.status().code(),
        absl::StrCat(names.status().message(), "; hint: name the --profile.dir of the trainers"));
  }
  if (timelines.empty()) {
    return NotFound(
        "directory %s contains no timeline.RANK.json [TD7008]; hint: train with --profile.dir=DIR",
        dir);
  }
  std::sort(timelines.begin(), timelines.end(),
            [](const Timeline& a, const Timeline& b) { return a.rank < b.rank; });
  return timelines;
}

// The methods to align the clocks of two timelines, the most accurate method first.
enum class Way { kSameHost, kPservers, kWallClock };

// Returns for each host the clock bounds that hold for all trainers of the host.
std::map<std::string, Clocks> ClocksOfHosts(const std::vector<Timeline>& timelines) {
  std::map<std::string, Clocks> hosts;
  for (const Timeline& t : timelines) {
    for (const auto& [server, bounds] : t.pserver_clocks) {
      auto& common = hosts[t.boot].try_emplace(server, bounds).first->second;
      common = {std::max(common.first, bounds.first), std::min(common.second, bounds.second)};
    }
  }
  return hosts;
}

struct Shift {
  double us = 0;                          // shift for all times of the timeline, in us
  std::map<int, double> of_servers = {};  // additional shift for the process of each server, in us
  Way way = Way::kSameHost;
};

// Returns the shift that converts times of `t` to times of `reference`.
Shift ShiftOf(const Timeline& t, const Timeline& reference, std::map<std::string, Clocks>& hosts) {
  Shift shift{.us = t.first_us - reference.first_us};
  const Clocks &here = hosts[t.boot], &there = hosts[reference.boot];
  for (const auto& [server, bounds] : t.pserver_clocks) {
    shift.of_servers[trainer::kServerProcess + std::atoi(server.c_str())] =
        Middle(here.at(server)) - Middle(bounds);
  }
  if (t.boot == reference.boot) return shift;
  for (const auto& [server, bounds] : here) {
    const auto it = there.find(server);
    if (it == there.end()) continue;
    shift.us += Middle(it->second) - Middle(bounds);
    shift.way = Way::kPservers;
    return shift;
  }
  shift.us = t.first_unix_us - reference.first_unix_us;
  shift.way = Way::kWallClock;
  return shift;
}

// Merges the events of several timelines. If several timelines contain the same event, such as a
// name or an update of a pserver, the result contains it once. The arrows that led to a removed
// copy of an update lead to the middle of the remaining copy.
class Merger {
 public:
  void Add(const Timeline& timeline, const Shift& shift) {
    for (json event : timeline.events) {
      const auto server = shift.of_servers.find(event["pid"].get<int>());
      const double more = server == shift.of_servers.end() ? 0 : server->second;
      if (event.contains("ts")) event["ts"] = event["ts"].get<double>() + shift.us + more;
      const std::string phase = event["ph"];
      if (phase == "M" && !names_.insert(event.dump()).second) continue;
      if (event.contains("args") && event["args"].contains("version") &&
          (phase == "t" || event.value("name", "") == "update")) {
        const auto key =
            std::pair(event["pid"].get<int>(), event["args"]["version"].get<uint64_t>());
        if (phase == "t") {
          const auto it = updates_.find(key);
          if (it != updates_.end()) event["ts"] = it->second;
        } else if (!updates_.emplace(key, event["ts"].get<double>() + event.value("dur", 0.0) / 2)
                        .second) {
          continue;
        }
      }
      arrows_ += phase == "s" ? 1 : 0;
      events_.push_back(std::move(event));
    }
  }

  // Returns the merged events. The earliest event is at time 0.
  json Take() {
    double first = 0;
    bool any = false;
    for (const json& event : events_) {
      if (!event.contains("ts")) continue;
      first = any ? std::min(first, event["ts"].get<double>()) : event["ts"].get<double>();
      any = true;
    }
    for (json& event : events_) {
      if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - first;
    }
    return std::move(events_);
  }

  size_t size() const { return events_.size(); }
  int64_t arrows() const { return arrows_; }
  size_t updates() const { return updates_.size(); }

 private:
  json events_ = json::array();
  std::set<std::string> names_;
  std::map<std::pair<int, uint64_t>, double>
      updates_;  // time of the middle of each update, by (process, version)
  int64_t arrows_ = 0;
};

const char* TextOf(Way way) {
  switch (way) {
    case Way::kSameHost:
      return "by the clock of their host";
    case Way::kPservers:
      return "by the pservers' clocks";
    case Way::kWallClock:
      return "by the wall clocks of their hosts, which may differ by milliseconds";
  }
  return "";
}

Status Merge(const ParsedArgs& args) {
  if (args.positional.empty() || args.positional.size() > 2) {
    return InvalidArgument(
        "expected the directory of a profile [TD1007]; hint: run tandem profile prof");
  }
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  const std::string& dir = args.positional[0];
  const std::string out = args.positional.size() == 2 ? args.positional[1] : dir + "/timeline.json";
  TD_ASSIGN_OR_RETURN(const std::vector<Timeline> timelines, ReadAll(dir));
  Merger merger;
  Way worst = Way::kSameHost;
  auto hosts = ClocksOfHosts(timelines);
  for (const Timeline& t : timelines) {
    const Shift shift = ShiftOf(t, timelines[0], hosts);
    worst = std::max(worst, shift.way);
    merger.Add(t, shift);
  }
  const size_t events = merger.size();
  const json trace = {{"traceEvents", merger.Take()}, {"displayTimeUnit", "ms"}};
  const auto write = [&trace](const std::string& path) {
    return WriteTextFile(path, trace.dump(-1, ' ', false, json::error_handler_t::replace));
  };
  TD_RETURN_IF_ERROR(PublishFiles({{out, write}}));
  if (as_json) {
    const json said = {{"file", out},
                       {"trainers", timelines.size()},
                       {"events", events},
                       {"updates", merger.updates()},
                       {"arrows", merger.arrows()},
                       {"put_together", TextOf(worst)}};
    std::puts(said.dump(2).c_str());
    return OkStatus();
  }
  std::printf("%s: %zu trainers, %zu events, %zu updates of pservers, %lld arrows; merged %s\n",
              out.c_str(), timelines.size(), events, merger.updates(),
              static_cast<long long>(merger.arrows()), TextOf(worst));
  return OkStatus();
}

}  // namespace

int RunProfile(const Args& args) {
  return RunBody("profile", kProfileUsage, {kOutputFlag}, args, Merge);
}

}  // namespace tandem::deploy
