// Tests how an administrator observes and controls a running job. The commands need only the log
// directory of the job.
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"
#include "tests/support/tandem_command.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class WatchTest : public TandemCommandTest {
 protected:
  // Pauses and continues the process repeatedly until `done` returns true. Thus on any machine this
  // process is slower than the other processes.
  static bool HeldUpUntil(pid_t process, const std::function<bool()>& done) {
    return WaitUntil([&] {
      ::kill(process, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ::kill(process, SIGCONT);
      return done();
    });
  }
};

TEST_F(WatchTest, AJobIsSeenSavedAndDrainedByItsFolder) {
  const std::string logs = Path("job.log"), checkpoints = Path("checkpoints");
  const auto job =
      StartJob("job",
               {"--servers=2", "--workers=2", "--tls", "--pserver_data_dir=" + Path("data"),
                "--status_port=" + std::to_string(FreePort(4))},
               {"--steps_max=1000000", "--epochs=100000", "--checkpoint.dir=" + checkpoints});
  ASSERT_TRUE(WaitUntil([&] {
    const json now = Tandem({"status", logs, "-o", "json"}).Json();
    return now.is_object() && now.value("version", 0) > 20 && now["problems"].empty();
  })) << job->Output();

  const json now = Tandem({"status", logs, "-o", "json"}).Json();
  EXPECT_EQ(now["job"], "e2e");
  ASSERT_EQ(now["servers"].size(), 2u);
  ASSERT_EQ(now["trainers"].size(), 2u);
  for (const json& server : now["servers"]) {
    EXPECT_EQ(server["state"], "serving");
    EXPECT_TRUE(server["answers"]);
    EXPECT_EQ(server["checkpoint_version"], 0);
  }
  EXPECT_EQ(now["servers"][0]["parameters"].get<int64_t>() +
                now["servers"][1]["parameters"].get<int64_t>(),
            61706);  // number of parameters in LeNet-5
  for (const json& trainer : now["trainers"]) {
    EXPECT_EQ(trainer["state"], "training");
    EXPECT_GT(trainer["pushes"], 0);
    EXPECT_THAT(trainer["step"].get<std::string>(), HasSubstr(" of 1000000"));
  }
  const Said text = Tandem({"status", logs});
  EXPECT_EQ(text.code, 0) << text.text;
  EXPECT_THAT(text.text, HasSubstr("job e2e: 2 pservers, 2 trainers, version "));
  EXPECT_THAT(text.text, Not(HasSubstr("\033")));
  EXPECT_THAT(Tandem({"top", logs, "--count=2"}).text, HasSubstr(" updates/s"));
  EXPECT_TRUE(Tandem({"top", logs, "--count=1", "-o", "json"}).Json().is_object());

  int64_t elements = 0;
  for (const json& variable : Tandem({"vars", logs, "-o", "json"}).Json()) {
    elements += variable["elements"].get<int64_t>();
  }
  EXPECT_EQ(elements, 61706);
  EXPECT_THAT(Tandem({"steps", logs}).text, HasSubstr("training loss"));

  const json saved = Tandem({"save", logs, "-o", "json"}).Json();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_GT(saved[0]["version"], 20);
  const json after = Tandem({"status", logs, "-o", "json"}).Json();
  EXPECT_EQ(after["servers"][0]["checkpoint_version"], saved[0]["version"]);
  const json delta = Tandem({"save", logs, "--mode=delta", "-o", "json"}).Json();
  ASSERT_EQ(delta.size(), 2u);
  EXPECT_GE(delta[0]["version"], saved[0]["version"]);
  EXPECT_THAT(Tandem({"save", logs, "--mode=half"}).text,
              HasSubstr("expected full (or its synonym base)"));

  for (const char* command : {"steps", "events"}) {
    const Said said = Tandem({command, logs, "-o", "json"});
    EXPECT_EQ(said.code, 0) << said.text;
    EXPECT_FALSE(said.Json().is_discarded()) << command << ": " << said.text;
  }
  const Said drained = Tandem({"drain", logs, "-o", "json"});
  EXPECT_EQ(drained.code, 0) << drained.text;
  EXPECT_EQ(drained.Json()["over"], true) << drained.text;
  EXPECT_EQ(job->Wait(), 128 + SIGTERM);
  EXPECT_FALSE(std::filesystem::is_empty(checkpoints)) << "trainers save before they go";
  const Said events = Tandem({"events", logs, "-o", "json"});
  int started = 0, ended = 0;
  for (const json& event : events.Json()) {
    started += event["event"] == "started" ? 1 : 0;
    ended += event["event"] == "ended" ? 1 : 0;
  }
  EXPECT_EQ(started, 4);
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(events.Json().back()["event"], "done");
  // The job has ended now, and the command reports this.
  const Said over = Tandem({"status", logs});
  EXPECT_EQ(over.code, 78) << over.text;
  EXPECT_THAT(over.text, HasSubstr(" ended at "));
  EXPECT_EQ(Tandem({"drain", logs}).code, 78);
}

