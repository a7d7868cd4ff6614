// Tests files with errors. The parser must report each error with its location and a hint.
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/strategy/strategy.h"
#include "proto/job.pb.h"
#include "proto/program.pb.h"

namespace tandem::strategy {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  JobConfig job;
  Origins origins;
  Diagnostics diagnostics;
};

Parsed Parse(const std::string& text) {
  Parsed p;
  ParseTextProto({"job.pbtxt", text}, &p.job, &p.origins, &p.diagnostics);
  return p;
}

TEST(TextFile, ReadsEveryKindOfValue) {
  const Parsed p = Parse(R"(
    # a job
    name: "a" 'b'   # two pieces
    mode: collective
    model { zoo: "lenet" arg { name: "x" value: "1" } arg: [{name: "y"}, <name: "z">] }
    optimizer: { learning_rate: 1e-2f; schedule { kind: PIECEWISE boundary: [10, 20]
                 boundary: 30 value: [1, .5, 0.25, -0.0] } }
    seed: 0x10, epochs: 3.0
    strategy {
      a_sync: True
      build_strategy { memory_optimize: None
                       gradient_scale_strategy: fluid.BuildStrategy.GradientScaleStrategy.One }
      amp_configs { custom_white_list: [] custom_black_list: ["softmax", "mul"] }
      fuse_grad_size_in_MB: -1
    })");
  EXPECT_EQ(p.diagnostics.ErrorText(), "");
  EXPECT_EQ(p.job.name(), "ab");
  EXPECT_EQ(p.job.mode(), COLLECTIVE);
  ASSERT_EQ(p.job.model().arg_size(), 3);
  EXPECT_EQ(p.job.model().arg(2).name(), "z");
  EXPECT_FLOAT_EQ(p.job.optimizer().learning_rate(), 0.01f);
  EXPECT_THAT(p.job.optimizer().schedule().boundary(), ::testing::ElementsAre(10, 20, 30));
  EXPECT_EQ(p.job.optimizer().schedule().value_size(), 4);
  EXPECT_EQ(p.job.seed(), 16u);
  EXPECT_EQ(p.job.epochs(), 3);
  EXPECT_TRUE(p.job.strategy().a_sync());
  EXPECT_EQ(p.job.strategy().build_strategy().memory_optimize(), BuildStrategy::Auto);
  EXPECT_EQ(p.job.strategy().build_strategy().gradient_scale_strategy(), BuildStrategy::One);
  EXPECT_EQ(p.job.strategy().amp_configs().custom_white_list_size(), 0);
  EXPECT_EQ(p.job.strategy().amp_configs().custom_black_list_size(), 2);
  EXPECT_EQ(p.job.strategy().fuse_grad_size_in_mb(), -1);
  EXPECT_EQ(p.origins.Of("strategy.a_sync").ToString(), "job.pbtxt:10:7");
  EXPECT_EQ(p.origins.Of("model").ToString(), "job.pbtxt:5:5");
  EXPECT_EQ(p.origins.Of("data").ToString(), "default");
}

TEST(TextFile, ErrorShowsPlaceExcerptCaretAndHint) {
  const Parsed p = Parse("strategy {\n\tfuse_all_reduce: true\n}\n");
  EXPECT_EQ(p.diagnostics.ErrorText(),
            "job.pbtxt:2:9: error: DistributedStrategy has no field \"fuse_all_reduce\" [TD1101]\n"
            "          fuse_all_reduce: true\n"
            "          ^\n"
            "hint: did you mean \"fuse_all_reduce_ops\"?\n");
}

TEST(Diagnostics, AHintStandsApart) {
  Diagnostics diagnostics;
  diagnostics.Error({}, "no x [TD1101]; did you mean \"y\"? (there are: y, z)");
  diagnostics.Error({}, "no place; hint: make some");
  diagnostics.Error({}, "two; hint: of them", "this one");
  EXPECT_EQ(diagnostics.ErrorText(),
            "error: no x [TD1101]\nhint: did you mean \"y\"? (there are: y, z)\n"
            "error: no place\nhint: make some\n"
            "error: two; hint: of them\nhint: this one\n");
}

