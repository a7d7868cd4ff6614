// Runs random jobs in the simulator. An acknowledged push must be applied exactly once, whichever
// faults servers, trainers and the network have. A failure prints the seed of the job. To repeat
// the run with that seed and print its last 500 events, run
//   TANDEM_SIM_FIRST=SEED TANDEM_SIM_SEEDS=1 TANDEM_SIM_TAIL=500 build/tests/sim_test
#include <glog/logging.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/sim/job.h"

namespace tandem::pserver {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Returns a text that describes how the parameters of a run differ from the parameters of the run
// without faults.
std::string Difference(const std::vector<float>& found, const std::vector<float>& calm) {
  if (found.size() != calm.size()) {
    return absl::StrFormat("%d values, expected %d", found.size(), calm.size());
  }
  std::string text;
  int count = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == calm[i] || ++count > 8) continue;
    absl::StrAppendFormat(&text, " [%d] %.9g, expected %.9g;", i, found[i], calm[i]);
  }
  return absl::StrFormat("%d of %d values:%s", count, found.size(), text);
}

class SimTest : public testing::Test {
 protected:
  // Hides the product's messages, because every injected fault causes some.
  void SetUp() override { FLAGS_minloglevel = google::GLOG_FATAL; }

  // Runs the plan. In sync mode, also compares the parameters with a run without faults. Returns ""
  // or a description of the failure. *out, if set, gets the report.
  std::string Wrong(const SimPlan& plan, SimReport* out = nullptr) {
    SimReport report = RunJob(plan);
    if (report.failure.empty() && plan.mode == UpdatePolicy::kSync && !report.given_up) {
      const SimReport calm = RunJob(WithoutMischief(plan));
      if (!calm.failure.empty()) {
        report.failure = "without faults: " + calm.failure;
      } else if (calm.parameters != report.parameters) {
        report.failure = "the parameters are not those of the run without faults: " +
                         Difference(report.parameters, calm.parameters);
      }
    }
    if (out != nullptr) *out = report;
    return report.failure;
  }
  static std::string Tail(SimPlan plan) {
    plan.keep_trace = true;
    const SimReport report = RunJob(plan);
    std::string text;
    const size_t count = report.trace.size();
    const uint64_t last = FromEnvironment("TANDEM_SIM_TAIL", 60);
    for (size_t i = count - std::min<size_t>(count, last); i < count; ++i) {
      text += report.trace[i] + "\n";
    }
    return text;
  }
};

struct Kind {
  UpdatePolicy mode;
  // true: servers log only the order of pushes; false: servers log whole pushes.
  bool replayable = false;
  // moves: whether buckets move in every job. torn: whether trainers also die during moves.
  bool moves = false, torn = false;
  bool standbys = false;  // whether the servers have standbys
  bool readers = false;   // whether the job has followers of its tables and replicas
  bool source = false;    // a_sync mode: whether trainers read a stream
  bool async = false;     // a_sync mode with standbys: Replication::kAsync
};
std::string Name(const Kind& kind) {
  return std::string(Name(kind.mode)) + (kind.replayable ? "_replayable" : "") +
         (kind.standbys ? "_standbys" : "") + (kind.async ? "_async" : "") +
         (kind.readers ? "_readers" : "") + (kind.source ? "_source" : "") +
         (kind.torn    ? "_torn"
          : kind.moves ? "_moves"
                       : "");
}

class ModeTest : public SimTest, public testing::WithParamInterface<Kind> {
 protected:
  static SimPlan Plan(uint64_t seed) {
    const Kind& kind = GetParam();
    if (kind.standbys) {
      SimPlan plan = StandbyPlanOf(seed, kind.mode);
      plan.deaths_while_damaged = FromEnvironment("TANDEM_SIM_DAMAGED", 0) != 0;
      if (kind.source) plan = WithSource(plan);
      if (kind.async) plan.replication = Replication::kAsync;
      if (kind.moves) plan = WithMovesOfGroups(plan);
      return kind.readers ? WithReaders(plan) : plan;
    }
    SimPlan plan = PlanOf(seed, kind.mode, kind.replayable);
    if (kind.source) plan = WithSource(plan);
    if (kind.readers) return WithReaders(plan);
    return kind.moves ? WithMoves(plan, kind.torn) : plan;
  }
};

