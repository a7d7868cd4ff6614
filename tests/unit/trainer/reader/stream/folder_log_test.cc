// Tests the records of a directory to which files are added, and which step has which records.
#include "trainer/reader/stream/folder_log.h"

#include <filesystem>
#include <future>

#include "gmock/gmock.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using trainer::ReadFile;
using trainer::WriteFile;

class FolderLogTest : public testing::Test {
 protected:
  // Adds a complete file, as a writer must do it.
  void Add(const std::string& name, const std::string& text) const {
    WriteFile(dir_ / (name + ".tmp"), text);
    std::filesystem::rename(dir_ / (name + ".tmp"), dir_ / name);
  }
  std::unique_ptr<FolderLog> Open(uint64_t global_batch, uint32_t ranks = 1, uint32_t rank = 0,
                                  bool together = true) const {
    FolderLogOptions options{
        .folder = dir_.path(), .share = {global_batch, ranks, rank}, .together = together};
    auto log = FolderLog::Open(options, [](std::string_view line, bool first) {
      return !line.empty() && !(first && line == "names");
    });
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  static StatusOr<std::vector<std::string>> Read(FolderLog& log, uint64_t step, uint64_t first,
                                                 uint64_t count) {
    LogLines lines;
    TD_RETURN_IF_ERROR(log.Read(step, first, count, &lines));
    lines.Finish();
    std::vector<std::string> texts;
    for (size_t i = 0; i < lines.size(); ++i) texts.emplace_back(lines.text(i));
    return texts;
  }
  // Reads a whole global batch of two records.
  static std::vector<std::string> Two(FolderLog& log, uint64_t step) {
    auto texts = Read(log, step, 0, 2);
    EXPECT_TRUE(texts.ok()) << texts.status();
    return texts.ok() ? *texts : std::vector<std::string>();
  }
  // Returns the error of a read that must fail.
  static std::string Error(FolderLog& log, uint64_t step) {
    return ToString(Read(log, step, 0, 2).status());
  }

  TempDir dir_;
};

TEST_F(FolderLogTest, RecordsAreInTheOrderOfTheNames) {
  Add("b", "2\n3\n");
  Add("a", "names\n0\n\n1\n");
  Add("c", "");
  Add("d", "4\r\n5");
  Add(".hidden", "x\n");
  WriteFile(dir_ / "e.tmp", std::string("y\n"));
  std::filesystem::create_directory(dir_ / "f");
  const auto log = Open(2);
  EXPECT_THAT(Two(*log, 0), ElementsAre("0", "1"));
  EXPECT_THAT(Two(*log, 1), ElementsAre("2", "3"));
  EXPECT_THAT(Two(*log, 2), ElementsAre("4", "5"));
  Add("g", "6\n7\n");
  EXPECT_THAT(Two(*log, 3), ElementsAre("6", "7"));
  EXPECT_THAT(ReadFile(dir_ / ".tandem-index"), HasSubstr("2 11 a\n2 4 b\n0 0 c\n2 4 d\n"));
}

// The guide's command makes files of the lines of a pipe.
TEST_F(FolderLogTest, APipeBecomesFiles) {
  const char* const root = std::getenv("TANDEM_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "TANDEM_SOURCE_DIR is not set; run it through ctest";
  const std::string guide = ReadFile(std::string(root) + "/docs/guides/online-learning.md");
  const size_t begin = guide.find("split --lines=10000");
  ASSERT_NE(begin, std::string::npos);
  std::string command = guide.substr(begin, guide.find("```", begin) - begin);
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(command.find(from), std::string::npos) << command;
    command.replace(command.find(from), from.size(), to);
  };
  replace("--lines=10000", "--lines=10");
  replace(" - clicks/", " - " + dir_.path() + "/");
  ASSERT_EQ(std::system(("seq 0 23 | " + command).c_str()), 0);
  ASSERT_EQ(std::system(("seq 24 29 | " + command).c_str()), 0);
  const auto log = Open(2);
  for (uint64_t step = 0; step < 15; ++step) {
    EXPECT_THAT(Two(*log, step),
                ElementsAre(std::to_string(2 * step), std::to_string(2 * step + 1)));
  }
}

// The index could not hold such a name.
TEST_F(FolderLogTest, ANameWithALineEndIsRefused) {
  Add("a", "0\n1\n");
  Add("b\nc", "2\n3\n");
  const auto log = Open(2);
  EXPECT_THAT(Error(*log, 0), AllOf(HasSubstr("a line end"), HasSubstr("[TD2010]")));
  std::filesystem::rename(dir_ / "b\nc", dir_ / "b");
  EXPECT_THAT(Two(*log, 0), ElementsAre("0", "1"));
  EXPECT_THAT(Two(*log, 1), ElementsAre("2", "3"));
}

TEST_F(FolderLogTest, AnyStepCanBeReadNext) {
  Add("a", "0\n1\n2\n");
  Add("b", "3\n4\n5\n6\n7\n8\n9\n");
  const auto log = Open(2);
  for (const uint64_t step : {3, 0, 1, 1, 4, 2}) {
    EXPECT_THAT(Two(*log, step),
                ElementsAre(std::to_string(2 * step), std::to_string(2 * step + 1)));
  }
  const auto later = Open(2);  // a restarted process, which has the index
  EXPECT_THAT(Two(*later, 4), ElementsAre("8", "9"));
  EXPECT_THAT(Two(*later, 1), ElementsAre("2", "3"));
}

TEST_F(FolderLogTest, EachRankHasItsShare) {
  Add("a", "0\n1\n2\n3\n4\n");
  Add("b", "5\n6\n7\n8\n9\n10\n11\n");
  const auto first = Open(6, 2, 0), second = Open(6, 2, 1);
  EXPECT_THAT(*Read(*second, 1, 3, 3), ElementsAre("9", "10", "11"));
  EXPECT_THAT(*Read(*first, 0, 0, 3), ElementsAre("0", "1", "2"));
  EXPECT_THAT(*Read(*second, 0, 3, 3), ElementsAre("3", "4", "5"));
  EXPECT_THAT(*Read(*first, 1, 0, 3), ElementsAre("6", "7", "8"));
}

// A rank whose share exists waits for the shares of the other ranks, because its step would wait
// for them.
TEST_F(FolderLogTest, AReadWaitsForTheWholeGlobalBatch) {
  Add("a", "0\n1\n2\n");
  const auto log = Open(4, 2, 0);
  auto read = std::async(std::launch::async, [&] { return Read(*log, 0, 0, 2); });
  EXPECT_EQ(read.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  Add("b", "3\n");
  EXPECT_THAT(*read.get(), ElementsAre("0", "1"));
}

TEST_F(FolderLogTest, AWaitCanBeEnded) {
  const auto log = Open(2);
  auto read = std::async(std::launch::async, [&] { return Read(*log, 0, 0, 2); });
  log->EndWaits();
  EXPECT_EQ(read.get().status().code(), StatusCode::kCancelled);
  Add("a", "0\n1\n");
  EXPECT_EQ(Read(*log, 0, 0, 2).status().code(), StatusCode::kCancelled);
  log->AllowWaits();
  EXPECT_THAT(Two(*log, 0), ElementsAre("0", "1"));
}

TEST_F(FolderLogTest, FilesOfTheIndexMayBeRemoved) {
  Add("a", "0\n1\n");
  Add("b", "2\n3\n");
  Add("c", "4\n5\n");
  const auto log = Open(2);
  for (const uint64_t step : {0, 1, 2}) (void)Two(*log, step);
  Add("d", "6\n7\n");
  (void)Two(*log, 3);
  std::filesystem::remove(dir_ / "a");
  std::filesystem::remove(dir_ / "b");
  const auto later = Open(2);
  EXPECT_THAT(Two(*later, 2), ElementsAre("4", "5"));
  EXPECT_THAT(Two(*later, 3), ElementsAre("6", "7"));
  EXPECT_THAT(Error(*later, 1), AllOf(HasSubstr("/b was removed"), HasSubstr("[TD2010]")));
}

TEST_F(FolderLogTest, ANameThatComesTooLateIsAnError) {
  Add("b", "0\n1\n");
  const auto log = Open(2);
  (void)Two(*log, 0);
  Add("a", "2\n3\n");
  EXPECT_THAT(Error(*log, 1), AllOf(HasSubstr("a has appeared after b"), HasSubstr("[TD2010]")));
}

TEST_F(FolderLogTest, AFileThatChangesIsAnError) {
  Add("a", "0\n1\n2");
  const auto log = Open(2);
  (void)Two(*log, 0);
  std::ofstream(dir_ / "a", std::ios::app) << "\n3\n";
  Add("b", "4\n");
  EXPECT_THAT(Error(*log, 2),
              AllOf(HasSubstr("a has 8 bytes, but it had 5"), HasSubstr("[TD2010]")));
  Add("b", "4\n5\n6\n7\n");
  const auto other = Open(2);
  (void)Two(*other, 3);
  Add("a", "9\n");
  const auto third = Open(2);
  EXPECT_THAT(Error(*third, 0), HasSubstr("a has 2 bytes, but its index"));
}

TEST_F(FolderLogTest, ADamagedIndexIsNamed) {
  Add("a", "0\n1\n");
  WriteFile(dir_ / ".tandem-index", std::string("2 4 a\n2 4\n"));
  const auto log = FolderLog::Open({.folder = dir_.path(), .share = {2, 1, 0}},
                                   [](std::string_view, bool) { return true; });
  EXPECT_THAT(ToString(log.status()), AllOf(HasSubstr(".tandem-index:2"), HasSubstr("[TD2010]")));
}

// A process that is killed may leave a part of the last line.
TEST_F(FolderLogTest, AnUnfinishedLineOfTheIndexDoesNotCount) {
  Add("a", "0\n1\n");
  Add("b", "2\n3\n");
  Add("c", "4\n5\n");
  WriteFile(dir_ / ".tandem-index", std::string("2 4 a\n2 4 "));
  const auto log = Open(2);
  EXPECT_THAT(Two(*log, 1), ElementsAre("2", "3"));
  EXPECT_THAT(Two(*log, 2), ElementsAre("4", "5"));
  EXPECT_THAT(ReadFile(dir_ / ".tandem-index"), HasSubstr("2 4 a\n2 4 b\n"));
}

// Two jobs may train on one directory. Each of them writes the index.
TEST_F(FolderLogTest, SeveralJobsShareTheIndex) {
  Add("a", "0\n1\n");
  Add("b", "2\n3\n");
  const auto one = Open(2), two = Open(1);
  for (const uint64_t step : {0, 1}) {
    (void)Two(*one, step);
    EXPECT_EQ(Read(*two, 2 * step, 0, 1)->front(), std::to_string(2 * step));
    EXPECT_EQ(Read(*two, 2 * step + 1, 0, 1)->front(), std::to_string(2 * step + 1));
  }
  Add("c", "4\n5\n");
  (void)Two(*one, 2);
  EXPECT_EQ(Read(*two, 4, 0, 1)->front(), "4");
  const std::string index = ReadFile(dir_ / ".tandem-index");
  EXPECT_EQ(index, "2 4 a\n2 4 b\n");
}

TEST_F(FolderLogTest, ARewrittenFileIsNoticedWhenItIsOpened) {
  Add("a", "0\n1\n2\n3\n");
  Add("b", "4\n5\n");
  const auto log = Open(2);
  for (const uint64_t step : {0, 1, 2}) EXPECT_THAT(Two(*log, step).size(), 2);
  Add("c", "6\n7\n");
  EXPECT_THAT(Two(*log, 3), ElementsAre("6", "7"));  // the index has a and b
  WriteFile(dir_ / "a", std::string("10\n11\n12\n13\n"));
  EXPECT_THAT(Error(*Open(2), 0), AllOf(HasSubstr("/a has 12 bytes, but its index " + dir_.path() +
                                                  "/.tandem-index says 8"),
                                        HasSubstr("[TD2010]")));
}

// The size of the global batch decides which records the earlier steps had.
TEST_F(FolderLogTest, AJobContinuesOnlyWithItsGlobalBatch) {
  EXPECT_EQ(Open(2, 2, 1)->Begin("clicks", 7), OkStatus()) << "nothing is known";
  EXPECT_EQ(Open(2, 2, 1)->Begin("clicks", 0), OkStatus());
  EXPECT_EQ(ReadFile(dir_ / ".tandem-batch-clicks"), "") << "only rank 0 writes";
  EXPECT_EQ(Open(2, 2, 0)->Begin("clicks", 7), OkStatus()) << "nothing is known";
  EXPECT_EQ(Open(2, 2, 1)->Begin("clicks", 7), OkStatus());
  EXPECT_EQ(Open(4)->Begin("views/1", 7), OkStatus());
  EXPECT_THAT(ToString(Open(4, 2, 0)->Begin("clicks", 7)),
              AllOf(HasSubstr("in global batches of 2 records, but its global batch is now 4"),
                    HasSubstr("[TD2010]"), HasSubstr("to continue with record 28")));
  EXPECT_THAT(ToString(Open(2)->Begin("clicks", 7)),
              AllOf(HasSubstr("steps of " + dir_.path() + " with 2 workers, but it has 1 now"),
                    HasSubstr("[TD2010]")));
  WriteFile(dir_ / ".tandem-batch-clicks", std::string("2\n"));
  EXPECT_EQ(Open(2)->Begin("clicks", 7), OkStatus()) << "an earlier version wrote only the batch";
  WriteFile(dir_ / ".tandem-batch-clicks", std::string("two\n"));
  EXPECT_THAT(ToString(Open(2)->Begin("clicks", 7)), HasSubstr("is not \"BATCH WORKERS\""));
  EXPECT_EQ(Open(4)->Begin("clicks", 0), OkStatus()) << "a job without state begins again";
  // Worker 1 may have later steps if the workers do not train together.
  EXPECT_THAT(ToString(Open(2, 1, 0, /*together=*/false)->Begin("clicks", 0)),
              HasSubstr("in global batches of 4 records, but its global batch is now 2"));
  EXPECT_EQ(Open(4, 1, 0, /*together=*/false)->Begin("clicks", 0), OkStatus());
  EXPECT_EQ(Open(4)->Begin("clicks", 7), OkStatus());
}

// Rank 1 finds the index longer while it lists a directory that has not changed for some time.
TEST_F(FolderLogTest, ARankFindsTheFilesAfterThoseThatAnotherRankHasIndexed) {
  for (const char* name : {"a", "b", "c"}) Add(name, "0\n1\n");
  const auto first = Open(2, 2, 0), second = Open(2, 2, 1);
  EXPECT_TRUE(Read(*second, 0, 1, 1).ok());
  for (const uint64_t step : {0, 1, 2}) EXPECT_TRUE(Read(*first, step, 0, 1).ok());
  std::filesystem::last_write_time(
      dir_.path(), std::filesystem::file_time_type::clock::now() - std::chrono::seconds(10));
  EXPECT_TRUE(Read(*second, 1, 1, 1).ok());
  auto read = std::async(std::launch::async, [&] { return Read(*second, 2, 1, 1); });
  EXPECT_EQ(read.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  second->EndWaits();
  EXPECT_EQ(read.get().status(), OkStatus());
}

TEST_F(FolderLogTest, CompressedFilesAreRefused) {
  WriteFile(dir_ / "a.gz", trainer::Gzip({'0', '\n'}));
  const auto log = Open(2);
  EXPECT_THAT(Error(*log, 0), AllOf(HasSubstr("compressed by gzip"), HasSubstr("[TD2009]")));
}

TEST_F(FolderLogTest, LongLinesAreCut) {
  const std::string line(3 * kLineMax, 'x');
  Add("a", line + "\nshort\n");
  const auto log = Open(2);
  const auto texts = Two(*log, 0);
  EXPECT_EQ(texts[0].size(), kLineMax + 1);
  EXPECT_EQ(texts[1], "short");
}

}  // namespace
}  // namespace tandem::reader
