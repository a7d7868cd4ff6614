// Shows the progress of a training job to the user: a bar on a terminal, or else a line every
// log_every_steps steps.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::trainer {

enum class LogFormat : uint8_t {
  kAuto,   // kBar on a terminal, otherwise kPlain
  kBar,    // a bar that is redrawn in place, at most ten times a second
  kPlain,  // lines "step=380 total=1000 epoch=3 loss=0.410000 ... slowest_rank=1"
  kFleet,  // lines "worker_index: 0, step3 cost = 6.501647, speed: 533.641315"
  kJson,   // a JSON object for each line of output
};

// Parses the name of a format: "auto", "bar", "plain", "fleet" or "json". INVALID_ARGUMENT: `name`
// is another name; the message has the nearest valid one.
StatusOr<LogFormat> ParseLogFormat(std::string_view name);

struct ProgressOptions {
  LogFormat format = LogFormat::kAuto;
  bool is_terminal = false;       // true: the output goes to a terminal
  bool color = false;             // use colors; has an effect only on a terminal
  std::function<int()> columns;   // returns the width of the terminal; empty: 80 columns
  std::string name = "train";     // label that is shown before the bar
  int worker_index = 0;           // number of this worker; used by kFleet
  int64_t steps_total = 0;        // steps of the whole job; 0: unknown
  int64_t first_step = 0;         // steps done before this run began (resumed job)
  int64_t log_every_steps = 50;   // number of steps between two lines, in all formats but kBar
  bool waits_are_normal = false;  // true: does not warn the user if steps wait for data
};

// The loss and the metric over the last steps, of this rank's share of the batches.
struct WindowReport {
  int64_t steps = 0;  // number of these steps; 0: there are no values yet
  double loss = 0, metric = 0;
};

// How far a stream of training records is read by this process.
struct StreamReport {
  int64_t records = 0, skipped = 0;  // records that were read, and bad ones among them
  int64_t removed = 0;               // records that the source removed before they were read
  int64_t newest_time_ms = 0;        // Unix time of the newest record of the step; 0: unknown
  double lateness_s = -1;            // age of this record in seconds; -1: unknown
  WindowReport window = {};
};

// The state of the job after a step.
struct StepReport {
  int64_t step = 0;   // the step just finished, counted in the whole job from 0
  int64_t steps = 1;  // number of steps of the run that ended with `step`; all are reported
  int64_t epoch = 0;  // number of the epoch, from 0
  // Number of samples of a step, from which the speeds are computed: of this worker, or of all
  // workers.
  int64_t samples = 0;
  double loss = 0;
  std::string_view metric_name;  // name of `metric`; empty: no metric
  double metric = 0;
  // Seconds that this process has waited for data, and seconds that it has spent in training steps,
  // both since the session began. Progress computes the speeds from train_seconds, so the speeds
  // exclude evaluations and checkpoints. If train_seconds is 0, Progress computes the speeds from
  // the clock.
  double data_wait_seconds = 0;
  double train_seconds = 0;
  // The seconds that each rank has waited for the other ranks since the job began; empty: unknown.
  std::vector<double> waited_by_rank = {};
  std::optional<StreamReport> stream = {};  // nullopt: the training data is no stream
  // Checksum of the rank's parameters after `step`; nullopt: none was computed.
  std::optional<uint32_t> params_checksum = {};
};

struct NamedValue {
  std::string name;
  double value = 0;
};

// Shows the progress in one format. Thread-safe. The destructor calls Finish.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;

  // `sink`: receives whole lines or redraws, one in each call. `clock` must outlive this object. If
  // the output is no terminal, kBar becomes kPlain, so that a file gets no carriage return and no
  // escape byte.
  Progress(ProgressOptions options, Sink sink, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Returns whether Report() of step `step`, the last step of a run of `steps` steps, would print
  // now. If a caller must compute loss and metric at a cost, the caller does so only if Due() is
  // true. Speeds cover all steps since the last printed report.
  bool Due(int64_t step, int64_t steps = 1) const;
  // Prints the report if Due() is true; does nothing otherwise.
  void Report(const StepReport& report);
  // Prints a separate result, even if Due() is false: Result("eval", 3, {{"accuracy", 0.91}}).
  void Result(const std::string& what, int64_t epoch, const std::vector<NamedValue>& values);
  // Prints a line for the user above the bar; in kJson as {"message": ...}. Replaces control
  // characters by '?'.
  void Message(const std::string& text);
  // Ends the line of the bar. From then on Due returns false, and Report prints nothing.
  void Finish();

  LogFormat format() const;  // returns the format in use, never kAuto

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns a sink that writes to `file` (for example stderr) and flushes it. `file` must outlive the
// sink.
Progress::Sink FileSink(std::FILE* file);
// IsTerminal returns whether `file` is a terminal. TerminalColumns returns the width of this
// terminal in columns (80 if unknown).
bool IsTerminal(std::FILE* file);
int TerminalColumns(std::FILE* file);

}  // namespace tandem::trainer
