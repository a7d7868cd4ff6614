// Tests which step has which messages of a topic, over librdkafka's mock broker: restarts, replays,
// brokers that vanish, and records and partitions that are gone.
#include "trainer/reader/kafka/kafka_log.h"

#include <filesystem>
#include <future>
#include <set>

#include "gmock/gmock.h"
#include "tests/support/kafka_broker.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem::reader {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using trainer::ReadFile;
using trainer::WriteFile;

constexpr int kMetadata = 3, kFetch = 1;  // API keys of Kafka
const std::string kTenRecords = "topic clicks workers 1\n0 0 0 0\n0 0 10 10\n";  // an index
constexpr int kNotLeader = 6, kTopicAuthorizationFailed = 29;

class KafkaLogTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteFile(dir_ / "properties", std::string("# waits of the broker\nfetch.wait.max.ms = 10\n"));
  }
  KafkaLogOptions Options(uint64_t global_batch, uint32_t ranks = 1, uint32_t rank = 0) const {
    KafkaLogOptions options;
    options.feed.topic = {broker_.address(), "clicks", dir_ / "properties"};
    options.feed.wait_log = std::chrono::milliseconds(200);
    options.feed.broker_wait = std::chrono::seconds(60);
    options.positions = dir_.path();
    options.share = {global_batch, ranks, rank};
    return options;
  }
  static std::unique_ptr<KafkaLog> Open(const KafkaLogOptions& options, uint64_t step = 0) {
    auto log = KafkaLog::Open(options, [](std::string_view line, bool) { return !line.empty(); });
    EXPECT_TRUE(log.ok()) << log.status();
    EXPECT_TRUE((*log)->Begin("job", step).ok());
    return *std::move(log);
  }
  static StatusOr<std::vector<std::string>> Read(KafkaLog& log, uint64_t step, uint64_t first,
                                                 uint64_t count) {
    LogLines lines;
    TD_RETURN_IF_ERROR(log.Read(step, first, count, &lines));
    lines.Finish();
    std::vector<std::string> texts;
    for (size_t i = 0; i < lines.size(); ++i) texts.emplace_back(lines.text(i));
    return texts;
  }
  // Reads a whole global batch of two records.
  static std::vector<std::string> Two(KafkaLog& log, uint64_t step) {
    auto texts = Read(log, step, 0, 2);
    EXPECT_TRUE(texts.ok()) << texts.status();
    return texts.ok() ? *texts : std::vector<std::string>();
  }
  static std::string Error(KafkaLog& log, uint64_t step) {
    return ToString(Read(log, step, 0, 2).status());
  }
  // Adds `count` records of 100 kB to a partition, and returns them.
  std::vector<std::string> ProduceLarge(int partition, int count) {
    std::vector<std::string> records;
    for (int i = 0; i < count; ++i) {
      records.push_back(absl::StrFormat("%d", i) + std::string(100'000, 'x'));
      broker_.Produce("clicks", partition, {records.back()});
    }
    return records;
  }
  // Makes the broker forget all records of a partition but the last ones of `records`, without its
  // first `count` ones. The broker keeps 5 MiB.
  void RemoveFirst(int partition, size_t count, const std::vector<std::string>& records) {
    const size_t kept = records.size() - std::min(count, records.size());
    broker_.Produce("clicks", partition, {std::string((5 << 20) - 100'300 * kept - 50'000, 'y')});
  }
  static std::vector<std::string> Numbers(int from, int count) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) texts.push_back(std::to_string(from + i));
    return texts;
  }

  KafkaBroker broker_;
  TempDir dir_;
};

