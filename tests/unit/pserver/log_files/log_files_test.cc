// Tests the files of an update log.
#include "pserver/log_files/log_files.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "gmock/gmock.h"
#include "tests/support/temp_dir.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kBig = uint64_t{1} << 30;

class LogFilesTest : public testing::Test {
 protected:
  LogFilesTest() : dir_(temp_.path()) {}

  // Opens the log as a new process does.
  void Open(uint64_t file_bytes = kBig, uint64_t generation = 0) {
    log_ = std::make_unique<LogFiles>(dir_, file_bytes);
    const Status opened = log_->Open(generation);
    CHECK(opened.ok()) << opened;
  }
  // Returns the bytes of entry `number`, which differ from those of all others.
  static std::string Text(uint64_t number, size_t bytes = 20) {
    std::string text = "entry " + std::to_string(number) + ": ";
    text.resize(bytes, static_cast<char>('a' + number % 26));
    return text;
  }
  Status Append(uint64_t first, uint64_t last, size_t bytes = 20, bool sync = false) {
    std::vector<std::string> texts;
    std::vector<LogPayload> entries;
    for (uint64_t n = first; n <= last; ++n) texts.push_back(Text(n, bytes));
    for (const std::string& text : texts) {
      const std::string_view all = text;
      entries.push_back({first + entries.size(), {all.substr(0, 7), {}, all.substr(7)}});
    }
    return log_->Append(entries, static_cast<int64_t>(1000 + first), sync).status();
  }
  // Returns the numbers of the entries from `first` on, whose bytes and times must be right.
  std::vector<uint64_t> Numbers(uint64_t first = 0, size_t bytes = 20) const {
    std::vector<uint64_t> numbers;
    status_ = log_->Read(first, [&](const LogFrame& frame) {
      EXPECT_EQ(frame.payload, Text(frame.head.number, bytes));
      EXPECT_LE(frame.head.time_us, static_cast<int64_t>(1000 + frame.head.number));
      numbers.push_back(frame.head.number);
      return OkStatus();
    });
    return numbers;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(dir_)) {
      names.push_back(file.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Path(uint64_t first) const { return dir_ + "/" + LogFileName(0, first); }
  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {(std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()};
  }
  static void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  const TempDir temp_;
  const std::string dir_;
  std::unique_ptr<LogFiles> log_;
  mutable Status status_;  // result of the last Numbers
};

TEST_F(LogFilesTest, NamesAreParsedOnlyAsTheyAreWritten) {
  uint64_t generation = 0, first = 0;
  EXPECT_EQ(LogFileName(3, 0x2a), "log-3-000000000000002a");
  ASSERT_TRUE(ParseLogFileName("log-3-000000000000002a", &generation, &first));
  EXPECT_EQ(generation, 3u);
  EXPECT_EQ(first, 0x2au);
  for (const char* name : {"log-3-2a", "log-03-000000000000002a", "log-3-000000000000002A",
                           "log-3-000000000000002a.tmp", "log", "values-3", ""}) {
    EXPECT_FALSE(ParseLogFileName(name, &generation, &first)) << name;
  }
}

TEST_F(LogFilesTest, EntriesAreReadInTheirOrderFromAnyNumberOn) {
  Open();
  EXPECT_THAT(Numbers(), IsEmpty());
  ASSERT_TRUE(Append(1, 3).ok());
  ASSERT_TRUE(Append(4, 4, 20, /*sync=*/true).ok());
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Numbers(3), ElementsAre(3, 4));
  EXPECT_THAT(Numbers(5), IsEmpty());
  EXPECT_TRUE(status_.ok()) << status_;
  const Status stopped =
      log_->Read(2, [](const LogFrame& frame) { return Aborted("%d", frame.head.number); });
  EXPECT_EQ(stopped, Aborted("2"));
}

TEST_F(LogFilesTest, ANewProcessBeginsAnotherFile) {
  Open();
  ASSERT_TRUE(Append(1, 2).ok());
  Open();
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
  EXPECT_THAT(Files(), SizeIs(1));
  ASSERT_TRUE(Append(3, 4).ok());
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_THAT(Files(), SizeIs(2));
  Open();
  EXPECT_THAT(Numbers(2), ElementsAre(2, 3, 4));
}

// The index of a file leads to frames in its middle. Frames are larger and smaller than the buffer
// of the reader.
TEST_F(LogFilesTest, LargeAndSmallEntriesAreFound) {
  for (const size_t bytes : {size_t{12}, size_t{70'000}, size_t{600'000}}) {
    log_.reset();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directory(dir_);
    Open();
    const uint64_t last = bytes == 12 ? 20'000 : 12;
    for (uint64_t n = 1; n <= last; n += 4) ASSERT_TRUE(Append(n, n + 3, bytes).ok());
    for (const bool again : {false, true}) {
      if (again) Open();
      for (const uint64_t from : {uint64_t{1}, last / 2, last}) {
        const std::vector<uint64_t> numbers = Numbers(from, bytes);
        ASSERT_TRUE(status_.ok()) << status_;
        ASSERT_EQ(numbers.size(), last - from + 1);
        EXPECT_EQ(numbers.front(), from);
        EXPECT_EQ(numbers.back(), last);
      }
    }
  }
}

// A process can be killed at any byte of a write.
TEST_F(LogFilesTest, AnIncompleteFrameAtTheEndIsNoEntry) {
  Open();
  ASSERT_TRUE(Append(1, 3).ok());
  const std::string whole = ReadFile(Path(1));
  const size_t frame = kFrameHeadBytes + 20;
  ASSERT_EQ(whole.size(), kFileHeadBytes + 3 * frame);
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directory(dir_);
    WriteFile(Path(1), whole.substr(0, bytes));
    const uint64_t entries = bytes < kFileHeadBytes ? 0 : (bytes - kFileHeadBytes) / frame;
    Open();
    EXPECT_THAT(Numbers(), SizeIs(entries)) << bytes << " bytes";
    ASSERT_TRUE(status_.ok()) << bytes << " bytes: " << status_;
    ASSERT_TRUE(Append(entries + 1, 5).ok());
    Open();
    EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3, 4, 5)) << bytes << " bytes";
    ASSERT_TRUE(status_.ok()) << bytes << " bytes: " << status_;
  }
}

