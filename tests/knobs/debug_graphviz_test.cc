// debug_graphviz_path: draws the program after every pass. The file also tests the report of passes
// that a trainer prints at its start.
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using DebugGraphvizTest = KnobProgramTest;

TEST_F(DebugGraphvizTest, ADrawingBehindEveryPass) {
  const JobRun run =
      RunJob("drawn", {"--mode=local"},
             {"--steps_max=1", "--fuse_all_optimizer_ops=true", "--fuse_elewise_add_act_ops=true",
              "--fuse_bn_add_act_ops=false", "--fused_attention=false", "--use_mkldnn=false",
              "--debug_graphviz_path=" + Path("graphs")});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(Path("graphs"))) {
    files.push_back(entry.path().filename());
  }
  EXPECT_THAT(files, testing::UnorderedElementsAre(
                         "00_model.dot", "01_fuse_elewise_add_act_ops.dot", "02_autodiff.dot",
                         "03_distribute.dot", "04_fuse_elewise_add_act_ops.conv.dot",
                         "05_fuse_all_optimizer_ops.dot"));
  EXPECT_THAT(ReadWholeFile(Path("graphs/03_distribute.dot")), HasSubstr("label=\"momentum\""));
  const std::string last = ReadWholeFile(Path("graphs/05_fuse_all_optimizer_ops.dot"));
  EXPECT_THAT(last, HasSubstr("digraph"));
  EXPECT_THAT(last, HasSubstr("fused_elementwise"));
  EXPECT_THAT(last, Not(HasSubstr("label=\"momentum\"")));
  EXPECT_THAT(run.output, HasSubstr("pass fuse_all_optimizer_ops: 1 place, "));
  EXPECT_THAT(run.output, HasSubstr("pass fuse_elewise_add_act_ops: not applied: "));
}

TEST_F(DebugGraphvizTest, NoneWithoutIt) {
  const JobRun run = RunJob("plain", {"--mode=local"}, {"--steps_max=1"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_FALSE(std::filesystem::exists(Path("graphs")));
  EXPECT_THAT(run.output, Not(HasSubstr("pass ")));
}

}  // namespace
}  // namespace tandem::trainer
