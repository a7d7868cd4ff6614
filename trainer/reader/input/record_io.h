// Reads and writes files of framed records with checksums.
//   tfrecord  TensorFlow's: length u64, masked CRC32C of the length, the record, its masked CRC32C.
//             Source: TensorFlow's guide "TFRecord and tf.train.Example".
//   recordio  PaddlePaddle's: chunks of a header (magic 0x01020304, records, CRC32 of the payload,
//             compressor, payload bytes; u32 each) and a payload of lengths (u32) and records.
//             Source: PaddlePaddle 1.x, paddle/fluid/recordio. Compressed chunks are rejected.
// All numbers are little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "trainer/reader/input/input_file.h"

namespace tandem::reader {

enum class RecordFormat : uint8_t { kTfRecord, kRecordIo };
const char* Name(RecordFormat format);  // returns the name "tfrecord" or "recordio"
std::optional<RecordFormat> RecordFormatOf(std::string_view name);
std::vector<std::string> RecordFormatNames();

struct RecordFrame {
  std::string_view bytes;
  uint64_t offset = 0;  // offset of `bytes` in the file
};

// Reads the records of a file from start to end. Not thread-safe.
class RecordScanner {
 public:
  // Opens the file and detects its format from the first bytes. An empty file is a tfrecord file
  // without records. DATA_LOSS: the file has neither format. Other errors are those of
  // InputFile::Open().
  static StatusOr<std::unique_ptr<RecordScanner>> Open(const std::string& path);

  RecordFormat format() const { return format_; }
  uint64_t file_bytes() const { return file_.size(); }

  // Returns the next record, which is valid until the next call; nullopt: the end of the file.
  // DATA_LOSS: a record (recordio: a chunk) is damaged or longer than 2^31 - 1 bytes; the message
  // names file and offset. After such an error the next call continues after the damage, unless
  // lost() is true.
  StatusOr<std::optional<RecordFrame>> Next();
  // Returns whether Next has found a damage after which the position of the next record is unknown.
  bool lost() const { return lost_; }

 private:
  RecordScanner(InputFile file, RecordFormat format) : file_(std::move(file)), format_(format) {}

  // Returns the next `bytes` bytes of the file from at_ on. At the end of the file there may be
  // fewer bytes.
  StatusOr<std::string_view> Peek(uint64_t bytes);
  StatusOr<std::optional<RecordFrame>> NextTfRecord();
  StatusOr<std::optional<RecordFrame>> NextRecordIo();
  Status OpenChunk();
  Status Damaged(const std::string& what, bool lost);
  Status TooLarge(const char* what, uint64_t bytes);

  InputFile file_;
  const RecordFormat format_;
  bool lost_ = false;
  uint64_t at_ = 0;  // file offset of the next read
  std::vector<char> buffer_;
  uint64_t buffer_at_ = 0;  // file offset of the buffer's first byte
  size_t buffered_ = 0;
  uint64_t chunk_end_ = 0;   // file offset of the end of the current RecordIO chunk
  uint32_t chunk_left_ = 0;  // number of unread records of the current RecordIO chunk
};

// Writes records to a new file. Not thread-safe.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  // Creates the file. ALREADY_EXISTS: the file exists. PERMISSION_DENIED: the file cannot be
  // created.
  static StatusOr<std::unique_ptr<RecordWriter>> Create(const std::string& path,
                                                        RecordFormat format);
  // Adds a record. INVALID_ARGUMENT: the record is too large for the format.
  virtual Status Add(std::string_view record) = 0;
  // Makes the added records visible to readers of the file. DATA_LOSS: the write fails.
  virtual Status Flush() = 0;
  // Completes the file. The caller must not add a record after Finish. DATA_LOSS: the write fails.
  virtual Status Finish() = 0;
};

}  // namespace tandem::reader
