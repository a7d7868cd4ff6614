#include "trainer/reader/stream/folder_log.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/require.h"
#include "common/os/files.h"
#include "trainer/reader/input/batch_file.h"
#include "trainer/reader/input/input_file.h"

namespace tandem::reader {
namespace {

constexpr Duration kListInterval = std::chrono::milliseconds(100);
constexpr uint64_t kSkipCheck = 4096;  // records that are skipped before a stop is noticed
constexpr int64_t kNanosPerMs = 1'000'000;
// A directory may change twice within the resolution of its modification time.
constexpr int64_t kSettledNanos = 1'000'000'000;

int64_t NanosOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool IsDataName(const std::string& name) {
  return !name.starts_with(".") && !name.ends_with(".tmp");
}

int64_t UnixNanos() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return NanosOf(now);
}

}  // namespace

StatusOr<std::unique_ptr<FolderLog>> FolderLog::Open(const FolderLogOptions& options,
                                                     IsRecord is_record) {
  TD_REQUIRE(options.share.global_batch > 0 && is_record != nullptr);
  struct stat info {};
  if (stat(options.folder.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return NotFound(
          "data.stream.folder: directory %s does not exist [TD2001]; hint: create it before the "
          "job starts",
          options.folder);
    }
    return Annotate(FileError(options.folder, "cannot be opened", errno), "data.stream.folder");
  }
  if (!S_ISDIR(info.st_mode)) {
    return InvalidArgument("data.stream.folder: %s is not a directory [TD2001]", options.folder);
  }
  std::unique_ptr<FolderLog> log(new FolderLog(options, std::move(is_record)));
  TD_RETURN_IF_ERROR(log->index_.Load());
  return log;
}

std::string FolderLog::Describe() const {
  return absl::StrFormat("the files of %s; %d files with %d records are already indexed",
                         options_.folder, index_.files().size(), index_.records());
}

Status FolderLog::Begin(const std::string& job, uint64_t step) {
  return CheckBatchFile(options_.folder, options_.folder, job, step, options_.share,
                        options_.together);
}

Status FolderLog::Read(uint64_t step, uint64_t first, uint64_t count, LogLines* lines) {
  TD_REQUIRE(first + count <= options_.share.global_batch);
  TD_RETURN_IF_ERROR(waits_.Check());
  TD_RETURN_IF_ERROR(Seek(step * options_.share.global_batch + first));
  int64_t newest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    LineCursor::Line line;
    TD_RETURN_IF_ERROR(Next(&line));
    newest = std::max(newest, file_time_ms_);
    lines->Add(line.text, source_, line.offset);
  }
  // Reads the rest of the global batch. All ranks have their shares at the same time then, so that
  // no rank waits in its step for a rank that still waits for records.
  const uint64_t end = (step + 1) * options_.share.global_batch;
  for (LineCursor::Line rest; next_ < end;) TD_RETURN_IF_ERROR(Next(&rest));
  newest_time_ms_ = std::max(newest, file_time_ms_);
  return OkStatus();
}

Status FolderLog::Seek(uint64_t number) {
  const bool behind = cursor_ && number < next_;
  if (behind || !cursor_) {
    cursor_.reset();
    TD_RETURN_IF_ERROR(index_.Refresh());
  }
  if (const size_t at = index_.FileOf(number); at < index_.files().size()) {
    const FolderIndex::File& file = index_.files()[at];
    if (!cursor_ || file.name != name_) {
      TD_RETURN_IF_ERROR(OpenFile(file.name, file.first, static_cast<int64_t>(file.bytes)));
    }
  } else if (cursor_ && first_ < index_.records()) {
    cursor_.reset();  // the record is after the files of the index
  }
  if (!cursor_) TD_RETURN_IF_ERROR(OpenFileOf(number));
  LineCursor::Line skipped;
  while (next_ < number) {
    if (next_ % kSkipCheck == 0) TD_RETURN_IF_ERROR(waits_.Check());
    TD_RETURN_IF_ERROR(Next(&skipped));
  }
  TD_REQUIRE(next_ == number);
  return OkStatus();
}

Status FolderLog::OpenFile(const std::string& name, uint64_t first, int64_t bytes) {
  const std::string path = options_.folder + "/" + name;
  StatusOr<InputFile> file = InputFile::Open(path);
  if (file.status().code() == StatusCode::kNotFound) {
    return DataLoss(
        "%s was removed, but the job needs its records from number %d on [TD2010]; hint: put the "
        "file back",
        path, first);
  }
  TD_RETURN_IF_ERROR(file.status());
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return FileError(path, "cannot be opened", errno);
  if (bytes >= 0 && info.st_size != bytes) {
    return DataLoss(
        "%s has %d bytes, but its index %s/.tandem-index says %d [TD2010]; hint: put the original "
        "file back",
        path, info.st_size, options_.folder, bytes);
  }
  char magic[2] = {};
  TD_ASSIGN_OR_RETURN(const size_t got, file->Read(0, magic, sizeof magic));
  if (got == sizeof magic && magic[0] == '\x1f' && magic[1] == '\x8b') {
    return DataLoss(
        "%s is compressed by gzip, which is not supported here [TD2009]; hint: unpack the file "
        "with gunzip",
        path);
  }
  file_time_ms_ = PlausibleTime(NanosOf(info.st_mtim) / kNanosPerMs, path);
  name_ = name;
  source_ = std::make_shared<const std::string>(path);
  first_ = next_ = first;
  at_start_ = true;
  cursor_.emplace(*std::move(file));
  return OkStatus();
}

