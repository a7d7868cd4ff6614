#include "kernels/ops/conv/conv_search.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/os/files.h"

namespace tandem::ops {
namespace {

constexpr char kHeader[] = "tandem: measured algorithms of convolutions, version 1";

std::string ToText(const Attr& attr) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
    return absl::StrJoin(*list, ",");
  }
  if (const auto* text = std::get_if<std::string>(&attr)) return *text;
  if (const auto* flag = std::get_if<bool>(&attr)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&attr)) return std::to_string(*number);
  return "?";
}

// Holds an exclusive lock on file `path` during its lifetime. If the file cannot be created, the
// object does not lock anything.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : fd_(open(path.c_str(), O_CREAT | O_RDWR, 0644)) {
    if (fd_ >= 0) (void)flock(fd_, LOCK_EX);
  }
  ~FileLock() {
    if (fd_ >= 0) close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

// Parses "NAME MICROSECONDS BYTES".
bool ParseMeasurement(const std::string& text, ConvMeasurement* m) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  if (parts.size() != 3 || parts[0].empty()) return false;
  m->name = parts[0];
  return absl::SimpleAtod(parts[1], &m->us) && m->us > 0 &&
         absl::SimpleAtoi(parts[2], &m->scratch_bytes);
}

}  // namespace

Status ConvSearch::Read(const std::string& path, Table* table) {
  std::ifstream file(path);
  if (!file) return OkStatus();
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line == kHeader) continue;
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    std::vector<ConvMeasurement> measurements(fields.size() < 3 ? 0 : fields.size() - 2);
    bool good = number > 1 && !measurements.empty();
    for (size_t i = 0; i < measurements.size(); ++i) {
      good = good && ParseMeasurement(fields[i + 2], &measurements[i]);
    }
    if (!good) {
      table->clear();
      return DataLoss(
          "%s:%d: the line does not contain measured algorithms; hint: remove the file to measure "
          "again",
          path, number);
    }
    (*table)[absl::StrFormat("%s\t%s", fields[0], fields[1])] = std::move(measurements);
  }
  return OkStatus();
}

Status ConvSearch::Load() { return path_.empty() ? OkStatus() : Read(path_, &table_); }

Status ConvSearch::Save() {
  if (path_.empty() || !dirty_) return OkStatus();
  const FileLock lock(path_ + ".lock");
  Table all;
  (void)Read(path_, &all);  // a damaged file is replaced by the new measurements
  all.insert(table_.begin(), table_.end());
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [key, measurements] : all) {
    text += key;
    for (const ConvMeasurement& m : measurements) {
      absl::StrAppendFormat(&text, "\t%s %.1f %d", m.name, m.us, m.scratch_bytes);
    }
    text += "\n";
  }
  TD_RETURN_IF_ERROR(Annotate(
      PublishFiles({{path_, [&](const std::string& to) { return WriteTextFile(to, text); }}}),
      "conv_search_cache"));
  dirty_ = false;
  return OkStatus();
}

StatusOr<std::string> ConvSearch::Fastest(const std::string& machine, const std::string& problem,
                                          size_t scratch_max, const Measure& measure) {
  const std::string key = absl::StrFormat("%s\t%s", machine, problem);
  auto known = table_.find(key);
  if (known != table_.end()) {
    ++found_;
  } else {
    TD_ASSIGN_OR_RETURN(std::vector<ConvMeasurement> measurements, measure());
    // The file has tenths of microseconds. The choice is made by the numbers that the file has, so
    // that the next run makes the same choice.
    for (ConvMeasurement& m : measurements) m.us = std::max(0.1, std::round(m.us * 10) / 10);
    if (measurements.empty())
      return Unimplemented("no algorithm supports the convolution %s", problem);
    known = table_.emplace(key, std::move(measurements)).first;
    dirty_ = true;
    ++measured_;
  }
  const ConvMeasurement* best = nullptr;
  for (const ConvMeasurement& m : known->second) {
    if (m.scratch_bytes > scratch_max) continue;
    if (best == nullptr || m.us < best->us) best = &m;
  }
  if (best != nullptr) return best->name;
  return Unimplemented("all algorithms need more scratch memory than conv_workspace_size_limit");
}

StatusOr<double> MeasureRuns(const std::function<Status()>& run, double best_us) {
  constexpr int kRuns = 3;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kRuns; ++i) {
    const Time begin = SteadyNow();
    TD_RETURN_IF_ERROR(run());
    const double us = std::max(0.1, Seconds(SteadyNow() - begin) * 1e6);
    // The first call is a warm-up. Its time is used only if it is more than twice best_us.
    if (i == 0 && us > 2 * best_us) return us;
    if (i > 0) best = std::min(best, us);
  }
  return best;
}

std::string ConvProblem(const OpView& view) {
  std::vector<std::string> parts = {view.op().type};
  for (size_t i = 0; i < view.in_count(); ++i) {
    parts.push_back(view.has_in(i) ? ToString(view.in(i)) : "-");
  }
  parts.emplace_back(">");
  for (size_t i = 0; i < view.out_count(); ++i) {
    parts.push_back(view.has_out(i) ? ToString(view.out(i)) : "-");
  }
  for (const auto& [name, value] : view.op().attrs) {
    // The attribute `algorithm` is omitted, because the search result does not depend on it.
    if (name != "algorithm") parts.push_back(absl::StrFormat("%s=%s", name, ToText(value)));
  }
  return absl::StrJoin(parts, " ");
}

}  // namespace tandem::ops
