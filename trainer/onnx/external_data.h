// Numbers of an ONNX model that lie in files beside it ("external data"), as PyTorch's exporter
// writes them. A model names the file, and is not trusted: a plain name in the model's own folder
// is read, of a regular file, no link.
#pragma once

#include <map>
#include <span>
#include <string>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace tandem::onnx {

class OnnxExternalData {
 public:
  // `folder`: of the model; empty: the model has no files beside it, and every Read is refused.
  explicit OnnxExternalData(std::string folder) : folder_(std::move(folder)) {}

  class Range;
  // Where the numbers of `tensor` lie, which needs `bytes` of them: it is checked that they are
  // there, before the caller takes memory for them. UNIMPLEMENTED without a folder,
  // INVALID_ARGUMENT for a name that may not be read, NOT_FOUND or DATA_LOSS for a file that lacks
  // the numbers. All tensors together have at most the bytes that the file has.
  StatusOr<Range> Find(const ::onnx::TensorProto& tensor, uint64_t bytes);

 private:
  struct File {
    Fd fd;
    uint64_t bytes = 0;       // of the file
    uint64_t bytes_left = 0;  // that no tensor was given yet
  };
  StatusOr<File*> Open(const std::string& name);

  const std::string folder_;
  std::map<std::string, File> files_;
};

// Valid while the OnnxExternalData lives.
class OnnxExternalData::Range {
 public:
  Range(int fd, std::string path, uint64_t offset)
      : fd_(fd), path_(std::move(path)), offset_(offset) {}

  Status ReadTo(std::span<char> bytes) const;

 private:
  int fd_;
  std::string path_;
  uint64_t offset_;
};

}  // namespace tandem::onnx
