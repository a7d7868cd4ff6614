// Tests which settings a strategy may have in each mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/strategy/knobs.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "common/strategy/validate.h"
#include "proto/job.pb.h"

namespace tandem::strategy {
namespace {

using ::testing::HasSubstr;

Diagnostics Validate(const std::string& strategy, TrainMode mode, int ranks = 0) {
  JobConfig job;
  Origins origins;
  Diagnostics diagnostics;
  ParseTextProto({"job.pbtxt", "strategy {\n" + strategy + "\n}"}, &job, &origins, &diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(), "") << strategy;
  Diagnostics result;
  const StrategyContext context{mode, FlagOrigin("mode"), ranks};
  ValidateStrategy(job.strategy(), context, origins, "strategy", &result);
  return result;
}

TEST(Validate, DefaultsAreFineInEveryMode) {
  for (int mode = 0; mode < 4; ++mode) {
    const Diagnostics d = Validate("", static_cast<TrainMode>(mode));
    EXPECT_EQ(d.ErrorText() + d.NoteText(), "");
  }
}

TEST(Validate, ContradictionOfModeAndStrategyNamesBothPlaces) {
  const Diagnostics d = Validate("a_sync: true", TrainMode::kCollective);
  EXPECT_EQ(d.ErrorText(),
            "job.pbtxt:2:1: error: a_sync: true has no effect with mode=collective (flag --mode) "
            "[TD1107]\n"
            "  a_sync: true\n"
            "  ^\n"
            "hint: remove it, or choose mode pserver or hybrid\n");
  EXPECT_EQ(d.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Validate("a_sync: true", TrainMode::kPserver).ok());
  EXPECT_FALSE(Validate("a_sync: true", TrainMode::kLocal).ok());
  EXPECT_TRUE(Validate("a_sync: false", TrainMode::kCollective).ok());
}

TEST(Validate, MatterOfSpeedIsReportedOnly) {
  const Diagnostics d = Validate("min_block_size: 4096", TrainMode::kCollective);
  EXPECT_TRUE(d.ok());
  EXPECT_THAT(d.NoteText(), HasSubstr("min_block_size: 4096 has no effect with mode=collective"));
  EXPECT_EQ(Validate("min_block_size: 4096", TrainMode::kPserver).NoteText(), "");
}

TEST(Validate, ReduceWithOneRankIsReported) {
  const char* const text = "build_strategy { reduce_strategy: Reduce }";
  EXPECT_THAT(Validate(text, TrainMode::kLocal, 1).NoteText(),
              HasSubstr("reduce_strategy: Reduce has no effect with one rank"));
  EXPECT_EQ(Validate(text, TrainMode::kLocal, 2).NoteText(), "");
}

// Settings of a feature that is off have no effect, so Validate reports them.
TEST(Validate, SettingsWithoutTheirSwitchAreReported) {
  for (const auto& [name, field, value] : {std::tuple("localsgd", "k_steps", "4"),
                                           {"adaptive_localsgd", "init_k_steps", "4"},
                                           {"gradient_merge", "k_steps", "4"},
                                           {"dgc", "sparsity", "0.5"},
                                           {"amp", "init_loss_scaling", "8"},
                                           {"recompute", "checkpoints", "\"x\""},
                                           {"lars", "lars_coeff", "0.5"},
                                           {"pipeline", "micro_batch", "4"},
                                           {"sharding", "fuse_broadcast_MB", "8"}}) {
    const std::string configs = absl::StrCat(name, "_configs { ", field, ": ", value, " }");
    const std::string note = absl::StrCat(field, " has no effect without ", name);
    EXPECT_THAT(Validate(configs, TrainMode::kCollective).NoteText(), HasSubstr(note));
    EXPECT_THAT(Validate(absl::StrCat(name, ": true ", configs), TrainMode::kCollective).NoteText(),
                ::testing::Not(HasSubstr(note)));
  }
  // Saved strategies of Fleet contain default values explicitly, so Validate does not report a
  // default value.
  EXPECT_EQ(Validate("localsgd_configs { k_steps: 1 }", TrainMode::kCollective).NoteText(), "");
  EXPECT_EQ(Validate("a_sync_configs { launch_barrier: false }", TrainMode::kPserver).NoteText(),
            "");
}

TEST(Validate, DefaultsAndWhatIsBuiltAreTaken) {
  for (const char* text :
       {"amp: false", "fuse_all_reduce_ops: true", "num_threads: 1", "fuse_grad_size_in_MB: 32.0",
        "build_strategy { memory_optimize: None }", "build_strategy { debug_graphviz_path: \"\" }",
        "build_strategy { gradient_scale_strategy: One }", "a_sync: true",
        "a_sync: true a_sync_configs { k_steps: 0 }", "a_sync_configs { k_steps: 0 }",
        "build_strategy { mkldnn_enabled_op_types: [] }"}) {
    EXPECT_EQ(Validate(text, TrainMode::kPserver).ErrorText(), "") << text;
  }
}

// Validate rejects a knob that is not built unless the knob has its default value. No knob is
// ignored.
TEST(Validate, NoKnobIsIgnored) {
  for (const KnobInfo& info : ListKnobs()) {
    if (info.built) continue;
    // Chooses a value other than the default, within the range of the knob.
    std::string value = "x";
    if (info.type == "bool") value = info.default_value == "true" ? "false" : "true";
    if (info.type.find('|') != std::string::npos) value = info.default_value == "Auto" ? "0" : "1";
    if (!info.range.empty()) {
      value = info.range.substr(0, info.range.find(".."));
      if (value == info.default_value) value = info.range.substr(info.range.find("..") + 2);
    }
    DistributedStrategy strategy;
    Origins origins;
    const Status set = ApplyOverride(&strategy, info.path, value, FlagOrigin(info.path), &origins);
    ASSERT_TRUE(set.ok()) << set;
    Diagnostics d;
    ValidateStrategy(strategy, {TrainMode::kHybrid, FlagOrigin("mode"), 0}, origins, "", &d);
    EXPECT_THAT(d.ErrorText(), HasSubstr("flag --" + info.path + ": error: " + info.path + ": "))
        << value;
    EXPECT_THAT(d.ErrorText(), HasSubstr("is not implemented [TD1109]"));
  }
}

TEST(Validate, Contradictions) {
  struct Row {
    const char* text;
    TrainMode mode;
    const char* message;
  };
  const Row rows[] = {
      {"mode: COLLECTIVE", TrainMode::kPserver,
       "mode: COLLECTIVE of the strategy contradicts mode=pserver (flag --mode)"},
      {"use_hierarchical_allreduce: true", TrainMode::kCollective,
       "use_hierarchical_allreduce needs a value of hierarchical_allreduce_inter_nranks above 1, "
       "but the value is 1"},
      {"hierarchical_allreduce_inter_nranks: 2", TrainMode::kCollective,
       "has no effect without use_hierarchical_allreduce: true"},
      {"use_hierarchical_allreduce: true hierarchical_allreduce_inter_nranks: 3",
       TrainMode::kCollective, "3 is not a divisor of the number of trainers, 4"},
      {"a_sync_configs { k_steps: 5 }", TrainMode::kPserver,
       "k_steps: 5 (geo) contradicts a_sync: false (default)"},
      {"a_sync: false a_sync_configs { half_async: true }", TrainMode::kPserver,
       "half_async: true contradicts a_sync: false (job.pbtxt:2:1)"},
      {"amp_configs { custom_white_list: [\"a\", \"b\"] custom_black_list: \"b\" }",
       TrainMode::kLocal,
       "\"b\" is in custom_white_list and in amp_configs.custom_black_list (job.pbtxt:2:45)"},
      {"dgc: true amp: true", TrainMode::kCollective,
       "dgc and amp (job.pbtxt:2:11) exclude each other"},
      {"localsgd: true adaptive_localsgd: true", TrainMode::kCollective, "exclude each other"},
      {"localsgd: true batch_merge_repeats: 2", TrainMode::kCollective,
       "localsgd and batch_merge_repeats (job.pbtxt:2:16) exclude each other"},
      {"adaptive_localsgd: true gradient_merge: true", TrainMode::kCollective,
       "adaptive_localsgd and gradient_merge (job.pbtxt:2:25) exclude each other"},
      {"lars: true lamb: true", TrainMode::kCollective, "exclude each other"},
      {"deterministic: true logical_shards: 6", TrainMode::kCollective, "6 is not a power of two"},
      {"deterministic: true logical_shards: 2", TrainMode::kCollective,
       "2 logical_shards cannot be divided equally among 4 ranks and places"},
      {"sharding: true sharding_configs { hybrid_dp: true sharding_group_size: 3 }",
       TrainMode::kCollective, "does not fit 4 trainers"},
  };
  for (const Row& row : rows) {
    const Diagnostics d = Validate(row.text, row.mode, 4);
    EXPECT_THAT(d.ErrorText(), HasSubstr(row.message)) << row.text;
    for (const Diagnostic& entry : d.entries()) {
      if (entry.severity == Diagnostic::Severity::kNote) continue;
      EXPECT_THAT(entry.message, HasSubstr(" [TD11")) << "no error code";
    }
  }
  EXPECT_TRUE(Validate("mode: PSERVER", TrainMode::kPserver).ok());
  EXPECT_THAT(Validate("slice_var_up: false min_block_size: 9", TrainMode::kPserver).NoteText(),
              HasSubstr("min_block_size has no effect with slice_var_up: false"));
}

// Fragments and the delay must fit the steps between two averages, which must be constant.
TEST(Validate, FragmentsFitTheirPeriod) {
  const auto with = [](const std::string& settings, const std::string& rest = "localsgd: true") {
    return Validate(absl::StrCat(rest, " localsgd_configs { ", settings, " }"),
                    TrainMode::kCollective, 4);
  };
  EXPECT_EQ(with("k_steps: 4 fragments: 4 delay: 3 merge_factor: 0.5").ErrorText(), "");
  EXPECT_THAT(
      with("k_steps: 4 fragments: 5").ErrorText(),
      HasSubstr("fragments: 5 is more than localsgd_configs.k_steps (job.pbtxt:2:35), which "
                "is 4 [TD1104]"));
  EXPECT_THAT(with("k_steps: 4 delay: 4").ErrorText(),
              HasSubstr("delay: 4 is not below localsgd_configs.k_steps"));
  EXPECT_THAT(with("outer_optimizer: \"adam\"").ErrorText(),
              HasSubstr("outer_optimizer: \"adam\" is unknown [TD1104]"));
  EXPECT_THAT(with("delay: 1 k_steps: 2", "localsgd: true nccl_comm_num: 2").ErrorText(),
              HasSubstr("localsgd_configs.delay and nccl_comm_num"));
  for (const char* const setting :
       {"outer_optimizer: \"nesterov\"", "fragments: 2", "delay: 1", "merge_factor: 0.5"}) {
    const std::string name(setting, std::string_view(setting).find(':'));
    EXPECT_THAT(with(setting, "adaptive_localsgd: true").ErrorText(),
                HasSubstr(absl::StrCat("localsgd_configs.", name, " and adaptive_localsgd")));
  }
  EXPECT_THAT(with("outer_momentum: 0.5").NoteText(),
              HasSubstr("outer_momentum has no effect without outer_optimizer"));
}

}  // namespace
}  // namespace tandem::strategy
