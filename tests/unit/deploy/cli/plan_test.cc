// Tests `tandem plan`, which the tests run as a user does, and its plots.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/status.h"
#include "deploy/cli/plan/plot.h"
#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PlanTest : public LauncherTest {
 protected:
  int Plan(std::vector<std::string> args) {
    args.insert(args.begin(), "plan");
    StartProgram("tandem", args);
    return WaitForLauncher();
  }
  // Writes a job of LeNet with one gradient bucket per layer. Returns the path of the job file.
  std::string Job(const std::string& strategy = "fuse_grad_size_in_MB: -1") {
    const std::string path = dir_ + "/job.pbtxt";
    std::ofstream(path) << "name: \"digits\"\nmodel { zoo: \"lenet\" }\ndata { dir: \"" << dir_
                        << "\" }\noptimizer { type: \"sgd\" }\nbatch_size: 4\nstrategy { "
                        << strategy << " }\n";
    return path;
  }
  nlohmann::json Json() { return nlohmann::json::parse(Out(), nullptr, false); }
};

const std::vector<std::string> kLinks = {"--ranks_per_host=2",       "--latency_us=5",
                                         "--bandwidth_gbps=80",      "--inter_latency_us=1000",
                                         "--inter_bandwidth_gbps=1", "--message_overhead_us=0",
                                         "--reduce_gbps=1e6"};

std::vector<std::string> With(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_F(PlanTest, SimulatesFromOneHostToAll) {
  ASSERT_EQ(Plan(With({Job(), "--ranks=8", "-o", "json", "--svg=" + dir_ + "/p.svg"}, kLinks)), 0)
      << Err();
  const auto json = Json();
  EXPECT_EQ(json["simulated"], true);
  ASSERT_EQ(json["scales"].size(), 3u) << "2, 4 and 8 ranks";
  const auto& scale = json["scales"][2];
  EXPECT_EQ(scale["ranks"], 8);
  EXPECT_EQ(scale["hosts"], 4);
  ASSERT_EQ(scale["buckets"].size(), 5u) << Out();
  double best_of_each = 0;
  for (const auto& bucket : scale["buckets"]) {
    const auto& seconds = bucket["seconds"];
    // A ring of 8 ranks on 4 hosts has 14 schedule steps. Half of these steps cross hosts. Such a
    // step takes at least one millisecond for any number of bytes.
    EXPECT_GT(seconds["ring"], 7e-3);
    EXPECT_LT(seconds["shards"], seconds["ring"]);
    for (const auto& other : seconds) EXPECT_LE(seconds[bucket["best"]], other);
    best_of_each += seconds[bucket["best"].get<std::string>()].get<double>();
  }
  EXPECT_NEAR(scale["step_s"], best_of_each, 1e-12) << "no output can be exported";
  const std::string svg = Read("p.svg");
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("(simulated)"));
}

TEST_F(PlanTest, TextSaysThatItIsSimulated) {
  ASSERT_EQ(Plan(With({Job(), "--ranks=8", "--compute_ms=100"}, kLinks)), 0) << Err();
  EXPECT_THAT(Out(), StartsWith("# digits: simulated"));
  EXPECT_THAT(Out(), HasSubstr("between hosts 1000 us and 1 Gbit/s"));
  EXPECT_THAT(Out(), HasSubstr("efficiency"));
}

TEST_F(PlanTest, ComputingHidesWhatIsReducedMeanwhile) {
  const auto step = [&](const std::vector<std::string>& more) {
    EXPECT_EQ(Plan(With(With({Job(), "--ranks=8", "-o", "json"}, kLinks), more)), 0) << Err();
    return Json()["scales"][2]["step_s"].get<double>();
  };
  const double bare = step({}), computed = step({"--compute_ms=1000"});
  EXPECT_GT(computed, 1.0);
  EXPECT_LT(computed, 1.0 + bare) << "the first buckets travel under backward";
  const double slow = step({"--compute_ms=1000", "--straggler=3:1.5"});
  EXPECT_GT(slow, 1.5) << "everybody waits for the slowest";
  EXPECT_LT(slow, 1.5 + bare);
}

TEST_F(PlanTest, ThousandsOfRanks) {
  ASSERT_EQ(Plan({Job("fuse_grad_size_in_MB: 32"), "--ranks=4096", "--inter_latency_us=20",
                  "--inter_bandwidth_gbps=100", "-o", "json"}),
            0)
      << Err();
  const auto last = Json()["scales"].back();
  EXPECT_EQ(last["ranks"], 4096);
  EXPECT_FALSE(last["seconds"].contains("pair"));
  EXPECT_FALSE(last["seconds"].contains("shards")) << "one rank on each host";
  EXPECT_LT(last["seconds"]["halving"], last["seconds"]["ring"]);
}

