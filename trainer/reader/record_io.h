// Files of records in frames with checksums, read and written.
//   tfrecord  TensorFlow's: length u64, masked CRC32C of the length, the record, its masked CRC32C.
//             Source: TensorFlow's guide "TFRecord and tf.train.Example".
//   recordio  PaddlePaddle's: chunks of a header (magic 0x01020304, records, CRC32 of the payload,
//             compressor, payload bytes; u32 each) and a payload of lengths (u32) and records.
//             Source: PaddlePaddle 1.x, paddle/fluid/recordio. Compressed chunks are refused.
// All numbers are little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "trainer/reader/input_file.h"

namespace tandem {

enum class RecordFormat : uint8_t { kTfRecord, kRecordIo };
const char* Name(RecordFormat format);  // "tfrecord", "recordio"
std::optional<RecordFormat> RecordFormatOf(std::string_view name);
std::vector<std::string> RecordFormatNames();

struct RecordFrame {
  std::string_view bytes;
  uint64_t offset = 0;  // of the bytes in the file
};

// Reads a file from its begin to its end. One thread.
class RecordScanner {
 public:
  // The format is told by the first bytes. DATA_LOSS when they are of neither, and as
  // InputFile::Open(). An empty file is a tfrecord without records.
  static StatusOr<std::unique_ptr<RecordScanner>> Open(const std::string& path);

  RecordFormat format() const { return format_; }
  uint64_t file_bytes() const { return file_.size(); }

  // The next record, valid until the next call; none at the end. DATA_LOSS naming file and offset
  // for a record (recordio: chunk) that is damaged or longer than 2^31 - 1 bytes; then the next
  // call goes on behind it, unless lost().
  StatusOr<std::optional<RecordFrame>> Next();
  // What is behind the damage cannot be found.
  bool lost() const { return lost_; }

 private:
  RecordScanner(InputFile file, RecordFormat format) : file_(std::move(file)), format_(format) {}

  // `bytes` bytes of the file from at_ on; fewer where it ends.
  StatusOr<std::string_view> Peek(uint64_t bytes);
  StatusOr<std::optional<RecordFrame>> NextTfRecord();
  StatusOr<std::optional<RecordFrame>> NextRecordIo();
  Status OpenChunk();
  Status Damaged(const std::string& what, bool lost);
  Status TooLarge(const char* what, uint64_t bytes);

  InputFile file_;
  const RecordFormat format_;
  bool lost_ = false;
  uint64_t at_ = 0;  // of what is read next
  std::vector<char> buffer_;
  uint64_t buffer_at_ = 0;  // of the buffer's first byte
  size_t buffered_ = 0;
  uint64_t chunk_end_ = 0;   // recordio
  uint32_t chunk_left_ = 0;  // records of the chunk
};

// Writes a new file. One thread.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  // ALREADY_EXISTS when the file is there, PERMISSION_DENIED when it cannot be made.
  static StatusOr<std::unique_ptr<RecordWriter>> Create(const std::string& path,
                                                        RecordFormat format);
  // INVALID_ARGUMENT for a record too large for the format.
  virtual Status Add(std::string_view record) = 0;
  // What was added is there for who reads the file, or DATA_LOSS says why not.
  virtual Status Flush() = 0;
  // Everything is in the file, or DATA_LOSS says why not. Nothing may be added behind it.
  virtual Status Finish() = 0;
};

}  // namespace tandem