// Some file systems have the size of a file before its bytes, and a power failure comes between.
TEST_F(LogFilesTest, ZerosAtTheEndAreNoEntries) {
  Open();
  ASSERT_TRUE(Append(1, 2).ok());
  const std::string whole = ReadFile(Path(1));
  for (const size_t zeros : {size_t{1}, kFrameHeadBytes, size_t{300'000}}) {
    WriteFile(Path(1), whole + std::string(zeros, 0));
    Open();
    EXPECT_THAT(Numbers(), ElementsAre(1, 2));
    EXPECT_TRUE(status_.ok()) << zeros << ": " << status_;
  }
  WriteFile(Path(1), whole + std::string(300'000, 0) + "x");
  Open();
  Numbers();
  EXPECT_EQ(status_.code(), StatusCode::kDataLoss) << status_;
}

// The rest of a payload has a checksum of its writer.
TEST_F(LogFilesTest, EachFlippedByteOfAHeadIsNoticed) {
  Open();
  ASSERT_TRUE(Append(1, 3).ok());
  const std::string whole = ReadFile(Path(1));
  for (size_t at = 0; at < whole.size(); ++at) {
    const size_t in_frame = (at - kFileHeadBytes) % (kFrameHeadBytes + 20);
    if (at >= kFileHeadBytes && in_frame >= kFrameHeadBytes + kPayloadHeadBytes) continue;
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    WriteFile(Path(1), bad);
    Open();
    const Status read = log_->Read(0, [](const LogFrame&) { return OkStatus(); });
    EXPECT_EQ(read.code(), StatusCode::kDataLoss) << "byte " << at << ": " << read;
    EXPECT_THAT(std::string(read.message()), HasSubstr(Path(1) + ": the update log is damaged"));
  }
}

TEST_F(LogFilesTest, AFileOfANewerVersionIsRefused) {
  Open();
  ASSERT_TRUE(Append(1, 1).ok());
  std::string bytes = ReadFile(Path(1));
  const auto head = EncodeFileHead(kLogFileFormat + 1);
  std::copy(head.begin(), head.end(), bytes.begin());
  WriteFile(Path(1), bytes);
  Numbers();
  EXPECT_EQ(status_.code(), StatusCode::kFailedPrecondition) << status_;
  EXPECT_THAT(
      std::string(status_.message()),
      HasSubstr("has format 2, expected format 1, because a newer version wrote it [TD2119]"));
}

TEST_F(LogFilesTest, FilesGoWhenAllTheirEntriesAreOld) {
  Open(/*file_bytes=*/61);  // two entries a file
  for (uint64_t n = 1; n <= 6; ++n) ASSERT_TRUE(Append(n, n).ok());
  ASSERT_THAT(Files(), ElementsAre(LogFileName(0, 1), LogFileName(0, 3), LogFileName(0, 5)));
  log_->RemoveBelow(4);
  EXPECT_THAT(Files(), ElementsAre(LogFileName(0, 3), LogFileName(0, 5)));
  EXPECT_EQ(log_->FirstKept(7, 0), 7u);
  EXPECT_EQ(log_->FirstKept(7, 120), 5u);
  EXPECT_EQ(log_->FirstKept(7, kBig), 3u);
  EXPECT_EQ(log_->FirstKept(5, kBig), 3u);
  EXPECT_EQ(log_->FirstKept(3, kBig), 0u);
  log_->RemoveBelow(6);
  EXPECT_THAT(Numbers(), ElementsAre(5, 6));
  log_->RemoveBelow(7);  // also the file that is being written
  EXPECT_THAT(Files(), IsEmpty());
  ASSERT_TRUE(Append(7, 8).ok());
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_THAT(Numbers(), ElementsAre(7, 8));
}

TEST_F(LogFilesTest, AnotherGenerationHasNoEntriesOfTheOneBefore) {
  Open();
  ASSERT_TRUE(Append(5, 6).ok());
  log_->Begin(1);
  EXPECT_THAT(Files(), IsEmpty());
  ASSERT_TRUE(Append(1, 2).ok());
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
  // A process that is killed before it removes the old files leaves them.
  WriteFile(Path(9), "of generation 0");
  Open(kBig, 1);
  EXPECT_THAT(Files(), ElementsAre(LogFileName(1, 1)));
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

TEST_F(LogFilesTest, ReadersSeeWholeEntriesWhileFilesAreWrittenAndRemoved) {
  constexpr uint64_t kLast = 4000;
  Open(/*file_bytes=*/2000);
  std::atomic<uint64_t> written = 0, removed = 0;
  std::thread writer([&] {
    for (uint64_t n = 1; n <= kLast; ++n) {
      CHECK(Append(n, n).ok());
      written = n;
      if (n % 100 != 0) continue;
      removed = n - 50;
      log_->RemoveBelow(n - 50);
    }
  });
  uint64_t readings = 0;
  while (written < kLast) {
    const uint64_t oldest = removed, least = written;
    uint64_t last = 0;
    const Status read = log_->Read(0, [&](const LogFrame& frame) {
      EXPECT_EQ(frame.payload, Text(frame.head.number));
      EXPECT_TRUE(last == 0 || frame.head.number == last + 1) << last;
      EXPECT_TRUE(last != 0 || frame.head.number <= removed + 101) << frame.head.number;
      last = frame.head.number;
      return OkStatus();
    });
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_GE(last, least);
    EXPECT_GE(last, oldest);
    ++readings;
  }
  writer.join();
  EXPECT_GT(readings, 3u);
}

// Another process reads the files.
TEST_F(LogFilesTest, TheRangeOfTheEntriesIsFound) {
  Open(/*file_bytes=*/61);
  EXPECT_EQ(RangeOf(*OpenLogFiles(dir_, 0), 0)->last, 0u);
  for (uint64_t n = 3; n <= 9; ++n) ASSERT_TRUE(Append(n, n).ok());
  const auto files = OpenLogFiles(dir_, 0);
  ASSERT_TRUE(files.ok()) << files.status();
  log_->Begin(1);  // the files stay readable
  EXPECT_EQ(RangeOf(*files, 0)->first, 3u);
  EXPECT_EQ(RangeOf(*files, 6)->first, 6u);
  EXPECT_EQ(RangeOf(*files, 6)->last, 9u);
  EXPECT_EQ(RangeOf(*files, 10)->first, 0u);
  EXPECT_EQ(RangeOf(*files, 10)->last, 0u);
}

}  // namespace
}  // namespace tandem::pserver
