#include "trainer/monitoring/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "common/base/check.h"
#include "common/os/files.h"
#include "proto/event.pb.h"
#include "trainer/monitoring/event_graph.h"
#include "trainer/reader/input/record_io.h"

namespace tandem::trainer {
namespace {

constexpr int kBuckets = 40;

double UnixSeconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

pb::Event EventAt(int64_t step) {
  pb::Event event;
  event.set_wall_time(UnixSeconds());
  event.set_step(step);
  return event;
}

// Fills a histogram with buckets of equal width, from the smallest to the largest value. Skips
// values that are not finite.
void Fill(std::span<const float> values, pb::HistogramProto* out) {
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0, squares = 0;
  int64_t count = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    min = std::min(min, v);
    max = std::max(max, v);
    sum += v;
    squares += v * v;
    ++count;
  }
  if (count == 0) min = max = 0;
  out->set_min(min);
  out->set_max(max);
  out->set_num(static_cast<double>(count));
  out->set_sum(sum);
  out->set_sum_squares(squares);
  const double width = (max - min) / kBuckets;
  std::vector<double> buckets(width > 0 ? kBuckets : 1);
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    const auto i = width > 0 ? static_cast<size_t>((v - min) / width) : 0;
    ++buckets[std::min(i, buckets.size() - 1)];
  }
  for (size_t i = 0; i < buckets.size(); ++i) {
    const bool last = i + 1 == buckets.size();
    out->add_bucket_limit(last ? max : min + width * static_cast<double>(i + 1));
    out->add_bucket(buckets[i]);
  }
}

}  // namespace

EventFile::EventFile(std::unique_ptr<reader::RecordWriter> file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

EventFile::~EventFile() = default;

StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return FileError(dir, "cannot be made", error.value());
  const std::string path = absl::StrFormat("%s/events.out.tfevents.%.6f.%d.tandem", dir,
                                           UnixSeconds(), static_cast<int>(getpid()));
  TD_ASSIGN_OR_RETURN(auto file,
                      reader::RecordWriter::Create(path, reader::RecordFormat::kTfRecord));
  std::unique_ptr<EventFile> events(new EventFile(std::move(file), path));
  pb::Event first;
  first.set_wall_time(UnixSeconds());
  first.set_file_version("brain.Event:2");
  events->Write(first.SerializeAsString());
  TD_RETURN_IF_ERROR(events->status_);
  return events;
}

void EventFile::Write(const std::string& event) {
  if (!status_.ok()) return;
  status_ = file_->Add(event);
  if (status_.ok()) status_ = file_->Flush();
  LOG_IF(ERROR, !status_.ok()) << "events for TensorBoard are no longer written: "
                               << ToString(status_);
}

void EventFile::AddGraph(const graph::Program& program) {
  pb::Event event = EventAt(0);
  event.set_graph_def(ToGraphDef(program));
  Write(event.SerializeAsString());
}

void EventFile::Add(int64_t step, const std::vector<Scalar>& scalars) {
  pb::Event event = EventAt(step);
  for (const auto& [tag, value] : scalars) {
    pb::Summary::Value* out = event.mutable_summary()->add_value();
    out->set_tag(tag);
    out->set_simple_value(static_cast<float>(value));
  }
  Write(event.SerializeAsString());
}

void EventFile::AddHistograms(int64_t step, const TensorMap& tensors) {
  pb::Event event = EventAt(step);
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() != DType::kF32) continue;
    pb::Summary::Value* out = event.mutable_summary()->add_value();
    out->set_tag("parameters/" + name);
    Fill(tensor.span<float>(), out->mutable_histo());
  }
  Write(event.SerializeAsString());
}

}  // namespace tandem::trainer
