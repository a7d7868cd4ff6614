// Jobs on 4 emulated hosts with a tandemrun on each (tandemrun --hosts), and faults of one host. A
// job must recover, with the bits of an undisturbed job where docs/project/guarantees.md promises
// them. Otherwise it must end, and tandemrun must name the cause on each host. No process may be
// left on any host. If the ranks of a lost host wait for a tandemrun that replaces it, the test
// starts it on a spare host, as an operator or a cluster does. The tests are skipped if the machine
// does not permit network namespaces.
//   TANDEM_HOSTS_ROUNDS=N number of faults (4); 0: each fault in each mode once
//   TANDEM_HOSTS_SEED=N of the choice of faults, modes and hosts (the time)
//   TANDEM_HOSTS_ONLY=MODE or MODE/FAULT: only these cases
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>

#include "common/base/clock.h"
#include "tests/e2e/host_jobs.h"
#include "tests/support/host_processes.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using Args = std::vector<std::string>;

constexpr int kHosts = 4, kRanks = 8, kStepOfFault = 100, kSecondsMax = 60, kLeftSecondsMax = 10;
// A host is lost after 5 s of silence, a process after half the step timeout.
constexpr int kNoticeSecondsMax = 25;
constexpr int kShortCutMs = 500, kRounds = 4;
// A job without the ranks of a lost host makes its next step 1 s after --host_timeout_s. The rest
// is for a machine on which other programs run.
constexpr int kHostTimeoutS = 5, kNextStepSecondsMax = kHostTimeoutS + 1 + 2;
// Time limit for the next step after the start of a tandemrun that replaces a lost host.
constexpr int kReplacedSecondsMax = 10;

constexpr char kSoftmax[] = R"(
name: "hosts"
model {
  zoo: "softmax"
  arg { name: "image" value: "1,8,8" }
}
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 640 test_samples: 64 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
)";
constexpr char kAnyJob[] = R"(
global_batch_size: 32
epochs: 1000
eval_every_epochs: 0
log_every_steps: 1
step_timeout_ms: 6000
seed: 1
)";

struct Mode {
  const char* name;
  const char* job;
  Args launch;
  int steps;       // length of the job: a few seconds
  bool pservers;   // whether the job has pservers
  bool same_bits;  // whether the job has the bits of an undisturbed job after a recovery
};

const std::vector<Mode>& Modes() {
  static const std::vector<Mode> modes = {
      {"collective", kSoftmax, {"--mode=collective", "--nproc=2", "--hosts=4"}, 1500, false, true},
      {"elastic",
       kSoftmax,
       {"--mode=collective", "--nproc=1:2", "--hosts=2:4", "--deterministic=true",
        "--logical_shards=8"},
       1500,
       false,
       true},
      {"pserver-sync",
       kSoftmax,
       {"--mode=pserver", "--hosts=4", "--servers=4", "--workers=8"},
       400,
       true,
       true},
      {"pserver-async",
       kSoftmax,
       {"--mode=pserver", "--hosts=4", "--servers=4", "--workers=8", "--a_sync=true"},
       400,
       true,
       false},
      {"hybrid",
       kClicksJob,
       {"--mode=hybrid", "--hosts=4", "--servers=4", "--workers=8"},
       400,
       true,
       true},
  };
  return modes;
}

const Mode& ModeOf(const std::string& name) {
  const auto found = std::ranges::find_if(Modes(), [&](const Mode& m) { return name == m.name; });
  CHECK(found != Modes().end()) << name;
  return *found;
}

enum class Fault {
  kKillRank,
  kKillRanksOfHost,
  kCut,
  kCutFromHost,
  kCutToHost,
  kShortCut,
  kStopLauncher,
  kKillLauncher
};
constexpr std::pair<const char*, Fault> kFaults[] = {
    {"kill-rank", Fault::kKillRank},
    {"kill-ranks-of-host", Fault::kKillRanksOfHost},
    {"cut", Fault::kCut},
    {"cut-from-host", Fault::kCutFromHost},
    {"cut-to-host", Fault::kCutToHost},
    {"cut-500ms", Fault::kShortCut},
    {"stop-launcher", Fault::kStopLauncher},
    {"kill-launcher", Fault::kKillLauncher},
};

