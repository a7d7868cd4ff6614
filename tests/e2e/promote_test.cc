// Tests how an administrator sees the standbys of a running job, and makes one of them the primary.
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"
#include "tests/support/tandem_command.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kConfigError = 78, kUsageError = 2, kUnavailable = 69, kNoReplyInTime = 200;

class PromoteTest : public TandemCommandTest {
 protected:
  std::string Logs() const { return Path("job.log"); }
  void Start(std::vector<std::string> launch) {
    launch.insert(launch.end(), {"--servers=2", "--workers=1"});
    job_process_ = StartJob("job", launch, {"--steps_max=1000000", "--epochs=100000"});
  }
  // Returns the row of a pserver in the status; null: the status has no such row.
  json Server(size_t server) const {
    const json now = Tandem({"status", Logs(), "-o", "json"}).Json();
    if (!now.is_object() || now["servers"].size() <= server) return nullptr;
    return now["servers"][server];
  }
  // Waits until `member` is the primary of the pserver, and its only standby has the state `state`.
  // Returns the row of the pserver.
  json Await(size_t server, int member, const std::string& state) const {
    json row;
    EXPECT_TRUE(WaitUntil(
        [&] {
          row = Server(server);
          return row.is_object() && row.value("member", -1) == member &&
                 row["standbys"].size() == 1 && row["standbys"][0]["state"] == state;
        },
        60))
        << row.dump(1) << job_process_->Output();
    return row;
  }
  // Returns the id of the process that was started last for a member of pserver 0.
  pid_t ProcessOf(int member) const {
    pid_t pid = 0;
    for (const json& event : Tandem({"events", Logs(), "-o", "json"}).Json()) {
      if (event["event"] == "started" &&
          event["process"] == "pserver 0 (member " + std::to_string(member) + ")") {
        pid = event["pid"].get<pid_t>();
      }
    }
    EXPECT_NE(pid, 0);
    return pid;
  }

  std::unique_ptr<ChildProcess> job_process_;
};

TEST_F(PromoteTest, AStandbyIsSeenAndBecomesThePrimary) {
  Start({"--standbys=1", "--pserver_data_dir=" + Path("state"), "--max_restarts=2"});
  const json first = Await(0, 0, "following");
  EXPECT_EQ(first["term"], 1);
  const json standby = first["standbys"][0];
  EXPECT_EQ(standby["member"], 1);
  EXPECT_LE(standby["lag_seconds"].get<double>(), 30);
  EXPECT_TRUE(standby.contains("lag_entries") && standby.contains("lag_bytes"));
  EXPECT_LE(standby["silent_seconds"].get<double>(), 30);
  Await(1, 0, "following");
  EXPECT_THAT(Tandem({"status", Logs()}).text,
              AllOf(HasSubstr("\nPSERVER  MEMBER  STATE              LAG ENTRIES  LAG BYTES"),
                    HasSubstr("\n0        0       primary of term 1  -"),
                    HasSubstr("\n0        1       following          ")));

  const Said promoted = Tandem({"promote", Logs(), "0", "-o", "json"});
  ASSERT_EQ(promoted.code, 0) << promoted.text << job_process_->Output();
  const json result = promoted.Json();
  EXPECT_EQ(result["pserver"], 0);
  EXPECT_EQ(result["member"], 1);
  EXPECT_EQ(result["previous_member"], 0);
  EXPECT_GT(result["term"], 1);
  EXPECT_GT(result["seconds"], 0);
  const json second = Await(0, 1, "following");
  EXPECT_EQ(second["standbys"][0]["member"], 0);
  EXPECT_EQ(second["term"], result["term"]);
  EXPECT_EQ(Server(1)["member"], 0);
  EXPECT_TRUE(WaitUntil([&] { return Server(0)["version"] > second["version"]; }))
      << "the trainer continues";

  const Said back = Tandem({"promote", Logs(), "0"});
  EXPECT_EQ(back.code, 0) << back.text;
  EXPECT_THAT(back.text, HasSubstr("pserver 0: member 0 is the primary (term "));
  Await(0, 0, "following");
  const Said third = Tandem({"promote", Logs(), "0"});
  EXPECT_EQ(third.code, kConfigError);
  EXPECT_THAT(third.text,
              HasSubstr("pserver 0 keeps its primary: the old primary needs a restart, and 2 of 2 "
                        "restarts are used (--max_restarts) [TD4032]"));
  EXPECT_EQ(Server(0)["member"], 0);
  EXPECT_THAT(job_process_->Output(), HasSubstr("tandem promote: pserver 0 keeps its primary"));
  job_process_->Signal(SIGTERM);
  job_process_->Wait();
}

