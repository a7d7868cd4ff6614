#include "trainer/reader/stream/folder_index.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/os/fd.h"
#include "common/os/files.h"

namespace tandem::reader {
namespace {

constexpr uint64_t kIndexBytesMax = uint64_t{1} << 30;

}  // namespace

// Each line has the number of records, the number of bytes and the name of a file. A process that
// is killed may leave a part of the last line, which does not count.
Status FolderIndex::Load() {
  const StatusOr<std::string> text = ReadSmallFile(path(), kIndexBytesMax);
  files_.clear();
  loaded_ = 0;
  if (text.status().code() == StatusCode::kNotFound) return OkStatus();
  TD_RETURN_IF_ERROR(text.status());
  const std::string whole = text->substr(0, text->rfind('\n') + 1);
  for (const auto line : absl::StrSplit(whole, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    File file{.first = records()};
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &file.records) ||
        !absl::SimpleAtoi(parts[1], &file.bytes) || parts[2].empty() ||
        (!files_.empty() && parts[2] <= files_.back().name)) {
      return DataLoss(
          "%s:%d: the line is not \"RECORDS BYTES NAME\" with ascending names [TD2010]; hint: "
          "remove the file if no file of the directory has been removed",
          path(), files_.size() + 1);
    }
    file.name = parts[2];
    files_.push_back(std::move(file));
  }
  loaded_ = whole.size();
  return OkStatus();
}

Status FolderIndex::Refresh() {
  struct stat info {};
  if (stat(path().c_str(), &info) != 0) return OkStatus();
  if (static_cast<uint64_t>(info.st_size) == loaded_) return OkStatus();
  FolderIndex stored(folder_, /*writes=*/false);
  TD_RETURN_IF_ERROR(stored.Load());
  loaded_ = stored.loaded_;
  if (stored.files_.size() > files_.size()) files_ = std::move(stored.files_);
  return OkStatus();
}

Status FolderIndex::Add(const std::string& name, uint64_t bytes, uint64_t records) {
  files_.push_back({name, bytes, this->records(), records});
  if (!writes_) return OkStatus();
  const Fd file(open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid() || flock(file.get(), LOCK_EX) != 0) {
    return FileError(path(), "cannot be opened for writing", errno);
  }
  FolderIndex stored(folder_, /*writes=*/false);
  TD_RETURN_IF_ERROR(stored.Load());
  const size_t both = std::min(stored.files_.size(), files_.size());
  for (size_t i = 0; i < both; ++i) {
    if (stored.files_[i].name == files_[i].name && stored.files_[i].records == files_[i].records) {
      continue;
    }
    return DataLoss(
        "%s:%d: another process has added %s with %d records, but this process has read %s with %d "
        "records [TD2010]; hint: give new files names that ascend, and rename them when they are "
        "complete",
        path(), i + 1, stored.files_[i].name, stored.files_[i].records, files_[i].name,
        files_[i].records);
  }
  std::string lines;
  for (size_t i = both; i < files_.size(); ++i) {
    absl::StrAppendFormat(&lines, "%d %d %s\n", files_[i].records, files_[i].bytes, files_[i].name);
  }
  if (lines.empty()) return OkStatus();
  // Overwrites the part of a line that a killed process has left.
  if (ftruncate(file.get(), static_cast<off_t>(stored.loaded_)) != 0) {
    return FileError(path(), "cannot be shortened", errno);
  }
  const auto at = static_cast<off_t>(stored.loaded_);
  if (pwrite(file.get(), lines.data(), lines.size(), at) != static_cast<ssize_t>(lines.size()) ||
      fsync(file.get()) != 0) {
    return FileError(path(), "cannot be written", errno);
  }
  loaded_ = stored.loaded_ + lines.size();
  return SyncDir(folder_);
}

size_t FolderIndex::FileOf(uint64_t record) const {
  const auto after = std::upper_bound(
      files_.begin(), files_.end(), record,
      [](uint64_t number, const File& file) { return number < file.first + file.records; });
  return static_cast<size_t>(after - files_.begin());
}

}  // namespace tandem::reader
