#include "trainer/reader/input/text_lines.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "absl/strings/ascii.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/threads/runner.h"
#include "trainer/reader/input/bad_records.h"
#include "trainer/reader/input/input_file.h"

namespace tandem::reader {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;  // a piece and its records fit in a core's cache
constexpr size_t kMoreBytes =
    1 << 16;  // number of bytes read at once after a piece, to find the end of its last line

struct BadRecord {
  int64_t line = 0;  // number of the line in its piece, from 0
  uint64_t offset = 0;
  std::string what;
};

// The result of reading one piece.
struct PieceResult {
  LinePiece piece;
  int64_t lines = 0;
  std::vector<BadRecord> bad;
  Status status;  // error of the read of the piece; OK: the read succeeded
};

// Reads one piece after another, and reuses its memory. Not thread-safe.
class PieceReader {
 public:
  PieceReader(const InputFile& file, const LineReading& reading, const MakeLineSink& make)
      : file_(file), reading_(reading), sink_(make(std::min(kPieceBytes, file.size()))) {}

  PieceResult Read(uint64_t index);

 private:
  // Loads exactly the lines that begin in the range [begin, end) of the file into text_.
  Status Load(uint64_t begin, uint64_t end);
  void AddLine(std::string_view line, uint64_t offset, PieceResult& result) const;

  const InputFile& file_;
  const LineReading& reading_;
  const std::unique_ptr<LineSink> sink_;
  std::vector<char> buffer_;
  std::string_view text_;
  uint64_t offset_ = 0;  // file offset of the first byte of text_
};

Status PieceReader::Load(uint64_t begin, uint64_t end) {
  // Reads from one byte before `begin`, because a line begins at `begin` only if the previous byte
  // ends a line.
  const uint64_t from = begin == 0 ? 0 : begin - 1;
  const size_t whole = static_cast<size_t>(end - from);
  if (buffer_.size() < whole + kLineSlack) buffer_.resize(whole + kLineSlack);
  TD_ASSIGN_OR_RETURN(size_t size, file_.Read(from, buffer_.data(), whole));
  size_t first = 0;
  if (begin > 0) {
    const void* line_end = std::memchr(buffer_.data(), '\n', size);
    first = line_end == nullptr
                ? size
                : static_cast<size_t>(static_cast<const char*>(line_end) - buffer_.data()) + 1;
  }
  // Reads the last line of the piece completely, because the line may continue after `end`.
  while (first < size && size >= whole && buffer_[size - 1] != '\n') {
    if (size - whole > kLineMax) break;
    if (buffer_.size() < size + kMoreBytes + kLineSlack) {
      buffer_.resize(size + kMoreBytes + kLineSlack);
    }
    char* const more = buffer_.data() + size;
    TD_ASSIGN_OR_RETURN(const size_t got, file_.Read(from + size, more, kMoreBytes));
    if (got == 0) break;
    const void* line_end = std::memchr(more, '\n', got);
    if (line_end != nullptr) {
      size += static_cast<size_t>(static_cast<const char*>(line_end) - more) + 1;
      break;
    }
    size += got;
  }
  std::memset(buffer_.data() + size, 0, kLineSlack);
  text_ = std::string_view(buffer_.data(), size).substr(first);
  offset_ = from + first;
  return OkStatus();
}

// Shortens a message that contains text of the file, and makes it safe for a terminal.
std::string Shown(std::string message) {
  constexpr size_t kShownMax = 300;
  if (message.size() > kShownMax) message.replace(kShownMax, std::string::npos, "...");
  std::ranges::replace_if(message, absl::ascii_iscntrl, '?');
  return message;
}

void PieceReader::AddLine(std::string_view line, uint64_t offset, PieceResult& result) const {
  const Status status = line.size() > kLineMax
                            ? DataLoss("the line is longer than %d bytes", kLineMax)
                            : sink_->Add(line);
  if (!status.ok())
    result.bad.push_back({result.lines, offset, Shown(std::string(status.message()))});
}

PieceResult PieceReader::Read(uint64_t index) {
  PieceResult result;
  const uint64_t begin = index * kPieceBytes;
  result.status = Load(begin, std::min(begin + kPieceBytes, file_.size()));
  if (!result.status.ok()) return result;
  if (offset_ == 0 && text_.starts_with("\x1f\x8b")) {
    result.status = DataLoss(
        "%s is compressed by gzip, which is not supported here [TD2009]; hint: unpack the file "
        "with gunzip",
        file_.path());
    return result;
  }
  // One bad record more than the limit rejects the file, so the remaining lines need not be read.
  const auto too_many = [&] {
    return std::cmp_greater(result.bad.size(), reading_.bad_records_max);
  };
  for (size_t at = 0; at < text_.size() && !too_many(); ++result.lines) {
    const void* found = std::memchr(text_.data() + at, '\n', text_.size() - at);
    const size_t end = found == nullptr
                           ? text_.size()
                           : static_cast<size_t>(static_cast<const char*>(found) - text_.data());
    std::string_view line = text_.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool names =
        offset_ + at == 0 && reading_.names_columns != nullptr && reading_.names_columns(line);
    if (!IsBlankLine(line) && !names) AddLine(line, offset_ + at, result);
    at = end + 1;
  }
  result.piece = sink_->Finish();
  return result;
}

// Reads all pieces of a file concurrently on several threads. The threads start pieces in order.
// Therefore, when no more pieces are needed, the finished pieces are the first pieces of the file.
class Reading {
 public:
  Reading(const InputFile& file, const LineReading& reading, const MakeLineSink& make)
      : file_(file),
        reading_(reading),
        make_(make),
        pieces_((file.size() + kPieceBytes - 1) / kPieceBytes) {}