TEST_F(PromoteTest, APromotionThatIsNotPossibleIsRefused) {
  Start({"--standbys=1", "--pserver_data_dir=" + Path("state")});
  const json first = Await(0, 0, "following");
  EXPECT_EQ(Tandem({"promote", Logs(), "2"}).code, kUsageError);

  // A request that tandemrun does not read yet.
  job_process_->Signal(SIGSTOP);
  const Said late = Tandem({"promote", Logs(), "0", "--wait_s=1"});
  EXPECT_EQ(late.code, kNoReplyInTime);
  EXPECT_THAT(late.text, HasSubstr("pserver 0 has no new primary after 1 s [TD4032]"));
  job_process_->Signal(SIGCONT);
  Await(0, 1, "following");

  // A standby that hangs. tandemrun is stopped too, because it would replace the standby.
  const pid_t standby = ProcessOf(0);
  job_process_->Signal(SIGSTOP);
  ::kill(standby, SIGSTOP);
  Await(0, 1, "does not reply");
  const json now = Tandem({"status", Logs(), "-o", "json"}).Json();
  EXPECT_THAT(now["slow"].dump(), HasSubstr("standby 0 of pserver 0 has sent nothing for "));
  const Said alone = Tandem({"promote", Logs(), "0"});
  EXPECT_EQ(alone.code, kConfigError);
  EXPECT_THAT(alone.text, HasSubstr("pserver 0 has 0 standbys that follow its primary, but a "
                                    "promotion needs 1 (member 0: does not reply, lacks "));
  ::kill(standby, SIGCONT);
  job_process_->Signal(SIGCONT);
  Await(0, 1, "following");

  ASSERT_TRUE(std::filesystem::remove(Logs() + "/silent"));
  const Said unread = Tandem({"promote", Logs(), "0"});
  EXPECT_EQ(unread.code, kUnavailable);
  EXPECT_THAT(unread.text, HasSubstr("cannot send a request to tandemrun through "));
  EXPECT_EQ(Server(0)["member"], 1);

  EXPECT_EQ(Tandem({"drain", Logs()}).code, 0);
  job_process_->Wait();
  const Said over = Tandem({"promote", Logs(), "0"});
  EXPECT_EQ(over.code, kConfigError);
  EXPECT_THAT(over.text, AllOf(HasSubstr(" ended at "), HasSubstr("[TD7003]")));
}

TEST_F(PromoteTest, AJobWithoutStandbysHasNone) {
  Start({});
  ASSERT_TRUE(WaitUntil([&] { return Server(0).is_object() && Server(0)["version"] > 0; }))
      << job_process_->Output();
  const json server = Server(0);
  for (const char* name : {"member", "term", "standbys"}) EXPECT_FALSE(server.contains(name));
  EXPECT_THAT(Tandem({"status", Logs()}).text, Not(HasSubstr("MEMBER")));
  const Said refused = Tandem({"promote", Logs(), "0"});
  EXPECT_EQ(refused.code, kConfigError);
  EXPECT_THAT(refused.text, HasSubstr("pserver 0 has no standbys [TD4028]"));
  job_process_->Signal(SIGTERM);
  job_process_->Wait();
}

}  // namespace
}  // namespace tandem
