#include "pserver/log_files/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "pserver/disk/store_error.h"

namespace tandem::pserver {
namespace {

constexpr uint64_t kIndexBytes = 256 << 10;   // distance of two frames in the index of a file
constexpr uint64_t kTransferBytes = 8 << 20;  // bytes after which their transfer starts
constexpr size_t kUnsyncedFiles = 4;          // maximum number of older files that are not synced

Status SyncFile(const std::string& path, uint64_t* bytes) {
  const Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fdatasync(file.get()) != 0 || fstat(file.get(), &info) != 0) {
    return StoreError("cannot sync " + path, errno);
  }
  *bytes = static_cast<uint64_t>(info.st_size);
  return OkStatus();
}

}  // namespace

uint64_t LogPayload::bytes() const {
  uint64_t all = 0;
  for (const std::string_view piece : pieces) all += piece.size();
  return all;
}

LogFiles::LogFiles(std::string dir, uint64_t file_bytes)
    : dir_(std::move(dir)), file_bytes_(file_bytes) {
  TD_REQUIRE(file_bytes_ != 0);
}

std::string LogFiles::Text(const char* what) const {
  return absl::StrCat(what, " the write-ahead log of ", dir_);
}

Status LogFiles::Open(uint64_t generation) {
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(dir_));
  std::vector<File> files;
  for (const std::string& name : names) {
    uint64_t its = 0;
    File file{.path = dir_ + "/" + name};
    if (!ParseLogFileName(name, &its, &file.first)) continue;
    if (its != generation) {
      unlink(file.path.c_str());
      continue;
    }
    TD_RETURN_IF_ERROR(SyncFile(file.path, &file.bytes));
    files.push_back(std::move(file));
  }
  // An earlier process may have ended before it synced the name of its last file.
  if (!files.empty()) TD_RETURN_IF_ERROR(SyncDir(dir_));
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.first < b.first; });
  MutexLock lock(mu_);
  TD_REQUIRE(files_.empty());
  generation_ = generation;
  files_ = std::move(files);
  return OkStatus();
}

Status LogFiles::Fail(Status status) {
  if (status.code() != StatusCode::kUnavailable) {
    status = Unavailable("%s", std::string(status.message()));
  }
  failed_ = status;
  return status;
}

Status LogFiles::BeginFile(uint64_t first) {
  if (current_.valid()) unsynced_.push_back(std::move(current_));
  while (unsynced_.size() > kUnsyncedFiles) {
    if (fdatasync(unsynced_.front().get()) != 0) {
      return Fail(StoreError(Text("cannot sync"), errno));
    }
    unsynced_.erase(unsynced_.begin());
  }
  MutexLock lock(mu_);
  // An incomplete file of the same number, which has no entry, is replaced.
  if (!files_.empty() && files_.back().first == first) files_.pop_back();
  TD_REQUIRE(files_.empty() || files_.back().first < first);
  File file{.path = dir_ + "/" + LogFileName(generation_, first), .first = first, .own = true};
  Fd fd(open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) return StoreError("cannot create " + file.path, errno);
  named_ = false;
  files_.push_back(std::move(file));
  current_ = std::move(fd);
  transferred_ = 0;
  return OkStatus();
}

int LogFiles::WritePieces(std::span<const std::string_view> pieces) {
  std::vector<iovec> left;
  left.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    // writev does not change the bytes.
    if (!piece.empty()) left.push_back({const_cast<char*>(piece.data()), piece.size()});
  }
  size_t at = 0;
  while (at < left.size()) {
    const size_t count = std::min<size_t>(left.size() - at, IOV_MAX);
    const ssize_t n = writev(current_.get(), left.data() + at, static_cast<int>(count));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    auto done = static_cast<size_t>(n);
    while (at < left.size() && done >= left[at].iov_len) done -= left[at++].iov_len;
    if (done == 0) continue;
    left[at].iov_base = static_cast<char*>(left[at].iov_base) + done;
    left[at].iov_len -= done;
  }
  return 0;
}

Status LogFiles::AfterFailedWrite(int error) {
  Status status = StoreError(Text("cannot write"), error);
  if (status.code() != StatusCode::kResourceExhausted) return Fail(status);
  MutexLock lock(mu_);
  File& file = files_.back();
  if (ftruncate(current_.get(), static_cast<off_t>(file.bytes)) != 0) {
    return Fail(StoreError(Text("cannot shorten"), errno));
  }
  return status;
}

