// sharding and its settings: the tests check the owners of the state, the messages, and the memory
// of a rank. Sharding must change no bit.
#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "kernels/exec/memory_plan.h"
#include "kernels/graph/distribute/shard_params.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

const Args kOn = {"--sharding=true"};

Args Ranks(const std::string& count) { return {"--mode=collective", "--nproc=" + count}; }
Args With(Args flags, const Args& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

class ShardingTest : public KnobProgramTest {
 protected:
  JobPrograms Sharded(Overrides knobs, int ranks, int rank) {
    knobs.insert(knobs.end(), {{"mode", "collective"}, {"sharding", "true"}});
    return Programs(knobs, ranks, rank);
  }
  static int64_t BytesOf(const graph::Program& program, graph::VarKind kind) {
    int64_t sum = 0;
    for (const graph::Var* var : program.VarsOf(kind))
      sum += static_cast<int64_t>(var->desc.bytes());
    return sum;
  }
  // Returns the maximum bytes of parameters and optimizer state that a rank has in memory during a
  // step.
  static int64_t PeakOf(const graph::Program& program) {
    const size_t passing =
        exec::LargestLive(program, exec::FindCommIntervals(program), graph::PassingParams(program));
    return BytesOf(program, graph::VarKind::kParam) + BytesOf(program, graph::VarKind::kState) +
           static_cast<int64_t>(passing);
  }
  JobResult Train(const std::string& name, const std::string& ranks, const Args& flags) const {
    const JobRun run = RunJob(name, Ranks(ranks), With({"--steps_max=12"}, flags));
    EXPECT_EQ(run.exit_code, 0) << name << ": " << run.output;
    return run.result;
  }
  void ExpectRefused(const std::string& name, const std::string& ranks, const Args& flags,
                     const std::string& words) const {
    const auto job = StartJob(name, Ranks(ranks), With(kOn, flags));
    EXPECT_NE(job->Wait(), 0) << name;
    EXPECT_THAT(job->Output(), HasSubstr(words)) << name;
  }
  // A network with eight layers of 64 x 64 between the first layer and the classes.
  void UseDeepNetwork() {
    UseModel("zoo: \"mlp\" arg { name: \"hidden\" value: \"64,64,64,64,64,64,64,64,64\" }");
  }
};

// ---- Owners of the state ------------------------------------------------------------------------

graph::Program Chain(const std::vector<int64_t>& rows) {
  graph::Program program;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(program
                    .AddVar({.name = "p" + std::to_string(i),
                             .kind = graph::VarKind::kParam,
                             .desc = {DType::kF32, {rows[i], 1}}})
                    .ok());
  }
  return program;
}

std::vector<int> OwnersOfChain(const std::vector<int64_t>& rows, int ranks) {
  std::vector<int> owners;
  for (const auto& [name, owner] : graph::OwnersInOrder(Chain(rows), ranks))
    owners.push_back(owner);
  return owners;
}