TEST(TextFile, TellsAllErrorsAtOnce) {
  const Parsed p = Parse(R"(nane: "x"
seed: -1
epochs: many
strategy {
  a_sync: yes
  a_sync: false
  execution_strategy { num_threads: 4096 num_thread: 2 }
  build_strategy { reduce_strategy: Reducee }
  amp_configs { decr_ratio: nan incr_ratio: 1e999 }
  nccl_comm_num 3
}
model { zoo: lenet }
steps_max: 99999999999999999999
global_batch_size: 1.5
batch_size: [1]
unknown { deep { deeper: [1, { }] } }
)");
  struct Row {
    const char* place;
    const char* message;
    const char* hint;
  };
  const Row rows[] = {
      {"job.pbtxt:1:1", "JobConfig has no field \"nane\" [TD1101]", "did you mean \"name\"?"},
      {"job.pbtxt:2:7", "seed: \"-1\" does not fit into uint64 [TD1103]", ""},
      {"job.pbtxt:3:9", "epochs expects an integer, got \"many\" [TD1103]", ""},
      {"job.pbtxt:5:11", "a_sync expects true or false, got \"yes\" [TD1103]", "write true"},
      {"job.pbtxt:6:3", "a_sync is given twice; first in line 5 [TD1102]", "keep one of them"},
      {"job.pbtxt:7:37", "num_threads is out of range: 4096 is more than 1024 threads [TD1104]",
       "use a value from 0 to 1024 threads"},
      {"job.pbtxt:7:42", "ExecutionStrategy has no field \"num_thread\" [TD1101]",
       "did you mean \"num_threads\"?"},
      {"job.pbtxt:8:37",
       "reduce_strategy expects one of AllReduce, Reduce, got \"Reducee\" [TD1103]",
       "did you mean \"Reduce\"?"},
      {"job.pbtxt:9:29", "decr_ratio: \"nan\" is not a finite number [TD1103]",
       "write a finite number"},
      {"job.pbtxt:9:45", "incr_ratio: \"1e999\" is not a finite number [TD1103]",
       "write a finite number"},
      {"job.pbtxt:10:17", "expected \":\" after nccl_comm_num, got \"3\" [TD1105]", ""},
      {"job.pbtxt:12:14", "zoo expects a string in quotes, got \"lenet\" [TD1103]",
       "write \"lenet\""},
      {"job.pbtxt:13:12", "steps_max: \"99999999999999999999\" does not fit into int64 [TD1103]",
       ""},
      {"job.pbtxt:14:20", "global_batch_size expects an integer, got \"1.5\" [TD1103]", ""},
      {"job.pbtxt:15:13", "batch_size is not a list [TD1103]", "write one value without [ ]"},
      {"job.pbtxt:16:1", "JobConfig has no field \"unknown\" [TD1101]", ""},
  };
  const std::string text = p.diagnostics.ErrorText();
  for (const Row& row : rows) {
    EXPECT_THAT(text, HasSubstr(std::string(row.place) + ": error: " + row.message + "\n"));
    if (*row.hint != '\0') {
      EXPECT_THAT(text, HasSubstr("hint: " + std::string(row.hint) + "\n"));
    }
  }
  EXPECT_EQ(p.diagnostics.errors(), static_cast<int64_t>(std::size(rows))) << text;
  // The parser reports the errors in the order of their lines.
  EXPECT_LT(text.find("pbtxt:13:"), text.find("pbtxt:14:"));
}

TEST(TextFile, BrokenSyntax) {
  const std::pair<const char*, const char*> rows[] = {
      {"strategy {\n  a_sync: true\n", "1:10: error: this message is never closed"},
      {"strategy {\n  a_sync: true\n>", "3:1: error: expected the name of a field, got \">\""},
      {"}", "1:1: error: expected the name of a field, got \"}\""},
      {"name: \"x\nseed: 3\n", "1:9: error: String literals cannot cross line boundaries"},
      {"name:", "1:6: error: expected a value for name, got the end of the file"},
      {"name", "1:5: error: expected \":\" after name, got the end of the file"},
      {"strategy: 3", "1:11: error: strategy expects a message in { }, got \"3\""},
      {"seed: -", "1:7: error: expected a value for seed, got the end of the file"},
      {"name: -\"x\"", "1:7: error: expected a value for name"},
      {"model { arg: [ {}", "1:7: error: this message is never closed"},
      {"optimizer { schedule { boundary: [1,,2] } }", "expected a value for boundary, got \",\""},
      {"optimizer { schedule { boundary: [1 2] } }",
       "expected \",\" or \"]\" in a list, got \"2\""},
      {"\x01\x02 name: \"x\"", "Invalid control characters"},
      {"\xff\xfe", "error"},
      {"[tandem.ext]: 3", "1:1: error: expected the name of a field, got \"[\""},
      {"name: \"\\z\"", "Invalid escape sequence"},
  };
  for (const auto& [text, message] : rows) {
    const Parsed p = Parse(text);
    EXPECT_FALSE(p.diagnostics.ok()) << text;
    EXPECT_THAT(p.diagnostics.ErrorText(), HasSubstr(message)) << text;
  }
}

