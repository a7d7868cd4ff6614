// Sections (pipeline stages) and the schedule of their micro batches.
#include "kernels/graph/distribute/sections.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "kernels/exec/memory_plan.h"
#include "kernels/graph/builder.h"
#include "kernels/graph/distribute/micro_batches.h"
#include "kernels/graph/op_device.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::Program Mlp(int64_t batch, int layers, int64_t units) {
  graph::ProgramBuilder builder("mlp", batch);
  std::string x = builder.Data("x", DType::kF32, {units});
  const std::string label = builder.Data("label", DType::kI64, {1});
  for (int i = 0; i < layers; ++i) x = builder.Fc(x, units, graph::Act::kRelu);
  x = builder.Fc(x, 10);
  builder.SoftmaxLoss(x, label);
  builder.Accuracy(x, label);
  return *builder.Finish();
}

// ---- Schedule of micro batches ------------------------------------------------------------------

std::string Text(const std::vector<graph::PipelineRow>& rows) {
  std::string text;
  for (const graph::PipelineRow& row : rows) {
    text += (row.forward ? "F" : "B") + std::to_string(row.micro) + " ";
  }
  return text;
}

TEST(OneForwardOneBackwardTest, Rows) {
  EXPECT_EQ(Text(graph::OneForwardOneBackward(0, 3, 4)), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(Text(graph::OneForwardOneBackward(1, 3, 4)), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(Text(graph::OneForwardOneBackward(2, 3, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(Text(graph::OneForwardOneBackward(0, 4, 2)), "F0 F1 B0 B1 ") << "too few for";
  EXPECT_EQ(Text(graph::OneForwardOneBackward(0, 1, 2)), "F0 B0 F1 B1 ");
}

// The forward passes of the micro batches run in order, and so do the backward passes. The backward
// pass of a micro batch runs after its forward pass. At most `sections - section` micro batches
// have run forward but not backward.
TEST(OneForwardOneBackwardTest, BoundsWhatLives) {
  for (int sections = 1; sections <= 6; ++sections) {
    for (int micro = 1; micro <= 9; ++micro) {
      for (int section = 0; section < sections; ++section) {
        int forward = 0, backward = 0, live = 0;
        for (const graph::PipelineRow& row :
             graph::OneForwardOneBackward(section, sections, micro)) {
          EXPECT_EQ(row.micro, row.forward ? forward++ : backward++);
          live = std::max(live, forward - backward);
          ASSERT_GE(forward, backward);
        }
        EXPECT_EQ(forward, micro);
        EXPECT_EQ(backward, micro);
        EXPECT_EQ(live, std::min(micro, sections - section));
      }
    }
  }
}

// ---- Assignment of sections ---------------------------------------------------------------------

std::vector<int> SectionsOfOps(const graph::Program& program) {
  std::vector<int> sections;
  for (const ops::Op& op : program.ops) sections.push_back(graph::SectionOf(op));
  return sections;
}

TEST(SectionsTest, WithoutNamesTheyCostAboutTheSame) {
  graph::Program program = Mlp(8, 7, 64);
  ASSERT_TRUE(graph::AssignSections(program, 4).ok());
  std::vector<int> layers(4, 0);  // number of matrix products in each section
  int last = 0;
  for (const ops::Op& op : program.ops) {
    EXPECT_GE(graph::SectionOf(op), last);
    last = graph::SectionOf(op);
    if (op.type == "fc" && op.outputs[0][0].find("fc_7") == std::string::npos) ++layers[last];
  }
  EXPECT_THAT(layers, ElementsAre(2, 2, 2, 1)) << "the last has the small layer and the loss";
}

// The ranks of the last section report the loss and the metrics, whatever these operators cost.
TEST(SectionsTest, TheLastOneComputesTheLossAndTheMetrics) {
  const graph::Program mlp = Mlp(8, 2, 64);
  const auto loss = std::find_if(mlp.ops.begin(), mlp.ops.end(), [&mlp](const ops::Op& op) {
    return op.outputs[0] == std::vector<std::string>{mlp.loss};
  });
  ASSERT_NE(loss, mlp.ops.end());
  const int most = static_cast<int>(loss - mlp.ops.begin()) + 1;
  for (int sections = 2; sections <= most; ++sections) {
    graph::Program program = mlp;
    ASSERT_TRUE(graph::AssignSections(program, sections).ok()) << sections;
    for (size_t i = static_cast<size_t>(most) - 1; i < program.ops.size(); ++i) {
      EXPECT_EQ(graph::SectionOf(program.ops[i]), sections - 1) << sections;
    }
  }
  graph::Program program = mlp;
  EXPECT_THAT(graph::AssignSections(program, most + 1).message(),
              HasSubstr(absl::StrCat("fewer than its ", most + 1, " sections")));
}

TEST(SectionsTest, NamedOnesAreTaken) {
  graph::Program program = Mlp(8, 2, 64);
  ASSERT_TRUE(graph::NamedSections(program).ok());
  EXPECT_EQ(*graph::NamedSections(program), 0);
  program.ops[0].attrs[graph::kOpDevice] = std::string("gpu:0");
  program.ops[2].attrs[graph::kOpDevice] = std::string("cpu:1");
  EXPECT_EQ(*graph::NamedSections(program), 2);
  ASSERT_TRUE(graph::AssignSections(program, 2).ok());
  std::vector<int> wanted(program.ops.size(), 1);
  wanted[0] = wanted[1] = 0;
  EXPECT_EQ(SectionsOfOps(program), wanted) << "others are where their inputs are";
  EXPECT_THAT(graph::Dump(program), AllOf(HasSubstr(" in section 0"), HasSubstr(" in section 1")));
  EXPECT_THAT(graph::AssignSections(program, 3).message(), HasSubstr("names 2 sections"));
}

TEST(SectionsTest, RefusesWhatIsNoSection) {
  graph::Program program = Mlp(8, 2, 64);
  program.ops[1].attrs[graph::kOpDevice] = std::string("tpu");
  EXPECT_THAT(graph::Verify(program).message(), HasSubstr("op_device is \"tpu\""));
  program.ops[1].attrs[graph::kOpDevice] = std::string("gpu:2");
  EXPECT_THAT(graph::NamedSections(program).status().message(),
              HasSubstr("but no operator names section 0"));
  graph::Program small = Mlp(8, 0, 64);
  EXPECT_THAT(graph::AssignSections(small, 100).message(),
              HasSubstr("fewer than its 100 sections"));
}

TEST(SectionsTest, RefusesWhatFlowsBackAndWhatIsShared) {
  graph::Program program = Mlp(8, 2, 64);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    program.ops[i].attrs[graph::kOpDevice] = graph::DeviceOf(i < 2 ? 1 : 0);
  }
  EXPECT_THAT(graph::CutSections(program).status().message(), HasSubstr("in the other direction"));
  graph::Program shared = Mlp(8, 2, 64);
  shared.ops[2].inputs[1] = shared.ops[0].inputs[1];
  const std::string weight = shared.ops[0].inputs[1][0];
  ASSERT_TRUE(graph::Verify(shared).ok());
  for (size_t i = 0; i < shared.ops.size(); ++i)
    shared.ops[i].attrs[graph::kOpDevice] = graph::DeviceOf(i >= 2);
  EXPECT_THAT(graph::CutSections(shared).status().message(),
              HasSubstr("\"" + weight + "\" is used in sections 0 and 1"));
}

// ---- Sections with a device guard ---------------------------------------------------------------

TEST(SectionsTest, TheGuardMakesTwoSections) {
  graph::Program program = Mlp(8, 2, 64);
  for (size_t i = 2; i < program.ops.size(); ++i) {
    program.ops[i].attrs[graph::kOpDevice] = std::string(i % 2 == 0 ? "gpu" : "gpu:3");
  }
  program.ops[1].attrs[graph::kOpDevice] = std::string("cpu");
  ASSERT_TRUE(graph::AssignGuard(program, "gpu").ok());
  std::vector<int> wanted(program.ops.size(), 1);
  wanted[0] = wanted[1] = 0;
  EXPECT_EQ(SectionsOfOps(program), wanted);
}

TEST(SectionsTest, TheGuardRefusesWhatIsOnTheWrongSide) {
  const auto refused = [](const std::function<void(graph::Program&)>& change) {
    graph::Program program = Mlp(8, 2, 64);
    for (size_t i = 2; i < program.ops.size(); ++i) {
      program.ops[i].attrs[graph::kOpDevice] = std::string("gpu");
    }
    change(program);
    return std::string(graph::AssignGuard(program, "gpu").message());
  };
  EXPECT_EQ(refused([](graph::Program&) {}), "");
  EXPECT_THAT(refused([](graph::Program& p) {
                for (ops::Op& op : p.ops) op.attrs.erase(graph::kOpDevice);
              }),
              HasSubstr("no operator of program \"mlp\" has device guard \"gpu\""));
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[3].attrs.erase(graph::kOpDevice); }),
              AllOf(HasSubstr("has no op_device \"gpu\", but reads \"fc_1.out\""),
                    HasSubstr("the relu that makes \"relu_1.out\"")));
  EXPECT_THAT(refused([](graph::Program& p) { p.ops[2].inputs[1] = p.ops[0].inputs[1]; }),
              HasSubstr("the parameter \"fc_0.w\" is used by the fc that makes \"fc_0.out\" and by "
                        "the fc that makes \"fc_1.out\""));
  EXPECT_THAT(refused([](graph::Program& p) { p.loss = p.ops[0].outputs[0][0]; }),
              HasSubstr("the loss \"fc_0.out\" is not computed under device guard"));
  EXPECT_THAT(refused([](graph::Program& p) { p.metrics = {p.ops[1].outputs[0][0]}; }),
              HasSubstr("metric \"relu_0.out\" is not computed under device guard"));
  EXPECT_THAT(refused([](graph::Program& p) {
                p.ops[2].type = "lookup_table";
                p.ops[2].attrs["is_sparse"] = true;
              }),
              HasSubstr("the lookup_table that makes \"fc_1.out\" has device guard"));
}

// ---- Programs of the ranks ----------------------------------------------------------------------

graph::SectionProgram Rank(graph::Program program, int sections, int section, int micro) {
  EXPECT_TRUE(graph::AssignSections(program, sections).ok());
  const auto grads = graph::AppendBackward(program, 1.0f);
  EXPECT_TRUE(grads.ok()) << grads.status();
  auto made = graph::UnrollSection(program, *grads, {section, sections, 0, micro});
  EXPECT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(graph::Verify(made->program).ok()) << graph::Verify(made->program);
  return *std::move(made);
}

// The memory of temporaries depends on the number of micro batches in progress, but not on the
// total number of micro batches.
TEST(UnrollSectionTest, MemoryIsBounded) {
  const auto bytes = [](int section, int micro) {
    const graph::Program program = Rank(Mlp(64, 6, 256), 3, section, micro).program;
    const auto plan = exec::PlanMemory(program, exec::FindCommIntervals(program), {},
                                       {.inplace = true, .reuse = true});
    size_t data = 0;  // bytes of the step's data, which exist from the start
    for (const graph::Var& var : program.vars()) {
      if (var.name.starts_with("x@MICRO")) data += var.desc.bytes();
    }
    return plan->bytes - data;
  };
  for (int section = 0; section < 3; ++section) {
    const size_t few = bytes(section, 3), many = bytes(section, 24);
    EXPECT_LT(many, few + few / 4) << "section " << section;
    if (section < 2) {
      EXPECT_LT(bytes(section, 1), few) << "several live";
    }
  }
  EXPECT_LT(bytes(2, 8), bytes(1, 8));
}

// Simulates messages between ranks. A send ends only when the destination rank receives the
// message, so the ranks wait for each other. The test checks that no rank waits forever.
class Rendezvous {
 public:
  Rendezvous(int sections, int micro) {
    for (int s = 0; s < sections; ++s) {
      programs_.push_back(Rank(Mlp(4, 2 * sections, 16), sections, s, micro).program);
    }
    at_.resize(programs_.size());
    lanes_.resize(programs_.size());
    ended_.resize(programs_.size());
  }

  // Runs the programs of all ranks. Returns whether all of them end.
  bool Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < ranks(); ++r) moved |= Advance(r);
      for (int r = 0; r < ranks(); ++r) moved |= Meet(r);
    }
    for (int r = 0; r < ranks(); ++r) {
      if (at_[r] < programs_[r].ops.size() || !lanes_[r][0].empty() || !lanes_[r][1].empty()) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Message {
    std::string var;
    int peer;
    bool send;
  };
  int ranks() const { return static_cast<int>(programs_.size()); }

  // Runs the program of rank r until it must wait for a message. Returns whether an operator ran.
  bool Advance(int r) {
    bool moved = false;
    for (; at_[r] < programs_[r].ops.size(); ++at_[r], moved = true) {
      const ops::Op& op = programs_[r].ops[at_[r]];
      bool waits = false;
      graph::ForEachRead(op, [&](const std::string& v) { waits |= under_way_.contains({r, v}); });
      if (waits) return moved;
      if (op.type != "send_v2" && op.type != "recv_v2") continue;
      const int peer = static_cast<int>(std::get<int64_t>(op.attrs.at("peer")));
      const bool send = op.type == "send_v2";
      const bool forward = send == (peer > r);
      lanes_[r][forward ? 0 : 1].push_back({op.outputs[0][0], peer, send});
      under_way_.insert({r, op.outputs[0][0]});
    }
    return moved;
  }

  // Matches the first message of each lane of rank r, if it is a send, with the first receive in
  // the same lane of the destination rank. Returns whether a pair matched.
  bool Meet(int r) {
    bool moved = false;
    for (const int lane : {0, 1}) {
      if (lanes_[r][lane].empty() || !lanes_[r][lane].front().send) continue;
      const Message message = lanes_[r][lane].front();
      auto& other = lanes_[message.peer][lane];
      if (other.empty() || other.front().send || other.front().peer != r) continue;
      EXPECT_EQ(other.front().var, message.var);
      under_way_.erase({r, message.var});
      under_way_.erase({message.peer, message.var});
      other.pop_front();
      lanes_[r][lane].pop_front();
      moved = true;
    }
    return moved;
  }

  std::vector<graph::Program> programs_;
  std::vector<size_t> at_;
  std::vector<std::array<std::deque<Message>, 2>> lanes_;
  std::vector<bool> ended_;
  std::set<std::pair<int, std::string>> under_way_;
};

TEST(UnrollSectionTest, NobodyWaitsForEver) {
  for (int sections = 2; sections <= 5; ++sections) {
    for (const int micro : {1, 2, 3, 4, 7}) {
      EXPECT_TRUE(Rendezvous(sections, micro).Run()) << sections << " sections, " << micro;
    }
  }
}

}  // namespace
}  // namespace tandem
