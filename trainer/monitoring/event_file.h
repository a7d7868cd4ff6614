// Writes curves, histograms and the program of a training run for TensorBoard. The file has
// TensorFlow's events (proto/event.proto), framed as TFRecord. TensorBoard finds the file by the
// part "tfevents" of the file name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::reader {
class RecordWriter;
}  // namespace tandem::reader

namespace tandem::trainer {

// The event file of one run. Each call writes its data to the file before it returns. A failure
// (for example a full disk) does not end the run. EventFile logs the first failure and writes
// nothing afterwards. Not thread-safe.
class EventFile {
 public:
  // Creates a new file in `dir`. Creates `dir` if it is missing. TensorBoard joins all files of a
  // directory to one run, so a resumed run uses the directory of the first run. PERMISSION_DENIED:
  // the directory or file cannot be created. ALREADY_EXISTS: the file exists.
  static StatusOr<std::unique_ptr<EventFile>> Create(const std::string& dir);
  ~EventFile();

  // Adds the program of the run. The caller may call AddGraph once.
  void AddGraph(const graph::Program& program);

  struct Scalar {
    std::string tag;  // name of the curve, for example "train/loss"
    double value = 0;
  };
  // Adds a point to each curve in `scalars`. `step`: number of steps of the job that are done.
  void Add(int64_t step, const std::vector<Scalar>& scalars);
  // Adds a histogram of each f32 tensor in host memory, with the tag "parameters/NAME". `step`: see
  // Add.
  void AddHistograms(int64_t step, const TensorMap& tensors);

 private:
  EventFile(std::unique_ptr<reader::RecordWriter> file, std::string path);
  void Write(const std::string& event);

  std::unique_ptr<reader::RecordWriter> file_;
  const std::string path_;
  Status status_;
};

}  // namespace tandem::trainer
