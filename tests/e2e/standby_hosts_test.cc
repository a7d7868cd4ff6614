// Jobs on 3 emulated hosts whose pservers have standbys on other hosts (tandemrun --hosts=3
// --standbys=N). A host is lost with its disk while its pserver is the primary. The job must
// continue with a standby, and with the bits of an undisturbed job in sync mode. A new tandemrun on
// the host, with an empty disk, brings its processes back. The test is skipped if the machine does
// not permit network namespaces.
//   TANDEM_STANDBY_HOSTS_ROUNDS=N lost hosts (2)
//   TANDEM_STANDBY_HOSTS_SEED=N of their choice (the time)
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>

#include "common/base/clock.h"
#include "tests/e2e/host_jobs.h"
#include "tests/support/host_processes.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using Args = std::vector<std::string>;

constexpr int kHosts = 3, kStepOfFault = 100, kSecondsMax = 60, kLeftSecondsMax = 10;
constexpr int kHostTimeoutS = 3, kRounds = 2;
// The time from a lost host to the promotion of a standby: the host timeout, one second, and some
// time for a machine on which other programs run.
constexpr int kPromotedSecondsMax = kHostTimeoutS + 1 + 2;

constexpr char kImages[] = R"(
name: "hosts"
model {
  zoo: "mlp"  # has a variable for each pserver
  arg { name: "image" value: "1,8,8" }
  arg { name: "hidden" value: "16" }
}
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 640 test_samples: 64 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
)";
constexpr char kAnyJob[] = R"(
global_batch_size: 30
epochs: 100000
eval_every_epochs: 0
log_every_steps: 1
step_timeout_ms: 20000
seed: 1
)";

enum class Fault { kKillLauncher, kStopLauncher, kCut, kCutFromHost, kCutToHost, kKillServer };
constexpr std::pair<const char*, Fault> kFaults[] = {
    {"kill-launcher", Fault::kKillLauncher},
    {"stop-launcher", Fault::kStopLauncher},
    {"cut", Fault::kCut},
    {"cut-from-host", Fault::kCutFromHost},
    {"cut-to-host", Fault::kCutToHost},
    {"kill-server", Fault::kKillServer},
};

// One job on all hosts.
class StandbyJob {
 public:
  StandbyJob(HostProcesses& processes, const std::string& dir, const Args& flags, int steps)
      : processes_(processes), dir_(dir) {
    std::filesystem::create_directories(dir);
    const bool hybrid = std::ranges::count(flags, "--mode=hybrid") > 0;
    std::ofstream(dir + "/job.pbtxt")
        << (hybrid ? kClicksJob : kImages) << kAnyJob << "steps_max: " << steps << "\n";
    std::ofstream(dir + "/train.csv") << ClicksFile(600);
    std::ofstream(dir + "/secret") << "the secret of a test";
    std::filesystem::permissions(dir + "/secret", std::filesystem::perms::owner_read);
    args_ = {"--hosts=3",
             "--servers=3",
             "--tls",
             "--max_restarts=100",
             "--grace_s=2",
             absl::StrFormat("--host_timeout_s=%d", kHostTimeoutS),
             "--secret_file=" + dir + "/secret"};
    args_.insert(args_.end(), flags.begin(), flags.end());
    if (!hybrid) args_.push_back("--mode=pserver");
    if (std::ranges::none_of(flags, [](const std::string& f) { return f.starts_with("--rend"); })) {
      args_.push_back("--rendezvous=tcp://" + EmulatedHosts::Address(0) + ":4700");
    }
    launchers_.resize(kHosts);
    for (int host = 0; host < kHosts; ++host) Start(host);
  }

  // Starts a tandemrun on a host. The tandemrun has an empty disk if its data were removed.
  void Start(int host) {
    Args args = args_;
    args.insert(args.end(), {"--pserver_data_dir=" + DataOf(host),
                             "--listen_host=" + EmulatedHosts::Address(host),
                             absl::StrFormat("--log_dir=%s/logs-%d", dir_, ++starts_),
                             dir_ + "/job.pbtxt", "--", "--result_json=" + dir_ + "/result.json"});
    const std::string output = absl::StrFormat("%s/output-%d-%d", dir_, host, starts_);
    auto started = processes_.Start(host, "tandemrun", args, {}, output);
    CHECK(started.ok()) << started.status();
    before_ += launchers_[static_cast<size_t>(host)] ? launcher(host).Output() : "";
    launchers_[static_cast<size_t>(host)] = *std::move(started);
  }
  // Returns the log directory of the first tandemrun on a host.
  std::string FirstLogOf(int host) const { return absl::StrFormat("%s/logs-%d", dir_, host + 1); }
  std::string DataOf(int host) const { return absl::StrFormat("%s/data-%d", dir_, host); }
  ChildProcess& launcher(int host) { return *launchers_[static_cast<size_t>(host)]; }
  // Returns the text of the tandemrun of host 0 after its first `from` bytes.
  std::string Text(size_t from = 0) { return launcher(0).Output().substr(from); }
  // Returns the host whose tandemrun has let the others join.
  int Leading() {
    int host = 0;
    while (host < kHosts - 1 && launcher(host).Output().find(" has joined") == std::string::npos) {
      ++host;
    }
    return host;
  }
  bool Ended() {
    for (int host = 0; host < kHosts; ++host) {
      if (!launcher(host).Ended()) return false;
    }
    return true;
  }
  bool WaitForStep(int step) {
    return WaitUntil([&] { return JobTest::StepOf(launcher(0)) >= step || Ended(); }, kSecondsMax);
  }
  std::string params_sha256() const { return ParamsHash(dir_ + "/result.json"); }
  // Returns the outputs of all tandemruns, without the lines of steps.
  std::string Outputs() {
    std::string all = before_;
    for (int host = 0; host < kHosts; ++host) {
      all += absl::StrFormat("\n--- host %d\n%s", host, launcher(host).Output());
    }
    return WithoutSteps(all);
  }

