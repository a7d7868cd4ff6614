#include "pserver/log_files/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "pserver/disk/store_error.h"

namespace tandem::pserver {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;  // minimum size of the buffer
constexpr size_t kNumberDigits = 16;

Status Damaged(const std::string& path, uint64_t offset) {
  return DataLoss(
      "%s: the update log is damaged at byte %d [TD2118]; hint: restore a copy of the directory, "
      "or move the directory away to start with an empty state",
      path, offset);
}

}  // namespace

std::string LogFileName(uint64_t generation, uint64_t first) {
  return absl::StrFormat("log-%d-%016x", generation, first);
}

bool ParseLogFileName(std::string_view name, uint64_t* generation, uint64_t* first) {
  TD_REQUIRE(generation != nullptr && first != nullptr);
  const std::vector<std::string> parts = absl::StrSplit(std::string(name), '-');
  return parts.size() == 3 && parts[0] == "log" && absl::SimpleAtoi(parts[1], generation) &&
         parts[2].size() == kNumberDigits && absl::SimpleHexAtoi(parts[2], first) &&
         LogFileName(*generation, *first) == name;
}

StatusOr<std::vector<LogFile>> OpenLogFiles(const std::string& dir, uint64_t generation) {
  std::vector<LogFile> files;
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(dir));
  for (const std::string& name : names) {
    uint64_t its = 0, first = 0;
    if (!ParseLogFileName(name, &its, &first) || its != generation) continue;
    LogFile file{.path = absl::StrCat(dir, "/", name), .first = first};
    file.fd = Fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.fd.valid() && errno == ENOENT) return NotFound("%s is missing", file.path);
    if (!file.fd.valid()) return StoreError("cannot open " + file.path, errno);
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const LogFile& a, const LogFile& b) { return a.first < b.first; });
  return files;
}

LogFileReader::LogFileReader(const LogFile& file) : file_(file), at_(file.begin) {}

std::string_view LogFileReader::Here() const {
  if (at_ < base_ || at_ > base_ + have_) return {};
  return {buffer_.data() + (at_ - base_), base_ + have_ - at_};
}

StatusOr<bool> LogFileReader::Has(uint64_t bytes) const {
  if (Here().size() >= bytes) return true;
  struct stat info {};
  if (fstat(file_.fd.get(), &info) != 0) return StoreError("cannot read " + file_.path, errno);
  const uint64_t end = std::min(static_cast<uint64_t>(info.st_size), file_.end);
  return end >= at_ && end - at_ >= bytes;
}

