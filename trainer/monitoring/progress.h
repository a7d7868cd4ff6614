// Shows the progress of a training job to the user: a bar on a terminal, otherwise lines at
// intervals of log_every_steps.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::trainer {

enum class LogFormat : uint8_t {
  kAuto,   // kBar on a terminal, else kPlain
  kBar,    // a bar that is redrawn in place, at most ten times a second
  kPlain,  // step=380 total=1000 epoch=3 loss=0.410000 ... slowest_rank=1 (if known)
  kFleet,  // worker_index: 0, step3 cost = 6.501647, speed: 533.641315
  kJson,   // one JSON object per line
};

// Parses "auto", "bar", "plain", "fleet", "json". INVALID_ARGUMENT: another name; the message has
// the nearest one.
StatusOr<LogFormat> ParseLogFormat(std::string_view name);

struct ProgressOptions {
  LogFormat format = LogFormat::kAuto;
  bool is_terminal = false;      // the output goes to a terminal
  bool color = false;            // needs a terminal; off if NO_COLOR is set (https://no-color.org)
  std::function<int()> columns;  // width of the terminal, read at every redraw; empty: 80
  std::string name = "train";    // label before the bar
  int worker_index = 0;          // for kFleet
  int64_t steps_total = 0;       // 0: unknown
  int64_t first_step = 0;        // steps done before this run (resumed)
  int64_t log_every_steps = 50;  // interval between lines, for formats other than kBar
};

// The state of the job after a step.
struct StepReport {
  int64_t step = 0;     // the step just finished, of the whole job, from 0
  int64_t steps = 1;    // steps of the run that it ended; the report is for all of them
  int64_t epoch = 0;    // from 0
  int64_t samples = 0;  // per step; of this worker or of all, as speeds should show
  double loss = 0;
  std::string_view metric_name;  // empty: no metric
  double metric = 0;
  // Seconds since the session began: waiting for data, and inside steps. Speeds use train_seconds,
  // so they exclude evaluation and checkpoints. 0: speeds use the clock.
  double data_wait_seconds = 0;
  double train_seconds = 0;
  // Seconds that each rank has waited for the others since the job began; empty: unknown.
  std::vector<double> waited_by_rank = {};
};

struct NamedValue {
  std::string name;
  double value = 0;
};

// Thread-safe. The destructor finishes a bar that is still shown.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;

  // `sink` receives whole lines or redraws, one per call. `clock` must outlive the object. Without
  // a terminal kBar becomes kPlain: a file never gets a carriage return or an escape byte.
  Progress(ProgressOptions options, Sink sink, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // True if Report() of this step, the last of a run of `steps`, would print now. If loss and
  // metric are expensive to fetch, call Due() first and report only if it is true. Speeds cover all
  // steps since the last printed report.
  bool Due(int64_t step, int64_t steps = 1) const;
  // Prints if Due() is true, else does nothing.
  void Report(const StepReport& report);
  // Prints a separate result, always: Result("eval", 3, {{"accuracy", 0.91}}).
  void Result(const std::string& what, int64_t epoch, const std::vector<NamedValue>& values);
  // Prints a line for the user, above the bar; {"message": ...} in kJson. Control characters become
  // '?'.
  void Message(const std::string& text);
  // Draws the last state of the bar and ends the line. Further calls do nothing.
  void Finish();

  LogFormat format() const;  // never kAuto

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A sink that writes to `file` (stderr) and flushes; `file` must outlive it.
Progress::Sink FileSink(std::FILE* file);
// Whether `file` is a terminal, and its width in columns (80 if unknown).
bool IsTerminal(std::FILE* file);
int TerminalColumns(std::FILE* file);

}  // namespace tandem::trainer