TEST_F(KafkaLogTest, EachStepHasTheSameRecordsAfterARestart) {
  broker_.CreateTopic("clicks", 3);
  for (int p = 0; p < 3; ++p) broker_.Produce("clicks", p, Numbers(100 * p, 20));
  std::vector<std::vector<std::string>> steps;
  {
    const auto log = Open(Options(2));
    for (uint64_t step = 0; step < 15; ++step) steps.push_back(Two(*log, step));
  }
  for (int p = 0; p < 3; ++p) broker_.Produce("clicks", p, Numbers(100 * p + 20, 5));
  const auto log = Open(Options(2), 7);
  for (uint64_t step = 7; step < 15; ++step) EXPECT_EQ(Two(*log, step), steps[step]) << step;
  for (uint64_t step = 15; step < 37; ++step) steps.push_back(Two(*log, step));
  // A replay in the same process.
  for (uint64_t step : {0, 36, 14, 22}) EXPECT_EQ(Two(*log, step), steps[step]) << step;
  std::multiset<std::string> all, each;
  for (const auto& step : steps) all.insert(step.begin(), step.end());
  for (int i = 0; i < 75; ++i) each.insert(std::to_string(100 * (i / 25) + i % 25));
  all.insert(Read(*log, 37, 0, 1)->at(0));
  EXPECT_EQ(all, each);
}

TEST_F(KafkaLogTest, RanksReadTheirPartitions) {
  broker_.CreateTopic("clicks", 3);
  for (int p = 0; p < 3; ++p) broker_.Produce("clicks", p, {"a" + std::to_string(p)});
  const auto first = Open(Options(3, 2, 0)), second = Open(Options(3, 2, 1));
  broker_.Produce("clicks", 0, {"b0"});
  EXPECT_THAT(*Read(*first, 0, 0, 1), ElementsAre("a0"));
  EXPECT_THAT(*Read(*second, 0, 1, 1), ElementsAre("a1"));
  EXPECT_THAT(ReadFile(dir_ / ".tandem-kafka-job-1"),
              HasSubstr("topic clicks workers 2\n1 0 0 0\n1 0 1 1\n"));
  EXPECT_THAT(ReadFile(dir_ / ".tandem-batch-job"), "3 2\n");
}

// A rank that began a step of sync updates earlier than the others would wait for them in the step.
TEST_F(KafkaLogTest, RanksBeginAStepTogether) {
  broker_.CreateTopic("clicks", 2);
  broker_.Produce("clicks", 0, {"a", "b"});
  KafkaLogOptions options = Options(2, 2, 0);
  options.together = true;
  const auto first = Open(options);
  options.share.rank = 1;
  const auto second = Open(options);
  auto early = std::async(std::launch::async, [&] { return *Read(*first, 0, 0, 1); });
  EXPECT_EQ(early.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  broker_.Produce("clicks", 1, {"c"});
  EXPECT_THAT(*Read(*second, 0, 1, 1), ElementsAre("c"));
  EXPECT_THAT(early.get(), ElementsAre("a"));
}

TEST_F(KafkaLogTest, AReadWaitsForRecordsUntilItIsStopped) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, {"a"});
  const auto log = Open(Options(2));
  auto read = std::async(std::launch::async, [&] { return Error(*log, 0); });
  log->EndWaits();
  EXPECT_THAT(read.get(), HasSubstr("CANCELLED"));
  log->AllowWaits();
  broker_.Produce("clicks", 0, {"", "b\n"});  // the empty message is no record
  EXPECT_THAT(Two(*log, 0), ElementsAre("a", "b"));
}

TEST_F(KafkaLogTest, ABrokerThatVanishesIsAwaited) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, Numbers(0, 4));
  const auto log = Open(Options(2));
  EXPECT_THAT(Two(*log, 0), ElementsAre("0", "1"));
  EXPECT_THAT(Two(*log, 1), ElementsAre("2", "3"));
  testing::internal::CaptureStderr();
  broker_.SetDown(1, true);
  auto read = std::async(std::launch::async, [&] { return Two(*log, 2); });
  EXPECT_EQ(read.wait_for(std::chrono::seconds(4)), std::future_status::timeout);
  broker_.SetDown(1, false);
  broker_.Produce("clicks", 0, Numbers(4, 2));
  EXPECT_THAT(read.get(), ElementsAre("4", "5"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("topic clicks: the brokers 127.0.0.1:"),
                    HasSubstr("the trainer waits for a broker for up to 60.0s"),
                    HasSubstr("the brokers reply again after")));
}

TEST_F(KafkaLogTest, AnAbsentBrokerEndsTheJobAfterAWhile) {
  broker_.SetDown(1, true);
  KafkaLogOptions options = Options(2);
  options.feed.broker_wait = std::chrono::seconds(2);
  const auto log = Open(options);
  EXPECT_THAT(Error(*log, 0),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr(broker_.address()), HasSubstr("[TD2011]")));
}

