// Tests the stream of a job: its samples, bad records, and its test data.
#include "trainer/reader/stream/stream_dataset.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "proto/job.pb.h"
#include "tests/unit/trainer/reader/dataset_test_util.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/open.h"
#include "trainer/reader/open_stream.h"

namespace tandem::reader {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using trainer::WriteFile;

class StreamDatasetTest : public testing::Test {
 protected:
  StreamDatasetTest() {
    std::filesystem::create_directory(dir_ / "clicks");
    config_.set_format("libsvm");
    config_.set_dir(dir_.path());
    config_.mutable_libsvm()->set_ids(100);
    config_.mutable_libsvm()->set_features_max(2);
    config_.mutable_libsvm()->set_classes(10);
    config_.mutable_stream()->set_folder("clicks");
    config_.mutable_stream()->set_epoch_steps(2);
  }
  std::unique_ptr<Dataset> Open(bool with_test = false) {
    auto data = OpenStream(config_, "", with_test, {.share = {.global_batch = 2, .ranks = 1}});
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return nullptr;
    test_ = std::move(data->test);
    return std::move(data->train);
  }
  // Returns the ids and the labels of step `step` of epoch `epoch`: [id, id, label] for each
  // sample.
  static StatusOr<std::vector<int64_t>> Step(const Dataset& data, uint64_t epoch, uint32_t step) {
    std::vector<int64_t> ids(4), labels(2);
    std::vector<float> values(4);
    void* const out[] = {ids.data(), values.data(), labels.data()};
    const uint32_t samples[] = {2 * step, 2 * step + 1};
    TD_RETURN_IF_ERROR(data.FillEpoch(epoch, samples, out));
    return std::vector<int64_t>{ids[0], ids[1], labels[0], ids[2], ids[3], labels[1]};
  }

  TempDir dir_;
  DataConfig config_;
  std::unique_ptr<Dataset> test_;
};

TEST_F(StreamDatasetTest, AStepHasItsRecordsInEveryProcess) {
  WriteFile(dir_ / "clicks/1", std::string("1 3:1\n2 4:1 5:1\n3 6:1\n# none\n4 7:1\n5 8:1\n"));
  WriteFile(dir_ / "clicks/2", std::string("6 9:1\n7 10:1\n8 11:1\n"));
  const auto data = Open();
  EXPECT_EQ(data->size(), 4u);
  EXPECT_THAT(*Step(*data, 0, 0), ElementsAre(3, 0, 1, 4, 5, 2));
  EXPECT_THAT(*Step(*data, 1, 1), ElementsAre(10, 0, 7, 11, 0, 8));
  EXPECT_THAT(*Step(*Open(), 1, 0), ElementsAre(8, 0, 5, 9, 0, 6));
  const auto& stream = dynamic_cast<const StreamDataset&>(*data);
  EXPECT_EQ(stream.counts(1).records, 4u);
  EXPECT_EQ(stream.counts(1).skipped, 0u);
  EXPECT_GT(stream.counts(1).newest_time_ms, 0);
}

TEST_F(StreamDatasetTest, ABadRecordOccupiesItsPlace) {
  WriteFile(dir_ / "clicks/1", std::string("1 3:1\n2 x:1\n3 5:1\n4 101:1\n"));
  config_.set_max_bad_records(1);
  const auto data = Open();
  EXPECT_THAT(*Step(*data, 0, 0), ElementsAre(3, 0, 1, 0, 0, 0));
  EXPECT_THAT(
      ToString(Step(*data, 0, 1).status()),
      AllOf(HasSubstr("clicks/1: offset 18: "), HasSubstr("bad record 2"), HasSubstr("[TD2003]")));
  EXPECT_EQ(dynamic_cast<const StreamDataset&>(*data).counts(1).skipped, 2u);
}

TEST_F(StreamDatasetTest, ClickLogsAreAStreamToo) {
  config_.set_format("criteo");
  std::string record = "1";
  for (int field = 0; field < 39; ++field) record += field < 13 ? "\t1" : "\tab";
  WriteFile(dir_ / "clicks/1", "label\tx\n" + record + "\n" + record + "x\n");
  const auto data = Open();
  std::vector<int64_t> ids(2 * 39), labels(2);
  void* const out[] = {ids.data(), labels.data()};
  const uint32_t samples[] = {0, 1};
  ASSERT_TRUE(data->FillEpoch(0, samples, out).ok());
  EXPECT_THAT(labels, ElementsAre(1, 1));
  EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + 38, ids.begin() + 39));
  EXPECT_NE(ids[38], ids[77]);
}

