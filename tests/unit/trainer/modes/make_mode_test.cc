#include "trainer/modes/make_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proto/job.pb.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the modes of ranks 0 to `ranks` - 1.
std::vector<TrainingMode> Modes(const JobConfig& config, int ranks, int heter_workers = 0) {
  std::vector<TrainingMode> modes;
  for (int r = 0; r < ranks; ++r) {
    RankInfo rank;
    rank.rank = r;
    rank.size = ranks;
    rank.heter_workers = heter_workers;
    rank.rendezvous = "127.0.0.1:1";
    rank.pservers = {"127.0.0.1:1"};
    auto mode = MakeMode(config, rank, CommonOptionsOf(config, rank, {}));
    CHECK(mode.ok()) << mode.status();
    modes.push_back(*std::move(mode));
  }
  return modes;
}

std::vector<EvaluationPart> Parts(const JobConfig& config, int ranks, int heter_workers = 0) {
  std::vector<EvaluationPart> parts;
  for (const TrainingMode& mode : Modes(config, ranks, heter_workers)) {
    parts.push_back(mode.evaluation_part);
  }
  return parts;
}

JobConfig Job(Mode mode) {
  JobConfig config;
  config.set_mode(mode);
  config.mutable_optimizer()->set_type("sgd");
  return config;
}

constexpr auto kNone = EvaluationPart::kNone, kWhole = EvaluationPart::kWhole,
               kSection = EvaluationPart::kSection, kServes = EvaluationPart::kServesCommunication;

TEST(MakeMode, Rank0EvaluatesWhereEachRankHasAllParameters) {
  EXPECT_THAT(Parts(Job(LOCAL), 1), ElementsAre(kWhole));
  for (const Mode mode : {PSERVER, COLLECTIVE, HYBRID}) {
    EXPECT_THAT(Parts(Job(mode), 3), ElementsAre(kWhole, kNone, kNone)) << mode;
  }
}

TEST(MakeMode, AllRanksServeWhereParametersAreDivided) {
  JobConfig config = Job(COLLECTIVE);
  config.mutable_strategy()->set_sharding(true);
  EXPECT_THAT(Parts(config, 3), ElementsAre(kWhole, kServes, kServes));
  for (const TrainingMode& mode : Modes(config, 2)) EXPECT_NE(mode.evaluation, nullptr);
  EXPECT_THAT(Parts(config, 1), ElementsAre(kWhole));
}

TEST(MakeMode, TheFirstReplicaOfAPipelineEvaluates) {
  JobConfig config = Job(COLLECTIVE);
  config.mutable_strategy()->set_pipeline(true);
  config.mutable_model()->set_sections(2);
  config.mutable_strategy()->mutable_pipeline_configs()->set_micro_batch(4);
  EXPECT_THAT(Parts(config, 4), ElementsAre(kSection, kSection, kNone, kNone));
  for (const TrainingMode& mode : Modes(config, 4)) {
    EXPECT_EQ(mode.sections, 2);
    EXPECT_EQ(mode.micro_batches, 4);
  }
}

// Ranks 0 to 3 are trainers. Rank 4 is the heter worker of trainers 0 and 1.
TEST(MakeMode, AHeterWorkerHasNoTables) {
  EXPECT_THAT(Parts(Job(HYBRID), 6, 2),
              ElementsAre(kSection, kNone, kNone, kNone, kSection, kNone));
  const auto modes = Modes(Job(HYBRID), 6, 2);
  for (size_t r = 0; r < modes.size(); ++r) {
    EXPECT_EQ(modes[r].tables != nullptr, r < 4) << r;
    EXPECT_EQ(modes[r].micro_batches, r < 4 ? 1 : 2) << r;
    EXPECT_EQ(modes[r].sections, 1) << r;
  }
}

TEST(MakeMode, NamesTheMissingAddress) {
  const RankInfo nowhere = {.size = 2};
  const auto refused = [&nowhere](const JobConfig& config) {
    const auto mode = MakeMode(config, nowhere, CommonOptionsOf(config, nowhere, {}));
    EXPECT_EQ(mode.status().code(), StatusCode::kInvalidArgument);
    return std::string(mode.status().message());
  };
  EXPECT_THAT(refused(Job(LOCAL)),
              HasSubstr("mode LOCAL has one process, but the job has 2 [TD3003]"));
  EXPECT_THAT(refused(Job(PSERVER)), HasSubstr("mode PSERVER needs pservers"));
  EXPECT_THAT(refused(Job(HYBRID)), HasSubstr("mode HYBRID needs pservers"));
  EXPECT_THAT(refused(Job(COLLECTIVE)), HasSubstr("needs a rendezvous"));
}

TEST(MakeMode, HybridRefusesGeo) {
  JobConfig config = Job(HYBRID);
  config.mutable_strategy()->set_a_sync(true);
  config.mutable_strategy()->mutable_a_sync_configs()->set_k_steps(5);
  RankInfo rank;
  rank.pservers = {"127.0.0.1:1"};
  const auto mode = MakeMode(config, rank, CommonOptionsOf(config, rank, {}));
  EXPECT_EQ(mode.status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tandem::trainer