TEST_F(KafkaLogTest, ErrorsOfRequestsAreRetried) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, Numbers(0, 6));
  const auto log = Open(Options(2));
  broker_.FailRequests(kMetadata, 2, kNotLeader);
  EXPECT_THAT(Two(*log, 0), ElementsAre("0", "1"));
  broker_.FailRequests(kFetch, 3, kNotLeader);
  broker_.Produce("clicks", 0, Numbers(6, 2));
  for (uint64_t step = 1; step < 4; ++step) {
    EXPECT_THAT(Two(*log, step), ElementsAreArray(Numbers(static_cast<int>(2 * step), 2)));
  }
}

TEST_F(KafkaLogTest, RecordsThatTheBrokerHasRemovedAreNamed) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, Numbers(0, 2));
  EXPECT_THAT(Two(*Open(Options(2)), 0), ElementsAre("0", "1"));
  // The mock broker keeps 5 MiB of a partition.
  for (int i = 0; i < 12; ++i) broker_.Produce("clicks", 0, {std::string(900'000, 'x')});
  EXPECT_THAT(Error(*Open(Options(2), 1), 1),
              AllOf(HasSubstr("topic clicks, partition 0: the job needs offset 2, but the "
                              "brokers have offsets "),
                    HasSubstr("[TD2012]")));
  EXPECT_THAT(Error(*Open(Options(2)), 0), HasSubstr("needs offset 0"));
}

// The offsets of a segment are those of all its records, but a later step needs only its last ones.
TEST_F(KafkaLogTest, AStepIsReadAlthoughTheFirstRecordsOfItsSegmentAreRemoved) {
  broker_.CreateTopic("clicks", 1);
  const auto records = ProduceLarge(0, 10);
  WriteFile(dir_ / ".tandem-kafka-job-0", kTenRecords);
  RemoveFirst(0, 4, records);
  EXPECT_THAT(Two(*Open(Options(2), 2), 2), ElementsAre(records[4], records[5]));
  EXPECT_THAT(Error(*Open(Options(2), 1), 1),
              AllOf(HasSubstr("needs offset 2, but the brokers have offsets 4 to 11 [TD2012]"),
                    HasSubstr("removed_offsets: SKIP")));
}

TEST_F(KafkaLogTest, RemovedRecordsOfAStepAreReplacedIfTheJobSkipsThem) {
  broker_.CreateTopic("clicks", 1);
  const auto records = ProduceLarge(0, 10);
  KafkaLogOptions options = Options(2);
  options.skip_removed = true;
  WriteFile(dir_ / ".tandem-kafka-job-0", kTenRecords);
  RemoveFirst(0, 5, records);
  const auto log = Open(options, 1);
  testing::internal::CaptureStderr();
  EXPECT_THAT(Two(*log, 1), ElementsAre("removed", "removed"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("topic clicks, partition 0: the brokers have removed the offsets before 5, "
                        "among them 3 records of the offsets 0 to 9 that the job needs again"));
  LogLines lines;
  ASSERT_EQ(log->Read(2, 0, 2, &lines), OkStatus());
  EXPECT_TRUE(lines[0].removed);
  EXPECT_EQ(lines[0].offset, 4u);
  EXPECT_FALSE(lines[1].removed);
  EXPECT_EQ(lines.text(1), records[5]);
  EXPECT_THAT(Two(*log, 3), ElementsAre(records[6], records[7]));
  EXPECT_EQ(log->removed(), 3u);
}

// The positions have the skipped offsets, so each later process skips the same.
TEST_F(KafkaLogTest, OffsetsThatAreRemovedBeforeTheyAreReadCanBeSkipped) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, Numbers(0, 2));
  KafkaLogOptions options = Options(2);
  options.skip_removed = true;
  EXPECT_THAT(Two(*Open(options), 0), ElementsAre("0", "1"));
  const auto records = ProduceLarge(0, 10);
  RemoveFirst(0, 4, records);
  const auto first = Open(options, 1);
  testing::internal::CaptureStderr();
  EXPECT_THAT(Two(*first, 1), ElementsAre(records[4], records[5]));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("topic clicks, partition 0: the brokers have removed the offsets 2 to 5 "
                        "before the job read them; the job skips them"));
  EXPECT_EQ(first->removed(), 4u);
  EXPECT_THAT(ReadFile(dir_ / ".tandem-kafka-job-0"), HasSubstr("\n0 2 6 0 removed\n0 6 "));
  const auto second = Open(options, 1);
  EXPECT_THAT(Two(*second, 1), ElementsAre(records[4], records[5]));
  EXPECT_THAT(Two(*second, 2), ElementsAre(records[6], records[7]));
  EXPECT_THAT(Two(*Open(Options(2), 1), 1), ElementsAre(records[4], records[5]));
}

