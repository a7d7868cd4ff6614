// Tests jobs that train on the messages of a Kafka topic, while trainers, pservers and brokers fail
// (stream_fixture.h). The brokers are librdkafka's mock brokers in this process.
//   TANDEM_STREAM_KILLS=N kills (20) TANDEM_STREAM_SEED=N of their times (1)
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/e2e/stream_fixture.h"
#include "tests/support/kafka_broker.h"

namespace tandem {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kPartitions = 5;  // not a multiple of the number of trainers
constexpr int kFetch = 1, kMetadata = 3, kListOffsets = 2;  // API keys of Kafka
constexpr int kNotLeader = 6, kUnknownTopic = 3;            // Kafka's errors

class KafkaTest : public StreamFixture {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    broker_.CreateTopic("clicks", kPartitions);
    load_ = 8;
    std::filesystem::create_directory(Path("positions"));
    Write("kafka.properties", "fetch.wait.max.ms=10\nfetch.error.backoff.ms=50\n");
    WriteJob("kafka { brokers: \"" + broker_.address() +
             "\" topic: \"clicks\" positions: \"positions\" properties: \"kafka.properties\" "
             "broker_wait_s: 60 }");
  }
  // Each trainer gets every second record, in a random partition of its partitions.
  void AddRecords(int64_t count) override {
    std::vector<std::vector<std::string>> texts(kPartitions);
    for (int64_t i = 0; i < count; ++i) {
      const std::vector<size_t> own =
          records_ % 2 == 0 ? std::vector<size_t>{0, 2, 4} : std::vector<size_t>{1, 3};
      texts[own[random_() % own.size()]].push_back(NextRecord());
    }
    for (int p = 0; p < kPartitions; ++p) {
      broker_.Produce("clicks", p, texts[static_cast<size_t>(p)]);
    }
    if (!fails_) return;
    const int key = std::vector{kFetch, kMetadata, kListOffsets}[random_() % 3];
    broker_.FailRequests(static_cast<int16_t>(key), static_cast<int>(random_() % 3), kNotLeader);
  }
  // Adds records up to a whole number of steps.
  void FillUp() { AddRecords((kRecordsOfStep - records_ % kRecordsOfStep) % kRecordsOfStep); }
  void StopJob() {
    process_->Signal(SIGTERM);
    process_->Wait();
  }

  KafkaBroker broker_{2};
  bool fails_ = false;  // requests of the trainers fail
  std::mt19937 random_{7};
};

TEST_F(KafkaTest, EachRecordIsCountedOnceWhoeverDies) {
  const int kills = FromEnvironment("TANDEM_STREAM_KILLS", 20);
  const int seed = FromEnvironment("TANDEM_STREAM_SEED", 1);
  fails_ = true;
  Start("async", Launch(/*restarts=*/true), {"--mode=pserver", "--strategy.a_sync=true"});
  KillProcesses(kills, static_cast<uint32_t>(seed));
  FillUp();
  ExpectEachOnce();
}

TEST_F(KafkaTest, SynchronousTrainersCountEachRecordOnceToo) {
  Start("sync", Launch(/*restarts=*/true), {"--mode=pserver"});
  KillProcesses(8, 3);
  FillUp();
  ExpectEachOnce();
}

// The ledger must find servers that count a repeated step again.
TEST_F(KafkaTest, ServersThatCountAStepTwiceAreCaught) {
  pserver_ = "broken-tandem-pserver";
  Args launch = Launch(/*restarts=*/true);
  launch.push_back(
      "--pserver_bin=" + std::filesystem::absolute(std::getenv("TANDEM_BIN_DIR")).string() + "/" +
      pserver_);
  Start("broken", launch, {"--mode=pserver", "--strategy.a_sync=true"});
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    KillProcesses(15, seed, /*only_trainers=*/true);
    FillUp();
    if (Count().doubled > 0) return;
  }
  ADD_FAILURE() << "no doubled record was found";
}

TEST_F(KafkaTest, AStoppedJobContinuesAtItsPositionAndABrokerMayVanish) {
  const Args args = {"--mode=pserver", "--strategy.a_sync=true"};
  Start("first", Launch(/*restarts=*/false), args);
  AddRecords(160);
  ExpectEachOnce();
  broker_.SetDown(1, true);
  broker_.SetDown(2, true);
  ASSERT_TRUE(process_->WaitForText("the trainer waits for a broker for up to 60.0s"))
      << process_->Output();
  broker_.SetDown(1, false);
  broker_.SetDown(2, false);
  ASSERT_TRUE(process_->WaitForText("the brokers reply again after")) << process_->Output();
  AddRecords(320);
  ExpectEachOnce();
  StopJob();
  Start("second", Launch(/*restarts=*/false), args);
  ASSERT_TRUE(process_->WaitForText("resumed at step 30\n")) << process_->Output();
  AddRecords(160);
  ExpectEachOnce();
}

TEST_F(KafkaTest, BadRecordsAreNamedAndCounted) {
  broker_.Produce("clicks", 3, {"0 x:1"});
  AddRecords(31);
  Start("bad", {"--mode=local"}, {"--steps_max=3", "--batch_size=16"});
  EXPECT_TRUE(process_->WaitForText("step=2 ")) << process_->Output();
  broker_.Produce("clicks", 3, {"0 y:1"});
  AddRecords(16);
  EXPECT_EQ(process_->Wait(), 65) << process_->Output();
  EXPECT_THAT(process_->Output(),
              AllOf(HasSubstr("bad record skipped: topic clicks, partition 3: offset 0: \"x:1\" is "
                              "not a feature"),
                    HasSubstr("skipped=1"),
                    HasSubstr("this is bad record 2 of the partition, but max_bad_records is 1")));
}

TEST_F(KafkaTest, RemovedOffsetsEndTheJobUnlessItSkipsThem) {
  std::string positions = "topic clicks workers 1\n";
  for (int p = 0; p < kPartitions; ++p) positions += absl::StrFormat("%d 0 0 0\n", p);
  Write("positions/.tandem-kafka-stream-0", positions);
  // The mock broker keeps 5 MiB. Comments are no records.
  for (int i = 0; i < 8; ++i) broker_.Produce("clicks", 2, {"# " + std::string(900'000, 'x')});
  AddRecords(32);
  const Args args = {"--steps_max=2", "--batch_size=16"};
  Start("fails", {"--mode=local"}, args);
  EXPECT_EQ(process_->Wait(), 65) << process_->Output();
  EXPECT_THAT(process_->Output(),
              AllOf(HasSubstr("topic clicks, partition 2: the job needs offset 0, but the brokers "
                              "have offsets "),
                    HasSubstr("[TD2012]")));
  Args skips = args;
  skips.push_back("--data.stream.kafka.removed_offsets=SKIP");
  Start("skips", {"--mode=local"}, skips);
  EXPECT_EQ(process_->Wait(), 0) << process_->Output();
  EXPECT_THAT(process_->Output(),
              AllOf(HasSubstr("partition 2: the brokers have removed the offsets 0 to "),
                    HasSubstr(" skipped=0 removed=")));
  EXPECT_THAT(ReadWholeFile(Path("positions/.tandem-kafka-stream-0")), HasSubstr(" 0 removed\n"));
}

TEST_F(KafkaTest, AnUnknownTopicIsRefused) {
  broker_.SetTopicError("clicks", kUnknownTopic);
  Start("unknown", {"--mode=local"}, {"--steps_max=1"});
  EXPECT_NE(process_->Wait(), 0);
  EXPECT_THAT(process_->Output(), HasSubstr("have no such topic or partition [TD2013]"));
}

}  // namespace
}  // namespace tandem