 private:
  HostProcesses& processes_;
  const std::string dir_;
  Args args_;
  std::string before_;  // outputs of replaced tandemruns
  int starts_ = 0;
  std::vector<std::unique_ptr<ChildProcess>> launchers_;
};

class StandbyHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = EmulatedHosts::Create(kHosts, {});
    if (!made.ok()) GTEST_SKIP() << "no emulated hosts here: " << made.status().message();
    hosts_ = std::move(*made);
    hosts_->Start();
    processes_ = std::make_unique<HostProcesses>(*hosts_);
  }
  std::unique_ptr<StandbyJob> StartJob(const Args& flags, int steps) {
    return std::make_unique<StandbyJob>(*processes_, dir_ / absl::StrFormat("job-%d", ++jobs_),
                                        flags, steps);
  }
  // Waits until the job has ended well. Returns the hash of its parameters.
  std::string Finish(StandbyJob& job) {
    EXPECT_TRUE(WaitUntil([&] { return job.Ended(); }, kSecondsMax)) << job.Outputs();
    for (int host = 0; host < kHosts; ++host) {
      EXPECT_EQ(job.launcher(host).Wait(), 0) << "host " << host << "\n" << job.Outputs();
    }
    EXPECT_TRUE(processes_->WaitForNone(kLeftSecondsMax)) << job.Outputs();
    return job.params_sha256();
  }
  // Makes a fault of a host, waits for the promotion of a standby of its pserver, and brings the
  // host back with an empty disk.
  void LoseAndReplace(Fault fault, int host, StandbyJob& job);

  TempDir dir_;
  std::unique_ptr<EmulatedHosts> hosts_;
  std::unique_ptr<HostProcesses> processes_;
  int jobs_ = 0;
};

void StandbyHostsTest::LoseAndReplace(Fault fault, int host, StandbyJob& job) {
  const size_t before = job.Text().size();
  // The tandemruns get their numbers in the order in which they join. Each standby of the pserver
  // may be chosen.
  const std::string promoted = ") is the primary now";
  const Time begin = SteadyNow();
  switch (fault) {
    case Fault::kKillLauncher:
      job.launcher(host).Signal(SIGKILL);
      break;
    case Fault::kStopLauncher:
      job.launcher(host).Signal(SIGSTOP);
      break;
    case Fault::kCut:
      hosts_->SetFault(host, LinkFault::kBoth);
      break;
    case Fault::kCutFromHost:
      hosts_->SetFault(host, LinkFault::kFromHost);
      break;
    case Fault::kCutToHost:
      hosts_->SetFault(host, LinkFault::kToHost);
      break;
    case Fault::kKillServer:
      for (const pid_t server : JobTest::ChildrenOf(job.launcher(host).pid(), "tandem-pserver")) {
        const std::string command = ReadWholeFile(absl::StrFormat("/proc/%d/cmdline", server));
        if (command.find("--member=0") != std::string::npos) ::kill(server, SIGKILL);
      }
      break;
  }
  const auto is_promoted = [&] { return job.Text(before).find(promoted) != std::string::npos; };
  (void)WaitUntil([&] { return is_promoted() || job.Ended(); }, kSecondsMax);
  ASSERT_TRUE(is_promoted()) << job.Outputs();
  EXPECT_LT(Seconds(SteadyNow() - begin), kPromotedSecondsMax) << job.Outputs();
  std::cout << absl::StrFormat("promoted after %.2f s, ", Seconds(SteadyNow() - begin));
  if (fault == Fault::kKillServer) return;
  if (fault == Fault::kStopLauncher) job.launcher(host).Signal(SIGKILL);
  const bool cut =
      fault == Fault::kCut || fault == Fault::kCutFromHost || fault == Fault::kCutToHost;
  // The tandemrun of a host that is cut off ends its processes, and joins the job again by itself.
  const auto ended = [&] {
    return cut ? job.launcher(host).Output().find("joins the job again") != std::string::npos
               : processes_->On(host).empty();
  };
  EXPECT_TRUE(WaitUntil(ended, kLeftSecondsMax)) << processes_->ListOf(host) << job.Outputs();
  hosts_->SetFault(host, LinkFault::kNone);
  if (cut) return;
  std::filesystem::remove_all(job.DataOf(host));
  job.Start(host);
}