// The positions end with offsets without records, and retention removes the first ones of these.
TEST_F(KafkaLogTest, RemovedOffsetsWithoutRecordsAreNotAwaited) {
  broker_.CreateTopic("clicks", 1);
  const auto records = ProduceLarge(0, 10);
  KafkaLogOptions options = Options(2);
  options.skip_removed = true;
  WriteFile(dir_ / ".tandem-kafka-job-0",
            std::string("topic clicks workers 1\n0 0 0 0\n0 0 4 4\n0 4 8 0\n"));
  RemoveFirst(0, 6, records);
  const auto log = Open(options, 1);
  EXPECT_THAT(Two(*log, 1), ElementsAre("removed", "removed"));
  EXPECT_THAT(Two(*log, 2), ElementsAre(records[8], records[9]));
  EXPECT_EQ(log->removed(), 2u);
  // The records 6 and 7, which lie below the positions, are not counted again.
  // The record with which RemoveFirst fills the partition may be in the same segment.
  EXPECT_THAT(ReadFile(dir_ / ".tandem-kafka-job-0"),
              AnyOf(HasSubstr("\n0 8 10 2\n"), HasSubstr("\n0 8 11 3\n")));
}

// Records of the positions and records after them are removed together.
TEST_F(KafkaLogTest, OffsetsThatAreRemovedAfterTheLastPositionsAreSkippedAndCounted) {
  broker_.CreateTopic("clicks", 1);
  const auto records = ProduceLarge(0, 14);
  KafkaLogOptions options = Options(2);
  options.skip_removed = true;
  WriteFile(dir_ / ".tandem-kafka-job-0", kTenRecords);
  RemoveFirst(0, 12, records);
  const auto log = Open(options, 4);
  testing::internal::CaptureStderr();
  EXPECT_THAT(Two(*log, 4), ElementsAre("removed", "removed"));
  EXPECT_THAT(Two(*log, 5), ElementsAre(records[12], records[13]));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("topic clicks, partition 0: the brokers have removed the offsets 10 to 11 "
                        "before the job read them; the job skips them"));
  EXPECT_EQ(log->removed(), 4u);
  EXPECT_THAT(ReadFile(dir_ / ".tandem-kafka-job-0"), HasSubstr("\n0 10 12 0 removed\n0 12 "));
}

// The end of a transaction has an offset without a record.
TEST_F(KafkaLogTest, ARemovedMarkerOfATransactionIsNoLoss) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, {"a"});
  broker_.ProduceMarker("clicks", 0);
  broker_.Produce("clicks", 0, {"b"});
  broker_.ProduceMarker("clicks", 0);
  {
    const auto log = Open(Options(1));
    EXPECT_THAT(*Read(*log, 0, 0, 1), ElementsAre("a"));
    EXPECT_THAT(*Read(*log, 1, 0, 1), ElementsAre("b"));
    auto read = std::async(std::launch::async, [&] { return Read(*log, 2, 0, 1).status(); });
    while (ReadFile(dir_ / ".tandem-kafka-job-0").find(" 4 ") == std::string::npos) {
      std::this_thread::yield();
    }
    log->EndWaits();
    EXPECT_EQ(read.get().code(), StatusCode::kCancelled);
  }
  EXPECT_THAT(*Read(*Open(Options(1), 1), 1, 0, 1), ElementsAre("b"));
  const size_t size = (5 << 20) - 200;
  broker_.Produce("clicks", 0, {std::string(size, 'x')});  // the broker has only offset 4 now
  const auto large = Read(*Open(Options(1), 2), 2, 0, 1);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_GT(large->at(0).size(), 1u << 20);  // a longer line is cut
}

