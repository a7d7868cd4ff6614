#include "trainer/reader/input/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A sink that stores lines, and rejects lines that begin with "bad".
class Lines final : public LineSink {
 public:
  Status Add(std::string_view line) override {
    if (line.starts_with("bad")) return DataLoss("what a line: %s", std::string(line));
    if (!line.starts_with("#")) lines_.emplace_back(line);
    return OkStatus();
  }
  LinePiece Finish() override {
    const size_t records = lines_.size();
    return {std::make_shared<std::vector<std::string>>(std::exchange(lines_, {})), records};
  }

 private:
  std::vector<std::string> lines_;
};

class TextLinesTest : public testing::Test {
 protected:
  StatusOr<std::vector<std::string>> Read(const std::string& text, LineReading reading = {}) {
    trainer::WriteFile(dir_ / "file", text);
    warnings_.clear();
    const auto make = [](size_t) { return std::make_unique<Lines>(); };
    TD_ASSIGN_OR_RETURN(const auto pieces, ReadLines(dir_ / "file", reading, make, &warnings_));
    std::vector<std::string> lines;
    pieces_ = pieces.size();
    for (const LinePiece& piece : pieces) {
      const auto& more = *static_cast<const std::vector<std::string>*>(piece.data.get());
      EXPECT_EQ(piece.records, more.size());
      lines.insert(lines.end(), more.begin(), more.end());
    }
    return lines;
  }
  std::string Error(const std::string& text, LineReading reading = {}) {
    return std::string(Read(text, reading).status().message());
  }

  TempDir dir_;
  std::vector<std::string> warnings_;
  size_t pieces_ = 0;
};

