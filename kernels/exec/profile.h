// What the steps of a plan cost: recorded as spans of time, summed up by operator.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/exec/device_trace.h"
#include "kernels/exec/executor.h"
#include "kernels/ops/cpu/machine_peak.h"

namespace tandem {

// Where a span stands in a timeline.
enum class TraceTrack : uint8_t {
  kCompute,  // kernels, and the executor's waits for communication
  kComm,     // communications, from their start to their end; they may overlap
  kFeed,     // what the trainer does around the plan
  kDevice,   // kernels, copies and fills where a device ran them
};

struct Span {
  int op = -1;  // index in the program; -1: see `what`
  // "wait" of an operator's communication; what the device ran; else of the trainer's own
  const char* what = "";
  TraceTrack lane = TraceTrack::kCompute;
  int64_t run = 0;  // of the executor
  Time begin, end;
  int stream = 0;  // of the device, in the order of their first spans
};

// Bounded memory: after `spans_max` spans nothing more is taken.
class Profiler final : public ExecObserver {
 public:
  explicit Profiler(const Plan& plan, size_t spans_max = size_t{1} << 20);

  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;
  // A span of the caller's; `what` must be a literal.
  void Add(const char* what, int64_t run, Time begin, Time end);

  // From here on what the plan's device does is traced too. UNAVAILABLE when that cannot be: then
  // the steps are seen as the host sees them.
  Status TraceDevice();
  // Ends the trace, and adds what the device did. REQUIRES: it was synchronised.
  Status EndTrace();

  const Plan& plan() const { return plan_; }
  const std::vector<Span>& spans() const { return spans_; }
  bool full() const { return spans_.size() >= spans_max_; }

 private:
  void Push(const Span& span);

  const Plan& plan_;
  const size_t spans_max_;
  std::unique_ptr<DeviceTrace> trace_;           // nullptr: none
  std::vector<std::pair<int, int64_t>> traced_;  // operator and run, by id from 1
  std::set<std::string> names_;                  // of kernels
  std::map<uint32_t, int> streams_;
  std::vector<Span> spans_;
  std::vector<Time> comm_began_;  // by communication
};

// Sums of the spans of one name.
struct ProfileRow {
  std::string name;  // "conv2d"; with detail "#3 conv2d conv_0.out"; "wait for c_allreduce_sum"
  TraceTrack lane = TraceTrack::kCompute;
  int64_t calls = 0;
  double total = 0, min = 0, max = 0;  // seconds
  double flops = 0;                    // of all calls; 0: it is the memory moved that counts
  double bytes = 0;                    // read and written by all calls, if nothing is cached
};
enum class ProfileOrder : uint8_t { kTotal, kCalls, kMax, kMin, kAverage };

// Rows in descending order (kMin too), one per operator type, or with `detail` per operator.
std::vector<ProfileRow> SumUp(const Profiler& profiler, ProfileOrder order, bool detail);

// The columns of Paddle's profiler (Event, Calls, Total, Min., Max., Ave., Ratio.), times in ms, of
// each row the operations and the bytes a second, each with its share of `peak`, or why there is
// none.
std::string ProfileTable(const std::vector<ProfileRow>& rows, const MachinePeak& peak);

// How much of communication is hidden behind other work.
struct CommOverlap {
  int64_t steps = 0;
  double on_way = 0;   // seconds in which at least one communication was under way
  double exposed = 0;  // of them: seconds in which the executor did nothing but wait for one
};
CommOverlap OverlapOf(std::span<const Span> spans);
// "communication: 1.234 ms a step, 0.234 of it exposed; 81 % is hidden behind other work"; "" when
// there was none.
std::string ToString(const CommOverlap& overlap);

// How much of the time a device worked.
struct DeviceBusy {
  int64_t steps = 0;
  double all = 0;   // seconds from the first span to the end of the last
  double busy = 0;  // of them: seconds in which the device did something
};
DeviceBusy BusyOf(std::span<const Span> spans);
// "device: busy 1.234 ms of 2.000 ms a step, 62 %"; "" when nothing was traced.
std::string ToString(const DeviceBusy& busy);

}  // namespace tandem