TEST_F(KafkaLogTest, ABatchThatCannotBeReadIsNotSkipped) {
  WriteFile(dir_ / "properties", std::string("fetch.wait.max.ms = 10\ncheck.crcs=true\n"));
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, {"a", "b"});
  broker_.ProduceMarker("clicks", 0, /*damaged=*/true);
  broker_.Produce("clicks", 0, {"c", "d"});
  const auto log = Open(Options(2));
  std::string error = Error(*log, 0);
  if (error == "OK") error = Error(*log, 1);
  EXPECT_THAT(error, AllOf(HasSubstr("topic clicks, partition 0, offset 2: the messages cannot be "
                                     "read: "),
                           HasSubstr("CRC"), HasSubstr("[TD2015]")));
}

TEST_F(KafkaLogTest, APartitionWithoutALeaderIsAwaited) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, {"a", "b"});
  KafkaLogOptions options = Options(2);
  options.feed.broker_wait = std::chrono::seconds(3);
  const auto log = Open(options);
  EXPECT_THAT(Two(*log, 0), ElementsAre("a", "b"));
  broker_.SetLeader("clicks", 0, -1);
  EXPECT_THAT(Error(*log, 1),
              AllOf(HasSubstr("topic clicks: partition 0 has no leader"), HasSubstr("[TD2011]")));
  broker_.SetLeader("clicks", 0, 1);
  broker_.Produce("clicks", 0, {"c", "d"});
  EXPECT_THAT(Two(*log, 1), ElementsAre("c", "d"));
}

TEST_F(KafkaLogTest, ATruncatedPartitionIsNamed) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, {"a", "b"});
  WriteFile(dir_ / ".tandem-kafka-job-0", std::string("topic clicks\n0 0 0 0\n0 0 4 4\n"));
  KafkaLogOptions options = Options(2);
  options.feed.broker_wait = std::chrono::seconds(2);
  EXPECT_THAT(Error(*Open(options, 1), 1),
              AllOf(HasSubstr("topic clicks, partition 0: the job needs offset 3, but the brokers "
                              "have offsets 0 to 2 for "),
                    HasSubstr("[TD2012]")));
}

