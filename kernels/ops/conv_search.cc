#include "kernels/ops/conv_search.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/cpu_model.h"
#include "common/tensor/device.h"
#include "kernels/ops/dnnl_program.h"

namespace tandem {
namespace {

constexpr char kHeader[] = "tandem: measured algorithms of convolutions, version 1";

std::string Machine(int threads) {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrFormat("%s; instruction set %d; oneDNN %d.%d.%d; %d threads", CpuModel(),
                         static_cast<int>(dnnl::get_effective_cpu_isa()), version->major,
                         version->minor, version->patch, threads);
}

std::string ToText(const Attr& attr) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
    return absl::StrJoin(*list, ",");
  }
  if (const auto* text = std::get_if<std::string>(&attr)) return *text;
  if (const auto* flag = std::get_if<bool>(&attr)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&attr)) return std::to_string(*number);
  return "?";
}

// Holds the lock of a file while it lives; without effect where the file cannot be made.
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

// "name microseconds bytes"
bool ParseMeasurement(const std::string& text, ConvMeasurement* m) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  if (parts.size() != 3 || parts[0].empty()) return false;
  m->name = parts[0];
  return absl::SimpleAtod(parts[1], &m->us) && m->us > 0 &&
         absl::SimpleAtoi(parts[2], &m->scratch_bytes);
}

StatusOr<std::vector<Buffer>> Memory(size_t count, const std::function<size_t(size_t)>& bytes) {
  CpuDevice device;
  std::vector<Buffer> memory;
  for (size_t i = 0; i < count; ++i) {
    TD_ASSIGN_OR_RETURN(memory.emplace_back(), device.Allocate(bytes(i)));
    std::memset(memory.back().get(), 0x3c, bytes(i));  // 0.0115 as f32, bf16 and, nearly, f16
  }
  return memory;
}

std::vector<void*> Pointers(const std::vector<Buffer>& memory) {
  std::vector<void*> pointers;
  for (const Buffer& buffer : memory) pointers.push_back(buffer.get());
  return pointers;
}

}  // namespace

ConvSearch::ConvSearch(std::string path, int threads)
    : path_(std::move(path)), machine_(Machine(threads)) {}

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
      return DataLoss("%s:%d: not a line of measured algorithms", path, number);
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
  (void)Read(path_, &all);  // a damaged file is replaced
  all.insert(table_.begin(), table_.end());
  const std::string temporary = absl::StrFormat("%s.%d", path_, getpid());
  std::ofstream file(temporary);
  file << kHeader << "\n";
  for (const auto& [key, measurements] : all) {
    file << key;
    for (const ConvMeasurement& m : measurements) {
      file << absl::StrFormat("\t%s %.1f %d", m.name, m.us, m.scratch_bytes);
    }
    file << "\n";
  }
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path_, error);
  if (!file || error) {
    std::filesystem::remove(temporary, error);
    return PermissionDenied("conv_search_cache: %s cannot be written", path_);
  }
  dirty_ = false;
  return OkStatus();
}

StatusOr<std::string> ConvSearch::Fastest(const std::string& problem, size_t scratch_max,
                                          const Measure& measure) {
  const std::string key = absl::StrFormat("%s\t%s", machine_, problem);
  auto known = table_.find(key);
  if (known != table_.end()) {
    ++found_;
  } else {
    TD_ASSIGN_OR_RETURN(std::vector<ConvMeasurement> measurements, measure());
    if (measurements.empty()) return Unimplemented("oneDNN has no algorithm for %s", problem);
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
  return Unimplemented("every algorithm takes more scratch memory than conv_workspace_size_limit");
}

StatusOr<double> MeasureKernel(const Kernel& kernel, const OpView& view, double best_us) {
  constexpr int kRuns = 3;
  TD_ASSIGN_OR_RETURN(const std::vector<Buffer> in, Memory(view.in_count(), [&](size_t i) {
                        return view.has_in(i) ? view.in(i).bytes() : 0;
                      }));
  TD_ASSIGN_OR_RETURN(const std::vector<Buffer> out, Memory(view.out_count(), [&](size_t i) {
                        return view.has_out(i) ? view.out(i).bytes() : 0;
                      }));
  TD_ASSIGN_OR_RETURN(const std::vector<Buffer> scratch,
                      Memory(1, [&](size_t) { return kernel.scratch_bytes; }));
  const std::vector<void*> inputs = Pointers(in), outputs = Pointers(out);
  const KernelArgs args = {.in = inputs.data(),
                           .out = outputs.data(),
                           .scratch = scratch[0].get(),
                           .state = kernel.state.get(),
                           .stream = nullptr,
                           .step = 0};
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run <= kRuns; ++run) {
    const Time begin = SteadyNow();
    TD_RETURN_IF_ERROR(kernel.run(args));
    const double us = std::max(0.1, Seconds(SteadyNow() - begin) * 1e6);
    if (run == 0 && us > 2 * best_us) return us;  // the first one warms up
    if (run > 0) best = std::min(best, us);
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
    // Which algorithm is the rule's choice is what the search does not ask.
    if (name != "algorithm") parts.push_back(absl::StrFormat("%s=%s", name, ToText(value)));
  }
  return absl::StrJoin(parts, " ");
}

StatusOr<Kernel> UnlessSlower(const OpView& view, const PrepareContext& ctx, PrepareFn own,
                              PrepareFn other) {
  TD_ASSIGN_OR_RETURN(Kernel kernel, own(view, ctx));
  if (kernel.scratch_bytes > ctx.conv_scratch_max) {
    return Unimplemented("takes %d bytes of scratch memory, more than conv_workspace_size_limit",
                         kernel.scratch_bytes);
  }
  if (ctx.conv_search == nullptr) return kernel;
  const auto measure = [&]() -> StatusOr<std::vector<ConvMeasurement>> {
    ConvMeasurement mine{.name = "own", .scratch_bytes = kernel.scratch_bytes};
    TD_ASSIGN_OR_RETURN(mine.us,
                        MeasureKernel(kernel, view, std::numeric_limits<double>::infinity()));
    const StatusOr<Kernel> rival = other(view, ctx);
    if (!rival.ok()) return std::vector{mine};
    ConvMeasurement theirs{.name = "onednn", .scratch_bytes = rival->scratch_bytes};
    TD_ASSIGN_OR_RETURN(theirs.us, MeasureKernel(*rival, view, mine.us));
    return std::vector{mine, theirs};
  };
  TD_ASSIGN_OR_RETURN(const std::string fastest,
                      ctx.conv_search->Fastest("own or oneDNN: " + ConvProblem(view),
                                               ctx.conv_scratch_max, measure));
  if (fastest == "own") return kernel;
  return Unimplemented("oneDNN was measured to be faster");
}

}  // namespace tandem