TEST_F(TextLinesTest, LinesWithAndWithoutEnds) {
  EXPECT_THAT(Read("a\nb c\r\n\n  \t\nd").value(), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(Read("a\nb\n").value(), ElementsAre("a", "b"));
  EXPECT_THAT(Read("\ta\t\n").value(), ElementsAre("\ta\t")) << "blanks belong to the fields";
  const auto names = [](std::string_view line) { return line == "names"; };
  EXPECT_THAT(Read("names\na\n", {.names_columns = names}).value(), ElementsAre("a"));
  EXPECT_THAT(Read("a\nnames\n", {.names_columns = names}).value(), ElementsAre("a", "names"));
  EXPECT_THAT(Read("names\na\n").value(), ElementsAre("names", "a"));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(FirstLine(dir_ / "file").value(), "names");
}

// Lines of all lengths cross the ends of pieces. One line is longer than the maximum length of a
// piece.
TEST_F(TextLinesTest, PiecesAreCutAtLinesForAnyNumberOfThreads) {
  std::string text;
  std::vector<std::string> expected;
  for (size_t i = 0; text.size() < (5u << 20); ++i) {
    std::string line = std::to_string(i) + std::string(i * 7919 % 3000, 'x');
    if (i == 300) line += std::string(kLineMax - 10000, 'y');
    text += line + "\n";
    expected.push_back(std::move(line));
  }
  text.pop_back();
  for (const int threads : {1, 2, 5}) {
    ASSERT_EQ(Read(text, {.threads = threads}).value(), expected) << threads;
    EXPECT_GE(pieces_, 4u);
  }
  // With `records_max`, the result has the first lines of the file, whichever thread is fastest.
  for (const int threads : {1, 5}) {
    const auto some = Read(text, {.threads = threads, .records_max = 400}).value();
    EXPECT_GE(some.size(), 400u);
    EXPECT_LT(some.size(), expected.size());
    EXPECT_EQ(some, Read(text, {.threads = 2, .records_max = 400}).value());
  }
}

TEST_F(TextLinesTest, ALineEndsWhereAPieceEnds) {
  const std::string first((1 << 20) - 1, 'a'), second((1 << 20) - 1, 'b');
  EXPECT_THAT(Read(first + "\n" + second + "\nc").value(), ElementsAre(first, second, "c"));
  EXPECT_THAT(Read(first + "x\n" + second + "\nc").value(), ElementsAre(first + "x", second, "c"));
}

TEST_F(TextLinesTest, BadRecordsAreNamedAndLimited) {
  std::string text(2 << 20, '\n');
  text += "a\nbad 1\nb\nbad 2\n";
  EXPECT_THAT(Read(text, {.bad_records_max = 2}).value(), ElementsAre("a", "b"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("file:2097154: what a line: bad 1 (offset 2097154)"),
                                     HasSubstr("file:2097156: what a line: bad 2 (offset 2097162)"),
                                     HasSubstr("skipped 2 bad records")));
  const std::string error = Error(text, {.bad_records_max = 1});
  EXPECT_THAT(error, HasSubstr("file:2097156: what a line: bad 2 (offset 2097162); this is bad "
                               "record 2 of the file, but max_bad_records is 1"));
  EXPECT_EQ(Read(text).status().code(), StatusCode::kDataLoss);
}

TEST_F(TextLinesTest, OfManyBadRecordsTheFirstIsNamed) {
  std::string text;
  for (int i = 0; i < 400000; ++i) text += i % 100 == 99 ? "bad\n" : "good line\n";
  EXPECT_THAT(Error(text, {.threads = 4}), HasSubstr("file:100: what a line: bad (offset 990)"));
}

TEST_F(TextLinesTest, LongLinesAreBadRecords) {
  const std::string text = "a\n" + std::string(3 * kLineMax, 'x') + "\nb\n";
  EXPECT_THAT(Error(text), HasSubstr("file:2: the line is longer than 1048576 bytes (offset 2)"));
  EXPECT_THAT(Read(text, {.bad_records_max = 1}).value(), ElementsAre("a", "b"));
}

TEST_F(TextLinesTest, MessagesAreShortAndFitForATerminal) {
  const std::string text = "a\nbad\x1b[2J" + std::string(100000, 'x') + "\n";
  EXPECT_THAT(Read(text, {.bad_records_max = 1}).value(), ElementsAre("a"));
  EXPECT_THAT(warnings_[0], HasSubstr("file:2: what a line: bad?[2Jxx"));
  EXPECT_LT(warnings_[0].size(), 1000u);
}

TEST_F(TextLinesTest, FilesThatHoldNoRecords) {
  EXPECT_THAT(Error(""), HasSubstr("contains no record"));
  EXPECT_THAT(Error("\n# nothing\n"), HasSubstr("contains no record"));
  EXPECT_THAT(Error("\x1f\x8b\x08text"), HasSubstr("gzip"));
  const auto make = [](size_t) { return std::make_unique<Lines>(); };
  EXPECT_EQ(ReadLines(dir_ / "none", {}, make, &warnings_).status().code(), StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {dir_.path(), dir_ / "pipe"}) {
    EXPECT_EQ(ReadLines(path, {}, make, &warnings_).status().code(), StatusCode::kInvalidArgument);
  }
}

// SplitLine must find the fields that a plain loop finds, in lines of all lengths around the block
// size.
TEST(SplitLine, FindsTheFieldsOfAPlainLoop) {
  for (size_t size = 0; size < 300; ++size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += (i * i + size) % 7 < 2 ? ',' : 'x';
    std::vector<std::string> expected(1);
    for (const char c : text) {
      if (c == ',') {
        expected.emplace_back();
      } else {
        expected.back() += c;
      }
    }
    const std::string padded = text + std::string(kLineSlack, ',');
    const std::string_view line(padded.data(), size);
    std::vector<std::string_view> fields(expected.size());
    ASSERT_EQ(SplitLine(line, ',', fields.data(), fields.size()), expected.size());
    EXPECT_EQ(std::vector<std::string>(fields.begin(), fields.end()), expected) << text;
    EXPECT_EQ(SplitLine(line, ',', fields.data(), 1), expected.size());
  }
}

// Tries every byte at every position of lines around the block size. Blanks follow each line in
// memory.
TEST(IsPlain, SeesLowBytesAnywhere) {
  for (const size_t size : {0, 1, 63, 64, 65, 130}) {
    const std::string padded = std::string(size, 'x') + std::string(kLineSlack, ' ');
    EXPECT_TRUE(IsPlain(std::string_view(padded).substr(0, size))) << size;
    for (size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text = padded;
        text[at] = static_cast<char>(byte);
        ASSERT_EQ(IsPlain(std::string_view(text).substr(0, size)), byte > '"') << at << " " << byte;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::reader
