#include "trainer/reader/input/record_io.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/crc32c.h"
#include "common/os/files.h"

namespace tandem::reader {
namespace {

constexpr uint32_t kChunkMagic = 0x01020304;
constexpr size_t kChunkHeaderBytes = 20;
constexpr size_t kTfHeaderBytes = 12, kTfFooterBytes = 4;
constexpr size_t kReadBytes = 1 << 20;
// Maximum size of a record or chunk: the size of the largest protobuf message.
constexpr uint64_t kFrameBytesMax = INT32_MAX;
// The limits of a chunk. The writer ends a chunk when the chunk reaches one of the limits.
constexpr uint32_t kChunkRecordsMax = 1000;
constexpr size_t kChunkBytesMax = 1 << 20;

template <typename T>
T Load(std::string_view bytes, size_t at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Returns the CRC32C in the masked form of TensorFlow. The mask keeps the checksum reliable for
// data that contains checksums.
uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(0, bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

uint32_t ZlibCrc(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

const char* Name(RecordFormat format) {
  return format == RecordFormat::kTfRecord ? "tfrecord" : "recordio";
}

std::vector<std::string> RecordFormatNames() { return {"tfrecord", "recordio"}; }

std::optional<RecordFormat> RecordFormatOf(std::string_view name) {
  for (const RecordFormat format : {RecordFormat::kTfRecord, RecordFormat::kRecordIo}) {
    if (name == Name(format)) return format;
  }
  return std::nullopt;
}

StatusOr<std::unique_ptr<RecordScanner>> RecordScanner::Open(const std::string& path) {
  TD_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  char head[kTfHeaderBytes] = {};
  TD_ASSIGN_OR_RETURN(const size_t got, file.Read(0, head, sizeof(head)));
  const std::string_view bytes(head, got);
  std::optional<RecordFormat> format;
  if (got == 0 ||
      (got == sizeof(head) && Load<uint32_t>(bytes, 8) == MaskedCrc(bytes.substr(0, 8)))) {
    format = RecordFormat::kTfRecord;
  } else if (got >= 4 && Load<uint32_t>(bytes, 0) == kChunkMagic) {
    format = RecordFormat::kRecordIo;
  }
  if (!format.has_value()) {
    return DataLoss("%s: offset 0: the file is neither a tfrecord nor a recordio file [TD2009]",
                    path);
  }
  return std::unique_ptr<RecordScanner>(new RecordScanner(std::move(file), *format));
}

Status RecordScanner::Damaged(const std::string& what, bool lost) {
  lost_ = lost;
  return DataLoss("%s: offset %d: %s%s", file_.path(), at_, what,
                  lost ? "; the rest of the file cannot be read" : "");
}

Status RecordScanner::TooLarge(const char* what, uint64_t bytes) {
  return Damaged(absl::StrFormat("a %s has %d bytes, but at most %d bytes are supported", what,
                                 bytes, kFrameBytesMax),
                 false);
}

StatusOr<std::string_view> RecordScanner::Peek(uint64_t bytes) {
  const uint64_t there = file_.size() - std::min(at_, file_.size());
  const auto wanted = static_cast<size_t>(std::min(bytes, there));
  if (at_ < buffer_at_ || at_ + wanted > buffer_at_ + buffered_) {
    const size_t room = std::max<size_t>(wanted, kReadBytes);
    if (buffer_.size() < room) buffer_.resize(room);
    buffer_at_ = at_;
    const auto got = file_.Read(at_, buffer_.data(), room);
    lost_ = !got.ok();
    TD_RETURN_IF_ERROR(got.status());
    buffered_ = *got;
  }
  const size_t skip = static_cast<size_t>(at_ - buffer_at_);
  return std::string_view(buffer_.data() + skip,
                          std::min(wanted, buffered_ - std::min(skip, buffered_)));
}

StatusOr<std::optional<RecordFrame>> RecordScanner::Next() {
  if (lost_) return std::optional<RecordFrame>();
  return format_ == RecordFormat::kTfRecord ? NextTfRecord() : NextRecordIo();
}

StatusOr<std::optional<RecordFrame>> RecordScanner::NextTfRecord() {
  TD_ASSIGN_OR_RETURN(const std::string_view head, Peek(kTfHeaderBytes));
  if (head.empty()) return std::optional<RecordFrame>();
  if (head.size() < kTfHeaderBytes) return Damaged("the file ends in the middle of a record", true);
  const auto size = Load<uint64_t>(head, 0);
  if (Load<uint32_t>(head, 8) != MaskedCrc(head.substr(0, 8))) {
    return Damaged("the checksum of the record length is wrong", true);
  }
  const uint64_t left = file_.size() - at_ - kTfHeaderBytes;
  if (size > left || left - size < kTfFooterBytes) {
    return Damaged(absl::StrFormat("the file ends in the middle of a record of %d bytes", size),
                   true);
  }
  if (size > kFrameBytesMax) {
    const Status status = TooLarge("record", size);
    at_ += kTfHeaderBytes + size + kTfFooterBytes;
    return status;
  }
  TD_ASSIGN_OR_RETURN(const std::string_view frame, Peek(kTfHeaderBytes + size + kTfFooterBytes));
  if (frame.size() < kTfHeaderBytes + size + kTfFooterBytes) {
    return Damaged("the file was truncated while it was read", true);
  }
  const std::string_view bytes = frame.substr(kTfHeaderBytes, size);
  if (Load<uint32_t>(frame, kTfHeaderBytes + size) != MaskedCrc(bytes)) {
    const Status status = Damaged("the checksum of a record is wrong", false);
    at_ += frame.size();
    return status;
  }
  const uint64_t offset = at_ + kTfHeaderBytes;
  at_ += frame.size();
  return std::optional(RecordFrame{bytes, offset});
}

// Starts a chunk: checks its header and its payload, and sets at_ to the offset after the header.
Status RecordScanner::OpenChunk() {
  TD_ASSIGN_OR_RETURN(const std::string_view head, Peek(kChunkHeaderBytes));
  if (head.size() < kChunkHeaderBytes)
    return Damaged("the file ends in the middle of a chunk", true);
  if (Load<uint32_t>(head, 0) != kChunkMagic) return Damaged("no chunk begins here", true);
  const auto records = Load<uint32_t>(head, 4), crc = Load<uint32_t>(head, 8);
  const auto compressor = Load<uint32_t>(head, 12), bytes = Load<uint32_t>(head, 16);
  if (bytes > file_.size() - at_ - kChunkHeaderBytes) {
    return Damaged(absl::StrFormat("the file ends in the middle of a chunk of %d bytes", bytes),
                   true);
  }
  if (bytes > kFrameBytesMax) {
    const Status status = TooLarge("chunk", bytes);
    at_ += kChunkHeaderBytes + uint64_t{bytes};
    return status;
  }
  TD_ASSIGN_OR_RETURN(const std::string_view chunk, Peek(kChunkHeaderBytes + uint64_t{bytes}));
  if (chunk.size() < kChunkHeaderBytes + uint64_t{bytes}) {
    return Damaged("the file was truncated while it was read", true);
  }
  Status status;
  if (ZlibCrc(chunk.substr(kChunkHeaderBytes)) != crc) {
    status =
        Damaged(absl::StrFormat("the checksum of a chunk of %d records is wrong", records), false);
  } else if (compressor != 0) {
    status =
        Damaged(absl::StrFormat("a chunk of %d records is compressed (%s), which is not supported",
                                records, compressor == 1 ? "snappy" : "gzip"),
                false);
  } else {
    chunk_left_ = records;
    chunk_end_ = at_ + chunk.size();
    at_ += kChunkHeaderBytes;
    return OkStatus();
  }
  at_ += chunk.size();
  return status;
}

StatusOr<std::optional<RecordFrame>> RecordScanner::NextRecordIo() {
  while (chunk_left_ == 0) {
    if (at_ < chunk_end_) {
      const Status status = Damaged("bytes follow the last record of a chunk", false);
      at_ = chunk_end_;
      return status;
    }
    if (at_ >= file_.size()) return std::optional<RecordFrame>();
    TD_RETURN_IF_ERROR(OpenChunk());
  }
  --chunk_left_;
  TD_ASSIGN_OR_RETURN(const std::string_view length, Peek(4));
  const uint64_t left = chunk_end_ - at_;
  if (length.size() == 4 && left >= 4 && Load<uint32_t>(length, 0) <= left - 4) {
    const auto size = Load<uint32_t>(length, 0);
    TD_ASSIGN_OR_RETURN(const std::string_view frame, Peek(4 + uint64_t{size}));
    if (frame.size() == 4 + uint64_t{size}) {
      const uint64_t offset = at_ + 4;
      at_ += frame.size();
      return std::optional(RecordFrame{frame.substr(4), offset});
    }
  }
  const Status status = Damaged("a record is longer than its chunk", false);
  at_ = chunk_end_;
  chunk_left_ = 0;
  return status;
}

namespace {

// The output file of a writer, for both formats.
class FrameFile {
 public:
  static StatusOr<FrameFile> Create(const std::string& path) {
    std::error_code error;
    if (std::filesystem::exists(path, error))
      return AlreadyExists("%s already exists [TD2109]; hint: remove it or choose another name",
                           path);
    errno = 0;
    FrameFile file(path);
    if (file.out_.good()) return file;
    return FileError(path, "cannot be written", errno);
  }
  void Write(std::string_view bytes) {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  Status Flush() {
    out_.flush();
    return out_.good() ? OkStatus()
                       : DataLoss("cannot write %s (is the disk full?) [TD2106]", path_);
  }
  Status Finish() {
    out_.close();
    return out_.good() ? OkStatus()
                       : DataLoss("cannot write %s (is the disk full?) [TD2106]", path_);
  }

 private:
  explicit FrameFile(const std::string& path) : path_(path), out_(path, std::ios::binary) {}

  std::string path_;
  std::ofstream out_;
};

class TfRecordWriter final : public RecordWriter {
 public:
  explicit TfRecordWriter(FrameFile file) : file_(std::move(file)) {}

  Status Add(std::string_view record) override {
    std::string head;
    Append<uint64_t>(head, record.size());
    Append<uint32_t>(head, MaskedCrc(head));
    file_.Write(head);
    file_.Write(record);
    std::string foot;
    Append<uint32_t>(foot, MaskedCrc(record));
    file_.Write(foot);
    return OkStatus();
  }
  Status Flush() override { return file_.Flush(); }
  Status Finish() override { return file_.Finish(); }

 private:
  FrameFile file_;
};

class RecordIoWriter final : public RecordWriter {
 public:
  explicit RecordIoWriter(FrameFile file) : file_(std::move(file)) {}

  Status Add(std::string_view record) override {
    if (record.size() > UINT32_MAX - 4) {
      return InvalidArgument("a record has %d bytes, which is too large for recordio",
                             record.size());
    }
    if (payload_.size() + record.size() > kChunkBytesMax || records_ == kChunkRecordsMax)
      EndChunk();
    Append<uint32_t>(payload_, static_cast<uint32_t>(record.size()));
    payload_.append(record);
    ++records_;
    return OkStatus();
  }
  Status Flush() override {
    EndChunk();
    return file_.Flush();
  }
  Status Finish() override {
    EndChunk();
    return file_.Finish();
  }

 private:
  void EndChunk() {
    if (records_ == 0) return;
    std::string head;
    const auto bytes = static_cast<uint32_t>(payload_.size());
    for (const uint32_t word : {kChunkMagic, records_, ZlibCrc(payload_), 0u, bytes}) {
      Append<uint32_t>(head, word);
    }
    file_.Write(head);
    file_.Write(payload_);
    payload_.clear();
    records_ = 0;
  }

  FrameFile file_;
  std::string payload_;
  uint32_t records_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(const std::string& path,
                                                             RecordFormat format) {
  TD_ASSIGN_OR_RETURN(FrameFile file, FrameFile::Create(path));
  if (format == RecordFormat::kTfRecord) return std::make_unique<TfRecordWriter>(std::move(file));
  return std::make_unique<RecordIoWriter>(std::move(file));
}

}  // namespace tandem::reader
