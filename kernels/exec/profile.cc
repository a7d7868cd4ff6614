#include "kernels/exec/profile.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "kernels/exec/roofline.h"

namespace tandem::exec {
namespace {

std::string NameOf(const graph::Program& program, const Span& span, bool detail) {
  if (span.op < 0)
    return span.lane == TraceTrack::kDevice ? absl::StrFormat("%s (device)", span.what) : span.what;
  const ops::Op& op = program.ops[static_cast<size_t>(span.op)];
  std::string name = op.type;
  if (detail) {
    name = absl::StrFormat("#%d %s", span.op, op.type);
    for (const auto& slot : op.outputs) {
      if (slot.empty() || slot[0].empty()) continue;
      name += " " + slot[0];
      break;
    }
  }
  if (span.lane == TraceTrack::kDevice)
    return name + (detail ? " " : "") + (detail ? span.what : "") + " (device)";
  if (*span.what != '\0') name = absl::StrFormat("%s for %s", span.what, name);
  return span.lane == TraceTrack::kComm ? name + " (in transit)" : name;
}

double Key(const ProfileRow& row, ProfileOrder order) {
  switch (order) {
    case ProfileOrder::kTotal:
      return row.total;
    case ProfileOrder::kCalls:
      return static_cast<double>(row.calls);
    case ProfileOrder::kMax:
      return row.max;
    case ProfileOrder::kMin:
      return row.min;
    case ProfileOrder::kAverage:
      return row.total / static_cast<double>(row.calls);
  }
  return 0;
}

// Formats a rate in 1e9 per second and its share of `peak`, 17 columns wide. A peak of 0 is unknown
// and has no share. The text is blank if there is no rate. A share above the peak is printed as
// ">100%".
std::string Share(double amount, double seconds, double peak) {
  if (amount <= 0 || seconds <= 0) return std::string(17, ' ');
  const double rate = amount / seconds;
  if (peak <= 0) return absl::StrFormat(" %8.1f %7s", rate / 1e9, "");
  if (rate > peak) return absl::StrFormat(" %8.1f %7s", rate / 1e9, ">100%");
  return absl::StrFormat(" %8.1f %6.1f%%", rate / 1e9, 100 * rate / peak);
}

// Explains why shares of the peak are missing. "": no share is missing.
std::string NoShareText(const std::vector<ProfileRow>& rows, const ops::MachinePeak& peak) {
  bool flops = false, bytes = false;
  for (const ProfileRow& row : rows) {
    if (row.lane != TraceTrack::kCompute || row.total <= 0) continue;
    flops |= peak.flops > 0 && row.flops > peak.flops * row.total;
    bytes |= peak.bytes > 0 && row.bytes > peak.bytes * row.total;
  }
  std::string text;
  if (flops) {
    text += absl::StrFormat(
        "the measured peak is too low (%d other threads ran): operators are faster than the peak\n",
        peak.others);
  }
  if (bytes)
    text += "GB/s above the peak: the data were in caches, or the measured peak is too low\n";
  return text;
}

std::string Rates(const ProfileRow& row, const ops::MachinePeak& peak) {
  if (row.lane == TraceTrack::kDevice)
    return Share(row.flops, row.total, 0) + Share(row.bytes, row.total, 0);
  if (row.lane != TraceTrack::kCompute) return "";
  return Share(row.flops, row.total, peak.flops) + Share(row.bytes, row.total, peak.bytes);
}

}  // namespace

Profiler::Profiler(const Plan& plan, size_t spans_max)
    : plan_(plan), spans_max_(spans_max), comm_began_(plan.steps().size()) {
  spans_.reserve(std::min<size_t>(spans_max, 1 << 16));
}

void Profiler::Push(const Span& span) {
  if (!full()) spans_.push_back(span);
}

void Profiler::OnCommEnd(const PlanStep& wait, int64_t run, Time ended) {
  const auto comm = static_cast<size_t>(wait.comm_wait);
  TD_REQUIRE(comm < comm_began_.size());
  Push({wait.op, "", TraceTrack::kComm, run, comm_began_[comm], ended});
}

Status Profiler::OnStep(const PlanStep& step, int64_t run, Time begin, Time end) {
  if (trace_ != nullptr) trace_->Leave();
  if (step.comm_wait >= 0) {
    Push({step.op, "wait", TraceTrack::kCompute, run, begin, end});
    return OkStatus();
  }
  if (step.comm_start >= 0) comm_began_[static_cast<size_t>(step.comm_start)] = begin;
  Push({step.op, step.comm_start >= 0 ? "start" : "", TraceTrack::kCompute, run, begin, end});
  return OkStatus();
}

Status Profiler::BeforeStep(const PlanStep& step, int64_t run) {
  if (trace_ == nullptr) return OkStatus();
  traced_.emplace_back(step.op, run);
  trace_->Enter(traced_.size());
  return OkStatus();
}

Status Profiler::TraceDevice() {
  TD_ASSIGN_OR_RETURN(trace_, DeviceTrace::Start());
  return OkStatus();
}

Status Profiler::EndTrace() {
  if (trace_ == nullptr) return OkStatus();
  const auto ended = trace_->Take();
  trace_.reset();
  TD_RETURN_IF_ERROR(ended.status());
  for (const DeviceSpan& span : *ended) {
    const bool known = span.id > 0 && span.id <= traced_.size();
    const auto [op, run] = known ? traced_[span.id - 1] : std::pair(-1, int64_t{0});
    const char* const what = names_.insert(span.what).first->c_str();
    const int stream =
        streams_.emplace(span.stream, static_cast<int>(streams_.size())).first->second;
    Push({op, what, TraceTrack::kDevice, run, span.begin, span.end, stream});
  }
  return OkStatus();
}

void Profiler::Add(const char* what, int64_t run, Time begin, Time end) {
  Push({-1, what, TraceTrack::kFeed, run, begin, end});
}

std::vector<ProfileRow> SumUp(const Profiler& profiler, ProfileOrder order, bool detail) {
  const graph::Program& program = profiler.plan().program();
  std::vector<OpCost> costs;
  for (const ops::Op& op : program.ops) costs.push_back(CostOf(program, op));
  std::map<std::string, ProfileRow> rows;
  // The track with the work of operators. On kDevice, an operator may have one span per kernel.
  const TraceTrack worker =
      profiler.plan().device() == nullptr ? TraceTrack::kCompute : TraceTrack::kDevice;
  std::set<std::pair<int, int64_t>> done;
  for (const Span& span : profiler.spans()) {
    const std::string name = NameOf(program, span, detail);
    ProfileRow& row = rows[name];
    const double seconds = Seconds(span.end - span.begin);
    row.name = name;
    row.lane = span.lane;
    row.min = row.calls == 0 ? seconds : std::min(row.min, seconds);
    row.max = std::max(row.max, seconds);
    row.total += seconds;
    ++row.calls;
    if (span.op < 0 || span.lane != worker) continue;
    if (worker == TraceTrack::kCompute ? *span.what != '\0'
                                       : !done.insert({span.op, span.run}).second) {
      continue;
    }
    row.flops += costs[static_cast<size_t>(span.op)].flops;
    row.bytes += costs[static_cast<size_t>(span.op)].bytes;
  }
  std::vector<ProfileRow> sorted;
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [order](const auto& a, const auto& b) { return Key(a, order) > Key(b, order); });
  return sorted;
}

