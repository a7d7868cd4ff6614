// Curves, histograms and program of a training run for TensorBoard: a file of TensorFlow's events
// (proto/event.proto) framed as TFRecord, which it finds by the "tfevents" in its name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem {

class RecordWriter;

// One thread. What was added is in the file when a call returns. Nothing here ends a run: the first
// failure (a full disk) is logged, and nothing is written behind it.
class EventFile {
 public:
  // A new file of `dir`, which is made where it is missing. One folder is one curve: a run that
  // goes on from a checkpoint adds a file to the folder of the first one. PERMISSION_DENIED,
  // ALREADY_EXISTS.
  static StatusOr<std::unique_ptr<EventFile>> Create(const std::string& dir);
  ~EventFile();

  // The program that is run, once.
  void AddGraph(const Program& program);

  using Scalars = std::vector<std::pair<std::string, double>>;  // tag ("train/loss"), value
  // `step`: so many steps of the job are done.
  void Add(int64_t step, const Scalars& scalars);
  // A histogram of each f32 tensor in host memory, tagged "parameters/NAME".
  void AddHistograms(int64_t step, const TensorMap& tensors);

 private:
  EventFile(std::unique_ptr<RecordWriter> file, std::string path);
  void Write(const std::string& event);

  std::unique_ptr<RecordWriter> file_;
  const std::string path_;
  Status status_;
};

}  // namespace tandem
