// Compares a stream of click logs in Criteo's format with the batch job on the same records in the
// same order: the AUC of the stream's window and the AUC of the batch job.
#include <cmath>
#include <filesystem>
#include <random>
#include <regex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/support/kafka_broker.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

// The mock broker keeps up to 5 MiB of a partition.
constexpr int kRecords = 10240, kBatch = 128, kSteps = kRecords / kBatch;
constexpr double kAucDifferenceMax = 0.002;

constexpr char kJob[] = R"(
name: "criteo"
model {
  zoo: "wide_deep"
  arg { name: "fields" value: "39" }
  arg { name: "rows" value: "3900" }
  arg { name: "hidden" value: "16" }
  arg { name: "distributed" value: "$DISTRIBUTED" }
}
data {
  format: "criteo"
  dir: "."
  criteo { number_ids: 100 category_ids: 100 $FILES }
  $STREAM
}
optimizer { type: "adagrad" learning_rate: 0.05 }
global_batch_size: 128
log_every_steps: 1
eval_every_epochs: 0
)";

class CriteoStreamTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    std::mt19937 dice(5);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    std::vector<double> weights(26 * 50);
    for (double& weight : weights) weight = 0.5 * normal(dice);
    for (int i = 0; i < kRecords; ++i) {
      std::string fields;
      for (int n = 0; n < 13; ++n) fields += absl::StrFormat("\t%d", dice() % 40);
      double logit = -0.5;
      for (size_t c = 0; c < 26; ++c) {
        const auto id = static_cast<size_t>(50 * std::pow(uniform(dice), 3));
        logit += weights[50 * c + id];
        fields += absl::StrFormat("\t%08x", 1000 * c + id);
      }
      records_.push_back(absl::StrFormat("%d", uniform(dice) < 1 / (1 + std::exp(-logit))) +
                         fields);
    }
    std::string text;
    for (const std::string& record : records_) text += record + "\n";
    std::filesystem::create_directory(Path("records"));
    Write("records/0001", text);
    Write("test.txt", records_[0] + "\n" + records_[1] + "\n");  // a batch job evaluates
  }
  // Trains one pass and returns the last value of `name` in the output of rank 0.
  double Train(const std::string& name, const std::string& files, const std::string& stream,
               const std::vector<std::string>& launch, const std::vector<std::string>& more,
               const std::string& value) {
    const bool servers = launch.size() > 1;
    job_ = Write(
        name + ".pbtxt",
        absl::StrReplaceAll(
            kJob, {{"$FILES", files}, {"$STREAM", stream}, {"$DISTRIBUTED", servers ? "1" : "0"}}));
    std::vector<std::string> args = more;
    args.push_back(absl::StrFormat("--steps_max=%d", kSteps));
    const JobRun run = RunJob(name, launch, args);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    const std::regex pattern(absl::StrFormat("step=%d .* %s=([0-9.]+)", kSteps, value));
    std::smatch found;
    double result = -1;
    EXPECT_TRUE(std::regex_search(run.output, found, pattern) &&
                absl::SimpleAtod(found[1].str(), &result))
        << run.output;
    return result;
  }
  double TrainBatch(const std::string& name, const std::vector<std::string>& launch,
                    const std::vector<std::string>& more) {
    return Train(name, "train_file: \"records/0001\" test_file: \"test.txt\"", "shuffle: false",
                 launch, more, "auc");
  }
  double TrainStream(const std::string& name, const std::string& source,
                     const std::vector<std::string>& launch, const std::vector<std::string>& more) {
    return Train(name, "",
                 absl::StrFormat("stream { %s epoch_steps: 50 window_steps: %d }", source, kSteps),
                 launch, more, "window_auc");
  }

  std::vector<std::string> records_;
};

TEST_F(CriteoStreamTest, TheAucOfTheWindowIsThatOfTheBatchJob) {
  const double batch = TrainBatch("batch", {"--mode=local"}, {});
  const double folder = TrainStream("folder", "folder: \"records\"", {"--mode=local"}, {});
  KafkaBroker broker;
  broker.CreateTopic("clicks", 1);
  broker.Produce("clicks", 0, records_);
  std::filesystem::create_directory(Path("positions"));
  const double kafka = TrainStream(
      "kafka",
      "kafka { brokers: \"" + broker.address() + "\" topic: \"clicks\" positions: \"positions\" }",
      {"--mode=local"}, {});
  std::printf("criteo stream: AUC of batch job %.6f, folder %.6f, kafka %.6f\n", batch, folder,
              kafka);
  EXPECT_GT(batch, 0.6);
  // Equal steps have equal bits.
  EXPECT_NEAR(folder, batch, 1e-6);
  EXPECT_NEAR(kafka, batch, 1e-6);
}

TEST_F(CriteoStreamTest, TheAucOfTwoTrainersIsThatOfTheBatchJob) {
  const std::vector<std::string> launch = {"--servers=2", "--workers=2"};
  const std::vector<std::string> args = {"--mode=pserver"};
  const double batch = TrainBatch("batch", launch, args);
  std::vector<std::string> logged = launch;
  logged.push_back("--pserver_data_dir=" + Path("state"));
  logged.push_back("--durability=logged");
  const double stream = TrainStream("folder", "folder: \"records\"", logged, args);
  std::printf("criteo stream, 2 trainers and 2 pservers: AUC of batch job %.6f, stream %.6f\n",
              batch, stream);
  EXPECT_NEAR(stream, batch, kAucDifferenceMax);
}

}  // namespace
}  // namespace tandem