TEST_P(ModeTest, EveryPushCountsOnce) {
  const uint64_t first = FromEnvironment("TANDEM_SIM_FIRST", 1);
  const uint64_t seeds = FromEnvironment("TANDEM_SIM_SEEDS", GetParam().moves      ? 10
                                                             : GetParam().readers  ? 30
                                                             : GetParam().standbys ? 60
                                                                                   : 150);
  SimReport sum;
  uint64_t given_up = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const SimPlan plan = Plan(seed);
    SimReport report;
    const std::string wrong = Wrong(plan, &report);
    ASSERT_EQ(wrong, "") << "seed " << seed << " (" << Name(GetParam()) << "); the end of it:\n"
                         << Tail(plan);
    sum.pushes += report.pushes;
    sum.server_deaths += report.server_deaths;
    sum.trainer_deaths += report.trainer_deaths;
    sum.pauses += report.pauses;
    sum.cuts += report.cuts;
    sum.moved += report.moved;
    sum.movers += report.movers;
    sum.retired += report.retired;
    sum.cuts_taken += report.cuts_taken;
    sum.restored += report.restored;
    sum.member_cuts += report.member_cuts;
    sum.lost += report.lost;
    sum.promotions += report.promotions;
    sum.disks += report.disks;
    sum.stale += report.stale;
    sum.hangs += report.hangs;
    sum.follows += report.follows;
    sum.continued += report.continued;
    sum.changes += report.changes;
    sum.tombstones += report.tombstones;
    sum.snapshots += report.snapshots;
    sum.compared += report.compared;
    sum.replicas += report.replicas;
    sum.jumps += report.jumps;
    sum.rewinds += report.rewinds;
    given_up += report.given_up;
    sum.seconds += report.seconds;
  }
  if (GetParam().replayable) {
    std::printf("%llu pushes gone with their trainer, as the servers say; %llu jobs given up\n",
                static_cast<unsigned long long>(sum.lost),
                static_cast<unsigned long long>(given_up));
    if (seeds >= 100) {
      EXPECT_LT(given_up, seeds / 2);
    }
  }
  if (GetParam().standbys) {
    std::printf(
        "%lld promotions, %lld lost disks, %lld stale primaries, %lld members killed because they "
        "hung, %llu jobs given up\n",
        static_cast<long long>(sum.promotions), static_cast<long long>(sum.disks),
        static_cast<long long>(sum.stale), static_cast<long long>(sum.hangs),
        static_cast<unsigned long long>(given_up));
  }
  if (GetParam().async) {
    std::printf("%llu acknowledged pushes lost, all counted by the servers\n",
                static_cast<unsigned long long>(sum.lost));
    if (seeds >= 100) {
      EXPECT_GT(sum.lost, 0u);
    }
  }
  if (GetParam().readers) {
    std::printf(
        "%lld starts of followers, %lld of them with a token, %lld changes with %lld tombstones "
        "and %lld snapshots, %lld comparisons with cuts, %lld starts of replicas, %lld jumps of "
        "clocks\n",
        static_cast<long long>(sum.follows), static_cast<long long>(sum.continued),
        static_cast<long long>(sum.changes), static_cast<long long>(sum.tombstones),
        static_cast<long long>(sum.snapshots), static_cast<long long>(sum.compared),
        static_cast<long long>(sum.replicas), static_cast<long long>(sum.jumps));
  }
  if (sum.member_cuts != 0) {
    std::printf("%lld cuts on disks of members, %lld cuts\n",
                static_cast<long long>(sum.member_cuts), static_cast<long long>(sum.cuts_taken));
  }
  if (GetParam().source) {
    std::printf("%lld restores of running jobs\n", static_cast<long long>(sum.rewinds));
  }
  std::printf(
      "simulator, %s: %llu seeds, %lld pushes, %lld deaths of servers and %lld of trainers, %lld "
      "pauses, %lld cuts, %lld parcels of buckets by %lld movers, %lld servers gone for good, %lld "
      "cuts over all servers, back to one %lld times, %.0f virtual seconds: lost 0, doubled 0\n",
      Name(GetParam()).c_str(), static_cast<unsigned long long>(seeds),
      static_cast<long long>(sum.pushes), static_cast<long long>(sum.server_deaths),
      static_cast<long long>(sum.trainer_deaths), static_cast<long long>(sum.pauses),
      static_cast<long long>(sum.cuts), static_cast<long long>(sum.moved),
      static_cast<long long>(sum.movers), static_cast<long long>(sum.retired),
      static_cast<long long>(sum.cuts_taken), static_cast<long long>(sum.restored), sum.seconds);
}