TEST(OwnersInOrderTest, RunsOfAboutEqualSize) {
  EXPECT_THAT(OwnersOfChain({1, 1, 1, 1, 1, 1, 1, 1}, 4),
              ::testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(OwnersOfChain({9, 1, 1, 1, 1, 1}, 2), ::testing::ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(OwnersOfChain({1, 1, 1, 9}, 3), ::testing::ElementsAre(0, 0, 1, 2))
      << "nobody is left without";
  EXPECT_THAT(OwnersOfChain({5, 5}, 4), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(OwnersOfChain({}, 4), ::testing::IsEmpty());
}

TEST_F(ShardingTest, EachParameterAndEachSlotExistsOnce) {
  UseDeepNetwork();
  const graph::Program whole = Programs({{"mode", "collective"}}, 4).train;
  int64_t params = 0, updates = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const graph::Program train = Sharded({}, 4, rank).train;
    params += BytesOf(train, graph::VarKind::kParam);
    updates += Count(train, "momentum");
    EXPECT_EQ(Count(train, "c_broadcast"), 0);
    EXPECT_EQ(Count(train, "c_allreduce_sum"), 0);
    EXPECT_EQ(
        train.VarsOf(graph::VarKind::kParam).size() + train.VarsOf(graph::VarKind::kRemote).size(),
        whole.VarsOf(graph::VarKind::kParam).size());
  }
  EXPECT_EQ(params, BytesOf(whole, graph::VarKind::kParam));
  EXPECT_EQ(updates, Count(whole, "momentum"));
}

// With N ranks, the maximum on each rank during a step is about 1/N of the memory without sharding:
// the rank's own part and two small segments in transit.
TEST_F(ShardingTest, ARankHoldsItsPart) {
  UseModel(
      "zoo: \"mlp\" arg { name: \"hidden\" value: "
      "\"512,512,512,512,512,512,512,512,512,512,512,512\" }");
  const Overrides adam = {{"optimizer.type", "adam"},
                          {"sharding_configs.fuse_broadcast_MB", "0.25"}};
  Overrides plain = adam;
  plain[1] = {"mode", "collective"};
  const auto whole = static_cast<double>(PeakOf(Programs(plain, 4).train));
  for (const int ranks : {2, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto peak = static_cast<double>(PeakOf(Sharded(adam, ranks, rank).train));
      EXPECT_LT(peak * ranks / whole, 1.4) << rank << " of " << ranks;
    }
  }
}

TEST_F(ShardingTest, LintShowsWhatARankHolds) {
  const std::string job = Write(
      "sharded.pbtxt", ReadWholeFile(job_) + "\nmode: COLLECTIVE strategy { sharding: true }\n");
  const auto bytes = [&](const std::string& workers) -> int64_t {
    ChildProcess lint("tandem", {"lint", "--memory", "--workers=" + workers, job}, {},
                      Path("lint" + workers + ".out"));
    EXPECT_EQ(lint.Wait(), 0) << lint.Output();
    const std::string text = lint.Output(), words = "in addition: parameters ";
    const size_t at = text.find(words);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::stol(text.substr(at + words.size()));
  };
  EXPECT_EQ(bytes("1"), BytesOf(Programs({}).train, graph::VarKind::kParam));
  EXPECT_EQ(bytes("2"), BytesOf(Sharded({}, 2, 0).train, graph::VarKind::kParam));
}

// ---- Messages of a step -------------------------------------------------------------------------

// Between each broadcast and the first reader of its result, at least one operator computes.
TEST_F(ShardingTest, SegmentsComeWhileTheOneBeforeIsComputed) {
  UseDeepNetwork();
  const graph::Program train = Sharded({{"sharding_configs.fuse_broadcast_MB", "0"}}, 2, 0).train;
  const std::vector<exec::Flight> flights = exec::FindCommIntervals(train);
  int ahead = 0;
  for (const exec::Flight& flight : flights) {
    const ops::Op& op = train.ops[static_cast<size_t>(flight.start)];
    if (op.type != "c_broadcast_params") continue;
    for (int i = flight.start + 1; i < flight.wait; ++i) {
      const ops::Op& between = train.ops[static_cast<size_t>(i)];
      if (!ops::FindOp(between.type)->is_comm) {
        ++ahead;
        break;
      }
    }
  }
  EXPECT_EQ(ahead, Count(train, "c_broadcast_params"));
}

// The program has 20 parameters. Backward needs the 10 weights again, so each weight is broadcast
// twice.
TEST_F(ShardingTest, ASegmentHoldsWhatFits) {
  UseDeepNetwork();
  const auto broadcasts = [this](const char* mb) {
    return Count(Sharded({{"sharding_configs.fuse_broadcast_MB", mb}}, 2, 1).train,
                 "c_broadcast_params");
  };
  EXPECT_EQ(broadcasts("0"), 20 + 10);
  EXPECT_EQ(broadcasts("32"), 2 + 2) << "one of each owner";
  const int some = broadcasts("0.04");  // a segment has room for two layers of 64 x 64
  EXPECT_GT(some, 4);
  EXPECT_LT(some, 20);
}

TEST_F(ShardingTest, CountsAndBytesOfAStep) {
  UseDeepNetwork();
  const Args no_evaluation = {"--eval_every_epochs=0"};
  const JobResult fused = Train("fused", "2", With(kOn, no_evaluation));
  const JobResult single = Train(
      "single", "2", With(With(kOn, no_evaluation), {"--sharding_configs.fuse_broadcast_MB=0"}));
  EXPECT_EQ(fused.counts.at("comm.c_broadcast_params"), 12 * 4);
  EXPECT_EQ(single.counts.at("comm.c_broadcast_params"), 12 * 30);
  // Forward needs all parameters, backward needs only the weights.
  const double weights = 4.0 * (784 * 64 + 8 * 64 * 64 + 64 * 10);
  const double all = weights + 4.0 * (9 * 64 + 10);
  EXPECT_EQ(fused.counts.at("comm_out_bytes.c_broadcast_params"), 12 * (all + weights));
  EXPECT_EQ(single.counts.at("comm_out_bytes.c_broadcast_params"), 12 * (all + weights));
  EXPECT_LT(single.counts.at("passing_bytes"), fused.counts.at("passing_bytes"));
  EXPECT_EQ(single.counts.at("comm_flat_bytes"), 0) << "one parameter travels from where it is";
  EXPECT_EQ(single.params_sha256, fused.params_sha256);
}

// Forward and backward each make their own 16-bit copies of the weights. No copy lives from forward
// to backward.
TEST_F(ShardingTest, WhatIsMadeOfParametersIsMadeAgain) {
  UseDeepNetwork();
  const graph::Program train = Sharded({{"amp", "true"}}, 2, 0).train;
  const graph::Program plain = Programs({{"mode", "collective"}, {"amp", "true"}}, 2).train;
  const auto casts = [](const graph::Program& program) {
    return std::count_if(program.ops.begin(), program.ops.end(), [](const ops::Op& op) {
      return op.type == "cast" && op.role != ops::OpRole::kOptimize;
    });
  };
  EXPECT_EQ(casts(train), casts(plain) + 10);
  std::set<std::string> backward;  // variables that backward reads
  for (const ops::Op& op : train.ops) {
    if (op.role != ops::OpRole::kBackward) continue;
    graph::ForEachMemoryRead(op, [&](const std::string& name) { backward.insert(name); });
  }
  for (const ops::Op& op : train.ops) {
    if (op.type != "cast" || op.role != ops::OpRole::kForward) continue;
    const bool of_weight = op.inputs[0][0].find(".w") != std::string::npos;
    EXPECT_FALSE(of_weight && backward.contains(op.outputs[0][0])) << op.outputs[0][0];
  }
}

// ---- Bits with and without sharding -------------------------------------------------------------

TEST_F(ShardingTest, ChangesNoBit) {
  const JobResult whole = Train("whole", "2", {});
  const JobResult sharded = Train("sharded", "2", kOn);
  EXPECT_EQ(sharded.params_sha256, whole.params_sha256);
  EXPECT_EQ(sharded.loss, whole.loss) << "of the evaluation";
  EXPECT_EQ(sharded.accuracy, whole.accuracy);
  EXPECT_EQ(Train("small", "2",
                  With(kOn, {"--sharding_configs.fuse_broadcast_MB=0.01", "--num_threads=2"}))
                .params_sha256,
            whole.params_sha256);
  // If buckets are off, the order of each gradient sum does not depend on the rank that receives
  // the sum.
  const Args alone = {"--fuse_all_reduce_ops=false"};
  EXPECT_EQ(Train("three", "3", With(kOn, alone)).params_sha256,
            Train("three_whole", "3", alone).params_sha256);
}

TEST_F(ShardingTest, DeterministicForAnyNumberOfRanks) {
  const Args on = {"--deterministic=true"};
  const std::string one = Train("one", "1", on).params_sha256;
  EXPECT_EQ(Train("two", "2", With(kOn, on)).params_sha256, one);
  EXPECT_EQ(Train("four", "4", With(kOn, on)).params_sha256, one);
}

// Sharding with knobs that change which values are summed, updated or stored. Each knob gives the
// same bits with and without sharding.
TEST_F(ShardingTest, GoesWithOtherKnobs) {
  UseDeepNetwork();
  const std::pair<const char*, Args> rows[] = {
      {"merge", {"--gradient_merge=true", "--gradient_merge_configs.k_steps=2"}},
      {"batch_merge", {"--batch_merge_repeats=2"}},
      {"half", {"--fp16_allreduce=true"}},
      {"lars", {"--lars=true"}},
      {"lamb", {"--optimizer.type=adam", "--lamb=true"}},
      {"fused", {"--fuse_all_optimizer_ops=true", "--enable_backward_optimizer_op_deps=false"}},
      {"amp", {"--amp=true"}},
      {"chains", {"--enable_auto_fusion=true", "--enable_inplace=true"}},
      {"two", {"--nccl_comm_num=2", "--sync_nccl_allreduce=false"}}};
  for (const auto& [name, flags] : rows) {
    const std::string plain = std::string(name) + "_plain";
    EXPECT_EQ(Train(name, "2", With(kOn, flags)).params_sha256,
              Train(plain, "2", flags).params_sha256)
        << name;
  }
}

// Recomputed operators also read parameters. Before that, the owners must broadcast these
// parameters again.
TEST_F(ShardingTest, GoesWithRecomputation) {
  UseDeepNetwork();
  const Args again = {"--recompute=true", "--recompute_configs.checkpoints=relu_2.out,relu_5.out"};
  EXPECT_EQ(Train("again", "2", With(kOn, again)).params_sha256,
            Train("plain", "2", {}).params_sha256);
}

// A network with convolutions in blocked layouts, and batch normalisation over all ranks.
TEST_F(ShardingTest, GoesWithNormalisation) {
  job_ = Write("norms.pbtxt", kResNet18Job);
  const Args sync = {"--sync_batch_norm=true"};
  EXPECT_EQ(Train("sync", "2", With(kOn, sync)).params_sha256,
            Train("sync_plain", "2", sync).params_sha256);
}

// A checkpoint holds the parameters and slots of all ranks. A job with any strategy and any number
// of ranks can resume from the checkpoint.
TEST_F(ShardingTest, CheckpointsAreWhole) {
  const auto run = [this](const std::string& name, const std::string& ranks,
                          const std::string& store, int steps, const Args& flags) {
    return RunJob(
               name, Ranks(ranks),
               With(flags, {"--deterministic=true", "--checkpoint.dir=" + Path(store),
                            "--checkpoint.every_steps=5", "--steps_max=" + std::to_string(steps)}))
        .result;
  };
  const std::string undisturbed = run("whole", "2", "whole", 15, {}).params_sha256;
  run("first", "2", "forth", 5, kOn);
  run("more", "4", "forth", 10, kOn);
  EXPECT_EQ(run("then", "1", "forth", 15, {}).params_sha256, undisturbed);
  run("start", "1", "back", 10, {});
  EXPECT_EQ(run("end", "4", "back", 15, kOn).params_sha256, undisturbed);
}

// Two groups of two ranks: each group has all parameters, and a rank has half of them. Each
// gradient is summed over both groups.
TEST_F(ShardingTest, GroupsAreParallelInTheirData) {
  UseDeepNetwork();
  const Overrides groups = {{"sharding_configs.hybrid_dp", "true"},
                            {"sharding_configs.sharding_group_size", "2"}};
  for (int rank = 0; rank < 4; ++rank) {
    const graph::Program half = Sharded({}, 2, rank % 2).train,
                         train = Sharded(groups, 4, rank).train;
    EXPECT_EQ(BytesOf(train, graph::VarKind::kParam), BytesOf(half, graph::VarKind::kParam));
    EXPECT_EQ(BytesOf(train, graph::VarKind::kState), BytesOf(half, graph::VarKind::kState));
    EXPECT_EQ(Count(train, "c_broadcast_params"), Count(half, "c_broadcast_params"));
  }
}

TEST_F(ShardingTest, GroupsChangeNoBit) {
  const Args on = {"--deterministic=true"};
  const Args groups = {"--sharding=true", "--sharding_configs.hybrid_dp=true",
                       "--sharding_configs.sharding_group_size=2"};
  const JobResult whole = Train("whole", "4", on);
  for (const char* transport : {"Shm", "Tcp"}) {
    const JobResult grouped =
        Train(std::string("groups") + transport, "4",
              With(With(groups, on), {std::string("--collective_transport=") + transport}));
    EXPECT_EQ(grouped.params_sha256, whole.params_sha256) << transport;
    EXPECT_EQ(grouped.loss, whole.loss) << transport;
  }
  // The ring algorithm adds in another order. The order does not depend on the owner, so the bits
  // do not depend on the segments.
  const JobResult ring = Train("ring", "4", groups);
  EXPECT_EQ(
      Train("again", "4", With(groups, {"--sharding_configs.fuse_broadcast_MB=0"})).params_sha256,
      ring.params_sha256);
  EXPECT_NEAR(ring.loss, whole.loss, 0.01);
  // A job with another number of ranks resumes from a checkpoint of one group.
  const auto run = [&](const std::string& name, const std::string& ranks, int steps, Args flags) {
    flags.push_back("--checkpoint.dir=" + Path("store"));
    return RunJob(name, Ranks(ranks),
                  With(With(flags, on),
                       {"--checkpoint.every_steps=6", "--steps_max=" + std::to_string(steps)}))
        .result.params_sha256;
  };
  run("first", "4", 6, groups);
  EXPECT_EQ(run("then", "2", 12, {}), whole.params_sha256);
}

TEST_F(ShardingTest, RefusesGroupsThatDoNotFit) {
  const Args hybrid = {"--sharding_configs.hybrid_dp=true"};
  ExpectRefused("eight", "4", hybrid, "sharding_group_size: 2 (2 groups)");
  ExpectRefused("three", "6", With(hybrid, {"--sharding_configs.sharding_group_size=4"}),
                "sharding_group_size: 2 (3 groups), 3 (2 groups)");
  ExpectRefused("pair", "2", With(hybrid, {"--sharding_configs.sharding_group_size=2"}),
                "2 trainers cannot form groups");
}

TEST_F(ShardingTest, RefusesWhatCannotWork) {
  ExpectRefused("reduce", "2", {"--reduce_strategy=Reduce"}, "exclude each other");
  ExpectRefused("localsgd", "2", {"--localsgd=true"}, "exclude each other");
  ExpectRefused("dgc", "2", {"--dgc=true"}, "exclude each other");
  ExpectRefused("places", "2", {"--cpu_num=2"}, "the places of one process share memory");
  ExpectRefused("global", "2", {"--optimizer.clip_global_norm=1"},
                "sharding with clip_global_norm is not implemented");
  const auto job = StartJob("return", {"--mode=collective", "--nproc=2", "--max_restarts=1"}, kOn);
  EXPECT_NE(job->Wait(), 0);
  EXPECT_THAT(job->Output(), HasSubstr("sharding (only one rank stores each parameter"));
  const auto local = StartJob("local", {"--mode=local"}, kOn);
  EXPECT_EQ(local->Wait(), 2);
  EXPECT_THAT(local->Output(), HasSubstr("sharding: true has no effect with mode=local"));
}

}  // namespace
}  // namespace tandem::trainer