// One job on all hosts.
class HostsJob {
 public:
  HostsJob(HostProcesses& processes, const Mode& mode, const std::string& dir, bool restarts)
      : processes_(processes), dir_(dir) {
    std::filesystem::create_directories(dir);
    Write("job.pbtxt", absl::StrFormat("%s%ssteps_max: %d\n", mode.job, kAnyJob, mode.steps));
    Write("train.csv", ClicksFile(640));
    Write("secret", "the secret of a test");
    std::filesystem::permissions(dir + "/secret", std::filesystem::perms::owner_read);
    Args args = mode.launch;
    if (mode.pservers) args.push_back("--pserver_data_dir=" + dir + "/data");
    if (restarts) args.push_back("--max_restarts=20");
    args.insert(args.end(),
                {"--rendezvous=tcp://" + EmulatedHosts::Address(0) + ":4700",
                 "--secret_file=" + dir + "/secret", "--insecure_allow_network", "--grace_s=2"});
    args_ = args;
    for (int host = 0; host < kHosts; ++host) Start(host);
  }

  // Starts a tandemrun on the next host.
  void Start(int host) {
    CHECK_EQ(static_cast<size_t>(host), launchers_.size());
    launchers_.push_back(Started(host, OutputFile(host)));
  }
  // Starts a tandemrun on a host whose tandemrun has ended.
  void StartAgain(int host) {
    CHECK(launcher(host).Ended());
    launchers_[static_cast<size_t>(host)] = Started(host, OutputFile(host) + ".again");
  }
  int size() const { return static_cast<int>(launchers_.size()); }  // started tandemruns
  // Returns whether the tandemrun of a host waits for another one that replaces a lost host.
  bool Waits(int host) {
    return launcher(host).Output().find("wait for a tandemrun that replaces it (restart") !=
           std::string::npos;
  }

  ChildProcess& launcher(int host) { return *launchers_[static_cast<size_t>(host)]; }
  // Returns the ids of the trainers that the tandemrun of a host has started.
  std::vector<pid_t> Trainers(int host) {
    return JobTest::ChildrenOf(launcher(host).pid(), "tandem-trainer");
  }
  // Returns whether the output of host 0 has a step after the text `change`.
  bool StepsAfter(const std::string& change) {
    const std::string output = launcher(0).Output();
    const size_t at = output.find(change);
    return at != std::string::npos && output.find("\nstep=", at) != std::string::npos;
  }
  // Waits until the job has made `step` steps. Returns false if a tandemrun ends before.
  bool WaitForStep(int step) {
    return WaitUntil([&] { return JobTest::StepOf(launcher(0)) >= step || Ended({}); },
                     kSecondsMax) &&
           !Ended({});
  }
  // Returns whether the tandemruns of all hosts but `except` have ended.
  bool Ended(std::optional<int> except) {
    for (int host = 0; host < size(); ++host) {
      if (host != except && !launcher(host).Ended()) return false;
    }
    return true;
  }
  std::string params_sha256() const { return ParamsHash(dir_ + "/result.json"); }
  // Returns the line in which the tandemrun of a host names the first failure; "": no such line, or
  // several ones.
  std::string FirstFailure(int host) {
    const std::string output = launcher(host).Output(), word = "\n  first failure ";
    const size_t begin = output.find(word);
    if (begin == std::string::npos || begin != output.rfind(word)) return "";
    return output.substr(begin + 1, output.find('\n', begin + 1) - begin - 1);
  }
  // Returns the outputs of all tandemruns, without the lines of steps.
  std::string Outputs() {
    std::string all;
    for (int host = 0; host < size(); ++host) {
      all += absl::StrFormat(
          "--- host %d: %s\n%s", host,
          launcher(host).Ended() ? absl::StrFormat("ended with %d", launcher(host).Wait()) : "runs",
          WithoutSteps(launcher(host).Output()));
    }
    return all;
  }

