// deterministic: the result has the same bits for every mode and for any number of ranks, replicas
// and servers.
#include "gmock/gmock.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"
#include "trainer/session/job_notes.h"
#include "trainer/session/programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

struct Layout {
  const char* name;
  Args launch, flags;
};

Layout Local(const char* name, const char* places) {
  return {name, {"--mode=local"}, {std::string("--cpu_num=") + places}};
}
Layout Collective(const char* name, const char* ranks, Args flags = {}) {
  return {name, {"--mode=collective", std::string("--nproc=") + ranks}, std::move(flags)};
}
Layout Pserver(const char* name, const char* servers, const char* workers, Args flags = {}) {
  return {name,
          {std::string("--servers=") + servers, std::string("--workers=") + workers},
          std::move(flags)};
}

class DeterministicTest : public KnobProgramTest {
 protected:
  JobRun Train(const Layout& layout, Args flags) const {
    flags.insert(flags.end(), layout.flags.begin(), layout.flags.end());
    JobRun run = RunJob(layout.name, layout.launch, flags);
    EXPECT_EQ(run.exit_code, 0) << layout.name << ": " << run.output;
    return run;
  }
  // Expects that all layouts end with the same parameters and the same evaluation as the first
  // layout.
  void ExpectOneResult(const std::vector<Layout>& layouts, const Args& flags) const {
    const JobResult want = Train(layouts[0], flags).result;
    for (size_t i = 1; i < layouts.size(); ++i) {
      const JobResult got = Train(layouts[i], flags).result;
      EXPECT_EQ(got.params_sha256, want.params_sha256) << layouts[i].name;
      EXPECT_EQ(got.loss, want.loss) << layouts[i].name;
    }
  }
};

const Args kOn = {"--steps_max=50", "--deterministic=true"};

// A job that leaves cores idle gets a note with the settings that use these cores.
TEST(DeterministicNoteTest, PlacesUseIdleCores) {
  JobConfig config;
  RankInfo rank;
  EXPECT_EQ(IdleCoresNote(config, rank, 8), "");
  config.mutable_strategy()->set_deterministic(true);
  config.mutable_strategy()->set_batch_merge_repeats(4);  // the value that LoadJob would set
  EXPECT_THAT(IdleCoresNote(config, rank, 8), testing::HasSubstr("--cpu_num=4 uses 4"));
  EXPECT_THAT(IdleCoresNote(config, rank, 3), testing::HasSubstr("--cpu_num=2 uses 2"));
  EXPECT_EQ(IdleCoresNote(config, rank, 1), "");
  rank.local_size = 2;
  EXPECT_THAT(IdleCoresNote(config, rank, 4), testing::HasSubstr("--cpu_num=2 uses 2"));
  config.set_threads(2);
  EXPECT_EQ(IdleCoresNote(config, rank, 8), "");
}

TEST_F(DeterministicTest, EveryModeAndLayout) {
  ExpectOneResult(
      {Local("local", "1"), Local("places2", "2"), Local("places4", "4"), Collective("ranks2", "2"),
       Collective("ranks4", "4"), Collective("ranks2places2", "2", {"--cpu_num=2"}),
       Pserver("s1w1", "1", "1"), Pserver("s1w2", "1", "2"), Pserver("s1w4", "1", "4"),
       Pserver("s2w1", "2", "1"), Pserver("s2w2", "2", "2"), Pserver("s2w4", "2", "4"),
       Pserver("s3w1", "3", "1"), Pserver("s3w2", "3", "2"), Pserver("s3w4", "3", "4")},
      kOn);
}

TEST_F(DeterministicTest, HowGradientsTravelChangesNothing) {
  ExpectOneResult(
      {Collective("plain", "4"), Collective("reduce", "4", {"--reduce_strategy=Reduce"}),
       Collective("single", "4", {"--fuse_all_reduce_ops=false"}),
       Collective("buckets", "4", {"--fuse_grad_size_in_MB=0.01"}),
       Collective("three", "4", {"--nccl_comm_num=3", "--sync_nccl_allreduce=false"}),
       Collective("groups", "4",
                  {"--use_hierarchical_allreduce=true", "--hierarchical_allreduce_inter_nranks=2"}),
       Pserver("whole", "2", "4", {"--slice_var_up=false"})},
      kOn);
}

