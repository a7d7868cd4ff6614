#include "trainer/step_profile.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "proto/job.pb.h"
#include "trainer/rpc_log.h"

namespace tandem {
namespace {

using nlohmann::json;

const char* NameOf(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kComm:
      return "communication";
    case Lane::kFeed:
      return "data";
  }
  return "";
}

const char* NameOf(OpRole role) {
  switch (role) {
    case OpRole::kForward:
    case OpRole::kLoss:
      return "forward";
    case OpRole::kBackward:
      return "backward";
    case OpRole::kComm:
      return "communication";
    case OpRole::kOptimize:
      return "optimize";
    case OpRole::kInit:
      return "init";
  }
  return "";
}

// The event without its phase and times.
json EventOf(const Program& program, const Span& span, int rank) {
  json event = {{"pid", rank}, {"tid", static_cast<int>(span.lane)}, {"name", span.what}};
  json args = {{"step", span.run}};
  event["cat"] = NameOf(span.lane);
  if (span.op >= 0) {
    const Op& op = program.ops[static_cast<size_t>(span.op)];
    event["name"] = *span.what == '\0' ? op.type : absl::StrFormat("%s %s", span.what, op.type);
    if (span.lane == Lane::kCompute) event["cat"] = NameOf(op.role);
    args["op"] = span.op;
    if (!op.source.empty()) args["source"] = op.source;
    if (!op.outputs.empty() && !op.outputs[0].empty()) args["out"] = op.outputs[0][0];
  }
  event["args"] = args;
  return event;
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return PermissionDenied("profile.dir: %s cannot be written", path);
  return OkStatus();
}

}  // namespace

namespace {

// Events of one rank's trace.
class TraceEvents {
 public:
  TraceEvents(Time first, int rank) : first_(first), rank_(rank) {}

  void Name(const char* what, int lane, const std::string& value) {
    events_.push_back(
        {{"ph", "M"}, {"pid", rank_}, {"tid", lane}, {"name", what}, {"args", {{"name", value}}}});
  }
  // One after another in its lane.
  void AddSpan(json event, Time begin, Time end) {
    event["ph"] = "X";
    event["ts"] = Microseconds(begin);
    event["dur"] = Microseconds(end) - Microseconds(begin);
    events_.push_back(std::move(event));
  }
  // Beside others in its lane.
  void AddAsync(json event, Time begin, Time end) {
    event["ph"] = "b";
    event["id"] = id_++;
    event["ts"] = Microseconds(begin);
    events_.push_back(event);
    event["ph"] = "e";
    event["ts"] = Microseconds(end);
    events_.push_back(std::move(event));
  }
  json Take() { return std::move(events_); }

 private:
  double Microseconds(Time t) const { return Seconds(t - first_) * 1e6; }

  const Time first_;
  const int rank_;
  int64_t id_ = 0;
  json events_ = json::array();
};

constexpr int kServerLane = 16;  // of the first server: behind those of the trainer itself

void AddCalls(const std::vector<PsCall>& calls, int rank, TraceEvents* events) {
  std::set<int> servers;
  for (const PsCall& call : calls) {
    const int lane = kServerLane + call.server;
    if (servers.insert(call.server).second) {
      events->Name("thread_name", lane, absl::StrFormat("calls to pserver %d", call.server));
    }
    const json args = {{"sent", call.sent}, {"received", call.received}, {"ok", call.ok}};
    events->AddAsync(
        {{"pid", rank}, {"tid", lane}, {"name", call.method}, {"cat", "rpc"}, {"args", args}},
        call.begin, call.end);
  }
}

// When the profiled steps began and ended.
std::pair<Time, Time> Extent(const Profiler& profiler) {
  std::pair<Time, Time> extent = {Time::max(), Time::min()};
  for (const Span& span : profiler.spans()) {
    extent.first = std::min(extent.first, span.begin);
    extent.second = std::max(extent.second, span.end);
  }
  return extent;
}

}  // namespace

std::string ChromeTrace(const Profiler& profiler, const std::vector<PsCall>& calls,
                        const std::string& job, int rank) {
  TraceEvents events(Extent(profiler).first, rank);
  events.Name("process_name", 0, absl::StrFormat("%s rank %d", job, rank));
  for (const Lane lane : {Lane::kCompute, Lane::kComm, Lane::kFeed}) {
    events.Name("thread_name", static_cast<int>(lane), NameOf(lane));
  }
  for (const Span& span : profiler.spans()) {
    json event = EventOf(profiler.plan().program(), span, rank);
    if (span.lane == Lane::kComm) {
      events.AddAsync(std::move(event), span.begin, span.end);
    } else {
      events.AddSpan(std::move(event), span.begin, span.end);
    }
  }
  AddCalls(calls, rank, &events);
  const json trace = {{"traceEvents", events.Take()}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace);
}

StepProfile::StepProfile(const ProfileConfig& config, ProfilePlace place, const Plan& plan)
    : config_(std::make_unique<ProfileConfig>(config)), place_(std::move(place)), profiler_(plan) {}

StepProfile::~StepProfile() = default;

StatusOr<std::unique_ptr<StepProfile>> StepProfile::Make(const ProfileConfig& config,
                                                         ProfilePlace place, const Plan& plan) {
  if (config.first_step() < 0 || config.steps() < 1) {
    return InvalidArgument("profile: %d steps from step %d on: at least one, from 0 on",
                           config.steps(), config.first_step());
  }
  return std::unique_ptr<StepProfile>(new StepProfile(config, std::move(place), plan));
}

Profiler* StepProfile::At(int64_t step) {
  const int64_t first = config_->first_step();
  return step >= first && step < first + config_->steps() ? &profiler_ : nullptr;
}

StatusOr<std::string> StepProfile::After(int64_t step, bool last) {
  const bool ready = step + 1 >= config_->first_step() + config_->steps() || last;
  if (!ready || written_) return std::string();
  return Write();
}

StatusOr<std::string> StepProfile::Write() {
  written_ = true;
  std::error_code error;
  std::filesystem::create_directories(place_.dir, error);
  const auto order = static_cast<ProfileOrder>(config_->order());
  std::string table =
      ProfileTable(SumUp(profiler_, order, config_->op_detail()), MeasurePeak(place_.threads));
  table += ToString(OverlapOf(profiler_.spans()));
  std::vector<PsCall> calls;
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
  for (const Span& span : profiler_.spans()) {
    steps += span.run != run ? 1 : 0;
    run = span.run;
  }
  std::string text =
      absl::StrFormat("profile of %d steps, timeline in %s:\n%s", steps, timeline, table);
  if (profiler_.full()) text += "more happened than there was room for; profile fewer steps\n";
  return text;
}

}  // namespace tandem
