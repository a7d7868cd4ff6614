// Tests tandemrun --replicas: read replicas are started, seen, read, killed and stopped.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"
#include "tests/support/tandem_command.h"
#include "tests/unit/pserver/resp/resp_client.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kUsageError = 2;

class ReplicasTest : public TandemCommandTest {
 protected:
  std::string Logs() const { return Path("job.log"); }
  void Start(std::vector<std::string> launch) {
    launch.insert(launch.end(), {"--servers=2", "--workers=1", "--replicas=1",
                                 "--pserver_data_dir=" + Path("state")});
    job_process_ = StartJob("job", launch, {"--steps_max=1000000", "--epochs=100000"});
  }
  // Waits until both replicas serve. Returns the status of the job.
  json AwaitReplicas() const {
    json now;
    EXPECT_TRUE(WaitUntil(
        [&] {
          now = Tandem({"status", Logs(), "-o", "json"}).Json();
          if (!now.is_object() || now["replicas"].size() != 2) return false;
          return now["replicas"][0]["state"] == "serving" &&
                 now["replicas"][1]["state"] == "serving";
        },
        60))
        << now.dump(1) << job_process_->Output();
    return now;
  }
  // Returns the events of replica 0 of pserver 1.
  std::vector<json> EventsOfReplica() const {
    std::vector<json> events;
    for (const json& event : Tandem({"events", Logs(), "-o", "json"}).Json()) {
      if (event.value("process", "") == "replica 0 of pserver 1") events.push_back(event);
    }
    return events;
  }
  pid_t PidOfReplica() const {
    pid_t pid = 0;
    for (const json& event : EventsOfReplica()) {
      if (event["event"] == "started") pid = event["pid"].get<pid_t>();
    }
    EXPECT_NE(pid, 0);
    return pid;
  }
  bool HasEvent(const std::string& name) const {
    return std::ranges::any_of(EventsOfReplica(),
                               [&name](const json& event) { return event["event"] == name; });
  }

  std::unique_ptr<ChildProcess> job_process_;
};

TEST_F(ReplicasTest, ReplicasAreSeenReadAndRestarted) {
  Start({"--max_restarts=1"});
  const json now = AwaitReplicas();
  EXPECT_EQ(now["replicas"][1]["pserver"], 1);
  EXPECT_THAT(Tandem({"status", Logs()}).text,
              AllOf(HasSubstr("\nPSERVER  REPLICA  ADDRESS"), HasSubstr("serving")));
  const Said dense = Tandem({"read", Logs(), "--dense", "--replica=0", "-o", "json"});
  ASSERT_EQ(dense.code, 0) << dense.text;
  const Said of_pservers = Tandem({"read", Logs(), "--dense", "-o", "json"});
  EXPECT_EQ(dense.Json()["variables"].size(), of_pservers.Json()["variables"].size());
  EXPECT_FALSE(dense.Json()["variables"].empty());
  const Said none = Tandem({"read", Logs(), "--dense", "--replica=1"});
  EXPECT_EQ(none.code, kUsageError);
  EXPECT_THAT(none.text,
              HasSubstr("--replica=1: tandemrun started no replica 1 of the pservers [TD1004]"));

  // A replica that ends is started again, however it ended. It uses no restart of the job.
  for (const int signal : {SIGKILL, SIGTERM}) {
    const pid_t pid = PidOfReplica();
    ::kill(pid, signal);
    ASSERT_TRUE(WaitUntil([&] { return PidOfReplica() != pid; }, 30));
    const json again = AwaitReplicas();
    json after;
    EXPECT_TRUE(WaitUntil([&] {
      after = Tandem({"status", Logs(), "-o", "json"}).Json();
      return after.is_object() && after["version"] > again["version"];
    })) << "the trainer continues";
    EXPECT_TRUE(after["problems"].empty()) << after["problems"].dump();
  }
  EXPECT_TRUE(HasEvent("restarted"));
  EXPECT_FALSE(HasEvent("lost"));

  job_process_->Signal(SIGTERM);
  EXPECT_EQ(job_process_->Wait(), 128 + SIGTERM) << job_process_->Output();
  EXPECT_THAT(
      job_process_->Output(),
      AllOf(HasSubstr("replica 0 of pserver 1: killed by SIGKILL: starting it again in 1 s"),
            HasSubstr("replica 0 of pserver 1: exit code 0: starting it again in 2 s")));
}

TEST_F(ReplicasTest, ReplicasOfATlsJobAnswerReadersAndRedisClients) {
  const int port = FreePort();
  Start({"--tls", "--resp_port=" + std::to_string(port)});
  const json now = AwaitReplicas();
  EXPECT_EQ(now["replicas"][1]["redis"], "127.0.0.1:" + std::to_string(port + 1));
  // The reader's certificate is enough for reads.
  ASSERT_TRUE(std::filesystem::remove_all(Logs() + "/tls/admin") > 0);
  const Said dense = Tandem({"read", Logs(), "--dense", "--replica=0", "-o", "json"});
  ASSERT_EQ(dense.code, 0) << dense.text;
  EXPECT_FALSE(dense.Json()["variables"].empty());
  const Said of_pservers = Tandem({"read", Logs(), "--dense"});
  EXPECT_EQ(of_pservers.code, 0) << of_pservers.text;

  std::string secret;
  std::getline(std::ifstream(Logs() + "/job.secret"), secret);
  pserver::RespClient redis({"127.0.0.1", port + 1});
  ASSERT_TRUE(redis.Send(pserver::Encoded({"AUTH", secret}) + pserver::Encoded({"INFO"})));
  EXPECT_EQ(redis.Receive(), "+OK");
  EXPECT_THAT(redis.Receive(), AllOf(HasSubstr("role:replica"), HasSubstr("index:1")));
  job_process_->Signal(SIGTERM);
  job_process_->Wait();
}

}  // namespace
}  // namespace tandem