// All records of the lowest partition exceed the bound of the bytes.
TEST_F(KafkaLogTest, APartitionWithManyRecordsDoesNotDelayTheOthers) {
  broker_.CreateTopic("clicks", 2);
  broker_.Produce("clicks", 0, Numbers(0, 20'000));
  broker_.Produce("clicks", 1, {"a", "b"});
  KafkaLogOptions options = Options(2);
  options.feed.bytes_max = 1;
  const auto log = Open(options);
  // The records of partition 1 arrive after some steps, long before partition 0 is read.
  std::multiset<std::string> all;
  for (uint64_t step = 0; step < 9'000 && all.count("a") + all.count("b") < 2; ++step) {
    for (const std::string& text : Two(*log, step)) all.insert(text);
  }
  EXPECT_EQ(all.count("a") + all.count("b"), 2u);
}

// The wait for a broker names the reason. Tokens are made although nothing polls.
TEST_F(KafkaLogTest, ATokenThatCannotBeMadeIsNamed) {
  broker_.CreateTopic("clicks", 1);
  WriteFile(dir_ / "properties",
            std::string("security.protocol=SASL_PLAINTEXT\nsasl.mechanisms=OAUTHBEARER\n"
                        "enable.sasl.oauthbearer.unsecure.jwt=true\n"
                        "sasl.oauthbearer.config=wrong=1\n"));
  KafkaLogOptions options = Options(2);
  options.feed.broker_wait = std::chrono::seconds(2);
  EXPECT_THAT(Error(*Open(options), 0), AllOf(HasSubstr("SASL OAUTHBEARER token"),
                                              HasSubstr("wrong=1"), HasSubstr("[TD2011]")));
}

TEST_F(KafkaLogTest, AnUnknownTopicIsNamed) {
  broker_.CreateTopic("other", 1);
  broker_.SetTopicError("clicks", 3);
  EXPECT_THAT(Error(*Open(Options(2)), 0),
              AllOf(HasSubstr("topic clicks: the brokers 127.0.0.1:"),
                    HasSubstr("have no such topic or partition [TD2013]")));
}

TEST_F(KafkaLogTest, ATopicThatMayNotBeReadIsNamed) {
  broker_.CreateTopic("clicks", 1);
  broker_.SetTopicError("clicks", kTopicAuthorizationFailed);
  EXPECT_THAT(
      Error(*Open(Options(2)), 0),
      AllOf(HasSubstr("topic clicks: "), HasSubstr("PERMISSION_DENIED"), HasSubstr("[TD2013]")));
}

TEST_F(KafkaLogTest, FewerPartitionsThanBeforeOrThanRanksAreRefused) {
  broker_.CreateTopic("clicks", 2);
  broker_.Produce("clicks", 0, {"a", "b"});
  WriteFile(dir_ / ".tandem-kafka-job-0", std::string("topic clicks\n2 0 0 0\n0 0 0 0\n"));
  KafkaLogOptions options = Options(2);
  options.feed.broker_wait = std::chrono::seconds(1);  // a broker's view may be old
  EXPECT_THAT(Error(*Open(options), 0),
              HasSubstr("topic clicks has 2 partitions, but it had 3 before [TD2013]"));
  std::filesystem::remove(dir_ / ".tandem-batch-job");
  const auto third = Open(Options(6, 3, 2));
  EXPECT_THAT(ToString(Read(*third, 0, 4, 2).status()),
              HasSubstr("topic clicks has 2 partitions, but the job has 3 workers"));
}

// Otherwise two ranks would read one partition.
TEST_F(KafkaLogTest, PositionsOfAnotherNumberOfRanksAreRefused) {
  broker_.CreateTopic("clicks", 3);
  for (int p = 0; p < 3; ++p) broker_.Produce("clicks", p, {"a", "b"});
  EXPECT_TRUE(Read(*Open(Options(2, 2, 0)), 0, 0, 1).ok());
  std::filesystem::remove(dir_ / ".tandem-batch-job");
  EXPECT_THAT(ToString(Read(*Open(Options(3, 3, 0)), 0, 0, 1).status()),
              HasSubstr("has positions of a job with 2 workers, but the job has 3 now"));
  // A file of an earlier version has no number of workers.
  WriteFile(dir_ / ".tandem-kafka-job-0", std::string("topic clicks\n2 0 0 0\n0 0 0 0\n"));
  EXPECT_THAT(ToString(Read(*Open(Options(3, 3, 0)), 0, 0, 1).status()),
              HasSubstr("has offsets of partition 2, which belongs to another worker if there are "
                        "3 [TD2010]"));
}

// With 2 workers all partitions of the former workers 0 and 2 belong to worker 0.
TEST_F(KafkaLogTest, PositionsOfMoreRanksAreRefused) {
  broker_.CreateTopic("clicks", 4);
  for (int p = 0; p < 4; ++p) broker_.Produce("clicks", p, {"a", "b"});
  EXPECT_TRUE(Read(*Open(Options(4, 4, 0)), 0, 0, 1).ok());
  EXPECT_TRUE(Read(*Open(Options(4, 4, 2)), 0, 2, 1).ok());
  std::filesystem::remove(dir_ / ".tandem-batch-job");
  KafkaLogOptions options = Options(2, 2, 0);
  const auto begin = [&](uint64_t step) {
    return ToString(
        (*KafkaLog::Open(options, [](auto, bool) { return true; }))->Begin("job", step));
  };
  EXPECT_THAT(begin(0), HasSubstr("-job-2 has positions of worker 2, but the job has only 2 "
                                  "workers now"));
  EXPECT_THAT(begin(1), HasSubstr("[TD2010]"));
  std::filesystem::remove(dir_ / ".tandem-kafka-job-2");
  EXPECT_THAT(ToString(Read(*Open(options), 0, 0, 1).status()),
              HasSubstr("has positions of a job with 4 workers, but the job has 2 now"));
}

// The other process knows the topic with a partition that this process does not know yet.
TEST_F(KafkaLogTest, AnotherProcessOfTheRankMayFindANewPartition) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, {"a", "b"});
  KafkaLogOptions options = Options(2);
  options.feed.broker_wait = std::chrono::seconds(1);
  const auto log = Open(options);
  EXPECT_THAT(Two(*log, 0), ElementsAre("a", "b"));
  KafkaBroker grown;
  grown.CreateTopic("clicks", 2);
  grown.Produce("clicks", 0, {"a", "b"});
  grown.Produce("clicks", 1, {"c", "d"});
  options.feed.topic.brokers = grown.address();
  EXPECT_THAT(Two(*Open(options, 1), 1), ElementsAre("c", "d"));
  broker_.Produce("clicks", 0, {"e", "f"});
  EXPECT_THAT(Error(*log, 1),
              HasSubstr("topic clicks has 1 partitions, but it had 2 before [TD2013]"));
}

