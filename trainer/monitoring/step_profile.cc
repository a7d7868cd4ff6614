#include "trainer/monitoring/step_profile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "proto/job.pb.h"
#include "trainer/monitoring/server_trace.h"
#include "trainer/ps/rpc_log.h"

namespace tandem::trainer {
namespace {

using nlohmann::json;

const char* NameOf(exec::TraceTrack track) {
  switch (track) {
    case exec::TraceTrack::kCompute:
      return "compute";
    case exec::TraceTrack::kComm:
      return "communication";
    case exec::TraceTrack::kFeed:
      return "data";
    case exec::TraceTrack::kDevice:
      return "device";
  }
  return "";
}

const char* NameOf(ops::OpRole role) {
  switch (role) {
    case ops::OpRole::kForward:
    case ops::OpRole::kLoss:
      return "forward";
    case ops::OpRole::kBackward:
      return "backward";
    case ops::OpRole::kComm:
      return "communication";
    case ops::OpRole::kOptimize:
      return "optimize";
    case ops::OpRole::kInit:
      return "init";
  }
  return "";
}

// The first track of the calls to the first server. The number is larger than all tracks of the
// trainer.
constexpr int kServerTrack = 16;

// Returns the thread number of a span in the trace. Each stream of a device has a separate thread.
int ThreadOf(const exec::Span& span) {
  return std::min(static_cast<int>(span.lane) + span.stream, kServerTrack - 1);
}

// Makes the event of a span, without its phase and times.
json EventOf(const graph::Program& program, const exec::Span& span, int rank) {
  json event = {{"pid", rank}, {"tid", ThreadOf(span)}, {"name", span.what}};
  json args = {{"step", span.run}};
  event["cat"] = NameOf(span.lane);
  if (span.op >= 0) {
    const ops::Op& op = program.ops[static_cast<size_t>(span.op)];
    event["name"] = *span.what == '\0' ? op.type : absl::StrFormat("%s %s", span.what, op.type);
    if (span.lane == exec::TraceTrack::kDevice) event["name"] = span.what;
    if (span.lane == exec::TraceTrack::kCompute || span.lane == exec::TraceTrack::kDevice)
      event["cat"] = NameOf(op.role);
    args["op"] = span.op;
    if (!op.source.empty()) args["source"] = op.source;
    if (!op.outputs.empty() && !op.outputs[0].empty()) args["out"] = op.outputs[0][0];
  }
  event["args"] = args;
  return event;
}

Status WriteText(const std::string& path, const std::string& text) {
  return Annotate(WriteTextFile(path, text), "profile.dir");
}

}  // namespace

namespace {

// Collects the events of one rank's trace. The times are microseconds of the steady clock since
// `first`.
class TraceEvents {
 public:
  TraceEvents(Time first, int rank) : first_us_(Microseconds(first)), rank_(rank) {}

  static double Microseconds(Time t) { return Seconds(t.time_since_epoch()) * 1e6; }

  void Name(const char* what, int track, const std::string& value) {
    Name(rank_, what, track, value);
  }
  void Name(int process, const char* what, int track, const std::string& value) {
    events_.push_back({{"ph", "M"},
                       {"pid", process},
                       {"tid", track},
                       {"name", what},
                       {"args", {{"name", value}}}});
  }
  // Adds a span. The spans of a track must not overlap.
  void AddSpan(json event, Time begin, Time end) {
    AddSpan(std::move(event), Microseconds(begin), Microseconds(end));
  }
  void AddSpan(json event, double begin_us, double end_us) {
    event["ph"] = "X";
    event["ts"] = begin_us - first_us_;
    event["dur"] = end_us - begin_us;
    events_.push_back(std::move(event));
  }
  // Adds a span that may overlap other spans of its track.
  void AddAsync(json event, Time begin, Time end) {
    event["ph"] = "b";
    event["id"] = id_++;
    event["ts"] = Microseconds(begin) - first_us_;
    events_.push_back(event);
    event["ph"] = "e";
    event["ts"] = Microseconds(end) - first_us_;
    events_.push_back(std::move(event));
  }
  // Adds a point of an arrow inside a span. `phase`: "s": start of the arrow; "t": intermediate
  // point; "f": end.
  void AddArrow(const char* phase, int64_t id, json event, double at_us) {
    event["ph"] = phase;
    event["id"] = (int64_t{rank_} << 32) + id;
    event["name"] = "gradient";
    event["cat"] = "flow";
    event["ts"] = at_us - first_us_;
    if (*phase == 'f') event["bp"] = "e";
    events_.push_back(std::move(event));
  }
  json Take() { return std::move(events_); }
  double first_us() const { return first_us_; }