  std::vector<PieceResult> Run();

 private:
  void Work();
  void Keep(uint64_t index, PieceResult result);

  const InputFile& file_;
  const LineReading& reading_;
  const MakeLineSink& make_;
  const uint64_t pieces_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> enough_{false};
  Mutex mu_;
  std::vector<PieceResult> results_ TD_GUARDED_BY(mu_);
  uint64_t records_ TD_GUARDED_BY(mu_) = 0;
  int64_t bad_ TD_GUARDED_BY(mu_) = 0;
};

void Reading::Keep(uint64_t index, PieceResult result) {
  MutexLock lock(mu_);
  if (results_.size() <= index) results_.resize(index + 1);
  records_ += result.piece.records;
  bad_ += static_cast<int64_t>(result.bad.size());
  const bool all = reading_.records_max > 0 && records_ >= reading_.records_max;
  if (all || bad_ > reading_.bad_records_max || !result.status.ok()) enough_ = true;
  results_[index] = std::move(result);
}

void Reading::Work() {
  PieceReader reader(file_, reading_, make_);
  while (!enough_) {
    const uint64_t index = next_++;
    if (index >= pieces_) return;
    Keep(index, reader.Read(index));
  }
}

std::vector<PieceResult> Reading::Run() {
  const uint64_t wanted = reading_.threads > 0 ? static_cast<uint64_t>(reading_.threads)
                                               : std::thread::hardware_concurrency();
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i < std::min(wanted, pieces_); ++i) {
    threads.emplace_back([this] {
      SetThreadName("parser");
      Work();
    });
  }
  Work();
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(mu_);
  return std::move(results_);
}

}  // namespace

bool IsBlankLine(std::string_view line) {
  const bool may_be = line.empty() || line[0] == ' ' || line[0] == '\t';
  return may_be && Trimmed(line).empty();
}

Status AddLines(std::span<const std::string_view> lines, std::string_view empty,
                const std::function<Status(size_t line, const Status& why)>& on_bad,
                LineSink& sink) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Status status = lines[i].size() > kLineMax
                              ? DataLoss("the line is longer than %d bytes", kLineMax)
                              : sink.Add(lines[i]);
    if (status.ok()) continue;
    TD_RETURN_IF_ERROR(on_bad(i, DataLoss("%s", Shown(std::string(status.message())))));
    TD_RETURN_IF_ERROR(sink.Add(empty));
  }
  return OkStatus();
}