StatusOr<bool> LogFileReader::Fill(uint64_t bytes) {
  const uint64_t kept = Here().size();
  if (kept >= bytes) return true;
  TD_ASSIGN_OR_RETURN(const bool whole, Has(bytes));
  if (!whole) return false;
  if (kept != 0) std::memmove(buffer_.data(), Here().data(), kept);
  base_ = at_;
  have_ = kept;
  const uint64_t wanted = std::min(std::max(bytes, kChunkBytes), file_.end - at_);
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  while (have_ < bytes) {
    const ssize_t n = pread(file_.fd.get(), buffer_.data() + have_, wanted - have_,
                            static_cast<off_t>(base_ + have_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return StoreError("cannot read " + file_.path, errno);
    if (n == 0) return false;
    have_ += static_cast<uint64_t>(n);
  }
  return true;
}

StatusOr<bool> LogFileReader::SkipHead() {
  TD_ASSIGN_OR_RETURN(const bool whole, Fill(kFileHeadBytes));
  if (!whole) return false;
  const std::optional<int> format = DecodeFileHead(Here());
  if (!format) return Damaged(file_.path, 0);
  if (*format != kLogFileFormat) {
    return FailedPrecondition(
        "%s has format %d, expected format %d, because a newer version wrote it [TD2119]; hint: "
        "start the newer version",
        file_.path, *format, kLogFileFormat);
  }
  at_ += kFileHeadBytes;
  return true;
}

StatusOr<bool> LogFileReader::EndsInZeros() {
  const uint64_t frame = at_;
  bool zeros = true, more = true;
  while (zeros && more) {
    // The rest of the file is read in pieces of the buffer; the last one is smaller.
    TD_ASSIGN_OR_RETURN(more, Fill(1));
    zeros = std::ranges::all_of(Here(), [](char byte) { return byte == 0; });
    at_ += Here().size();
  }
  at_ = frame;
  return zeros;
}

StatusOr<bool> LogFileReader::Next(uint64_t first, bool payload, LogFrame* frame) {
  TD_REQUIRE(frame != nullptr);
  if (at_ == 0) {
    TD_ASSIGN_OR_RETURN(const bool begins, SkipHead());
    if (!begins) return false;
  }
  while (true) {
    TD_ASSIGN_OR_RETURN(const bool has_head, Fill(kFrameHeadBytes));
    if (!has_head) return false;
    frame->head = DecodeFrameHead(Here());
    const uint64_t bytes = frame->head.bytes;
    const uint64_t checked = std::min<uint64_t>(bytes, kPayloadHeadBytes);
    TD_ASSIGN_OR_RETURN(const bool has_checked, Fill(kFrameHeadBytes + checked));
    if (!has_checked) return false;
    if (!FrameHeadMatches(Here(), Here().substr(kFrameHeadBytes, checked))) {
      TD_ASSIGN_OR_RETURN(const bool unwritten, EndsInZeros());
      if (unwritten) return false;
      return Damaged(file_.path, at_);
    }
    const bool wanted = frame->head.number >= first;
    TD_ASSIGN_OR_RETURN(const bool whole, wanted&& payload ? Fill(kFrameHeadBytes + bytes)
                                                           : Has(kFrameHeadBytes + bytes));
    if (!whole) return false;
    frame->payload = payload && wanted ? Here().substr(kFrameHeadBytes, bytes) : std::string_view();
    at_ += kFrameHeadBytes + bytes;
    if (wanted) return true;
  }
}

namespace {

// Calls `take` for the frames with the number `first` or a later one.
Status EachFrame(const LogFile& file, uint64_t first, bool payload,
                 const std::function<Status(const LogFrame&)>& take) {
  LogFileReader reader(file);
  LogFrame frame;
  while (true) {
    TD_ASSIGN_OR_RETURN(const bool found, reader.Next(first, payload, &frame));
    if (!found) return OkStatus();
    TD_RETURN_IF_ERROR(take(frame));
  }
}

}  // namespace

Status ReadLogFiles(const std::vector<LogFile>& files, uint64_t first,
                    const std::function<Status(const LogFrame&)>& take) {
  TD_REQUIRE(take != nullptr);
  for (size_t i = 0; i < files.size(); ++i) {
    if (i + 1 < files.size() && files[i + 1].first <= first) continue;
    TD_RETURN_IF_ERROR(EachFrame(files[i], first, /*payload=*/true, take));
  }
  return OkStatus();
}

StatusOr<LogRange> RangeOf(const std::vector<LogFile>& files, uint64_t from) {
  LogRange range;
  for (size_t i = files.size(); i-- > 0 && range.last == 0;) {
    TD_RETURN_IF_ERROR(EachFrame(files[i], from, /*payload=*/false, [&](const LogFrame& frame) {
      range.last = frame.head.number;
      return OkStatus();
    }));
  }
  LogFrame frame;
  for (size_t i = 0; i < files.size() && range.first == 0; ++i) {
    if (i + 1 < files.size() && files[i + 1].first <= from) continue;
    LogFileReader reader(files[i]);
    TD_ASSIGN_OR_RETURN(const bool found, reader.Next(from, /*payload=*/false, &frame));
    if (found) range.first = frame.head.number;
  }
  return range;
}

}  // namespace tandem::pserver
