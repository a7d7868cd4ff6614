#include "trainer/reader/stream/line_cursor.h"

#include <algorithm>

#include "trainer/reader/input/text_lines.h"

namespace tandem::reader {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

}  // namespace

Status LineCursor::Fill() {
  buffer_.erase(0, at_);
  base_ += at_;
  at_ = 0;
  // A line that is too long is a bad record. Its first bytes suffice for the message.
  const uint64_t next = base_ + buffer_.size() + dropped_;
  if (buffer_.size() > kLineMax + 1) {
    dropped_ += buffer_.size() - (kLineMax + 1);
    buffer_.resize(kLineMax + 1);
  }
  const size_t before = buffer_.size();
  buffer_.resize(before + kChunkBytes);
  StatusOr<size_t> got = file_.Read(next, buffer_.data() + before, kChunkBytes);
  buffer_.resize(before + (got.ok() ? *got : 0));
  TD_RETURN_IF_ERROR(got.status());
  searched_ = before;
  end_ = *got == 0;
  return OkStatus();
}

StatusOr<bool> LineCursor::Next(Line* line) {
  while (true) {
    const size_t found = buffer_.find('\n', searched_);
    if (found == std::string::npos && !end_) {
      TD_RETURN_IF_ERROR(Fill());
      continue;
    }
    if (found == std::string::npos && at_ == buffer_.size()) return false;
    const size_t end = std::min(found, buffer_.size());
    std::string_view text = std::string_view(buffer_).substr(at_, end - at_);
    if (text.ends_with('\r')) text.remove_suffix(1);
    *line = {text.substr(0, kLineMax + 1), base_ + at_};
    at_ = searched_ = std::min(end + 1, buffer_.size());
    base_ += std::exchange(dropped_, 0);
    return true;
  }
}

}  // namespace tandem::reader
