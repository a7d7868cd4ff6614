// Tests which positions of a stream are durable before a reader uses them. The fsync and fdatasync
// of this program replace those of the C library.
#include "trainer/reader/kafka/segment_index.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/input/batch_file.h"

namespace {

std::mutex g_mu;
std::set<std::string> g_synced;  // paths of all synced directories and files

int Sync(long call, int fd) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  const std::lock_guard<std::mutex> lock(g_mu);
  g_synced.insert(path.string());
  return static_cast<int>(syscall(call, fd));
}

std::set<std::string> TakeSynced() {
  const std::lock_guard<std::mutex> lock(g_mu);
  return std::exchange(g_synced, {});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fdatasync(int fd) {
  return Sync(SYS_fdatasync, fd);
}
extern "C" __attribute__((visibility("default"))) int fsync(int fd) { return Sync(SYS_fsync, fd); }

namespace tandem::reader {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using trainer::ReadFile;
using trainer::WriteFile;

class SegmentIndexTest : public testing::Test {
 protected:
  SegmentIndex Index(uint32_t ranks = 2) const { return {path_, "clicks", ranks}; }

  TempDir dir_;
  const std::string path_ = dir_ / ".tandem-kafka-job-0";
};

// The writer of the lines may have died before it made them durable.
TEST_F(SegmentIndexTest, LinesOfAnotherProcessAreDurableBeforeTheyAreUsed) {
  WriteFile(path_, std::string("topic clicks workers 2\n0 0 0 0\n0 0 4 4\n"));
  SegmentIndex index = Index();
  TakeSynced();
  ASSERT_EQ(index.Load(0), OkStatus());
  EXPECT_EQ(index.records(), 4u);
  EXPECT_THAT(TakeSynced(), AllOf(Contains(path_), Contains(dir_.path())));

  WriteFile(path_, std::string("topic clicks workers 2\n0 0 0 0\n0 0 4 4\n0 4 6 2\n"));
  const auto appended = index.Append({{.partition = 0, .begin = 4, .end = 5, .records = 1}});
  ASSERT_TRUE(appended.ok()) << appended.status();
  EXPECT_FALSE(*appended) << "the other process was first";
  EXPECT_EQ(index.records(), 6u);
  EXPECT_THAT(TakeSynced(), Contains(path_));
}

TEST_F(SegmentIndexTest, SizesOfABatchAreDurableBeforeTheFirstStep) {
  TakeSynced();
  ASSERT_EQ(CheckBatchFile(dir_.path(), "topic clicks", "job", 0, {4, 2, 0}, false), OkStatus());
  EXPECT_EQ(ReadFile(dir_ / ".tandem-batch-job"), "4 2\n");
  EXPECT_THAT(TakeSynced(), AllOf(Contains(dir_ / ".tandem-batch-job.new"), Contains(dir_.path())));
}

TEST_F(SegmentIndexTest, TheFirstLineHasTheNumberOfRanks) {
  SegmentIndex index = Index();
  ASSERT_TRUE(*index.Append({{.partition = 0, .begin = 3, .end = 3}}));
  EXPECT_EQ(ReadFile(path_), "topic clicks workers 2\n0 3 3 0\n");
  EXPECT_EQ(Index().Load(0), OkStatus());
  EXPECT_THAT(ToString(Index(4).Load(0)),
              HasSubstr("has positions of a job with 2 workers, but the job has 4 now, so other "
                        "records belong to each worker [TD2010]"));
  WriteFile(path_, std::string("topic clicks\n0 3 3 0\n"));
  EXPECT_EQ(Index(4).Load(0), OkStatus()) << "an earlier version wrote no number";
  WriteFile(path_, std::string("topic clicks workers two\n"));
  EXPECT_THAT(ToString(Index().Load(0)), HasSubstr("first line is not"));
}

}  // namespace
}  // namespace tandem::reader