TEST(TextFile, OneMistakeOneMessage) {
  for (const char* text :
       {"strategy {\n a_sync true\n nccl_comm_num: 1\n}\nname: \"x\"", "name = \"x\"\nseed: 3",
        "wrong: -3.5 seed: 4", "wrong: \"a\" \"b\" seed: 4", "wrong: A.B.C seed: 4",
        "wrong { x { y: 3 } } seed: 4", "wrong: [1, 2] seed: 4", "seed: 3 seed: 4\nname: \"x\""}) {
    const Parsed p = Parse(text);
    EXPECT_EQ(p.diagnostics.errors(), 1) << text << "\n" << p.diagnostics.ErrorText();
  }
}

TEST(TextFile, LimitsOfDepthSizeAndErrors) {
  std::string errors;
  for (int i = 0; i < 1000; ++i) errors += "x" + std::to_string(i) + ": 1\n";
  const Parsed many = Parse(errors);
  EXPECT_EQ(many.diagnostics.entries().size(), static_cast<size_t>(Diagnostics::kKeptMax));
  const Parsed large = Parse(std::string(kTextFileBytesMax + 1, ' '));
  EXPECT_THAT(large.diagnostics.ErrorText(), HasSubstr("larger than 16 MiB"));
  const Parsed deep = Parse("x " + std::string(100000, '{'));
  EXPECT_FALSE(deep.diagnostics.ok());
  const Parsed empty = Parse("");
  EXPECT_TRUE(empty.diagnostics.ok());
}

TEST(TextFile, OneofMembersExcludeEachOther) {
  pb::ProgramDef program;
  Diagnostics diagnostics;
  ParseTextProto({"p.pbtxt", "op { attr { i: 3 f: 4 } attr { i: 3 } attr { ints { v: [1, 2] } } }"},
                 &program, nullptr, &diagnostics);
  EXPECT_EQ(diagnostics.errors(), 1);
  EXPECT_THAT(diagnostics.ErrorText(), HasSubstr("f and i (line 1) exclude each other"));
}

TEST(TextFile, LoadingTwiceDoesNotDoubleLists) {
  const std::string path = ::testing::TempDir() + "/tandem_twice.pbtxt";
  std::ofstream(path) << "mkldnn_enabled_op_types: [\"conv2d\", \"relu\"]";
  BuildStrategy build;
  for (int i = 0; i < 2; ++i) {
    Diagnostics diagnostics;
    EXPECT_TRUE(LoadTextProto(path, &build, nullptr, &diagnostics).ok());
    EXPECT_EQ(build.mkldnn_enabled_op_types_size(), 2);
  }
  std::filesystem::remove(path);
}

TEST(TextFile, FilesThatCannotBeRead) {
  EXPECT_EQ(ReadTextFile("/nonexistent/job.pbtxt").status().code(), StatusCode::kNotFound);
  const Status folder = ReadTextFile(::testing::TempDir()).status();
  EXPECT_EQ(folder.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.message()), HasSubstr("is a directory"));
  JobConfig job;
  Diagnostics diagnostics;
  EXPECT_EQ(LoadTextProto("/nonexistent", &job, nullptr, &diagnostics).code(),
            StatusCode::kNotFound);
  const std::string path = ::testing::TempDir() + "/tandem_large.pbtxt";
  std::ofstream(path) << std::string(kTextFileBytesMax + 1, '#');
  EXPECT_THAT(std::string(ReadTextFile(path).status().message()), HasSubstr("larger than 16 MiB"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tandem::strategy