 private:
  std::unique_ptr<ChildProcess> Started(int host, const std::string& output) {
    Args args = args_;
    args.insert(args.end(), {absl::StrFormat("--log_dir=%s/logs-%d", dir_, host),
                             dir_ + "/job.pbtxt", "--", "--result_json=" + dir_ + "/result.json"});
    auto started = processes_.Start(host, "tandemrun", args, {}, output);
    CHECK(started.ok()) << started.status();
    return *std::move(started);
  }
  std::string OutputFile(int host) const { return absl::StrFormat("%s/host-%d.out", dir_, host); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }

  HostProcesses& processes_;
  const std::string dir_;
  Args args_;
  std::vector<std::unique_ptr<ChildProcess>> launchers_;
};

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = EmulatedHosts::Create(kHosts + 1, {});
    if (!made.ok()) GTEST_SKIP() << "no emulated hosts here: " << made.status().message();
    hosts_ = std::move(*made);
    hosts_->Start();
    processes_ = std::make_unique<HostProcesses>(*hosts_);
  }

  // Returns the parameters of a job without faults.
  std::string Undisturbed(const Mode& mode) {
    std::string& known = undisturbed_[mode.name];
    if (known.empty()) {
      HostsJob job(*processes_, mode, dir_ / (std::string(mode.name) + ".quiet"), false);
      EXPECT_TRUE(WaitUntil([&] { return job.Ended({}); }, kSecondsMax)) << job.Outputs();
      known = job.params_sha256();
      EXPECT_NE(known, "") << job.Outputs();
    }
    return known;
  }
  // Makes a fault of a host.
  void Make(Fault fault, int host, HostsJob& job);
  // Runs a job with a fault of a host.
  void Disturb(const Mode& mode, const char* name, Fault fault, int host, int round);
  void ExpectRecoveryOrCause(const Mode& mode, Fault fault, std::optional<int> lost, HostsJob& job);
  void ExpectNothingLeft(HostsJob& job);
  // Returns the elastic mode with checkpoints in a directory of this name.
  Mode ElasticWithCheckpoints(const std::string& name) const;
  // Starts a job in `mode` with a step timeout that the test does not reach, and cuts off a host.
  void CutEndlessJob(const char* mode, Fault fault, int host,
                     const std::function<void(HostsJob&, Time cut)>& then);

  TempDir dir_;
  std::unique_ptr<EmulatedHosts> hosts_;
  std::unique_ptr<HostProcesses> processes_;
  std::map<std::string, std::string> undisturbed_;  // parameters by mode
};

void HostsTest::Make(Fault fault, int host, HostsJob& job) {
  const pid_t launcher = job.launcher(host).pid();
  const std::vector<pid_t> trainers = job.Trainers(host);
  EXPECT_EQ(trainers.size(), static_cast<size_t>(kRanks / kHosts)) << job.Outputs();
  switch (fault) {
    case Fault::kKillRank:
      if (!trainers.empty()) ::kill(trainers.front(), SIGKILL);
      return;
    case Fault::kKillRanksOfHost:
      for (const pid_t trainer : trainers) ::kill(trainer, SIGKILL);
      return;
    case Fault::kCut:
      return hosts_->SetFault(host, LinkFault::kBoth);
    case Fault::kCutFromHost:
      return hosts_->SetFault(host, LinkFault::kFromHost);
    case Fault::kCutToHost:
      return hosts_->SetFault(host, LinkFault::kToHost);
    case Fault::kShortCut:
      hosts_->SetFault(host, LinkFault::kBoth);
      ::poll(nullptr, 0, kShortCutMs);
      return hosts_->SetFault(host, LinkFault::kNone);
    case Fault::kStopLauncher:
      return job.launcher(host).Signal(SIGSTOP);
    case Fault::kKillLauncher:
      ::kill(launcher, SIGKILL);
      return;
  }
}

