// Tests ranks that were started by hand. Every mode rejects ranks with different settings, and
// accepts ranks with equal settings in different directories.
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr char kJob[] = R"(
name: "agreement"
mode: COLLECTIVE
model {
  zoo: "deepfm"
  arg { name: "fields" value: "2" }
  arg { name: "rows" value: "20" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "8" }
}
data {
  format: "csv"
  dir: "DATA"
  csv {
    train_file: "clicks.csv"
    test_file: "clicks.csv"
    label_column: "click"
    positive_label: "1"
    negative_label: "0"
    column { name: "user" kind: HASH ids: 10 }
    column { name: "item" kind: HASH ids: 10 }
  }
}
optimizer { type: "sgd" learning_rate: 0.01 }
global_batch_size: 32
steps_max: 4
eval_every_epochs: 0
)";

std::string Clicks(int begin) {
  std::string text = "click,user,item\n";
  for (int i = begin; i < begin + 100; ++i) {
    text += std::to_string(i % 2) + ",u" + std::to_string(i % 7) + ",i" + std::to_string(i) + "\n";
  }
  return text;
}

struct Unequal {
  const char* flag;
  const char* refusal;
};
constexpr Unequal kUnequal[] = {
    {"--global_batch_size=64", "has global_batch_size 64, "},
    {"--seed=2", "has seed 2, "},
    {"--epochs=3", "has epochs 3, "},
    {"--optimizer.learning_rate=0.02", "has optimizer.learning_rate 0.02, "},
    {"--data.dir=FOLDER/other", "has data.samples (sha256 of some) "},
    {"--build_strategy.gradient_scale_strategy=One",
     "has strategy.build_strategy.gradient_scale_strategy One, "},
};

class AgreementTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    for (const char* folder : {"a", "b", "other"}) {
      std::filesystem::create_directory(Path(folder));
    }
    const std::string secret = Write("secret", "0123456789abcdef0123456789abcdef\n");
    ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
    Write("a/clicks.csv", Clicks(0));
    Write("b/clicks.csv", Clicks(0));
    Write("other/clicks.csv", Clicks(1));
    Write("a.pbtxt", absl::StrReplaceAll(kJob, {{"DATA", "a"}}));
    Write("b.pbtxt", absl::StrReplaceAll(kJob, {{"DATA", "b"}}));
  }

  std::string FlagOf(const Unequal& unequal) const {
    return absl::StrReplaceAll(unequal.flag, {{"FOLDER", dir_}});
  }
  std::unique_ptr<ChildProcess> StartRank(int rank, const std::string& job,
                                          std::vector<std::string> args) const {
    args.push_back("--job_file=" + Path(job));
    return std::make_unique<ChildProcess>(
        "tandem-trainer", args,
        std::map<std::string, std::string>{{"TANDEM_RANK", std::to_string(rank)},
                                           {"TANDEM_SIZE", "2"},
                                           {"TANDEM_SECRET_FILE", Path("secret")}},
        Path("rank" + std::to_string(rank)));
  }
  // Ends holds the exit codes and the outputs of two ranks. RunPair runs rank 0 with a.pbtxt and
  // `both`, and rank 1 with b.pbtxt, `args` and `both`.
  struct Ends {
    int codes[2];
    std::string said[2];
  };
  Ends RunPair(const std::vector<std::string>& both, std::vector<std::string> args) const {
    const auto first = StartRank(0, "a.pbtxt", both);
    args.insert(args.end(), both.begin(), both.end());
    const auto second = StartRank(1, "b.pbtxt", args);
    Ends ends;
    ends.codes[0] = first->Wait();
    ends.codes[1] = second->Wait();
    ends.said[0] = first->Output();
    ends.said[1] = second->Output();
    return ends;
  }
};

// A pserver in a separate process. The pserver listens on any free port.
class ServerProcess {
 public:
  ServerProcess(const std::string& secret_file, const std::string& output_file)
      : process_("tandem-pserver", {"--listen=127.0.0.1:0", "--job=agreement"},
                 {{"TANDEM_SECRET_FILE", secret_file}}, output_file) {
    EXPECT_TRUE(process_.WaitForText("\n"));
    const std::string text = process_.Output();
    const size_t at = text.find("listening on ") + 13;
    address_ = text.substr(at, text.find('\n', at) - at);
  }
  const std::string& address() const { return address_; }

 private:
  ChildProcess process_;
  std::string address_;
};

TEST_F(AgreementTest, RanksOfCollectiveMode) {
  int number = 0;
  const auto meet = [&] {
    const std::string folder = Path("meet" + std::to_string(number++));
    std::filesystem::create_directory(folder);
    return std::vector<std::string>{"--rendezvous=file://" + folder};
  };
  const Ends equal = RunPair(meet(), {});
  EXPECT_EQ(equal.codes[0], 0) << equal.said[0];
  EXPECT_EQ(equal.codes[1], 0) << equal.said[1];
  for (const Unequal& unequal : kUnequal) {
    const Ends ends = RunPair(meet(), {FlagOf(unequal)});
    for (const int rank : {0, 1}) {
      EXPECT_EQ(ends.codes[rank], 2) << ends.said[rank];
      EXPECT_THAT(ends.said[rank], HasSubstr(std::string("rank 1 ") + unequal.refusal));
      EXPECT_THAT(ends.said[rank], HasSubstr("[TD3011] (INVALID_ARGUMENT)"));
    }
  }
}

TEST_F(AgreementTest, TrainersOfPserverMode) {
  for (const Unequal& unequal : kUnequal) {
    const ServerProcess server(Path("secret"), Path("server"));
    const std::vector<std::string> both = {"--mode=pserver", "--pservers=" + server.address()};
    auto first = StartRank(0, "a.pbtxt", both);
    auto second = StartRank(1, "b.pbtxt", {both[0], both[1], FlagOf(unequal)});
    // The server rejects the trainer that calls second. The trainer that called first waits for the
    // other trainer.
    ASSERT_TRUE(WaitUntil([&] { return first->Ended() || second->Ended(); }));
    auto& refused = first->Ended() ? first : second;
    EXPECT_EQ(refused->Wait(), 78) << refused->Output();
    EXPECT_THAT(refused->Output(), HasSubstr("[TD4014] (FAILED_PRECONDITION)")) << unequal.flag;
    EXPECT_THAT(refused->Output(), HasSubstr("trainer 1 has "));
    // The expected message begins with "has NAME ". The test compares only this beginning, without
    // the values.
    const std::string refusal = unequal.refusal;
    EXPECT_THAT(refused->Output(), HasSubstr(refusal.substr(0, refusal.find(' ', 4))));
  }
}

// Runs two jobs one after the other on the same server. The second job has more steps and continues
// where the first job ended. The ranks of a job have equal settings in different directories.
TEST_F(AgreementTest, AServerTakesOneJobAfterAnother) {
  const ServerProcess server(Path("secret"), Path("server"));
  const std::vector<std::string> both = {"--mode=pserver", "--pservers=" + server.address()};
  for (const char* steps : {"--steps_max=4", "--steps_max=8"}) {
    const Ends ends = RunPair({both[0], both[1], steps}, {});
    EXPECT_EQ(ends.codes[0], 0) << ends.said[0];
    EXPECT_EQ(ends.codes[1], 0) << ends.said[1];
  }
}

}  // namespace
}  // namespace tandem