TEST_F(StreamDatasetTest, TestFilesAreOptional) {
  EXPECT_NE(Open(/*with_test=*/true), nullptr);
  EXPECT_EQ(test_, nullptr);
  WriteFile(dir_ / "test", std::string("1 3:1\n2 4:1 5:1\n"));
  config_.mutable_libsvm()->add_test_file("test");
  EXPECT_NE(Open(/*with_test=*/true), nullptr);
  EXPECT_THAT(ReadField<int64_t>(*test_, "label"), ElementsAre(1, 2));
}

TEST_F(StreamDatasetTest, ErrorsNameTheSetting) {
  config_.mutable_stream()->set_folder("none");
  const StreamRank rank{.share = {.global_batch = 2, .ranks = 1}};
  EXPECT_THAT(
      ToString(OpenStream(config_, "", false, rank).status()),
      HasSubstr("data.stream.folder: directory " + (dir_ / "none") + " does not exist [TD2001]"));
  config_.mutable_stream()->set_folder("clicks");
  EXPECT_THAT(ToString(OpenData(config_, "", false).status()), HasSubstr("[TD1109]"));
  config_.set_format("csv");
  EXPECT_THAT(ToString(OpenStream(config_, "", false, rank).status()),
              HasSubstr("data.stream is not implemented for format \"csv\" [TD1109]"));
}

// A log whose first record of each step no longer exists.
class LogWithRemovedRecords final : public RecordLog {
 public:
  Status Begin(const std::string&, uint64_t) override { return OkStatus(); }
  Status Read(uint64_t, uint64_t, uint64_t, LogLines* lines) override {
    const auto source = std::make_shared<const std::string>("topic clicks, partition 0");
    lines->AddRemoved(source, 7);
    lines->Add("2 4:1 5:1", source, 8);
    ++removed_;
    return OkStatus();
  }
  void EndWaits() override {}
  void AllowWaits() override {}
  int64_t newest_time_ms() const override { return 0; }
  uint64_t removed() const override { return removed_; }
  const char* part() const override { return "partition"; }
  std::string Describe() const override { return "records"; }

 private:
  uint64_t removed_ = 0;
};

TEST_F(StreamDatasetTest, ARemovedRecordOccupiesItsPlaceAndIsNoBadRecord) {
  for (const char* format : {"libsvm", "criteo"}) {
    config_.set_format(format);
    const StreamDataset data({.global_batch = 2, .epoch_steps = 2, .bad_records_max = 1},
                             *MakeLineFormat(config_), std::make_unique<LogWithRemovedRecords>());
    std::vector<int64_t> ids(2 * 39, 77), labels(2, 77);
    std::vector<float> values(4, 77);
    void* const libsvm[] = {ids.data(), values.data(), labels.data()};
    void* const criteo[] = {ids.data(), labels.data()};
    const uint32_t samples[] = {0, 1};
    const bool is_libsvm = format == std::string("libsvm");
    EXPECT_EQ(is_libsvm ? data.FillEpoch(0, samples, libsvm) : data.FillEpoch(0, samples, criteo),
              OkStatus());
    EXPECT_EQ(ids[0], 0) << format;
    EXPECT_EQ(labels[0], 0) << format;
    EXPECT_EQ(data.counts(0).removed, 1u);
    EXPECT_EQ(data.counts(0).skipped, is_libsvm ? 0u : 1u) << "of Criteo the second record is bad";
  }
}

}  // namespace
}  // namespace tandem::reader