void HostsTest::ExpectRecoveryOrCause(const Mode& mode, Fault fault, std::optional<int> lost,
                                      HostsJob& job) {
  int recovered = 0, ended = 0;
  for (int host = 0; host < job.size(); ++host) {
    if (host == lost) continue;
    const int code = job.launcher(host).Wait();
    (code == 0 ? recovered : ended) += 1;
    if (code == 0) continue;
    const std::string failure = job.FirstFailure(host);
    EXPECT_NE(failure, "") << "host " << host << " names no cause\n" << job.Outputs();
    if (lost.has_value()) {
      EXPECT_NE(failure.find(EmulatedHosts::Address(*lost) + ")"), std::string::npos)
          << "host " << host << " does not name the lost host\n"
          << job.Outputs();
    }
  }
  EXPECT_TRUE(recovered == 0 || ended == 0) << job.Outputs();
  EXPECT_TRUE(fault != Fault::kShortCut || ended == 0) << job.Outputs();
  std::cout << (ended == 0 ? "recovered" : "ended") << std::endl;
  if (ended == 0 && mode.same_bits) {
    EXPECT_EQ(job.params_sha256(), Undisturbed(mode)) << job.Outputs();
  }
}

void HostsTest::ExpectNothingLeft(HostsJob& job) {
  for (int host = 0; host < hosts_->size(); ++host) {
    EXPECT_TRUE(WaitUntil([&] { return processes_->On(host).empty(); }, kLeftSecondsMax))
        << "left on host " << host << ":\n"
        << processes_->ListOf(host) << job.Outputs();
  }
}

void HostsTest::Disturb(const Mode& mode, const char* name, Fault fault, int host, int round) {
  std::cout << "hosts: mode " << mode.name << ", fault " << name << " on host " << host << ": "
            << std::flush;
  const std::string dir = dir_ / absl::StrFormat("round-%d", round);
  HostsJob job(*processes_, mode, dir, true);
  ASSERT_TRUE(job.WaitForStep(kStepOfFault)) << job.Outputs();
  const Time begin = SteadyNow();
  Make(fault, host, job);
  const bool loses_host =
      fault != Fault::kKillRank && fault != Fault::kKillRanksOfHost && fault != Fault::kShortCut;
  const std::optional<int> lost = loses_host ? std::optional(host) : std::nullopt;
  if (lost.has_value()) {
    const auto waits = [&] {
      for (int other = 0; other < kHosts; ++other) {
        if (other != host && job.Waits(other)) return true;
      }
      return false;
    };
    WaitUntil([&] { return job.Ended(lost) || waits(); }, kSecondsMax);
    EXPECT_LT(Seconds(SteadyNow() - begin), kNoticeSecondsMax) << job.Outputs();
    std::cout << absl::StrFormat("noticed after %.1f s, ", Seconds(SteadyNow() - begin));
    if (!job.Ended(lost) && waits()) job.Start(kHosts);
  }
  const bool ended = WaitUntil([&] { return job.Ended(lost); }, kSecondsMax);
  EXPECT_TRUE(ended) << "still running after " << kSecondsMax << " s\n" << job.Outputs();
  std::cout << absl::StrFormat("over after %.1f s, ", Seconds(SteadyNow() - begin));
  if (fault == Fault::kStopLauncher) job.launcher(host).Signal(SIGKILL);
  // A host that is cut off ends its part of the job by itself. The leading host waits 10 minutes
  // for hosts that replace the lost ones. A signal ends this wait.
  if (lost.has_value()) {
    WaitUntil([&] { return job.Waits(host) || job.launcher(host).Ended(); }, kSecondsMax);
    if (!job.launcher(host).Ended()) job.launcher(host).Signal(SIGTERM);
  }
  EXPECT_TRUE(WaitUntil([&] { return job.Ended({}); }, kSecondsMax)) << job.Outputs();
  std::cout << absl::StrFormat("nothing left after %.1f s, ", Seconds(SteadyNow() - begin));
  ExpectNothingLeft(job);
  hosts_->SetFault(host, LinkFault::kNone);
  if (ended) ExpectRecoveryOrCause(mode, fault, lost, job);
  for (int each = 0; each < hosts_->size(); ++each) processes_->KillAll(each);
  if (!HasFailure()) std::filesystem::remove_all(dir);
}

