#include "trainer/monitoring/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/nearest.h"
#include "common/base/step_number.h"

namespace tandem::trainer {
namespace {

constexpr Duration kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kColumnsDefault = 80;
constexpr int kBarColumnsMin = 10, kBarColumnsMax = 40;
// Weight of the newest speed in the smoothed speed. The value is the default of tqdm.
constexpr double kSmoothing = 0.3;

struct FormatName {
  LogFormat format;
  const char* name;
};
constexpr FormatName kFormats[] = {{LogFormat::kAuto, "auto"},
                                   {LogFormat::kBar, "bar"},
                                   {LogFormat::kPlain, "plain"},
                                   {LogFormat::kFleet, "fleet"},
                                   {LogFormat::kJson, "json"}};

// Progress warns the user if steps wait for data during at least the share kStarving of the time,
// for at least kStarvingSeconds.
constexpr double kStarving = 0.1, kStarvingSeconds = 5;
constexpr char kStarvingHint[] =
    "; hint: raise data.reader_threads or data.queue_capacity, or convert the data to records "
    "(tandem data convert)";
constexpr double kSlowestMin = 0.05;  // smallest Slowest::more that is reported; less is noise

// The straggler, that is, the rank for which the other ranks wait. The straggler has the shortest
// waiting time between two exchanges of the ranks' waiting times. `more`: difference to the second
// shortest waiting time, as a share of the time between the exchanges.
struct Slowest {
  int rank = -1;  // number of the straggler; -1: no straggler, or unknown
  double more = 0;
};

class SlowestFinder {
 public:
  // Returns the straggler since the previous exchange. `waited`: the waiting time of each rank in
  // seconds since the job began, as of the last exchange.
  Slowest Look(const std::vector<double>& waited, Time now) {
    if (waited.size() < 2 || waited == before_) return found_;
    if (before_.size() == waited.size()) {
      std::vector<std::pair<double, int>> least;
      for (size_t r = 0; r < waited.size(); ++r) {
        least.emplace_back(waited[r] - before_[r], static_cast<int>(r));
      }
      std::partial_sort(least.begin(), least.begin() + 2, least.end());
      const double share = (least[1].first - least[0].first) / Seconds(now - looked_);
      found_ = share < kSlowestMin ? Slowest{} : Slowest{least[0].second, share};
    }
    before_ = waited;
    looked_ = now;
    return found_;
  }