TEST_F(PlanTest, MeasuresBesideWhatItPredicts) {
  ASSERT_EQ(Plan({Job(), "--ranks=2", "-o", "json", "--svg=" + dir_ + "/m.svg"}), 0) << Err();
  const auto json = Json();
  EXPECT_EQ(json["simulated"], false);
  EXPECT_GE(json["tcp"]["byte_s"], 0) << "0: a busy machine was slower with less";
  ASSERT_EQ(json["buckets"].size(), 5u) << Out();
  for (const auto& bucket : json["buckets"]) {
    std::map<std::string, nlohmann::json> ways;
    int best = 0;
    for (const auto& way : bucket["ways"]) {
      ways[way["way"]] = way;
      best += way["best"].get<bool>() ? 1 : 0;
      EXPECT_GT(way["predicted_s"], 0) << way;
      EXPECT_GT(way["measured_s"], 0) << way;
      EXPECT_EQ(way["chosen"], way["way"] == "shared memory");
    }
    EXPECT_EQ(best, 1);
    for (const char* name : {"pair", "direct", "ring", "halving", "shared memory"}) {
      EXPECT_EQ(ways.count(name), 1u) << name;
    }
  }
  EXPECT_THAT(Read("m.svg"), HasSubstr("<circle "));
}

TEST_F(PlanTest, GroupsOfTheJobAreMeasured) {
  ASSERT_EQ(Plan({Job("use_hierarchical_allreduce: true hierarchical_allreduce_inter_nranks: 2"),
                  "--ranks=4"}),
            0)
      << Err();
  EXPECT_THAT(Out(), HasSubstr("shards"));
  EXPECT_THAT(Out(), HasSubstr("leaders"));
  EXPECT_THAT(Out(), Not(HasSubstr("shared memory"))) << "groups are TCP's";
}

TEST_F(PlanTest, ErrorsSayWhatToDo) {
  const std::string job = Job();
  const auto error = [&](const std::vector<std::string>& args) {
    EXPECT_EQ(Plan(args), kExitUsage);
    return Err();
  };
  EXPECT_THAT(
      error({}),
      HasSubstr(
          "expected one job file, got 0 [TD1007] (INVALID_ARGUMENT)\nhint: run tandem plan JOB"));
  EXPECT_THAT(error({dir_ + "/none"}), HasSubstr("none"));
  EXPECT_THAT(error({job, "--ranks=17"}), HasSubstr("hint: simulate more ranks"));
  EXPECT_THAT(error({job, "--ranks=1"}), HasSubstr("from 2 to 4096"));
  EXPECT_THAT(error({job, "--inter_bandwidth_gbps=1"}), HasSubstr("--inter_latency_us is missing"));
  EXPECT_THAT(error({job, "--ranks=4", "--ranks_per_host=2", "--inter_bandwidth_gbps=1",
                     "--inter_latency_us=1"}),
              HasSubstr("--latency_us is missing"));
  EXPECT_THAT(error({job, "--latency_us=1", "--inter_bandwidth_gbps=1", "--inter_latency_us=1"}),
              HasSubstr("hint: use --ranks_per_host=N"));
  EXPECT_THAT(error({job, "--ranks=2", "--ranks_per_host=2", "--latency_us=1", "--bandwidth_gbps=1",
                     "--inter_bandwidth_gbps=1"}),
              HasSubstr("all 2 ranks are on one host [TD1005] (INVALID_ARGUMENT)\nhint"));
  EXPECT_THAT(error({job, "--inter_latency_us=1", "--inter_bandwidth_gbps=0"}),
              HasSubstr("--inter_bandwidth_gbps: expected a number from 1e-06"));
  EXPECT_THAT(error(With({job, "--ranks=5"}, kLinks)), HasSubstr("not a multiple of"));
  EXPECT_THAT(error(With({job, "--ranks=4", "--straggler=4:2"}, kLinks)),
              HasSubstr("rank 4 is out of range: there are 4"));
  EXPECT_THAT(error(With({job, "--ranks=4", "--straggler=1"}, kLinks)),
              HasSubstr("expected RANK:FACTOR"));
  EXPECT_THAT(error(With({job, "--ranks=4", "--straggler=1:0.5"}, kLinks)),
              HasSubstr("factor from 1"));
  EXPECT_THAT(error({job, "-o", "yaml"}), HasSubstr("expected text or json"));
  EXPECT_EQ(Plan({job, "--inter_latency_us=1", "--inter_bandwidth_gbps=1", "--svg=/none/p.svg"}),
            kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("/none/p.svg: cannot be created (No such file or directory)"));
}

TEST(PlotTest, LinesAndDotsLieInTheGrid) {
  deploy::Plot plot;
  plot.title = "a < b & \"c\"";
  plot.series = {{"line", {{1, 10}, {10, 100}, {100, 1000}, {0, 5}}}, {"dots", {{10, 10}}, true}};
  const std::string svg = deploy::PlotSvg(plot);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot;"));
  // The line goes from the lower left to the upper right corner. The plot omits values that are not
  // positive.
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,460.0 380.0,260.0 690.0,60.0 \""));
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"380.0\" cy=\"460.0\""));
}

}  // namespace
}  // namespace tandem::deploy
