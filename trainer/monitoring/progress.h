// What the user sees while a job trains: one bar on a terminal, otherwise one line per so many
// steps.
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

namespace tandem {

enum class LogFormat : uint8_t {
  kAuto,   // kBar on a terminal, else kPlain
  kBar,    // a bar that is redrawn in place, at most ten times a second
  kPlain,  // step=380 total=1000 epoch=3 loss=0.410000 ... slowest_rank=1 (where one is)
  kFleet,  // worker_index: 0, step3 cost = 6.501647, speed: 533.641315
  kJson,   // one JSON object a line
};

// "auto", "bar", "plain", "fleet", "json"; INVALID_ARGUMENT with the nearest name.
StatusOr<LogFormat> ParseLogFormat(std::string_view name);

struct ProgressOptions {
  LogFormat format = LogFormat::kAuto;
  bool is_terminal = false;      // what is printed goes to a terminal
  bool color = false;            // only there; off when NO_COLOR is set (https://no-color.org)
  std::function<int()> columns;  // width of the terminal, asked at every redraw; absent: 80
  std::string name = "train";    // in front of the bar
  int worker_index = 0;          // for kFleet
  int64_t steps_total = 0;       // 0: unknown
  int64_t first_step = 0;        // steps done before (resumed)
  int64_t log_every_steps = 50;  // lines of the formats other than kBar
};

// The state of the job after a step.
struct StepReport {
  int64_t step = 0;     // of the whole job, counted from 0: the step just finished
  int64_t steps = 1;    // of the run that it ended: it stands for all of them
  int64_t epoch = 0;    // from 0
  int64_t samples = 0;  // of one step; of this worker or of all, as speeds should be shown
  double loss = 0;
  std::string_view metric_name;  // empty: no metric
  double metric = 0;
  // Since the session began: waited for data; spent in steps. Speeds are taken from the latter, so
  // that evaluation and checkpoints do not count; 0: from the clock.
  double data_wait_seconds = 0;
  double train_seconds = 0;
  // What each rank has waited for the others, since the job began; empty: not known.
  std::vector<double> waited_by_rank = {};
};

struct NamedValue {
  std::string name;
  double value = 0;
};

// Thread-safe. The destructor ends a bar that is still there.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;

  // `sink` gets whole lines or redraws, one call each; `clock` must outlive the object. kBar on
  // what is not a terminal becomes kPlain: no carriage return and no escape byte is ever written to
  // a file.
  Progress(ProgressOptions options, Sink sink, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // True when Report() of this step, the last of a run of `steps`, would print now. Where loss and
  // metric cost time to fetch, ask first and report only then; speeds are over all steps since the
  // last report that was printed.
  bool Due(int64_t step, int64_t steps = 1) const;
  // Prints where Due() is true, else does nothing.
  void Report(const StepReport& report);
  // A result of its own, always printed: Result("eval", 3, {{"accuracy", 0.91}}).
  void Result(const std::string& what, int64_t epoch, const std::vector<NamedValue>& values);
  // A line for people; above the bar; {"message": ...} in kJson. Control characters become '?'.
  void Message(const std::string& text);
  // Draws the last state of the bar and goes to the next line. Called again it does nothing.
  void Finish();

  LogFormat format() const;  // never kAuto

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A sink that writes to `file` (stderr) and flushes; `file` must outlive it.
Progress::Sink FileSink(std::FILE* file);
// Whether `file` is a terminal, and its width in columns (80 when it cannot be told).
bool IsTerminal(std::FILE* file);
int TerminalColumns(std::FILE* file);

}  // namespace tandem
