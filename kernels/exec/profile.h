// Profiles the steps of a plan: records spans of time and sums the spans of each operator.
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

namespace tandem::exec {

using tandem::ToString;

// The track of a span in a timeline.
enum class TraceTrack : uint8_t {
  kCompute,  // kernels, and the executor's waits for communication
  kComm,     // communications, from start to end; they may overlap
  kFeed,     // other work of the trainer, before and after the plan
  kDevice,   // kernels, copies and fills, with the times at which a device ran them
};

struct Span {
  // index of the operator in the program; -1: no operator, see `what`
  int op = -1;
  // Track kCompute: "wait" for a span that waits for the operator's communication, otherwise "".
  // Track kDevice: the name of the device's work. Track kFeed: the trainer's work.
  const char* what = "";
  TraceTrack lane = TraceTrack::kCompute;
  int64_t run = 0;  // number of the executor's run
  Time begin, end;
  int stream = 0;  // number of the device stream, in the order of first spans
};

// Records spans in bounded memory. After `spans_max` spans, further spans are dropped.
class Profiler final : public ExecObserver {
 public:
  explicit Profiler(const Plan& plan, size_t spans_max = size_t{1} << 20);

  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;
  void OnCommEnd(const PlanStep& wait, int64_t run, Time ended) override;
  // Adds a span that the caller measured. `what` must be a string literal.
  void Add(const char* what, int64_t run, Time begin, Time end);

  // Starts tracing the work of the plan's device. UNAVAILABLE: tracing is not possible. The profile
  // then has only the times that the host measures.
  Status TraceDevice();
  // Ends the trace and adds the device's spans. REQUIRES: the device was synchronised.
  Status EndTrace();

  const Plan& plan() const { return plan_; }
  const std::vector<Span>& spans() const { return spans_; }
  bool full() const { return spans_.size() >= spans_max_; }

 private:
  void Push(const Span& span);

  const Plan& plan_;
  const size_t spans_max_;
  std::unique_ptr<DeviceTrace> trace_;           // nullptr: the device is not traced
  std::vector<std::pair<int, int64_t>> traced_;  // by trace id, from id 1: operator and run
  std::set<std::string> names_;                  // names of kernels, to which Span::what points
  std::map<uint32_t, int> streams_;
  std::vector<Span> spans_;
  std::vector<Time> comm_began_;  // by communication: time of its start
};

// The sums over all spans with the same name.
struct ProfileRow {
  // "conv2d", "wait for c_allreduce_sum", or with `detail` "#3 conv2d conv_0.out"
  std::string name;
  TraceTrack lane = TraceTrack::kCompute;
  int64_t calls = 0;
  // Sum, minimum and maximum of the durations of the calls, in seconds.
  double total = 0, min = 0, max = 0;
  double flops = 0;  // floating-point operations of all calls; 0: the operator only moves memory
  double bytes = 0;  // bytes that all calls read and write, assuming no cache
};
enum class ProfileOrder : uint8_t { kTotal, kCalls, kMax, kMin, kAverage };

// Returns one row per operator type, or one row per operator if `detail` is true. Rows are in
// descending order of the column `order`, also for kMin.
std::vector<ProfileRow> SumUp(const Profiler& profiler, ProfileOrder order, bool detail);

// Returns a table with the columns of Paddle's profiler (Event, Calls, Total, Min., Max., Ave.,
// Ratio.), times in ms. Further columns are operations and bytes per second, each with its share of
// `peak`. If shares are missing, the table says why.
std::string ProfileTable(const std::vector<ProfileRow>& rows, const ops::MachinePeak& peak);

// The times of communication, with and without overlap with other work.
struct CommOverlap {
  int64_t steps = 0;
  double on_way = 0;   // seconds in which at least one communication was running
  double exposed = 0;  // seconds of on_way in which the executor only waited for communication
};
CommOverlap OverlapOf(std::span<const Span> spans);
// Returns "communication: 1.234 ms a step, 0.234 of it exposed; ..." with the share that overlaps
// with other work. Returns "" if there was no communication.
std::string ToString(const CommOverlap& overlap);

// The time of a device with and without work.
struct DeviceBusy {
  int64_t steps = 0;
  double all = 0;   // seconds from the start of the first span to the end of the last span
  double busy = 0;  // seconds of `all` in which the device worked
};
DeviceBusy BusyOf(std::span<const Span> spans);
// Returns "device: busy 1.234 ms of 2.000 ms a step, 62 %"; "" if the device was not traced.
std::string ToString(const DeviceBusy& busy);

}  // namespace tandem::exec