 private:
  const double first_us_;
  const int rank_;
  int64_t id_ = 0;
  json events_ = json::array();
};

constexpr int kTracksOfServer = 1000;

int TrackOf(const ps::PsCall& call, int track) {
  TD_REQUIRE(call.server >= 0 && track >= 0);
  return kServerTrack + kTracksOfServer * call.server + std::min(track, kTracksOfServer - 1);
}

void AddCalls(const std::vector<ps::PsCall>& calls, const std::vector<int>& tracks, int rank,
              TraceEvents* events) {
  TD_REQUIRE(tracks.size() == calls.size());
  std::set<int> named;
  for (size_t i = 0; i < calls.size(); ++i) {
    const ps::PsCall& call = calls[i];
    const int track = TrackOf(call, tracks[i]);
    if (named.insert(track).second) {
      events->Name("thread_name", track, absl::StrFormat("calls to pserver %d", call.server));
    }
    const json args = {{"server", call.server},
                       {"sent", call.sent},
                       {"received", call.received},
                       {"version", call.at_server.version},
                       {"ok", call.ok}};
    events->AddSpan(
        {{"pid", rank}, {"tid", track}, {"name", call.method()}, {"cat", "rpc"}, {"args", args}},
        call.begin, call.end);
  }
}

// Adds each update of the servers once, with times of this process's clock. Adds arrows for the
// gradient flows.
void AddUpdates(const std::vector<ps::PsCall>& calls, const std::vector<int>& tracks, int rank,
                TraceEvents* events) {
  const std::map<int, ClockBounds> clocks = ServerClocks(calls);
  for (const auto& [server, clock] : clocks) {
    events->Name(kServerProcess + server, "process_name", 0, absl::StrFormat("pserver %d", server));
    events->Name(kServerProcess + server, "thread_name", 0, "updates");
  }
  std::set<std::pair<int, uint64_t>> seen;
  int64_t arrows = 0;
  for (const GradientFlow& way : GradientWays(calls)) {
    const ps::PsCall &push = calls[way.push], &told = calls[way.update], &pull = calls[way.pull];
    const ps::PsCall::Server& at = told.at_server;
    DCHECK_EQ(push.server, pull.server);
    const double clock = clocks.at(push.server).middle();
    const double begin = static_cast<double>(at.update_begin_us) + clock;
    const double end = std::max(begin + 1, static_cast<double>(at.update_end_us) + clock);
    const json update = {{"pid", kServerProcess + push.server},
                         {"tid", 0},
                         {"args", {{"server", push.server}, {"version", at.version}}}};
    if (seen.insert({push.server, at.version}).second) {
      json span = update;
      span["name"] = "update";
      span["cat"] = "pserver";
      events->AddSpan(std::move(span), begin, end);
    }
    const int64_t id = arrows++;
    events->AddArrow("s", id, {{"pid", rank}, {"tid", TrackOf(push, tracks[way.push])}},
                     TraceEvents::Microseconds(push.begin));
    events->AddArrow("t", id, update, (begin + end) / 2);
    events->AddArrow("f", id, {{"pid", rank}, {"tid", TrackOf(pull, tracks[way.pull])}},
                     TraceEvents::Microseconds(pull.end) - 0.5);
  }
}

// Returns the clock data that `tandem profile` needs to combine the timelines of several processes.
json ClocksOf(const std::vector<ps::PsCall>& calls, double first_us, const std::string& job,
              int rank) {
  const double unix_us =
      std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      (TraceEvents::Microseconds(SteadyNow()) - first_us);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  json servers = json::object();
  for (const auto& [server, clock] : ServerClocks(calls)) {
    servers[std::to_string(server)] = {clock.low, clock.high};
  }
  return {{"job", job},           {"rank", rank},
          {"first_us", first_us}, {"first_unix_us", unix_us},
          {"boot", boot},         {"pserver_clocks", servers}};
}

// Returns the begin of the first and the end of the last profiled step.
std::pair<Time, Time> Extent(const exec::Profiler& profiler) {
  std::pair<Time, Time> extent = {Time::max(), Time::min()};
  for (const exec::Span& span : profiler.spans()) {
    extent.first = std::min(extent.first, span.begin);
    extent.second = std::max(extent.second, span.end);
  }
  return extent;
}

}  // namespace

std::string ChromeTrace(const exec::Profiler& profiler, const std::vector<ps::PsCall>& calls,
                        const std::string& job, int rank) {
  TraceEvents events(Extent(profiler).first, rank);
  events.Name("process_name", 0, absl::StrFormat("%s rank %d", job, rank));
  for (const exec::TraceTrack track :
       {exec::TraceTrack::kCompute, exec::TraceTrack::kComm, exec::TraceTrack::kFeed}) {
    events.Name("thread_name", static_cast<int>(track), NameOf(track));
  }
  std::set<int> streams;
  for (const exec::Span& span : profiler.spans()) {
    if (span.lane != exec::TraceTrack::kDevice || !streams.insert(ThreadOf(span)).second) continue;
    events.Name("thread_name", ThreadOf(span), absl::StrFormat("device, stream %d", span.stream));
  }
  for (const exec::Span& span : profiler.spans()) {
    json event = EventOf(profiler.plan().program(), span, rank);
    if (span.lane == exec::TraceTrack::kComm) {
      events.AddAsync(std::move(event), span.begin, span.end);
    } else {
      events.AddSpan(std::move(event), span.begin, span.end);
    }
  }
  const std::vector<int> tracks = CallTracks(calls);
  AddCalls(calls, tracks, rank, &events);
  AddUpdates(calls, tracks, rank, &events);
  const json trace = {{"traceEvents", events.Take()},
                      {"displayTimeUnit", "ms"},
                      {"otherData", ClocksOf(calls, events.first_us(), job, rank)}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace);
}

StepProfile::StepProfile(const ProfileConfig& config, ProfilePlace place, const exec::Plan& plan)
    : config_(std::make_unique<ProfileConfig>(config)), place_(std::move(place)), profiler_(plan) {}

StepProfile::~StepProfile() = default;

StatusOr<std::unique_ptr<StepProfile>> StepProfile::Make(const ProfileConfig& config,
                                                         ProfilePlace place,
                                                         const exec::Plan& plan) {
  if (config.first_step() < 0 || config.steps() < 1) {
    return InvalidArgument(
        "profile: %d steps from step %d on, expected at least 1 step and a first step of at least "
        "0 [TD1104]",
        config.steps(), config.first_step());
  }
  return std::unique_ptr<StepProfile>(new StepProfile(config, std::move(place), plan));
}

exec::Profiler* StepProfile::At(int64_t step) {
  const int64_t first = config_->first_step();
  if (step < first || step >= first + config_->steps()) return nullptr;
  if (step == first && profiler_.plan().device() != nullptr) traced_ = profiler_.TraceDevice();
  return &profiler_;
}

StatusOr<std::string> StepProfile::After(int64_t step, bool last) {
  const bool ready = step + 1 >= config_->first_step() + config_->steps() || last;
  if (!ready || written_) return std::string();
  return Write();
}

StatusOr<std::string> StepProfile::Write() {
  TD_REQUIRE(!written_);
  written_ = true;
  if (traced_.ok()) traced_ = profiler_.EndTrace();
  std::error_code error;
  std::filesystem::create_directories(place_.dir, error);
  const auto order = static_cast<exec::ProfileOrder>(config_->order());
  std::string table = exec::ProfileTable(exec::SumUp(profiler_, order, config_->op_detail()),
                                         ops::MeasurePeak(place_.threads));
  const exec::CommOverlap overlap = exec::OverlapOf(profiler_.spans());
  table += ToString(overlap);
  table += ToString(exec::BusyOf(profiler_.spans()));
  if (place_.bubble > 0) {
    double total = 0;  // computing and waiting time of the rank in seconds
    for (const exec::Span& span : profiler_.spans()) {
      if (span.lane == exec::TraceTrack::kCompute) total += Seconds(span.end - span.begin);
    }
    table += absl::StrFormat(
        "pipeline: a rank waits %.0f %% of a step; the ideal, with sections of equal length, is "
        "%.0f %%\n",
        100 * overlap.exposed / std::max(total, 1e-9), 100 * place_.bubble);
  }
  std::vector<ps::PsCall> calls;
  if (place_.calls != nullptr) {
    const auto [begin, end] = Extent(profiler_);
    calls = place_.calls->Between(begin, end);
    table += "\n" + RpcTable(calls);
  }
  const std::string path = absl::StrFormat("%s/profile.%d.txt", place_.dir, place_.rank);
  const std::string timeline = absl::StrFormat("%s/timeline.%d.json", place_.dir, place_.rank);
  TD_RETURN_IF_ERROR(WriteText(path, table));
  TD_RETURN_IF_ERROR(WriteText(timeline, ChromeTrace(profiler_, calls, place_.job, place_.rank)));
  int64_t steps = 0, run = -1;
  for (const exec::Span& span : profiler_.spans()) {
    if (span.lane == exec::TraceTrack::kDevice) continue;
    steps += span.run != run ? 1 : 0;
    run = span.run;
  }
  std::string text =
      absl::StrFormat("profile of %d steps, timeline in %s:\n%s", steps, timeline, table);
  if (!traced_.ok()) text += "the profile has no times of the device: " + ToString(traced_) + "\n";
  if (profiler_.full())
    text += "the profile buffer was full and the profile is incomplete; profile fewer steps\n";
  return text;
}

}  // namespace tandem::trainer
