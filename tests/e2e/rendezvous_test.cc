// Tests tandemrun --rendezvous: ranks that find each other through a shared directory or etcd train
// the same bits as with an address.
#include <signal.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "tests/support/etcd_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

class RendezvousTest : public JobTest {
 protected:
  // Runs a job twice with the rendezvous `url`: undisturbed, and with a kill of rank 0. Both runs
  // must have the bits of a job without `url`.
  void ExpectTheSameBits(const std::string& url) {
    const std::vector<std::string> args = {"--steps_max=400", "--log_every_steps=1"};
    std::vector<std::string> launch = {"--mode=collective", "--nproc=2"};
    const std::string want = RunJob("told", launch, args).result.params_sha256;
    launch.push_back("--rendezvous=" + url);
    // With --nccl_comm_num=2 there are two communicators. Each communicator is a separate world at
    // the same rendezvous.
    const JobRun quiet = RunJob(
        "quiet", launch, {args[0], args[1], "--nccl_comm_num=2", "--fuse_all_reduce_ops=false"});
    EXPECT_EQ(quiet.exit_code, 0) << quiet.output;
    EXPECT_EQ(quiet.result.params_sha256, want);
    launch.push_back("--max_restarts=2");
    const auto job = StartJob("killed", launch, args);
    ASSERT_TRUE(job->WaitForText("step=10 ")) << job->Output();
    const pid_t rank0 = TrainerOf(*job, 0);
    ASSERT_NE(rank0, 0);
    kill(rank0, SIGKILL);
    EXPECT_EQ(job->Wait(), 0) << job->Output();
    EXPECT_THAT(job->Output(), HasSubstr("restarting it (restart 1 of 2)"));
    EXPECT_EQ(ResultOf("killed").params_sha256, want);
  }
};

TEST_F(RendezvousTest, AFolder) {
  const std::string folder = Path("meet");
  std::filesystem::create_directory(folder);
  ExpectTheSameBits("file://" + folder);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(left, testing::ElementsAre(testing::EndsWith(".lock")));
}

TEST_F(RendezvousTest, Etcd) {
  if (!EtcdServer::Installed()) {
    GTEST_SKIP() << "no " << kEtcdProgram << " (Debian's package etcd-server)";
  }
  const EtcdServer server(dir_);
  ExpectTheSameBits("etcd://" + server.address() + "/tandem");
}

TEST_F(RendezvousTest, WhatIsNoneIsRefused) {
  const auto refused = [this](const std::vector<std::string>& launch, const std::string& why) {
    const auto job = StartJob("refused", launch, {});
    EXPECT_EQ(job->Wait(), 2);
    EXPECT_THAT(job->Output(), HasSubstr(why));
  };
  refused({"--mode=collective", "--nproc=2", "--rendezvous=redis://a:1"},
          "etcd://HOST:PORT/PREFIX");
  refused({"--servers=1", "--workers=2", "--rendezvous=file:///tmp"},
          "has no effect in pserver mode");
}

}  // namespace
}  // namespace tandem