TEST_F(StandbyHostsTest, JobsContinueWhenAHostIsLostWithItsDisk) {
  const auto now = static_cast<int>(std::chrono::system_clock::now().time_since_epoch().count());
  const int seed = JobTest::FromEnvironment("TANDEM_STANDBY_HOSTS_SEED", now & 0xffff);
  const int rounds = JobTest::FromEnvironment("TANDEM_STANDBY_HOSTS_ROUNDS", kRounds);
  std::cout << "standby hosts: TANDEM_STANDBY_HOSTS_SEED=" << seed << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::pair<const char*, Args> modes[] = {{"sync", {"--workers=3"}},
                                                {"a_sync", {"--workers=3", "--a_sync=true"}},
                                                {"hybrid", {"--workers=3", "--mode=hybrid"}}};
  std::map<std::string, std::string> undisturbed;  // parameters by mode
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const auto& [name, fault] = kFaults[static_cast<size_t>(seed + round) % std::size(kFaults)];
    auto [mode, flags] = modes[random() % std::size(modes)];
    const bool same_bits = std::string(mode) != "a_sync";
    flags.push_back("--standbys=1");
    if (same_bits && undisturbed[mode].empty()) undisturbed[mode] = Finish(*StartJob(flags, 600));
    const auto standbys = 1 + random() % 2;
    flags.back() = absl::StrFormat("--standbys=%d", standbys);
    const int host = 1 + static_cast<int>(random() % (kHosts - 1));  // host 0 leads the job
    std::cout << absl::StrFormat("standby hosts: %s, %d standbys, %s on host %d: ", mode, standbys,
                                 name, host)
              << std::flush;
    const auto job = StartJob(flags, 600);
    ASSERT_TRUE(job->WaitForStep(kStepOfFault)) << job->Outputs();
    const Time begin = SteadyNow();
    LoseAndReplace(fault, host, *job);
    const std::string hash = Finish(*job);
    std::cout << absl::StrFormat("done after %.1f s\n", Seconds(SteadyNow() - begin));
    if (same_bits) {
      EXPECT_EQ(hash, undisturbed[mode]) << job->Outputs();
    }
  }
}

// The other hosts end their parts, and join again with the tandemrun that takes the place of the
// leading one. With a directory as the rendezvous, one of them leads.
TEST_F(StandbyHostsTest, AJobContinuesWhenItsLeadingHostIsLostWithItsDisk) {
  const Args flags = {"--workers=3", "--standbys=1"};
  const std::string undisturbed = Finish(*StartJob(flags, 400));
  std::filesystem::create_directory(dir_ / "meeting");
  for (const bool directory : {false, true}) {
    Args with = flags;
    if (directory) with.push_back("--rendezvous=file://" + (dir_ / "meeting"));
    const auto job = StartJob(with, 400);
    ASSERT_TRUE(job->WaitForStep(kStepOfFault)) << job->Outputs();
    const int leading = job->Leading();
    job->launcher(leading).Signal(SIGKILL);
    EXPECT_TRUE(WaitUntil([&] { return processes_->On(leading).empty(); }, kLeftSecondsMax));
    std::filesystem::remove_all(job->DataOf(leading));
    job->Start(leading);
    EXPECT_EQ(Finish(*job), undisturbed) << job->Outputs();
    for (int host = 0; host < kHosts; ++host) {
      const bool again =
          job->launcher(host).Output().find("joins the job again") != std::string::npos;
      EXPECT_EQ(again, host != leading) << job->Outputs();
    }
  }
}

// The pserver and its standby are on hosts 0 and 1. The command runs on host 2.
TEST_F(StandbyHostsTest, ACommandOnAnyHostMovesTheRoleOfPrimary) {
  const Args flags = {"--workers=3", "--standbys=1"};
  const auto job = StartJob(flags, 600);
  ASSERT_TRUE(job->WaitForStep(kStepOfFault)) << job->Outputs();
  const std::string logs = job->FirstLogOf(2), output = dir_ / "promote";
  auto command = processes_->Start(2, "tandem", {"promote", logs, "0"}, {}, output);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ((*command)->Wait(), 0) << (*command)->Output() << job->Outputs();
  EXPECT_NE((*command)->Output().find("member 1"), std::string::npos) << (*command)->Output();
  Finish(*job);
}

// With two standbys a majority of the members is left, so that pushes go on without the lost host.
TEST_F(StandbyHostsTest, AHostWithoutTrainersNeedsNoReplacement) {
  const auto job = StartJob({"--workers=1", "--standbys=2"}, 600);
  ASSERT_TRUE(job->WaitForStep(kStepOfFault)) << job->Outputs();
  job->launcher(2).Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil([&] { return job->Ended(); }, kSecondsMax)) << job->Outputs();
  EXPECT_EQ(job->launcher(0).Wait(), 0) << job->Outputs();
  EXPECT_EQ(job->launcher(1).Wait(), 0) << job->Outputs();
}

}  // namespace
}  // namespace tandem