std::string ProfileTable(const std::vector<ProfileRow>& rows, const ops::MachinePeak& peak) {
  size_t width = 5;
  double busy = 0, device = 0;  // total seconds of the executor's thread (busy) and of the device
  for (const ProfileRow& row : rows) {
    width = std::max(width, row.name.size());
    if (row.lane == TraceTrack::kDevice) device += row.total;
    if (row.lane == TraceTrack::kCompute || row.lane == TraceTrack::kFeed) busy += row.total;
  }
  std::string text = absl::StrFormat("%-*s %7s %10s %9s %9s %9s %7s %8s %7s %8s %7s\n", width,
                                     "Event", "Calls", "Total", "Min.", "Max.", "Ave.", "Ratio.",
                                     "GFLOP/s", "of peak", "GB/s", "of peak");
  for (const ProfileRow& row : rows) {
    const double all = row.lane == TraceTrack::kDevice ? device : busy;
    const double ratio = row.lane == TraceTrack::kComm || all <= 0 ? 0 : row.total / all;
    std::string line =
        absl::StrFormat("%-*s %7d %10.3f %9.4f %9.4f %9.4f %7.4f%s", width, row.name, row.calls,
                        row.total * 1e3, row.min * 1e3, row.max * 1e3,
                        row.total * 1e3 / static_cast<double>(row.calls), ratio, Rates(row, peak));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  text += absl::StrFormat("times in ms; peak of this machine: %.1f GFLOP/s, %.1f GB/s copied\n",
                          peak.flops / 1e9, peak.bytes / 1e9);
  return text + NoShareText(rows, peak);
}

namespace {

// Returns the number of seconds that at least one of the intervals covers.
double Covered(std::vector<std::pair<Time, Time>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  double seconds = 0;
  Time covered = Time::min();
  for (const auto& [begin, end] : intervals) {
    const Time from = std::max(begin, covered);
    if (end > from) seconds += Seconds(end - from);
    covered = std::max(covered, end);
  }
  return seconds;
}

int64_t StepsOf(std::span<const Span> spans) {
  std::set<int64_t> steps;
  for (const Span& span : spans) {
    if (span.lane != TraceTrack::kDevice) steps.insert(span.run);
  }
  return static_cast<int64_t>(steps.size());
}

}  // namespace

DeviceBusy BusyOf(std::span<const Span> spans) {
  DeviceBusy busy{.steps = StepsOf(spans)};
  std::vector<std::pair<Time, Time>> device;
  Time first = Time::max(), last = Time::min();
  for (const Span& span : spans) {
    first = std::min(first, span.begin);
    last = std::max(last, span.end);
    if (span.lane == TraceTrack::kDevice) device.emplace_back(span.begin, span.end);
  }
  if (last > first) busy.all = Seconds(last - first);
  busy.busy = Covered(std::move(device));
  return busy;
}

std::string ToString(const DeviceBusy& busy) {
  if (busy.steps == 0 || busy.busy <= 0) return "";
  const double ms = 1e3 / static_cast<double>(busy.steps);
  return absl::StrFormat("device: busy %.3f ms of %.3f ms per step, %.0f %%\n", busy.busy * ms,
                         busy.all * ms, 100 * busy.busy / busy.all);
}

CommOverlap OverlapOf(std::span<const Span> spans) {
  CommOverlap overlap{.steps = StepsOf(spans)};
  std::vector<std::pair<Time, Time>> on_way;
  for (const Span& span : spans) {
    if (span.lane == TraceTrack::kComm) on_way.emplace_back(span.begin, span.end);
    if (span.lane == TraceTrack::kCompute && std::string_view(span.what) == "wait") {
      overlap.exposed += Seconds(span.end - span.begin);
    }
  }
  overlap.on_way = Covered(std::move(on_way));
  return overlap;
}

std::string ToString(const CommOverlap& overlap) {
  if (overlap.steps == 0 || overlap.on_way <= 0) return "";
  const double hidden = std::max(0.0, 1 - overlap.exposed / overlap.on_way);
  const double ms = 1e3 / static_cast<double>(overlap.steps);
  return absl::StrFormat(
      "communication: %.3f ms per step, of which steps wait %.3f ms; %.0f %% overlaps with other "
      "work\n",
      overlap.on_way * ms, overlap.exposed * ms, 100 * hidden);
}

}  // namespace tandem::exec