TEST_F(HostsTest, JobsRecoverFromFaultsOrNameThem) {
  struct Case {
    const Mode* mode;
    std::pair<const char*, Fault> fault;
  };
  const char* given = std::getenv("TANDEM_HOSTS_ONLY");
  const std::string only = given != nullptr ? given : "";
  std::vector<Case> cases;
  for (const Mode& mode : Modes()) {
    for (const auto& fault : kFaults) {
      const std::string name = absl::StrFormat("%s/%s", mode.name, fault.first);
      const bool chosen = only.empty() || only == mode.name;
      if (only == name || chosen) cases.push_back({&mode, fault});
    }
  }
  const auto now = static_cast<int>(std::chrono::system_clock::now().time_since_epoch().count());
  const int seed = JobTest::FromEnvironment("TANDEM_HOSTS_SEED", now & 0xffff);
  ASSERT_FALSE(cases.empty()) << "TANDEM_HOSTS_ONLY=" << only << " is not MODE or MODE/FAULT";
  int rounds = JobTest::FromEnvironment("TANDEM_HOSTS_ROUNDS", kRounds);
  if (rounds == 0) rounds = static_cast<int>(cases.size());
  std::cout << "hosts: " << rounds << " rounds, TANDEM_HOSTS_SEED=" << seed << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const size_t next = static_cast<size_t>(round) % cases.size();
    if (next == 0) std::shuffle(cases.begin(), cases.end(), random);
    const auto& [mode, fault] = cases[next];
    Disturb(*mode, fault.first, fault.second, static_cast<int>(random() % kHosts), round);
  }
}

void HostsTest::CutEndlessJob(const char* mode, Fault fault, int host,
                              const std::function<void(HostsJob&, Time cut)>& then) {
  Mode endless = ModeOf(mode);
  endless.steps = 1'000'000'000;
  endless.launch.insert(endless.launch.end(),
                        {"--step_timeout_ms=120000", "--epochs=1000000000",
                         absl::StrFormat("--host_timeout_s=%d", kHostTimeoutS)});
  HostsJob job(*processes_, endless, dir_ / absl::StrFormat("%s-%d", mode, fault), true);
  ASSERT_TRUE(job.WaitForStep(kStepOfFault)) << job.Outputs();
  const Time cut = SteadyNow();
  Make(fault, host, job);
  then(job, cut);
  hosts_->SetFault(host, LinkFault::kNone);
  for (int each = 0; each < hosts_->size(); ++each) processes_->KillAll(each);
}

// The cut connections give no reset, and no rank reaches the step timeout.
TEST_F(HostsTest, ElasticJobsContinueAtTheHostTimeoutAfterACut) {
  for (const Fault fault : {Fault::kCut, Fault::kCutFromHost, Fault::kCutToHost}) {
    CutEndlessJob("elastic", fault, kHosts - 1, [&](HostsJob& job, Time cut) {
      EXPECT_TRUE(WaitUntil([&] { return job.StepsAfter(" ranks continue (world "); }, kSecondsMax))
          << job.Outputs();
      const double seconds = Seconds(SteadyNow() - cut);
      EXPECT_LT(seconds, kNextStepSecondsMax) << job.Outputs();
      std::cout << absl::StrFormat("hosts: elastic, cut %d: next step after %.2f s", fault, seconds)
                << std::endl;
    });
  }
}

