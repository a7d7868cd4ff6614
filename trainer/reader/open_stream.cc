#include "trainer/reader/open_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "proto/job.pb.h"
#include "trainer/reader/kafka/kafka_log.h"
#include "trainer/reader/open.h"
#include "trainer/reader/stream/folder_log.h"
#include "trainer/reader/stream/stream_dataset.h"

namespace tandem::reader {
namespace {

// Opens the test files of the job, which are the whole data of a job with only these files.
StatusOr<TrainAndTest> OpenTestFiles(const DataConfig& config, const std::string& job_dir) {
  DataConfig tests = config;
  tests.clear_stream();
  tests.clear_train_samples_max();
  const auto rename = [](auto* files) {
    files->mutable_train_file()->Swap(files->mutable_test_file());
    files->clear_test_file();
  };
  if (config.format() == "criteo") rename(tests.mutable_criteo());
  if (config.format() == "libsvm") rename(tests.mutable_libsvm());
  return OpenData(tests, job_dir, /*with_test=*/false);
}

// Returns the path of a file of the job's data.
std::string DataPath(const DataConfig& config, const std::string& job_dir,
                     const std::string& path) {
  if (path.empty() || path.starts_with("/")) return path;
  return absl::StrCat(DataDir(config, job_dir), "/", path);
}

StatusOr<std::unique_ptr<RecordLog>> OpenLog(const DataConfig& config, const std::string& job_dir,
                                             const StreamRank& rank,
                                             const KafkaLog::IsRecord& is_record) {
  const StreamConfig& stream = config.stream();
  const Duration wait_log = std::chrono::seconds(stream.wait_log_s());
  if (!stream.has_kafka()) {
    return FolderLog::Open({.folder = DataPath(config, job_dir, stream.folder()),
                            .share = rank.share,
                            .wait_log = wait_log,
                            .together = rank.together},
                           is_record);
  }
  const KafkaConfig& kafka = stream.kafka();
  return KafkaLog::Open(
      {.feed = {.topic = {.brokers = kafka.brokers(),
                          .topic = kafka.topic(),
                          .properties = DataPath(config, job_dir, kafka.properties())},
                .wait_log = wait_log,
                .broker_wait = std::chrono::seconds(kafka.broker_wait_s())},
       .positions = DataPath(config, job_dir, kafka.positions()),
       .share = rank.share,
       .latest = kafka.start() == KafkaConfig::LATEST,
       .together = rank.together,
       .skip_removed = kafka.removed_offsets() == KafkaConfig::SKIP},
      is_record);
}

}  // namespace

bool NamesTestFiles(const DataConfig& config) {
  return config.criteo().test_file_size() > 0 || config.libsvm().test_file_size() > 0;
}

StatusOr<TrainAndTest> OpenStream(const DataConfig& config, const std::string& job_dir,
                                  bool with_test, const StreamRank& rank) {
  TD_REQUIRE(config.has_stream());
  TrainAndTest data;
  TD_ASSIGN_OR_RETURN(std::unique_ptr<LineFormat> format, MakeLineFormat(config));
  const auto is_record = [lines = format.get()](std::string_view line, bool first) {
    return lines->IsRecord(line, first);
  };
  TD_ASSIGN_OR_RETURN(std::unique_ptr<RecordLog> log, OpenLog(config, job_dir, rank, is_record));
  if (with_test && NamesTestFiles(config)) {
    TD_ASSIGN_OR_RETURN(TrainAndTest tests, OpenTestFiles(config, job_dir));
    data.test = std::move(tests.train);
    data.warnings = std::move(tests.warnings);
  }
  const StreamDataset::Options options{
      .global_batch = rank.share.global_batch,
      .epoch_steps = static_cast<uint64_t>(config.stream().epoch_steps()),
      .bad_records_max = config.max_bad_records()};
  data.train = std::make_unique<StreamDataset>(options, std::move(format), std::move(log));
  return data;
}

}  // namespace tandem::reader
