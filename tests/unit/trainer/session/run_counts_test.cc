#include "trainer/session/run_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(RunCounts, OnlyWhatTheJobCountsHasAName) {
  EXPECT_THAT(CountsByName({}), IsEmpty());
  RunCounts counts;
  counts.runs = 0;
  counts.program.plan_threads = 2;
  counts.mode.ps.shm_calls = 7;
  counts.mode.localsgd_k_steps = 4;
  counts.device.limit_ms = 0.5;
  EXPECT_THAT(CountsByName(counts),
              ElementsAre(Pair("device.limit_ms", 0.5), Pair("localsgd.k_steps", 4),
                          Pair("plan.threads", 2), Pair("ps.lane_calls", 7), Pair("runs", 0)));
}

TEST(RunCounts, NamesOfTypesFollowTheNameOfTheirSum) {
  RunCounts counts;
  counts.program.ops = 3;
  counts.program.ops_by_type = {{"fc", 2}, {"relu", 1}};
  counts.program.passes = {{"amp", 0}};
  counts.program.by_impl = {{"onednn", 2}};
  EXPECT_THAT(CountsByName(counts),
              ElementsAre(Pair("ops", 3), Pair("ops.fc", 2), Pair("ops.relu", 1),
                          Pair("passes.amp", 0), Pair("plan.onednn", 2)));
}

TEST(RunCounts, CommunicationsAddUpOverTheTypes) {
  RunCounts counts;
  counts.comm["c_broadcast"] = {.started = 2, .out_bytes = 20};
  counts.comm["push_pull"] = {.started = 5, .out_bytes = 80};
  EXPECT_THAT(
      CountsByName(counts),
      ElementsAre(Pair("comm", 7), Pair("comm.c_broadcast", 2), Pair("comm.push_pull", 5),
                  Pair("comm_out_bytes.c_broadcast", 20), Pair("comm_out_bytes.push_pull", 80)));
}

}  // namespace
}  // namespace tandem::trainer