StatusOr<size_t> LogFiles::Append(std::span<const LogPayload> entries, int64_t time_us, bool sync) {
  TD_REQUIRE(!entries.empty());
  MutexLock lock(write_mu_);
  TD_RETURN_IF_ERROR(failed_);
  uint64_t size = 0;
  {
    MutexLock files(mu_);
    if (current_.valid()) size = files_.back().bytes;
  }
  if (!current_.valid() || size >= file_bytes_) {
    TD_RETURN_IF_ERROR(BeginFile(entries.front().number));
    size = 0;
  }
  const auto file_head = EncodeFileHead();
  std::vector<FrameHeadBytes> heads;
  heads.reserve(entries.size());
  std::vector<std::string_view> pieces;
  std::vector<uint64_t> offsets;  // offsets of the frames
  uint64_t last = last_, end = size;
  if (size == 0) {
    pieces.emplace_back(file_head.data(), file_head.size());
    end += file_head.size();
  }
  const uint64_t begin = end;
  for (const LogPayload& entry : entries) {
    TD_REQUIRE(entry.number > last && !entry.pieces.empty());
    last = entry.number;
    const FrameHead head{.number = entry.number, .time_us = time_us, .bytes = entry.bytes()};
    heads.push_back(EncodeFrameHead(head, entry.pieces.front()));
    pieces.emplace_back(heads.back().data(), heads.back().size());
    pieces.insert(pieces.end(), entry.pieces.begin(), entry.pieces.end());
    offsets.push_back(end);
    end += kFrameHeadBytes + head.bytes;
  }
  // After an error, the caller may append other entries with these numbers.
  if (const int error = WritePieces(pieces); error != 0) return AfterFailedWrite(error);
  last_ = last;
  {
    MutexLock files(mu_);
    File& file = files_.back();
    file.bytes = end;
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (!file.index.empty() && offsets[i] - file.index.back().second < kIndexBytes) continue;
      file.index.emplace_back(entries[i].number, offsets[i]);
    }
  }
  if (sync) {
    TD_RETURN_IF_ERROR(SyncWritten());
  } else {
    StartTransfer(end);
  }
  return end - begin;
}

void LogFiles::StartTransfer(uint64_t size) {
  if (size - transferred_ < kTransferBytes) return;
  // A failure is found by the sync that follows.
  (void)sync_file_range(current_.get(), static_cast<off_t>(transferred_),
                        static_cast<off_t>(size - transferred_), SYNC_FILE_RANGE_WRITE);
  transferred_ = size;
}

StatusOr<uint64_t> LogFiles::Sync() {
  MutexLock lock(write_mu_);
  TD_RETURN_IF_ERROR(failed_);
  TD_RETURN_IF_ERROR(SyncWritten());
  return last_;
}

Status LogFiles::SyncWritten() {
  unsynced_.push_back(std::move(current_));
  for (const Fd& file : unsynced_) {
    // After a failed sync, unsynced data may be lost, even if the cause was a full disk.
    if (file.valid() && fdatasync(file.get()) != 0) {
      return Fail(StoreError(Text("cannot sync"), errno));
    }
  }
  current_ = std::move(unsynced_.back());
  unsynced_.clear();
  // The name of a file must survive the death of the machine as its entries do.
  if (!named_) {
    if (const Status named = SyncDir(dir_); !named.ok()) return Fail(named);
  }
  named_ = true;
  return OkStatus();
}

Status LogFiles::Read(uint64_t first, const std::function<Status(const LogFrame&)>& take) const {
  std::vector<LogFile> opened;
  {
    MutexLock lock(mu_);
    for (size_t i = 0; i < files_.size(); ++i) {
      if (i + 1 < files_.size() && files_[i + 1].first <= first) continue;
      const File& file = files_[i];
      LogFile read{.path = file.path, .first = file.first, .end = file.bytes};
      read.fd = Fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!read.fd.valid()) return StoreError("cannot open " + file.path, errno);
      const auto after =
          std::upper_bound(file.index.begin(), file.index.end(), first,
                           [](uint64_t number, const auto& frame) { return number < frame.first; });
      if (after != file.index.begin()) read.begin = std::prev(after)->second;
      opened.push_back(std::move(read));
    }
  }
  return ReadLogFiles(opened, first, take);
}

uint64_t LogFiles::FirstKept(uint64_t needed, uint64_t bytes) const {
  if (bytes == 0) return needed;
  MutexLock lock(mu_);
  // Entries below `needed` may be appended later.
  if (files_.empty() || files_.front().first >= needed) return 0;
  uint64_t first = needed, kept = 0;
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    if (file->first >= needed) continue;
    kept += file->bytes;
    if (kept > bytes) break;
    first = file->first;
  }
  return first;
}

void LogFiles::RemoveBelow(uint64_t first) {
  std::vector<std::string> removed;
  {
    MutexLock write(write_mu_);
    MutexLock lock(mu_);
    while (!files_.empty()) {
      // The last entry of a file is known from the next file, or if this process appended it.
      const bool last = files_.size() == 1;
      const uint64_t end = !last ? files_[1].first : files_[0].own ? last_ + 1 : UINT64_MAX;
      if (end > first) break;
      if (last) current_.Reset();
      removed.push_back(files_.front().path);
      files_.erase(files_.begin());
    }
  }
  for (const std::string& path : removed) unlink(path.c_str());
}

void LogFiles::Begin(uint64_t generation) {
  std::vector<File> removed;
  {
    MutexLock write(write_mu_);
    MutexLock lock(mu_);
    current_.Reset();
    unsynced_.clear();
    last_ = 0;
    generation_ = generation;
    removed.swap(files_);
  }
  for (const File& file : removed) unlink(file.path.c_str());
}

uint64_t LogFiles::generation() const {
  MutexLock lock(mu_);
  return generation_;
}

}  // namespace tandem::pserver