 private:
  std::vector<double> before_;
  Time looked_;
  Slowest found_;
};

// A report, and the speeds that Measure computes from reports.
struct Line {
  StepReport report;
  int64_t steps_total = 0;
  double steps_per_s = 0, samples_per_s = 0;  // smoothed speeds of the job
  double samples_per_s_now = 0;               // speed since the last line, in samples per second
  double seconds = 0;                         // seconds since the last line
  // Seconds since the job began, and estimated seconds until its end; -1: unknown.
  double elapsed_s = 0, eta_s = -1;
  double wait_share = 0;  // share of the time since the last line spent waiting for data
  Slowest slowest;
};

// Formats seconds as "12:05" or "1:02:03".
std::string ClockText(double seconds) {
  const auto s = static_cast<int64_t>(std::min(std::max(seconds, 0.0), 1e9));
  if (s >= 3600) return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  return absl::StrFormat("%02d:%02d", s / 60, s % 60);
}

std::string StreamText(const StreamReport& stream, std::string_view metric_name) {
  std::string out = absl::StrFormat(" records=%d skipped=%d", stream.records, stream.skipped);
  if (stream.removed > 0) out += absl::StrFormat(" removed=%d", stream.removed);
  if (stream.lateness_s >= 0) out += absl::StrFormat(" lateness_s=%.1f", stream.lateness_s);
  const WindowReport& window = stream.window;
  if (window.steps == 0) return out;
  out += absl::StrFormat(" window_steps=%d window_loss=%.6f", window.steps, window.loss);
  if (metric_name.empty()) return out;
  return out + absl::StrFormat(" window_%s=%.6f", std::string(metric_name), window.metric);
}

std::string PlainText(const Line& line) {
  const StepReport& r = line.report;
  std::string out = absl::StrFormat("step=%d", DisplayStep(r.step));
  if (line.steps_total > 0) out += absl::StrFormat(" total=%d", line.steps_total);
  out += absl::StrFormat(" epoch=%d loss=%.6f", r.epoch, r.loss);
  if (!r.metric_name.empty()) {
    out += absl::StrFormat(" %s=%.6f", std::string(r.metric_name), r.metric);
  }
  out += absl::StrFormat(" it_per_s=%.2f samples_per_s=%.1f", line.steps_per_s, line.samples_per_s);
  if (line.eta_s >= 0) out += absl::StrFormat(" eta_s=%.0f", line.eta_s);
  out += absl::StrFormat(" data_wait=%.4f", line.wait_share);
  if (r.stream) out += StreamText(*r.stream, r.metric_name);
  if (r.params_checksum) out += absl::StrFormat(" params=%08x", *r.params_checksum);
  return line.slowest.rank < 0 ? out : out + absl::StrFormat(" slowest_rank=%d", line.slowest.rank);
}

std::string FleetText(const Line& line, int worker_index) {
  return absl::StrFormat("worker_index: %d, step%d cost = %f, speed: %f", worker_index,
                         line.report.step, line.report.loss, line.samples_per_s_now);
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string JsonText(const Line& line) {
  const StepReport& r = line.report;
  nlohmann::ordered_json json = {{"step", DisplayStep(r.step)}};
  if (line.steps_total > 0) json["total"] = line.steps_total;
  json["epoch"] = r.epoch;
  json["loss"] = r.loss;
  if (!r.metric_name.empty()) json[std::string(r.metric_name)] = r.metric;
  json["it_per_s"] = line.steps_per_s;
  json["samples_per_s"] = line.samples_per_s;
  if (line.eta_s >= 0) json["eta_s"] = line.eta_s;
  json["data_wait"] = line.wait_share;
  if (r.stream) {
    json["records"] = r.stream->records;
    json["skipped"] = r.stream->skipped;
    if (r.stream->removed > 0) json["removed"] = r.stream->removed;
    if (r.stream->lateness_s >= 0) json["lateness_s"] = r.stream->lateness_s;
    if (const WindowReport& window = r.stream->window; window.steps > 0) {
      json["window_steps"] = window.steps;
      json["window_loss"] = window.loss;
      if (!r.metric_name.empty()) json["window_" + std::string(r.metric_name)] = window.metric;
    }
  }
  if (r.params_checksum) json["params"] = absl::StrFormat("%08x", *r.params_checksum);
  if (line.slowest.rank >= 0) json["slowest_rank"] = line.slowest.rank;
  return Dump(json);
}

// Formats the bar, "lenet  38%|####      | 380/1000 [00:12<00:19, 31.4 it/s, loss=0.4100, ...]", in
// at most `columns` columns. If the text is too long, omits the least important parts first.
std::string BarText(const Line& line, const std::string& name, int columns, int* bar_begin,
                    int* bar_end) {
  const StepReport& r = line.report;
  const int64_t done = DisplayStep(r.step);
  const bool known = line.steps_total > 0;
  const double share =
      known ? static_cast<double>(done) / static_cast<double>(line.steps_total) : 0;
  std::string head = name, count = absl::StrFormat(" %d", done);
  if (known) {
    head += absl::StrFormat(" %3d%%", static_cast<int>(std::floor(share * 100)));
    count += absl::StrFormat("/%d", line.steps_total);
  }
  std::vector<std::string> fields = {ClockText(line.elapsed_s)};
  if (line.eta_s >= 0) fields[0] += "<" + ClockText(line.eta_s);
  fields.push_back(absl::StrFormat("%.1f it/s", line.steps_per_s));
  fields.push_back(absl::StrFormat("loss=%.4f", r.loss));
  if (!r.metric_name.empty()) {
    fields.push_back(absl::StrFormat("%s=%.4f", std::string(r.metric_name), r.metric));
  }
  fields.push_back(absl::StrFormat("%.0f samples/s", line.samples_per_s));
  if (line.slowest.rank >= 0) {
    fields.push_back(
        absl::StrFormat("slowest rank %d (+%.0f%%)", line.slowest.rank, line.slowest.more * 100));
  }
  fields.push_back(absl::StrFormat("epoch %d", r.epoch));
  fields.push_back(absl::StrFormat("data wait %.0f%%", line.wait_share * 100));

  const size_t room = static_cast<size_t>(std::max(columns, 1));
  std::string tail = count;
  const size_t bar_min = known ? kBarColumnsMin + 2 : 0;
  std::string inside;
  for (const std::string& field : fields) {
    std::string longer = inside.empty() ? field : absl::StrCat(inside, ", ", field);
    if (head.size() + bar_min + count.size() + longer.size() + 3 > room) break;
    inside = std::move(longer);
  }
  if (!inside.empty()) tail += " [" + inside + "]";
  std::string bar;
  *bar_begin = *bar_end = 0;
  if (known && head.size() + tail.size() + bar_min <= room) {
    const auto width =
        static_cast<int>(std::min<size_t>(room - head.size() - tail.size() - 2, kBarColumnsMax));
    const int full = std::clamp(static_cast<int>(share * width), 0, width);
    *bar_begin = static_cast<int>(head.size()) + 1;
    *bar_end = *bar_begin + full;
    bar = "|" + std::string(static_cast<size_t>(full), '#') +
          std::string(static_cast<size_t>(width - full), ' ') + "|";
  }
  return (head + bar + tail).substr(0, room);
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

StatusOr<LogFormat> ParseLogFormat(std::string_view name) {
  std::vector<std::string> names;
  for (const FormatName& row : kFormats) {
    if (name == row.name) return row.format;
    names.push_back(row.name);
  }
  return InvalidArgument(
      "unknown log_format \"%s\", expected auto, bar, plain, fleet or json [TD1006]%s",
      std::string(name), OrDidYouMean(name, names));
}

struct Progress::Impl {
  Impl(ProgressOptions o, Sink s, const Clock& c)
      : options(std::move(o)), sink(std::move(s)), clock(c) {}

  LogFormat format() const { return options.format; }

  bool Due(int64_t step, int64_t steps) const TD_REQUIRES(mu) {
    if (finished) return false;
    if (options.steps_total > 0 && step + 1 >= options.steps_total) return true;
    if (format() == LogFormat::kBar) return !drawn || clock.Now() - last_draw >= kRedrawInterval;
    const int64_t every = std::max<int64_t>(options.log_every_steps, 1);
    return (step + 1) / every > (step + 1 - steps) / every;
  }

  // Computes the speeds since the last line.
  Line Measure(const StepReport& report) TD_REQUIRES(mu) {
    const Time now = clock.Now();
    const double seconds = report.train_seconds > 0 ? report.train_seconds - last_train_seconds
                                                    : Seconds(now - last_time);
    const auto steps = static_cast<double>(report.step + 1 - last_done);
    Line out{.report = report, .steps_total = options.steps_total, .seconds = seconds};
    const double rate = seconds > 0 ? std::max(steps, 0.0) / seconds : 0;
    smoothed = smoothed == 0 ? rate : (1 - kSmoothing) * smoothed + kSmoothing * rate;
    out.steps_per_s = smoothed;
    out.samples_per_s = smoothed * static_cast<double>(report.samples);
    out.samples_per_s_now = rate * static_cast<double>(report.samples);
    out.elapsed_s = Seconds(now - start);
    if (options.steps_total > 0 && smoothed > 0) {
      out.eta_s = static_cast<double>(options.steps_total - report.step - 1) / smoothed;
    }
    if (seconds > 0) {
      out.wait_share =
          std::clamp((report.data_wait_seconds - last_wait_seconds) / seconds, 0.0, 1.0);
    }
    out.slowest = slowest.Look(report.waited_by_rank, now);
    last_time = now;
    last_done = report.step + 1;
    last_train_seconds = report.train_seconds;
    last_wait_seconds = report.data_wait_seconds;
    return out;
  }

  void Draw(const Line& line) TD_REQUIRES(mu) {
    // The last column stays empty, because some terminals start a new line after a character in
    // that column.
    const int columns = (options.columns ? options.columns() : kColumnsDefault) - 1;
    int begin = 0, end = 0;
    std::string text = BarText(line, options.name, columns, &begin, &end);
    const size_t visible = text.size();
    if (options.color && end > begin) {
      text.insert(static_cast<size_t>(end), "\x1b[0m");
      text.insert(static_cast<size_t>(begin), "\x1b[32m");
    }
    // Overwrites the rest of a longer previous line with blanks, unless the terminal has become
    // narrower.
    const size_t blanks = std::min(visible_before, static_cast<size_t>(std::max(columns, 0)));
    if (blanks > visible) text.append(blanks - visible, ' ');
    sink("\r" + text);
    visible_before = visible;
    drawn = true;
    last_draw = clock.Now();
  }

  // Returns the text that clears the bar from the terminal, so that the sink can write a line in
  // its place.
  std::string Cleared() TD_REQUIRES(mu) {
    if (visible_before == 0) return "";
    std::string blank = absl::StrCat("\r", std::string(visible_before, ' '), "\r");
    visible_before = 0;
    return blank;
  }

  void PrintLine(const std::string& text) TD_REQUIRES(mu) {
    sink(Cleared() + text + "\n");
    if (format() == LogFormat::kBar && drawn && !finished) Draw(last);
  }

  void Tell(const std::string& text) TD_REQUIRES(mu) {
    const bool json = format() == LogFormat::kJson;
    PrintLine(json ? Dump({{"message", text}}) : Printable(text));
  }

  // Warns the user once if steps wait for data. Ignores the first interval, because all data is
  // read for the first time there.
  void TellOfStarving(const Line& line) TD_REQUIRES(mu) {
    const double before = starved_s;
    starved_s = line.wait_share < kStarving ? 0 : starved_s + line.seconds;
    if (options.waits_are_normal || told_of_starving || before == 0 || starved_s < kStarvingSeconds)
      return;
    told_of_starving = true;
    Tell(absl::StrFormat("training steps wait for data %.0f %% of the time%s",
                         100 * line.wait_share, kStarvingHint));
  }

  ProgressOptions options;
  const Sink sink;
  const Clock& clock;
  mutable Mutex mu;
  Time start, last_time, last_draw;
  int64_t last_done = 0;
  double last_train_seconds = 0, last_wait_seconds = 0;
  double smoothed = 0;  // smoothed speed in steps per second
  SlowestFinder slowest;
  double starved_s TD_GUARDED_BY(mu) = 0;  // seconds of the current phase of waiting for data
  bool told_of_starving TD_GUARDED_BY(mu) = false;
  Line last TD_GUARDED_BY(mu);
  std::string last_metric TD_GUARDED_BY(mu);    // memory of last.report.metric_name
  size_t visible_before TD_GUARDED_BY(mu) = 0;  // width of the bar on the screen, in columns
  bool drawn TD_GUARDED_BY(mu) = false;
  bool finished TD_GUARDED_BY(mu) = false;
};

Progress::Progress(ProgressOptions options, Sink sink, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(sink), clock)) {
  ProgressOptions& o = impl_->options;
  if (o.format == LogFormat::kAuto || o.format == LogFormat::kBar) {
    o.format = o.is_terminal ? LogFormat::kBar : LogFormat::kPlain;
  }
  o.color = o.color && o.is_terminal;
  impl_->start = impl_->last_time = clock.Now();
  impl_->last_done = o.first_step;
}

Progress::~Progress() { Finish(); }

LogFormat Progress::format() const { return impl_->format(); }

bool Progress::Due(int64_t step, int64_t steps) const {
  MutexLock lock(impl_->mu);
  return impl_->Due(step, steps);
}

void Progress::Report(const StepReport& report) {
  Impl& p = *impl_;
  MutexLock lock(p.mu);
  if (!p.Due(report.step, report.steps)) return;
  p.last = p.Measure(report);
  p.last_metric = std::string(report.metric_name);
  p.last.report.metric_name = p.last_metric;
  switch (p.format()) {
    case LogFormat::kBar:
      p.Draw(p.last);
      break;
    case LogFormat::kFleet:
      p.PrintLine(FleetText(p.last, p.options.worker_index));
      break;
    case LogFormat::kJson:
      p.PrintLine(JsonText(p.last));
      break;
    default:
      p.PrintLine(PlainText(p.last));
      break;
  }
  p.TellOfStarving(p.last);
}

void Progress::Result(const std::string& what, int64_t epoch,
                      const std::vector<NamedValue>& values) {
  Impl& p = *impl_;
  MutexLock lock(p.mu);
  if (p.format() == LogFormat::kJson) {
    nlohmann::ordered_json json = {{"result", what}, {"epoch", epoch}};
    for (const NamedValue& v : values) json[v.name] = v.value;
    p.PrintLine(Dump(json));
    return;
  }
  std::string text = absl::StrFormat("%s epoch=%d", what, epoch);
  for (const NamedValue& v : values) text += absl::StrFormat(" %s=%.6f", v.name, v.value);
  p.PrintLine(text);
}

void Progress::Message(const std::string& text) {
  Impl& p = *impl_;
  MutexLock lock(p.mu);
  p.Tell(text);
}

void Progress::Finish() {
  Impl& p = *impl_;
  MutexLock lock(p.mu);
  if (p.finished) return;
  p.finished = true;
  if (p.visible_before > 0) p.sink("\n");
  p.visible_before = 0;
}

Progress::Sink FileSink(std::FILE* file) {
  return [file](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), file);
    std::fflush(file);
  };
}

bool IsTerminal(std::FILE* file) { return isatty(fileno(file)) == 1; }

int TerminalColumns(std::FILE* file) {
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsDefault;
  return size.ws_col;
}

}  // namespace tandem::trainer
