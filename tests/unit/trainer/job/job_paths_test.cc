// Relative paths in a job file start from the directory of the job file. Relative paths in flags
// start from the working directory.
#include <filesystem>

#include "gmock/gmock.h"
#include "proto/job.pb.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/job/job.h"

namespace tandem::trainer {
namespace {

class JobPathsTest : public testing::Test {
 protected:
  EffectiveJob Load(Settings overrides) {
    JobSources sources;
    sources.path = dir_ / "job.pbtxt";
    WriteFile(sources.path,
              std::string("model { zoo: \"lenet\" }\ndata { dir: \"images\" }\n"
                          "checkpoint { dir: \"kept\" }\nepochs: 1\nglobal_batch_size: 64\n"));
    sources.overrides = std::move(overrides);
    StatusOr<EffectiveJob> job = LoadJob(sources, 1);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : EffectiveJob();
  }
  const TempDir dir_;
  const std::string here_ = std::filesystem::current_path().string();
};

TEST_F(JobPathsTest, ThoseOfFlagsBeginWhereTheShellIs) {
  const EffectiveJob job =
      Load({{"checkpoint.dir", "c"}, {"profile.dir", "a/b"}, {"debug_graphviz_path", "graphs"}});
  EXPECT_EQ(job.config->data().dir(), "images");
  EXPECT_EQ(job.config->checkpoint().dir(), here_ + "/c");
  EXPECT_EQ(job.config->profile().dir(), here_ + "/a/b");
  EXPECT_EQ(job.config->strategy().build_strategy().debug_graphviz_path(), here_ + "/graphs");
  EXPECT_EQ(InJobDir("jobs/", job.config->data().dir()), "jobs/images");
  EXPECT_EQ(InJobDir("jobs/", job.config->checkpoint().dir()), here_ + "/c");
}

TEST_F(JobPathsTest, WhatIsAbsoluteOrEmptyStays) {
  const EffectiveJob job = Load({{"checkpoint.dir", ""}, {"data.dir", "/data"}});
  EXPECT_EQ(job.config->checkpoint().dir(), "");
  EXPECT_EQ(job.config->data().dir(), "/data");
}

}  // namespace
}  // namespace tandem::trainer
