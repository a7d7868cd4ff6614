#include "pserver/disk/value_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/require.h"
#include "common/os/host_limits.h"
#include "common/os/huge_pages.h"

namespace tandem::pserver {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kHeadBytes = sizeof(uint64_t) + sizeof(uint32_t);
// Number of bytes that are read at a time and then summed while they are in the CPU cache.
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kBlockBytes = 4096;  // block size of the disk in bytes, or a multiple of it
constexpr size_t kStagedBytes = kHugePage;
static_assert(kStagedBytes % kBlockBytes == 0, "a full buffer is whole blocks");

Status Failed(const char* what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrFormat("cannot %s %s: %s", what, path, ErrnoText(error));
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhausted("the disk is full: %s [TD2107]; hint: free space on the disk", text);
  }
  if (error == EMFILE || error == ENFILE) return TooManyFiles(text);
  if (error == EFBIG) return FileTooLarge(text);
  return Unavailable("the checkpoint store failed: %s [TD2110]; hint: check the disk", text);
}

}  // namespace

StatusOr<ValueWriter> ValueWriter::Create(const std::string& path, CheckpointThrottle* pace) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  Fd file(open(path.c_str(), kFlags | O_DIRECT, 0600));
  if (file.get() < 0 && errno == EINVAL) file = Fd(open(path.c_str(), kFlags, 0600));
  if (file.get() < 0) return Failed("make", path);
  Memory staged(static_cast<std::byte*>(AllocatePages(kStagedBytes, kBlockBytes)), &std::free);
  if (staged == nullptr)
    return ResourceExhausted("cannot allocate memory to write %s [TD2116]", path);
  return ValueWriter(path, std::move(file), std::move(staged), pace);
}

Status ValueWriter::WriteOut(size_t bytes) {
  TD_REQUIRE(bytes <= kStagedBytes && bytes % kBlockBytes == 0);
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = write(file_.get(), staged_.get() + at, bytes - at);
    if (n < 0 && errno == EINTR) continue;
    // EINVAL with O_DIRECT: the disk has larger blocks, or the last write ended within a block. The
    // remaining bytes are written through the page cache.
    const int flags = n < 0 && errno == EINVAL ? fcntl(file_.get(), F_GETFL) : 0;
    if ((flags & O_DIRECT) != 0 && fcntl(file_.get(), F_SETFL, flags & ~O_DIRECT) == 0) continue;
    if (n < 0) return Failed("write", path_);
    at += static_cast<size_t>(n);
  }
  filled_ = 0;
  return OkStatus();
}

Status ValueWriter::Append(const void* data, size_t bytes) {
  TD_REQUIRE(filled_ < kStagedBytes);
  const auto* from = static_cast<const std::byte*>(data);
  bytes_ += bytes;
  while (bytes > 0) {
    const size_t some = std::min(bytes, kStagedBytes - filled_);
    std::memcpy(staged_.get() + filled_, from, some);
    filled_ += some;
    from += some;
    bytes -= some;
    if (filled_ < kStagedBytes) break;
    TD_RETURN_IF_ERROR(WriteOut(kStagedBytes));
    pace_.Wrote();
  }
  return OkStatus();
}

Status ValueWriter::Add(const void* content, size_t bytes) {
  TD_REQUIRE(content != nullptr || bytes == 0);
  const uint64_t length = bytes;
  const uint32_t sum = Crc32c(Crc32c(0, &length, sizeof(length)), content, bytes);
  std::array<char, kHeadBytes> head;
  std::memcpy(head.data(), &length, sizeof(length));
  std::memcpy(head.data() + sizeof(length), &sum, sizeof(sum));
  sum_ = Crc32c(sum_, &sum, sizeof(sum));
  TD_RETURN_IF_ERROR(Append(head.data(), head.size()));
  return Append(content, bytes);
}

StatusOr<uint32_t> ValueWriter::Finish() {
  // Writes whole blocks, then truncates the file to its exact length.
  const size_t rest = (filled_ + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  std::memset(staged_.get() + filled_, 0, rest - filled_);
  TD_RETURN_IF_ERROR(WriteOut(rest));
  if (ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) return Failed("write", path_);
  if (fdatasync(file_.get()) != 0) return Failed("sync", path_);
  const std::string folder = std::filesystem::path(path_).parent_path();
  const Fd entry(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entry.get() < 0 || fsync(entry.get()) != 0) return Failed("sync", folder);
  return sum_;
}

StatusOr<ValueReader> ValueReader::Open(const std::string& path) {
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) {
    return DataLoss(
        "file %s is missing [TD2111]; hint: restore a copy of directory %s, or move this directory "
        "away to start without this checkpoint",
        path, std::filesystem::path(path).parent_path().string());
  }
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return Failed("open", path);
  (void)posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return ValueReader(path, std::move(file), static_cast<uint64_t>(info.st_size));
}

Status ValueReader::Damaged(const char* what) const {
  return DataLoss(
      "%s is damaged: record %d: %s [TD2111]; hint: restore a copy of the directory, or move the "
      "directory away to start without this checkpoint",
      path_, records_, what);
}

Status ValueReader::Fill(void* to, size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t n = read(file_.get(), at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read", path_);
    if (n == 0) return Damaged("the file is truncated in this record");
    at += n;
    bytes -= static_cast<size_t>(n);
    left_ -= std::min(left_, static_cast<uint64_t>(n));
  }
  return OkStatus();
}

StatusOr<size_t> ValueReader::Next() {
  ++records_;
  std::array<char, kHeadBytes> head;
  TD_RETURN_IF_ERROR(Fill(head.data(), head.size()));
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  std::memcpy(&expected_, head.data() + sizeof(length), sizeof(expected_));
  if (length > left_) return Damaged("the file is truncated in this record");
  return length_ = length;
}

Status ValueReader::Read(void* to) {
  TD_REQUIRE(records_ > 0 && length_ <= left_);  // `length_` is the length that Next returned
  const uint64_t length = length_;
  uint32_t sum = Crc32c(0, &length, sizeof(length));
  auto* at = static_cast<std::byte*>(to);
  for (size_t left = length_; left > 0;) {
    const size_t piece = std::min(left, kPieceBytes);
    TD_RETURN_IF_ERROR(Fill(at, piece));
    sum = Crc32c(sum, at, piece);
    at += piece;
    left -= piece;
  }
  if (sum != expected_) return Damaged("CRC32C");
  sum_ = Crc32c(sum_, &sum, sizeof(sum));
  return OkStatus();
}

StatusOr<uint32_t> ValueReader::Finish() {
  ++records_;
  if (left_ != 0) return Damaged("the record is missing");
  return sum_;
}

}  // namespace tandem::pserver
