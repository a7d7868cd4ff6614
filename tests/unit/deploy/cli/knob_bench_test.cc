// tandem bench knobs: the tests compare the table of the command with the list of knobs, and run
// the command as a user does.
#include "deploy/cli/knob_bench/knob_bench.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/strategy/knobs.h"
#include "common/strategy/strategy.h"
#include "proto/job.pb.h"
#include "tests/support/process_test_util.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;

std::map<std::string, strategy::KnobInfo> BuiltKnobs() {
  std::map<std::string, strategy::KnobInfo> built;
  for (const strategy::KnobInfo& info : strategy::ListKnobs()) {
    if (info.built) built[info.path] = info;
  }
  return built;
}

TEST(KnobBenchTable, RowsAreOfBuiltKnobsAndCanBeSet) {
  const std::map<std::string, strategy::KnobInfo> built = BuiltKnobs();
  for (const deploy::KnobBench& row : deploy::KnobBenches()) {
    ASSERT_TRUE(built.contains(row.knob)) << row.knob;
    const std::string from = row.from != nullptr ? row.from : built.at(row.knob).default_value;
    EXPECT_NE(from, row.changed) << row.knob;
    EXPECT_TRUE(deploy::FindBenchNetwork(row.network).ok()) << row.knob;
    JobConfig job;
    strategy::Origins origins;
    const strategy::Origin origin = strategy::FlagOrigin(row.knob);
    const std::string path = std::string("strategy.") + row.knob;
    Status set = strategy::ApplyOverride(&job, path, row.changed, origin, &origins);
    EXPECT_TRUE(set.ok()) << set;
    std::vector<const char*> settings = row.with;
    settings.insert(settings.end(), row.also.begin(), row.also.end());
    for (const std::string with : settings) {
      const size_t equals = with.find('=');
      ASSERT_NE(equals, std::string::npos) << row.knob << " " << with;
      set = strategy::ApplyOverride(&job, with.substr(0, equals), with.substr(equals + 1), origin,
                                    &origins);
      EXPECT_TRUE(set.ok()) << row.knob << ": " << set;
    }
  }
}

TEST(KnobBenchTable, EveryBuiltKnobHasARowOrAReason) {
  std::set<std::string> rows, reasons;
  for (const deploy::KnobBench& row : deploy::KnobBenches()) {
    EXPECT_TRUE(rows.insert(row.knob).second) << row.knob << " has two rows";
  }
  for (const deploy::UnbenchedKnob& knob : deploy::UnbenchedKnobs()) {
    EXPECT_TRUE(reasons.insert(knob.knob).second) << knob.knob << " has two reasons";
    EXPECT_TRUE(BuiltKnobs().contains(knob.knob)) << knob.knob << " is not built";
    EXPECT_GE(std::string(knob.why).size(), 10u) << knob.knob;
  }
  for (const auto& [path, info] : BuiltKnobs()) {
    EXPECT_EQ(rows.count(path) + reasons.count(path), 1u)
        << path
        << ": deploy/cli/knob_bench/knob_bench_table.cc wants one row, or one reason why there is "
           "none";
  }
}

class KnobBenchRun : public ::testing::Test {
 protected:
  // Runs `tandem bench ARGS` and returns the exit code.
  int Bench(std::vector<std::string> args) {
    args.insert(args.begin(), "bench");
    const std::string file = ::testing::TempDir() + "/bench.out";
    ChildProcess tandem("tandem", args, {}, file);
    const int code = tandem.Wait();
    output_ = tandem.Output();
    return code;
  }
  std::string output_;
};

TEST_F(KnobBenchRun, ATableOfWhatMoved) {
  EXPECT_EQ(Bench({"knobs", "--short", "--only=fuse_all_optimizer_ops,enable_inplace",
                   "--network=mlp", "-o", "json"}),
            0)
      << output_;
  const auto json = nlohmann::json::parse(output_.substr(output_.find('{')), nullptr, false);
  ASSERT_EQ(json["knobs"].size(), 2u) << output_;
  const auto& fused = json["knobs"][0];
  EXPECT_EQ(fused["knob"], "build_strategy.fuse_all_optimizer_ops");
  EXPECT_EQ(fused["network"], "mlp");
  EXPECT_EQ(fused["default"], "false");
  EXPECT_EQ(fused["counter"]["name"], "ops");
  EXPECT_EQ(fused["counter"]["default"].get<int>() - fused["counter"]["changed"].get<int>(), 9)
      << "the updates of 10 parameters became one";
  EXPECT_EQ(fused["losses"]["difference"], 0.0);
  EXPECT_GT(fused["time_ratio"]["median"].get<double>(), 0);
  EXPECT_GT(fused["peak_bytes"]["changed"].get<double>(), 1e6);
  EXPECT_EQ(fused["problem"], "");
}

TEST_F(KnobBenchRun, WrongNamesAreAnsweredWithTheNearest) {
  EXPECT_EQ(Bench({"knobs", "--only=fuse_all_optimizer_op"}), kExitUsage);
  EXPECT_THAT(output_, HasSubstr("did you mean \"fuse_all_optimizer_ops\""));
  EXPECT_EQ(Bench({"knobs", "--only=mode"}), kExitUsage);
  EXPECT_THAT(output_, HasSubstr("knob mode cannot be measured: "));
  EXPECT_EQ(Bench({"knobs", "--network=lenett"}), kExitUsage);
  EXPECT_THAT(output_,
              HasSubstr("there is no network \"lenett\" to measure, expected one of lenet, mlp"));
  EXPECT_EQ(Bench({"knobs", "--job=/no/such/file"}), kExitUsage);
  EXPECT_EQ(Bench({"nkobs"}), kExitUsage);
  EXPECT_EQ(Bench({"knobs", "--help"}), 0);
}

}  // namespace
}  // namespace tandem::deploy