// If a trainer is stopped, the status names this trainer as the trainer for which the other
// trainers wait.
TEST_F(WatchTest, WhoHoldsTheOthersUpIsNamed) {
  const std::string logs = Path("slow.log");
  const auto job = StartJob("slow", {"--servers=1", "--workers=2"},
                            {"--steps_max=1000000", "--epochs=100000", "--step_timeout_ms=120000"});
  ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
  const pid_t stopped = TrainerOf(*job, 0);
  ASSERT_NE(stopped, 0);
  ::kill(stopped, SIGSTOP);
  json now;
  EXPECT_TRUE(WaitUntil([&] {
    now = Tandem({"status", logs, "-o", "json"}).Json();
    return now.is_object() && now["slow"].dump().find("sent nothing") != std::string::npos;
  }));
  ASSERT_EQ(now["slow"].size(), 1u) << now.dump(1);
  EXPECT_THAT(now["slow"][0].get<std::string>(),
              HasSubstr("is 1 step behind and has sent nothing for "));
  ::kill(stopped, SIGCONT);
  job->Signal(SIGTERM);
  job->Wait();
}

// In collective mode, the ranks exchange their waiting times. Thus rank 0 can name the slowest
// rank.
TEST_F(WatchTest, TheSlowestRankIsNamed) {
  const std::string logs = Path("ranks.log");
  const auto job = StartJob(
      "ranks", {"--mode=collective", "--nproc=2", "--status_port=" + std::to_string(FreePort(2))},
      {"--steps_max=1000000", "--epochs=100000"});
  ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
  const pid_t slow = TrainerOf(*job, 1);
  ASSERT_NE(slow, 0);
  const auto says = [&](const std::vector<std::string>& command, const std::string& what) {
    return HeldUpUntil(slow, [&] { return Tandem(command).text.find(what) != std::string::npos; });
  };
  EXPECT_TRUE(says({"status", logs, "-o", "json"}, "\"rank 1: the others waited "))
      << job->Output();
  EXPECT_TRUE(says({"top", logs, "--count=1"}, "slow: rank 1: the others waited "))
      << job->Output();
  job->Signal(SIGTERM);
  job->Wait();
}

// A pserver knows for which trainer the other trainers wait.
TEST_F(WatchTest, TheSlowestTrainerIsNamed) {
  const std::string logs = Path("servers.log");
  const auto job = StartJob("servers", {"--servers=1", "--workers=2"},
                            {"--steps_max=1000000", "--epochs=100000", "--log_every_steps=50"});
  ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
  const pid_t slow = TrainerOf(*job, 1);
  ASSERT_NE(slow, 0);
  EXPECT_TRUE(HeldUpUntil(slow, [&] {
    return Tandem({"status", logs}).text.find("slow: trainer 1: the others waited ") !=
           std::string::npos;
  })) << job->Output();
  EXPECT_TRUE(HeldUpUntil(slow, [&] {
    return job->Output().find("slowest_rank=1") != std::string::npos;
  })) << job->Output();
  job->Signal(SIGTERM);
  job->Wait();
}

}  // namespace
}  // namespace tandem
