// Tests the profile of a job: a table and a timeline for every rank.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ProfileTest : public JobTest {
 protected:
  std::string File(const std::string& name) const { return ReadWholeFile(Path("prof/" + name)); }
};

TEST_F(ProfileTest, EveryRankHasATableAndATimeline) {
  const JobRun plain = RunJob("plain", {"--mode=collective", "--nproc=2"}, {"--steps_max=12"});
  const JobRun run = RunJob("profiled", {"--mode=collective", "--nproc=2"},
                            {"--steps_max=12", "--profile.dir=" + Path("prof"),
                             "--profile.first_step=4", "--profile.steps=5"});
  EXPECT_EQ(run.result.params_sha256, plain.result.params_sha256) << "looking on changes nothing";
  EXPECT_THAT(run.output, HasSubstr("profile of 5 steps, timeline in " + Path("prof")));
  for (const std::string rank : {"0", "1"}) {
    EXPECT_THAT(File("profile." + rank + ".txt"), HasSubstr("conv2d_grad"));
    EXPECT_THAT(File("profile." + rank + ".txt"), HasSubstr(" overlaps with other work"));
    const json trace = json::parse(File("timeline." + rank + ".json"), nullptr, false);
    ASSERT_TRUE(trace.is_object());
    std::map<std::string, int> names, phases;
    double end = 0;
    for (const json& event : trace["traceEvents"]) {
      ++phases[event["ph"].get<std::string>()];
      if (event["ph"] == "M") continue;
      ++names[event["name"].get<std::string>()];
      EXPECT_EQ(event["pid"], std::stoi(rank));
      EXPECT_GE(event["ts"].get<double>(), 0);
      if (event["ph"] != "X" || event["tid"] != 0) continue;
      EXPECT_GE(event["ts"].get<double>(), end) << "kernels of one thread do not overlap";
      end = event["ts"].get<double>() + event["dur"].get<double>() - 0.01;
    }
    EXPECT_EQ(names["conv2d"], 2 * 5);
    EXPECT_EQ(names["wait c_allreduce_sum"], 5);
    EXPECT_EQ(names["c_allreduce_sum"], 2 * 5);  // the begin and the end of each operation
    EXPECT_EQ(names["wait for data"], 5);
    EXPECT_EQ(names["feed"], 5);
    EXPECT_EQ(phases["b"], phases["e"]);
  }
}

TEST_F(ProfileTest, AShortRunProfilesWhatThereIs) {
  const JobRun run =
      RunJob("short", {"--mode=local"}, {"--steps_max=12", "--profile.dir=" + Path("prof")});
  EXPECT_THAT(run.output, HasSubstr("profile of 2 steps"));
}

TEST_F(ProfileTest, Refusals) {
  const auto none =
      StartJob("none", {"--mode=local"}, {"--profile.dir=" + Path("prof"), "--profile.steps=0"});
  EXPECT_EQ(none->Wait(), 2);
  EXPECT_THAT(none->Output(), HasSubstr("profile: 0 steps from step 10 on"));
  const auto where =
      StartJob("where", {"--mode=local"},
               {"--profile.dir=/proc/nowhere", "--profile.first_step=0", "--profile.steps=1"});
  EXPECT_EQ(where->Wait(), 2);
  EXPECT_THAT(where->Output(),
              HasSubstr("profile.dir: /proc/nowhere/profile.0.txt: cannot be created (No such"));
}

}  // namespace
}  // namespace tandem