TEST_P(ModeTest, ASeedIsOneRun) {
  for (const uint64_t seed : {3, 4, 5, 6}) {
    const SimReport once = RunJob(Plan(seed));
    const SimReport again = RunJob(Plan(seed));
    EXPECT_EQ(once.trace_hash, again.trace_hash) << "seed " << seed;
    EXPECT_NE(once.trace_hash, RunJob(Plan(seed + 100)).trace_hash);
  }
}

// Storage with deliberate errors. The simulator must find these errors. The test thus proves that
// the simulator checks its jobs. tests/sim/mutants has errors of servers.
struct SeededBug {
  const char* name;
  UpdatePolicy mode;
  std::function<void(SimPlan&)> make;
};

std::vector<SeededBug> SeededBugs() {
  return {
      {"NeverSynced", UpdatePolicy::kASync,
       [](SimPlan& plan) {
         plan.wal_sync = WalSync::kNone;
         plan.power = true;
       }},
      {"PreviousNotKept", UpdatePolicy::kSync, [](SimPlan& plan) { plan.forget_previous = true; }},
  };
}

class SeededBugTest : public SimTest, public testing::WithParamInterface<SeededBug> {};

TEST_P(SeededBugTest, IsFoundSoon) {
  constexpr uint64_t kSeedsMax = 500;
  std::string wrong;
  uint64_t seed = 0;
  while (wrong.empty() && seed < kSeedsMax) {
    SimPlan plan = PlanOf(++seed, GetParam().mode);
    GetParam().make(plan);
    wrong = Wrong(plan);
  }
  EXPECT_NE(wrong, "") << "in " << kSeedsMax << " seeds";
  std::printf("found with seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
}

INSTANTIATE_TEST_SUITE_P(Bugs, SeededBugTest, testing::ValuesIn(SeededBugs()),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Modes, ModeTest,
    testing::Values(
        Kind{UpdatePolicy::kSync}, Kind{UpdatePolicy::kASync},
        Kind{.mode = UpdatePolicy::kSync, .replayable = true},
        Kind{.mode = UpdatePolicy::kASync, .replayable = true},
        Kind{.mode = UpdatePolicy::kSync, .standbys = true},
        Kind{.mode = UpdatePolicy::kASync, .standbys = true},
        Kind{.mode = UpdatePolicy::kASync, .standbys = true, .async = true},
        Kind{.mode = UpdatePolicy::kSync, .readers = true},
        Kind{.mode = UpdatePolicy::kASync, .readers = true},
        Kind{.mode = UpdatePolicy::kASync, .source = true},
        Kind{.mode = UpdatePolicy::kASync, .standbys = true, .source = true},
        Kind{.mode = UpdatePolicy::kASync, .readers = true, .source = true},
        Kind{.mode = UpdatePolicy::kSync, .standbys = true, .readers = true},
        Kind{.mode = UpdatePolicy::kASync, .standbys = true, .readers = true},
        Kind{.mode = UpdatePolicy::kSync, .moves = true},
        Kind{.mode = UpdatePolicy::kSync, .moves = true, .torn = true},
        Kind{.mode = UpdatePolicy::kASync, .moves = true, .source = true},
        Kind{.mode = UpdatePolicy::kSync, .moves = true, .standbys = true},
        Kind{.mode = UpdatePolicy::kASync, .moves = true, .standbys = true},
        Kind{.mode = UpdatePolicy::kASync, .moves = true, .standbys = true, .source = true},
        Kind{.mode = UpdatePolicy::kASync, .moves = true, .torn = true, .source = true}),
    [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace tandem::pserver
