// Reads the tensors of an ONNX model that are stored in separate files ("external data"), as
// PyTorch's exporter writes them. The model names the files but is not trusted. ExternalData reads
// only regular files in the model's own directory: no paths and no links.
#pragma once

#include <map>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace tandem::onnx {

class ExternalData {
 public:
  // `dir`: directory of the model. Empty: the model has no separate files, and every Find returns
  // an error.
  explicit ExternalData(std::string dir) : dir_(std::move(dir)) {}

  class Range;
  // Finds the `bytes` bytes of `tensor` in its file. Checks that the file contains these bytes
  // before the caller allocates memory for them. All tensors together may not use more bytes than
  // the file has. UNIMPLEMENTED: there is no directory. INVALID_ARGUMENT: the name of the file is
  // not allowed. NOT_FOUND: the file does not exist. DATA_LOSS: the file lacks the bytes.
  StatusOr<Range> Find(const ::onnx::TensorProto& tensor, uint64_t bytes);

 private:
  struct File {
    Fd fd;
    uint64_t bytes = 0;       // size of the file in bytes
    uint64_t bytes_left = 0;  // bytes that are not yet assigned to a tensor
  };
  StatusOr<File*> Open(const std::string& name);

  const std::string dir_;
  std::map<std::string, File> files_;
};

// The position of a tensor in its file. Valid while the ExternalData exists.
class ExternalData::Range {
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