StatusOr<std::vector<std::string>> FolderLog::ListNames() const {
  DIR* const dir = opendir(options_.folder.c_str());
  if (dir == nullptr) return FileError(options_.folder, "cannot be listed", errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(dir)) {
    std::string name = entry->d_name;
    if (entry->d_type != DT_DIR && IsDataName(name)) names.push_back(std::move(name));
  }
  const int error = errno;
  closedir(dir);
  if (error != 0) return FileError(options_.folder, "cannot be listed", error);
  // The index has one name in each line.
  for (const std::string& name : names) {
    if (name.find('\n') == std::string::npos) continue;
    return DataLoss("%s has a file whose name has a line end [TD2010]; hint: rename the file",
                    options_.folder);
  }
  std::ranges::sort(names);
  return names;
}

StatusOr<std::optional<std::string>> FolderLog::NextName() {
  struct stat info {};
  if (stat(options_.folder.c_str(), &info) != 0) {
    return FileError(options_.folder, "cannot be opened", errno);
  }
  const int64_t changed = NanosOf(info.st_mtim);
  if (changed == listed_mtime_ns_ && UnixNanos() - changed > kSettledNanos) {
    return std::optional<std::string>();
  }
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames());
  TD_RETURN_IF_ERROR(index_.Refresh());
  const auto& files = index_.files();
  const std::string last = files.empty() ? "" : files.back().name;
  auto known = files.begin();
  for (const std::string& name : names) {
    if (name > last) return std::optional(name);
    while (known != files.end() && known->name < name) ++known;
    if (known != files.end() && known->name == name) continue;
    return DataLoss(
        "%s/%s has appeared after %s was read, but its name comes before [TD2010]; hint: give new "
        "files names that ascend, and rename them when they are complete",
        options_.folder, name, last);
  }
  listed_mtime_ns_ = changed;  // the index has all files of this listing
  return std::optional<std::string>();
}

Status FolderLog::WaitForFile(RecordWait* wait) {
  TD_RETURN_IF_ERROR(waits_.Wait(kListInterval));
  if (!wait->LogDue()) return OkStatus();
  LOG(INFO) << options_.folder << " has no new file for " << FormatDuration(wait->waited()) << "; "
            << index_.records() << " records were read";
  return OkStatus();
}

Status FolderLog::OpenFileOf(uint64_t number) {
  RecordWait wait(options_.wait_log);
  while (true) {
    if (const size_t at = index_.FileOf(number); at < index_.files().size()) {
      const FolderIndex::File file = index_.files()[at];
      return OpenFile(file.name, file.first, static_cast<int64_t>(file.bytes));
    }
    const uint64_t before = index_.records();
    TD_ASSIGN_OR_RETURN(const std::optional<std::string> name, NextName());
    if (index_.records() != before) continue;  // another process has extended the index
    if (name) return OpenFile(*name, index_.records(), -1);
    TD_RETURN_IF_ERROR(WaitForFile(&wait));
  }
}

Status FolderLog::FinishFile() {
  const uint64_t records = next_ - first_, bytes = cursor_->size();
  struct stat info {};
  const bool there = stat(cursor_->path().c_str(), &info) == 0;
  const uint64_t now = there ? static_cast<uint64_t>(info.st_size) : cursor_->bytes();
  if (now != bytes || cursor_->bytes() != bytes) {
    return DataLoss(
        "%s has %d bytes, but it had %d when its reading began [TD2010]; hint: rename a file to "
        "its "
        "name when it is complete",
        cursor_->path(), now, bytes);
  }
  const size_t at = index_.FileOf(first_);
  const bool known = at < index_.files().size() && index_.files()[at].name == name_;
  if (known && index_.files()[at].records != records) {
    return DataLoss(
        "%s has %d records, but its index %s/.tandem-index says %d [TD2010]; hint: put the "
        "original file back",
        cursor_->path(), records, options_.folder, index_.files()[at].records);
  }
  cursor_.reset();
  if (first_ < index_.records() || known) return OkStatus();
  // An empty file has no record that tells whether the index has it already.
  if (!index_.files().empty() && index_.files().back().name >= name_) return OkStatus();
  return index_.Add(name_, bytes, records);
}

Status FolderLog::Next(LineCursor::Line* line) {
  while (true) {
    if (!cursor_) TD_RETURN_IF_ERROR(OpenFileOf(next_));
    TD_ASSIGN_OR_RETURN(const bool more, cursor_->Next(line));
    if (!more) {
      TD_RETURN_IF_ERROR(FinishFile());
      continue;
    }
    if (!is_record_(line->text, std::exchange(at_start_, false))) continue;
    ++next_;
    return OkStatus();
  }
}

}  // namespace tandem::reader
