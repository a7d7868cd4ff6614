// Tests the rows of `tandem status` about standbys, for replies that a running job seldom gives.
#include "deploy/cli/job/standby_rows.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "deploy/cli/job/job_snapshot_text.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the reply of a primary with the number 1 and the standbys 0, 2 and 3.
StatusReply Reply() {
  StatusReply reply;
  reply.set_term(2000);
  reply.set_member(1);
  const auto add = [&reply](uint32_t member, bool current, double lag, double silent) {
    StandbyStatus* const standby = reply.add_standby();
    standby->set_member(member);
    standby->set_current(current);
    standby->set_lag_entries(lag == 0 ? 0 : 7);
    standby->set_lag_bytes(lag == 0 ? 0 : 700);
    standby->set_lag_seconds(lag);
    standby->set_silent_seconds(silent);
  };
  add(3, true, 8, 6);
  add(0, true, 0, 0.5);
  add(2, false, 0, 0.25);
  return reply;
}

JobSnapshot Job(const StatusReply& reply, const std::vector<int>& members) {
  JobSnapshot job;
  job.job = "j";
  job.asked = 1;
  ServerRow row;
  row.address = "127.0.0.1:7000";
  row.state = "serving";
  row.term = reply.term();
  row.member = static_cast<int>(reply.member());
  row.standbys = StandbysOf(reply, members);
  job.servers.push_back(row);
  return job;
}

TEST(StandbyRows, HaveStatesAndAreSorted) {
  const std::vector<StandbyRow> rows = StandbysOf(Reply(), {0, 1, 2, 3, 4});
  ASSERT_EQ(rows.size(), 4u) << "the standbys are the members without the primary";
  const char* const states[] = {"following", "fetching the checkpoint", "does not reply",
                                "not connected yet"};
  const int members[] = {0, 2, 3, 4};
  const bool follow[] = {true, false, false, false};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].member, members[i]);
    EXPECT_EQ(rows[i].state, states[i]);
    EXPECT_EQ(rows[i].Follows(), follow[i]) << i;
  }
  EXPECT_EQ(StandbysOf(Reply(), {}).size(), 3u) << "without job.json those of the reply";
}

TEST(StandbyRows, OnlyACloseStandbyFollows) {
  StandbyRow row = StandbysOf(Reply(), {})[0];
  EXPECT_TRUE(row.Follows());
  row.lag_seconds = 2.5;
  EXPECT_FALSE(row.Follows());
  row.lag_seconds = 1.5;
  EXPECT_TRUE(row.Follows());
  row.silent_seconds = 2.5;
  EXPECT_FALSE(row.Follows());
}

TEST(StandbyRows, SlowOnesAreNamed) {
  const std::vector<StandbyRow> rows = StandbysOf(Reply(), {0, 1, 2, 3, 4});
  EXPECT_EQ(rows[0].SlowText(6), std::nullopt);
  EXPECT_EQ(rows[1].SlowText(6), std::nullopt);
  EXPECT_EQ(rows[2].SlowText(6), "standby 3 of pserver 6 has sent nothing for 6 s");
  EXPECT_EQ(rows[3].SlowText(6), "standby 4 of pserver 6 has not connected to its primary");
  StandbyRow behind = rows[2];
  behind.silent_seconds = 0.5;
  EXPECT_EQ(behind.SlowText(6), "standby 3 of pserver 6 lags by 8 s and 7 log entries");
}

TEST(StandbyRows, AreInTextAndJson) {
  const JobSnapshot job = Job(Reply(), {0, 1, 2, 3, 4});
  EXPECT_THAT(
      StatusText(job, nullptr),
      AllOf(
          HasSubstr("\nPSERVER  MEMBER  STATE                    LAG ENTRIES  LAG BYTES  LAG "
                    "TIME  SILENT\n"),
          HasSubstr("\n0        1       primary of term 2000     -            -          -"),
          HasSubstr("\n0        0       following                0            0          0.0 s"),
          HasSubstr("\n0        2       fetching the checkpoint  -            -          -"),
          HasSubstr("\n0        3       does not reply           7            700        8.0 s     "
                    "6.0 s\n"),
          HasSubstr("\n0        4       not connected yet        -            -          -")));
  const auto json = nlohmann::json::parse(StatusJson(job))["servers"][0];
  EXPECT_EQ(json["term"], 2000);
  EXPECT_EQ(json["member"], 1);
  ASSERT_EQ(json["standbys"].size(), 4u);
  EXPECT_EQ(json["standbys"][2]["lag_bytes"], 700);
  EXPECT_FALSE(json["standbys"][1].contains("lag_bytes")) << "its lag is unknown";
  EXPECT_FALSE(json["standbys"][3].contains("silent_seconds"));
}

TEST(StandbyRows, AServerWithoutStandbysHasNone) {
  StatusReply reply;
  EXPECT_TRUE(StandbysOf(reply, {0, 1}).empty());
  const JobSnapshot job = Job(reply, {});
  EXPECT_THAT(StatusText(job, nullptr), Not(HasSubstr("MEMBER")));
  EXPECT_THAT(StatusJson(job), Not(HasSubstr("standbys")));
}

}  // namespace
}  // namespace tandem::deploy