TEST_F(KafkaLogTest, ALatePartitionBeginsAtItsFirstRecord) {
  broker_.CreateTopic("clicks", 2);
  broker_.Produce("clicks", 0, {"a"});
  // Partition 1 did not exist when the job began.
  WriteFile(dir_ / ".tandem-kafka-job-0", std::string("topic clicks\n0 1 1 0\n"));
  broker_.Produce("clicks", 1, {"b", "c"});
  KafkaLogOptions options = Options(2);
  options.latest = true;
  EXPECT_THAT(Two(*Open(options), 0), ElementsAre("b", "c"));
}

TEST_F(KafkaLogTest, LatestBeginsAtTheEnd) {
  broker_.CreateTopic("clicks", 2);
  broker_.Produce("clicks", 0, {"a"});
  KafkaLogOptions options = Options(2);
  options.latest = true;
  const auto log = Open(options);
  auto read = std::async(std::launch::async, [&] { return Two(*log, 0); });
  while (ReadFile(dir_ / ".tandem-kafka-job-0").empty()) std::this_thread::yield();
  broker_.Produce("clicks", 0, {"b", "c"});
  EXPECT_THAT(read.get(), ElementsAre("b", "c"));
}

TEST_F(KafkaLogTest, AJobNeedsItsPositions) {
  broker_.CreateTopic("clicks", 1);
  broker_.Produce("clicks", 0, Numbers(0, 8));
  Two(*Open(Options(2)), 0);
  std::filesystem::remove(dir_ / ".tandem-kafka-job-0");
  EXPECT_THAT(
      Error(*Open(Options(2), 3), 3),
      HasSubstr("has the offsets of 0 records, but the job continues with record 6 [TD2010]"));
  WriteFile(dir_ / ".tandem-kafka-job-0", std::string("topic views\n"));
  EXPECT_THAT(Error(*Open(Options(2), 3), 3),
              HasSubstr("begins with \"topic views\", but the job reads topic clicks [TD2013]"));
  WriteFile(dir_ / ".tandem-kafka-job-0", std::string("topic clicks\n0 0 4 4\n0 5 6 1\n"));
  EXPECT_THAT(Error(*Open(Options(2), 3), 3), HasSubstr("offset 21: the line is not"));
}

TEST_F(KafkaLogTest, SettingsOfAFileAreChecked) {
  const auto error = [&](const std::string& text) {
    WriteFile(dir_ / "properties", text);
    return ToString(
        KafkaLog::Open(Options(2), [](std::string_view, bool) { return true; }).status());
  };
  EXPECT_THAT(
      error("\nsecurity.protocl=SSL\n"),
      AllOf(HasSubstr("properties:2: No such configuration property"), HasSubstr("[TD2014]")));
  EXPECT_THAT(error("group.id=a\n"), HasSubstr("group.id cannot be set"));
  EXPECT_THAT(error("ssl\n"), HasSubstr("the line is not \"NAME=VALUE\" [TD2014]"));
  EXPECT_EQ(error("sasl.username=a\nsasl.password=b\n"), "OK");
}

}  // namespace
}  // namespace tandem::reader