TEST_F(DeterministicTest, EightShardsOnUpToEightRanks) {
  Args flags = kOn;
  flags.push_back("--logical_shards=8");
  ExpectOneResult({Local("local", "1"), Collective("ranks2", "2"), Collective("ranks8", "8"),
                   Pserver("w8", "2", "8")},
                  flags);
}

// Without the knob, different layouts give different bits, because the layouts add values in
// different orders.
TEST_F(DeterministicTest, OffTheyPart) {
  const Args off = {"--steps_max=50", "--threads=1"};
  const std::string local = Train(Local("local", "1"), off).result.params_sha256;
  const std::string ranks = Train(Collective("ranks4", "4"), off).result.params_sha256;
  const std::string servers = Train(Pserver("servers", "2", "4"), off).result.params_sha256;
  EXPECT_NE(ranks, local);
  EXPECT_NE(servers, ranks);
}

// The running statistics are those of the first logical shard in every layout. The test also covers
// dropout, and optimizers with norms of gradients.
TEST_F(DeterministicTest, BatchNormalisation) {
  job_ = Write("norms.pbtxt", kResNet18Job);
  const Args flags = {"--steps_max=6", "--deterministic=true", "--optimizer.clip_norm=1"};
  const std::vector<Layout> layouts = {Local("local", "1"), Local("places", "2"),
                                       Collective("ranks4", "4"), Pserver("servers", "2", "4")};
  ExpectOneResult(layouts, flags);
}

TEST_F(DeterministicTest, MixedPrecision) {
  Args flags = kOn;
  flags.push_back("--amp=true");
  ExpectOneResult({Local("local", "1"), Collective("ranks4", "4"), Pserver("servers", "2", "4")},
                  flags);
}

TEST_F(DeterministicTest, ACheckpointOfAnyLayoutGoesOnInAnyOther) {
  const std::string want = Train(Local("whole", "1"), kOn).result.params_sha256;
  const Args store = {"--deterministic=true", "--checkpoint.dir=" + Path("ck"),
                      "--checkpoint.every_steps=20"};
  const auto until = [&](const char* steps) {
    Args flags = store;
    flags.push_back(std::string("--steps_max=") + steps);
    return flags;
  };
  Train(Pserver("servers", "2", "4"), until("20"));
  Train(Collective("ranks", "2"), until("40"));
  const JobRun last = Train(Local("places", "4"), until("50"));
  EXPECT_THAT(last.output, HasSubstr("resumed at step 40"));
  EXPECT_EQ(last.result.params_sha256, want);
}

TEST_F(DeterministicTest, RefusesWhatItCannotPromise) {
  const auto expect = [&](const char* name, const Layout& layout, Args flags, const char* words) {
    flags.push_back("--deterministic=true");
    const auto job = StartJob(name, layout.launch, flags);
    EXPECT_EQ(job->Wait(), 2) << name;
    EXPECT_THAT(job->Output(), HasSubstr(words)) << name;
  };
  const Layout local = Local("local", "1"), three = Collective("three", "3"),
               two = Collective("two", "2");
  expect("three", three, {"--global_batch_size=12"}, "cannot be divided equally among 3 ranks");
  expect("odd", local, {"--global_batch_size=66"}, "cannot be divided into 4 equal logical_shards");
  expect("six", local, {"--logical_shards=6"}, "6 is not a power of two");
  expect("half", two, {"--fp16_allreduce=true"}, "exclude each other");
  expect("async", Pserver("p", "1", "2"), {"--a_sync=true"}, "exclude each other");
  expect("parts", local, {"--batch_merge_repeats=2"},
         "logical_shards determines the number of parts");
}

}  // namespace
}  // namespace tandem::trainer
