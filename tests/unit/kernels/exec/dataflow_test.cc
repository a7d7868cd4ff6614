// Tests the graph of a step's operators, and its execution on several threads.
#include "kernels/exec/dataflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::byte g_memory[64];  // never accessed: a graph uses only addresses

exec::MemoryAccess Read(size_t at, size_t bytes = 4) { return {g_memory + at, bytes, false}; }
exec::MemoryAccess Write(size_t at, size_t bytes = 4) { return {g_memory + at, bytes, true}; }

TEST(StepGraph, WaitsWhereOneWritesWhatTheOtherTouches) {
  exec::StepGraphBuilder graph;
  graph.Add({Write(0)});           // node 0: writes the first cell
  graph.Add({Read(0), Write(4)});  // node 1: reads the cell that node 0 wrote
  graph.Add({Read(0), Write(8)});  // node 2: reads the cell that node 0 wrote, parallel to node 1
  graph.Add({Read(2), Write(0)});  // node 3: reads half of the cell that node 1 wrote, overwrites
                                   // the cell that nodes 1 and 2 read
  graph.Add({Read(4), Read(8)});   // node 4: reads the outputs of nodes 1 and 2
  graph.Add({Read(12)});           // node 5: reads memory that no node wrote
  graph.Add({Write(4, 8)});        // node 6: overwrites the cells of several nodes
  const exec::StepGraph g = graph.Build();
  EXPECT_THAT(g.followers[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(g.followers[1], ElementsAre(3, 4, 6));
  EXPECT_THAT(g.followers[2], ElementsAre(3, 4, 6));
  EXPECT_THAT(g.followers[3], ElementsAre(6));
  EXPECT_THAT(g.followers[4], ElementsAre(6));
  EXPECT_THAT(g.followers[5], IsEmpty());
  EXPECT_THAT(g.waits_for, ElementsAre(0, 1, 1, 3, 2, 0, 4));
}

TEST(StepGraph, ReadersDoNotWaitForEachOther) {
  exec::StepGraphBuilder graph;
  for (int i = 0; i < 3; ++i) graph.Add({Read(0)});
  graph.Behind(0);
  EXPECT_THAT(graph.Build().waits_for, ElementsAre(0, 0, 1));
}

// A random program over a few memory cells. Every run of the program must have the result of
// program order.
class Cells {
 public:
  explicit Cells(uint32_t seed) {
    std::mt19937 rng(seed);
    for (int i = 0; i < 200; ++i) {
      steps_.push_back({rng() % kCells, rng() % kCells, rng() % kCells});
      const auto [a, b, to] = steps_.back();
      graph_.Add({Read(4 * a), Read(4 * b), Write(4 * to)});
    }
  }
  exec::StepGraph graph() const { return graph_.Build(); }
  void Run(int step) {
    const auto [a, b, to] = steps_[static_cast<size_t>(step)];
    cells_[to] = cells_[a] * 31 + cells_[b] * 17 + static_cast<uint32_t>(step);
  }
  std::vector<uint32_t> Ordered() {
    Reset();
    for (size_t i = 0; i < steps_.size(); ++i) Run(static_cast<int>(i));
    return cells_;
  }
  void Reset() { cells_.assign(kCells, 1); }
  const std::vector<uint32_t>& cells() const { return cells_; }

 private:
  static constexpr size_t kCells = 12;
  struct Step {
    size_t a, b, to;
  };
  std::vector<Step> steps_;
  exec::StepGraphBuilder graph_;
  std::vector<uint32_t> cells_;
};

TEST(Dataflow, GivesWhatProgramOrderGives) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    Cells cells(seed);
    const std::vector<uint32_t> want = cells.Ordered();
    const exec::StepGraph graph = cells.graph();
    for (const int threads : {1, 2, 4}) {
      exec::Dataflow flow(graph, threads);
      for (int round = 0; round < 50; ++round) {
        cells.Reset();
        const auto failure = flow.Run([&](int step, int) {
          cells.Run(step);
          return OkStatus();
        });
        EXPECT_EQ(failure.step, -1);
        ASSERT_EQ(cells.cells(), want) << threads << " threads";
      }
    }
  }
}

TEST(Dataflow, OneThreadTakesTheProgramsOrder) {
  Cells cells(5);
  const exec::StepGraph graph = cells.graph();
  std::vector<int> order;
  exec::Dataflow flow(graph, 1);
  (void)flow.Run([&](int step, int thread) {
    EXPECT_EQ(thread, 0);
    order.push_back(step);
    return OkStatus();
  });
  EXPECT_EQ(order.size(), 200u);
  EXPECT_EQ(order[0], 0);
}

TEST(Dataflow, AfterAnErrorNothingIsBegunAndTheNextRunIsWhole) {
  exec::StepGraphBuilder builder;
  for (int i = 0; i < 20; ++i) builder.Add({Read(0), Write(0)});
  const exec::StepGraph graph = builder.Build();
  exec::Dataflow flow(graph, 3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ran{0};
    const auto failure = flow.Run([&](int step, int) {
      ++ran;
      return step == 7 ? DataLoss("step %d", step) : OkStatus();
    });
    EXPECT_EQ(failure.step, 7);
    EXPECT_EQ(failure.status.code(), StatusCode::kDataLoss);
    EXPECT_EQ(ran.load(), 8);
    ran = 0;
    EXPECT_EQ(flow.Run([&](int, int) {
                    ++ran;
                    return OkStatus();
                  })
                  .step,
              -1);
    EXPECT_EQ(ran.load(), 20);
  }
}

TEST(Dataflow, AnErrorLeavesOutWhatWasReadyToo) {
  exec::StepGraphBuilder builder;
  for (size_t i = 0; i < 15; ++i) builder.Add({Write(4 * i)});
  const exec::StepGraph graph = builder.Build();
  exec::Dataflow flow(graph, 1);
  int ran = 0;
  const auto failure = flow.Run([&](int step, int) {
    ++ran;
    return step == 7 ? DataLoss("step %d", step) : OkStatus();
  });
  EXPECT_EQ(failure.step, 7);
  EXPECT_EQ(ran, 8);
}

TEST(Dataflow, NothingToDo) {
  const exec::StepGraph graph;
  EXPECT_EQ(exec::Dataflow(graph, 2).Run([](int, int) { return OkStatus(); }).step, -1);
}

}  // namespace
}  // namespace tandem
