#include "trainer/step_profile.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "proto/job.pb.h"

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

std::string ChromeTrace(const Profiler& profiler, const std::string& job, int rank) {
  const Program& program = profiler.plan().program();
  Time first = Time::max();
  for (const Span& span : profiler.spans()) first = std::min(first, span.begin);
  const auto us = [first](Time t) { return Seconds(t - first) * 1e6; };
  json events = json::array();
  const auto name = [&](const char* what, int lane, const std::string& value) {
    events.push_back(
        {{"ph", "M"}, {"pid", rank}, {"tid", lane}, {"name", what}, {"args", {{"name", value}}}});
  };
  name("process_name", 0, absl::StrFormat("%s rank %d", job, rank));
  for (const Lane lane : {Lane::kCompute, Lane::kComm, Lane::kFeed}) {
    name("thread_name", static_cast<int>(lane), NameOf(lane));
  }
  int64_t id = 0;
  for (const Span& span : profiler.spans()) {
    json event = EventOf(program, span, rank);
    event["ts"] = us(span.begin);
    if (span.lane != Lane::kComm) {
      event["ph"] = "X";
      event["dur"] = us(span.end) - us(span.begin);
      events.push_back(std::move(event));
      continue;
    }
    event["ph"] = "b";
    event["id"] = id++;
    json end = event;
    end["ph"] = "e";
    end["ts"] = us(span.end);
    events.push_back(std::move(event));
    events.push_back(std::move(end));
  }
  const json trace = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
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
  const std::string table =
      ProfileTable(SumUp(profiler_, order, config_->op_detail()), MeasurePeak(place_.threads));
  const std::string path = absl::StrFormat("%s/profile.%d.txt", place_.dir, place_.rank);
  const std::string timeline = absl::StrFormat("%s/timeline.%d.json", place_.dir, place_.rank);
  TD_RETURN_IF_ERROR(WriteText(path, table));
  TD_RETURN_IF_ERROR(WriteText(timeline, ChromeTrace(profiler_, place_.job, place_.rank)));
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
