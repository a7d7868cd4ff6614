#include "pserver/value_file.h"

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

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kHeadBytes = sizeof(uint64_t) + sizeof(uint32_t);
constexpr size_t kPieceBytes = 1 << 20;  // summed while the cache has it

Status Failed(const char* what, const std::string& path) {
  const int error = errno;
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhausted("%s %s: %s", what, path, ErrnoText(error));
  }
  return Unavailable("%s %s: %s", what, path, ErrnoText(error));
}

Status WriteAll(const Fd& file, const std::string& path, const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = write(file.get(), from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("writing", path);
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return OkStatus();
}

}  // namespace

StatusOr<ValueWriter> ValueWriter::Create(const std::string& path) {
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return Failed("making", path);
  return ValueWriter(path, std::move(file));
}

Status ValueWriter::Add(const void* content, size_t bytes) {
  const uint64_t length = bytes;
  const uint32_t sum = Crc32c(Crc32c(0, &length, sizeof(length)), content, bytes);
  std::array<char, kHeadBytes> head;
  std::memcpy(head.data(), &length, sizeof(length));
  std::memcpy(head.data() + sizeof(length), &sum, sizeof(sum));
  sum_ = Crc32c(sum_, &sum, sizeof(sum));
  TD_RETURN_IF_ERROR(WriteAll(file_, path_, head.data(), head.size()));
  return WriteAll(file_, path_, content, bytes);
}

StatusOr<uint32_t> ValueWriter::Finish() {
  if (fdatasync(file_.get()) != 0) return Failed("syncing", path_);
  const std::string folder = std::filesystem::path(path_).parent_path();
  const Fd entry(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entry.get() < 0 || fsync(entry.get()) != 0) return Failed("syncing", folder);
  return sum_;
}

StatusOr<ValueReader> ValueReader::Open(const std::string& path) {
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return DataLoss("%s is missing", path);
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return Failed("opening", path);
  (void)posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return ValueReader(path, std::move(file), static_cast<uint64_t>(info.st_size));
}

Status ValueReader::Damaged(const char* what) const {
  return DataLoss("%s is damaged: record %d: %s", path_, records_, what);
}

Status ValueReader::Fill(void* to, size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t n = read(file_.get(), at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("reading", path_);
    if (n == 0) return Damaged("the file ends in it");
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
  if (length > left_) return Damaged("the file ends in it");
  return length_ = length;
}

Status ValueReader::Read(void* to) {
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
  if (left_ != 0) return Damaged("there is none");
  return sum_;
}

}  // namespace tandem