StatusOr<std::vector<LinePiece>> ReadLines(const std::string& path, const LineReading& reading,
                                           const MakeLineSink& make,
                                           std::vector<std::string>* warnings) {
  TD_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  BadRecords bad(path, reading.bad_records_max, warnings);
  std::vector<LinePiece> pieces;
  uint64_t records = 0;
  int64_t lines = 0;
  for (PieceResult& result : Reading(file, reading, make).Run()) {
    TD_RETURN_IF_ERROR(result.status);
    for (const BadRecord& record : result.bad) {
      TD_RETURN_IF_ERROR(bad.Add(absl::StrFormat(
          "%s:%d: %s (offset %d)", path, lines + record.line + 1, record.what, record.offset)));
    }
    lines += result.lines;
    records += result.piece.records;
    if (result.piece.records > 0) pieces.push_back(std::move(result.piece));
    // Ignores later pieces. With them, the result would depend on the progress of the other
    // threads.
    if (reading.records_max > 0 && records >= reading.records_max) break;
  }
  bad.Finish();
  if (records == 0) return DataLoss("%s contains no record [TD2006]", path);
  return pieces;
}

StatusOr<std::string> FirstLine(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::string line(std::min<uint64_t>(file.size(), kLineMax), '\0');
  TD_ASSIGN_OR_RETURN(const size_t got, file.Read(0, line.data(), line.size()));
  line.resize(std::min(got, line.find('\n')));
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

namespace {

// Returns a mask of the 64 bytes at `text`. Bit i is set if byte i is `c`, or with `or_less` if
// byte i is at most `c`.
template <bool or_less = false>
uint64_t MaskOf(const char* text, char c) {
  uint64_t mask = 0;
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(c);
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text) + i);
    const __m128i is = _mm_cmpeq_epi8(bytes, or_less ? _mm_min_epu8(bytes, wanted) : wanted);
    mask |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(is))} << (16 * i);
  }
#else
  const auto wanted = static_cast<uint8_t>(c);
  for (int i = 0; i < 64; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    mask |= uint64_t{byte == wanted || (or_less && byte < wanted)} << i;
  }
#endif
  return mask;
}

// Returns a mask whose first `bytes` bits are set. All bits are set if `bytes` is at least 64.
uint64_t FirstBits(size_t bytes) { return bytes < 64 ? (uint64_t{1} << bytes) - 1 : ~uint64_t{0}; }

}  // namespace

bool IsPlain(std::string_view line) {
  for (size_t block = 0; block < line.size(); block += 64) {
    const uint64_t low = MaskOf<true>(line.data() + block, '"');
    if ((low & FirstBits(line.size() - block)) != 0) return false;
  }
  return true;
}

size_t SplitLine(std::string_view line, char separator, std::string_view* fields,
                 size_t fields_max) {
  TD_REQUIRE(fields != nullptr);
  const char* const text = line.data();
  size_t begin = 0, count = 0;
  for (size_t block = 0; block < line.size(); block += 64) {
    uint64_t mask = MaskOf(text + block, separator) & FirstBits(line.size() - block);
    for (; mask != 0; mask &= mask - 1) {
      const size_t end = block + static_cast<size_t>(std::countr_zero(mask));
      if (count < fields_max) fields[count] = {text + begin, end - begin};
      ++count;
      begin = end + 1;
    }
  }
  if (count < fields_max) fields[count] = {text + begin, line.size() - begin};
  return count + 1;
}

StatusOr<size_t> SplitQuotedLine(std::string_view line, char separator, std::string& text,
                                 std::string_view* fields, size_t fields_max) {
  text.assign(line.size() + kLineSlack, '\0');
  size_t count = 0, used = 0;
  const auto skip_blanks = [&](size_t at) {
    while (at < line.size() && line[at] != separator && (line[at] == ' ' || line[at] == '\t')) ++at;
    return at;
  };
  for (size_t at = 0;; ++at) {  // `at` is at the start of a field
    std::string_view field;
    at = skip_blanks(at);
    if (at < line.size() && line[at] == '"') {
      const size_t begin = used;
      for (++at; at < line.size(); ++at) {
        if (line[at] == '"' && line.substr(at + 1, 1) != "\"") break;
        at += line[at] == '"';  // two quotes in a quoted field mean one quote
        text[used++] = line[at];
      }
      if (at >= line.size()) return DataLoss("field %d has no closing quote", count + 1);
      at = skip_blanks(at + 1);
      if (at < line.size() && line[at] != separator) {
        return DataLoss("field %d has text after its closing quote", count + 1);
      }
      field = std::string_view(text).substr(begin, used - begin);
    } else {
      const size_t end = std::min(line.find(separator, at), line.size());
      field = Trimmed(line.substr(at, end - at));
      at = end;
    }
    if (count < fields_max) fields[count] = field;
    ++count;
    if (at >= line.size()) return count;
  }
}

}  // namespace tandem::reader
