// Profiles the steps of a plan: records spans of time and sums them up by operator.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/exec/trace/device_trace.h"
#include "kernels/ops/cpu/machine_peak.h"

namespace tandem {

// The track of a span in a timeline.
enum class TraceTrack : uint8_t {
  kCompute,  // kernels, and the executor's waits for communication
  kComm,     // communications, from start to end; they may overlap
  kFeed,     // work of the trainer around the plan
  kDevice,   // kernels, copies and fills at the time when a device ran them
};

struct Span {
  int op = -1;  // index in the program; -1: see `what`
  // "wait" for the operator's communication; work of the device; else a span of the trainer
  const char* what = "";
  TraceTrack lane = TraceTrack::kCompute;
  int64_t run = 0;  // run of the executor
  Time begin, end;
  int stream = 0;  // device stream, numbered by first span
};

// Records spans in bounded memory: after `spans_max` spans it drops further ones.
class Profiler final : public ExecObserver {
 public:
  explicit Profiler(const Plan& plan, size_t spans_max = size_t{1} << 20);

  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;
  void OnCommEnd(const PlanStep& wait, int64_t run, Time ended) override;
  // Adds a span of the caller. `what` must be a string literal.
  void Add(const char* what, int64_t run, Time begin, Time end);

  // Starts tracing the work of the plan's device. UNAVAILABLE: tracing is not possible; spans then
  // show only the view of the host.
  Status TraceDevice();
  // Ends the trace and adds the spans of the device. REQUIRES: the device was synchronised.
  Status EndTrace();

  const Plan& plan() const { return plan_; }
  const std::vector<Span>& spans() const { return spans_; }
  bool full() const { return spans_.size() >= spans_max_; }

 private:
  void Push(const Span& span);

  const Plan& plan_;
  const size_t spans_max_;
  std::unique_ptr<DeviceTrace> trace_;           // nullptr: none
  std::vector<std::pair<int, int64_t>> traced_;  // operator and run, by trace id from 1
  std::set<std::string> names_;                  // kernel names
  std::map<uint32_t, int> streams_;
  std::vector<Span> spans_;
  std::vector<Time> comm_began_;  // indexed by communication
};

// Sums over the spans of one name.
struct ProfileRow {
  std::string name;  // "conv2d"; with detail "#3 conv2d conv_0.out"; "wait for c_allreduce_sum"
  TraceTrack lane = TraceTrack::kCompute;
  int64_t calls = 0;
  double total = 0, min = 0, max = 0;  // seconds
  double flops = 0;                    // of all calls; 0: only the bytes moved count
  double bytes = 0;                    // read and written by all calls, assuming no cache
};
enum class ProfileOrder : uint8_t { kTotal, kCalls, kMax, kMin, kAverage };

// Returns rows in descending order (kMin too): one per operator type, or with `detail` one per
// operator.
std::vector<ProfileRow> SumUp(const Profiler& profiler, ProfileOrder order, bool detail);

// Returns a table with the columns of Paddle's profiler (Event, Calls, Total, Min., Max., Ave.,
// Ratio.), times in ms. It adds operations and bytes per second to each row, both with their share
// of `peak`. If shares are missing, it says why.
std::string ProfileTable(const std::vector<ProfileRow>& rows, const MachinePeak& peak);

// How much communication overlaps with other work.
struct CommOverlap {
  int64_t steps = 0;
  double on_way = 0;   // seconds in which at least one communication was running
  double exposed = 0;  // part of on_way in which the executor only waited for communication
};
CommOverlap OverlapOf(std::span<const Span> spans);
// Returns "communication: 1.234 ms a step, 0.234 of it exposed; ..." with the hidden share. Returns
// "" if there was no communication.
std::string ToString(const CommOverlap& overlap);

// The share of time in which a device worked.
struct DeviceBusy {
  int64_t steps = 0;
  double all = 0;   // seconds from the first span to the end of the last
  double busy = 0;  // part of `all` in which the device worked
};
DeviceBusy BusyOf(std::span<const Span> spans);
// Returns "device: busy 1.234 ms of 2.000 ms a step, 62 %"; "" if there was no trace.
std::string ToString(const DeviceBusy& busy);

}  // namespace tandem