Mode HostsTest::ElasticWithCheckpoints(const std::string& name) const {
  Mode mode = ModeOf("elastic");
  mode.launch.insert(mode.launch.end(),
                     {"--checkpoint.dir=" + (dir_ / name), "--checkpoint.every_steps=50"});
  return mode;
}

// The leading host is lost with all its ranks. The other hosts join the job again with the
// tandemrun that takes the place of the leading one.
TEST_F(HostsTest, AnElasticJobContinuesFromItsCheckpointWhenItsLeadingHostIsLost) {
  const Mode mode = ElasticWithCheckpoints("checkpoints");
  HostsJob job(*processes_, mode, dir_ / "led-again", true);
  ASSERT_TRUE(job.WaitForStep(kStepOfFault)) << job.Outputs();
  job.launcher(0).Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil([&] { return processes_->On(0).empty(); }, kLeftSecondsMax));
  job.StartAgain(0);
  EXPECT_TRUE(WaitUntil([&] { return job.Ended({}); }, kSecondsMax)) << job.Outputs();
  for (int host = 0; host < kHosts; ++host) {
    EXPECT_EQ(job.launcher(host).Wait(), 0) << "host " << host << "\n" << job.Outputs();
    const bool again = job.launcher(host).Output().find("joins the job again") != std::string::npos;
    EXPECT_EQ(again, host != 0) << job.Outputs();
  }
  EXPECT_NE(job.launcher(0).Output().find("resumed at step"), std::string::npos) << job.Outputs();
  EXPECT_EQ(job.params_sha256(), Undisturbed(ModeOf("elastic"))) << job.Outputs();
  ExpectNothingLeft(job);
}

// A host takes the leading one for lost, which goes on with the other ranks. The host joins it
// again when the link is back.
TEST_F(HostsTest, AHostThatWasCutOffJoinsAnElasticJobAgain) {
  Mode mode = ElasticWithCheckpoints("cut-off");
  mode.steps = 1'000'000'000;
  mode.launch.push_back("--epochs=1000000000");
  HostsJob job(*processes_, mode, dir_ / "cut-off-job", true);
  ASSERT_TRUE(job.WaitForStep(kStepOfFault)) << job.Outputs();
  constexpr int kHost = kHosts - 1;
  hosts_->SetFault(kHost, LinkFault::kBoth);
  const auto says = [&](int host, const char* text) {
    return WaitUntil([&] { return job.launcher(host).Output().find(text) != std::string::npos; },
                     kSecondsMax);
  };
  ASSERT_TRUE(says(kHost, "joins the job again")) << job.Outputs();
  ASSERT_TRUE(says(0, "6 of 8 ranks continue")) << job.Outputs();
  hosts_->SetFault(kHost, LinkFault::kNone);
  EXPECT_TRUE(says(0, "joined: 8 of 8 ranks")) << job.Outputs();
  for (int host = 0; host < kHosts; ++host) processes_->KillAll(host);
}

// The other ranks leave the step in time to meet the ranks of the replacing host.
TEST_F(HostsTest, RanksLeaveAStepWithALostHostBeforeTheStepTimeout) {
  CutEndlessJob("collective", Fault::kCut, kHosts - 1, [&](HostsJob& job, Time cut) {
    EXPECT_TRUE(WaitUntil([&] { return job.Waits(0); }, kSecondsMax)) << job.Outputs();
    EXPECT_LT(Seconds(SteadyNow() - cut), kNextStepSecondsMax) << job.Outputs();
    const Time replaced = SteadyNow();
    job.Start(kHosts);
    EXPECT_TRUE(
        WaitUntil([&] { return job.StepsAfter("all 8 ranks have joined again"); }, kSecondsMax))
        << job.Outputs();
    EXPECT_LT(Seconds(SteadyNow() - replaced), kReplacedSecondsMax) << job.Outputs();
    std::cout << absl::StrFormat("hosts: collective, replaced after %.2f s: next step after %.2f s",
                                 Seconds(replaced - cut), Seconds(SteadyNow() - replaced))
              << std::endl;
  });
}

}  // namespace
}  // namespace tandem
