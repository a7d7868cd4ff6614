#include "trainer/reader/kafka/segment_index.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/os/fd.h"
#include "common/os/files.h"

namespace tandem::reader {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kForgetMin = 1 << 16;  // segments
constexpr char kTopic[] = "topic ", kWorkers[] = " workers ", kRemoved[] = " removed";

// Removes a number and the character `end` after it from the text. `end` 0: the text ends after the
// number. Returns false if the text begins otherwise.
template <typename Number>
bool TakeNumber(std::string_view* text, char end, Number* number) {
  const char* const last = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), last, *number);
  if (error != std::errc() || (end == '\0' ? at != last : at == last || *at != end)) return false;
  text->remove_prefix(static_cast<size_t>(at - text->data()) + (end == '\0' ? 0 : 1));
  return true;
}

// Removes `prefix` from the text. Returns false if the text begins otherwise.
bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace

const SegmentIndex::Segment& SegmentIndex::operator[](uint64_t number) const {
  TD_REQUIRE(number >= begin_number() && number < end_number());
  return segments_[number - forgotten_];
}

void SegmentIndex::Add(Segment segment) {
  segment.first = records_;
  records_ += segment.records;
  next_[segment.partition] = segment.end;
  segments_.push_back(segment);
  // Segments without records at `from_` are kept, since they may be added when the reader is there.
  if (records_ < from_) {
    forgotten_ += segments_.size();
    segments_.clear();
  }
}

// The first line is "topic TOPIC workers RANKS". A file of an earlier version has no number.
Status SegmentIndex::CheckFirstLine(std::string_view line) const {
  std::string_view rest = line;
  if (!TakePrefix(&rest, kTopic + topic_) || (!rest.empty() && !TakePrefix(&rest, kWorkers))) {
    return FailedPrecondition(
        "%s begins with \"%s\", but the job reads topic %s [TD2013]; hint: give the job another "
        "name, or remove the files of this job from the directory to begin again",
        path_, std::string(line), topic_);
  }
  uint32_t ranks = ranks_;
  if (!rest.empty() && !TakeNumber(&rest, '\0', &ranks)) {
    return DataLoss(
        "%s: the first line is not \"topic TOPIC workers WORKERS\" [TD2010]; hint: restore the "
        "file "
        "from a backup",
        path_);
  }
  if (ranks == ranks_) return OkStatus();
  return FailedPrecondition(
      "%s has positions of a job with %d workers, but the job has %d now, so other records belong "
      "to each worker [TD2010]; hint: start %d workers, or give the job another name",
      path_, ranks, ranks_, ranks);
}

// A line of a segment is "PARTITION BEGIN END RECORDS", with " removed" after it if the segment was
// removed.
Status SegmentIndex::AddLine(std::string_view line) {
  if (loaded_ == 0) return CheckFirstLine(line);
  Segment segment;
  if (line.ends_with(kRemoved)) {
    segment.removed = true;
    line.remove_suffix(sizeof kRemoved - 1);
  }
  const bool readable =
      TakeNumber(&line, ' ', &segment.partition) && TakeNumber(&line, ' ', &segment.begin) &&
      TakeNumber(&line, ' ', &segment.end) && TakeNumber(&line, '\0', &segment.records);
  const auto next = readable ? next_.find(segment.partition) : next_.end();
  if (!readable || segment.partition < 0 || segment.end < segment.begin ||
      segment.records > segment.end - segment.begin ||
      (next != next_.end() && next->second != segment.begin)) {
    return DataLoss(
        "%s: offset %d: the line is not \"PARTITION BEGIN END RECORDS\" with offsets that continue "
        "[TD2010]; hint: restore the file from a backup",
        path_, loaded_);
  }
  Add(segment);
  return OkStatus();
}

// A process that is killed may leave a part of the last line, which does not count.
Status SegmentIndex::ReadNew(int fd) {
  std::string text(kChunkBytes, '\0');
  while (true) {
    const ssize_t got = pread(fd, text.data(), text.size(), static_cast<off_t>(loaded_));
    if (got < 0) return FileError(path_, "cannot be read", errno);
    std::string_view rest = std::string_view(text).substr(0, static_cast<size_t>(got));
    if (rest.rfind('\n') == std::string_view::npos) return OkStatus();
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      TD_RETURN_IF_ERROR(AddLine(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
      loaded_ += end + 1;
    }
  }
}

Status SegmentIndex::Sync(int fd) const {
  if (fdatasync(fd) != 0) return FileError(path_, "cannot be synced", errno);
  return SyncDir(path_.substr(0, path_.rfind('/')));
}

Status SegmentIndex::Load(uint64_t from) {
  segments_.clear();
  next_.clear();
  forgotten_ = records_ = loaded_ = 0;
  from_ = from;
  const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT ? OkStatus() : FileError(path_, "cannot be opened", errno);
  }
  TD_RETURN_IF_ERROR(ReadNew(file.get()));
  return Sync(file.get());
}

Status SegmentIndex::Refresh() {
  const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT ? OkStatus() : FileError(path_, "cannot be opened", errno);
  }
  return ReadNew(file.get());
}

StatusOr<bool> SegmentIndex::Append(const std::vector<Segment>& segments) {
  const Fd file(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || flock(file.get(), LOCK_EX) != 0) {
    return FileError(path_, "cannot be opened for writing", errno);
  }
  const uint64_t before = loaded_;
  TD_RETURN_IF_ERROR(ReadNew(file.get()));
  if (loaded_ != before) {
    TD_RETURN_IF_ERROR(Sync(file.get()));
    return false;
  }
  std::string text =
      loaded_ == 0 ? absl::StrFormat("%s%s%s%d\n", kTopic, topic_, kWorkers, ranks_) : "";
  for (const Segment& s : segments) {
    absl::StrAppendFormat(&text, "%d %d %d %d%s\n", s.partition, s.begin, s.end, s.records,
                          s.removed ? kRemoved : "");
  }
  const auto at = static_cast<off_t>(loaded_);
  // Overwrites the part of a line that a killed process has left.
  if (ftruncate(file.get(), at) != 0) return FileError(path_, "cannot be shortened", errno);
  if (pwrite(file.get(), text.data(), text.size(), at) != static_cast<ssize_t>(text.size()) ||
      fdatasync(file.get()) != 0) {
    return FileError(path_, "cannot be written", errno);
  }
  if (loaded_ == 0) {
    TD_RETURN_IF_ERROR(SyncDir(path_.substr(0, path_.rfind('/'))));
  }
  loaded_ += text.size();
  for (const Segment& s : segments) Add(s);
  return true;
}

void SegmentIndex::Forget(uint64_t from) {
  if (segments_.size() < kForgetMin) return;
  while (!segments_.empty() && segments_.front().first + segments_.front().records <= from) {
    segments_.pop_front();
    ++forgotten_;
  }
}

std::optional<uint64_t> SegmentIndex::SegmentOf(uint64_t record) const {
  if (record >= records_) return end_number();
  if (segments_.empty() || record < segments_.front().first) return std::nullopt;
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), record,
      [](uint64_t number, const Segment& s) { return number < s.first + s.records; });
  return forgotten_ + static_cast<uint64_t>(after - segments_.begin());
}

}  // namespace tandem::reader
