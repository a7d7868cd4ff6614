// Tests overrides of settings, their precedence, and the text form of a job.
#include "common/strategy/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"

namespace tandem::strategy {
namespace {

using ::testing::HasSubstr;

JobConfig Parse(const std::string& text, Origins* origins) {
  JobConfig job;
  Diagnostics diagnostics;
  ParseTextProto({"job.pbtxt", text}, &job, origins, &diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  return job;
}

TEST(Precedence, FlagOverEnvironmentOverFileOverDefault) {
  Origins origins;
  JobConfig job = Parse("strategy { runtime_flags { rpc_deadline_ms: 1000 } }", &origins);
  EXPECT_EQ(job.strategy().runtime_flags().rpc_retry_times(), 3);  // the default of rpc_retry_times
  Diagnostics diagnostics;
  ApplyEnvironment(&job, {{"FLAGS_rpc_deadline", "2000"}, {"HOME", "/root"}}, &origins,
                   &diagnostics);
  EXPECT_EQ(diagnostics.ErrorText() + diagnostics.NoteText(), "");
  EXPECT_EQ(job.strategy().runtime_flags().rpc_deadline_ms(), 2000);
  EXPECT_EQ(EffectiveText(job, origins),
            "strategy.runtime_flags.rpc_deadline_ms: 2000   (environment FLAGS_rpc_deadline, over "
            "job.pbtxt:1:28)\n");
  ASSERT_TRUE(
      ApplyOverride(&job, "rpc_deadline_ms", "3000", FlagOrigin("rpc_deadline_ms"), &origins).ok());
  EXPECT_EQ(job.strategy().runtime_flags().rpc_deadline_ms(), 3000);
  EXPECT_EQ(origins.Of("strategy.runtime_flags.rpc_deadline_ms").ToString(),
            "flag --rpc_deadline_ms");
  // The command line has precedence over the environment, whichever is applied first.
  ApplyEnvironment(&job, {{"FLAGS_rpc_deadline", "4000"}}, &origins, &diagnostics);
  EXPECT_EQ(job.strategy().runtime_flags().rpc_deadline_ms(), 3000);
}

TEST(Override, NamesAndValues) {
  struct Row {
    const char* name;
    const char* value;
    const char* effective;  // expected "path: value"; "": the flag is rejected
    const char* error;
  };
  const Row rows[] = {
      {"mode", "pserver", "mode: PSERVER", ""},
      {"strategy.mode", "PSERVER", "strategy.mode: PSERVER", ""},
      {"a_sync", "True", "strategy.a_sync: true", ""},
      {"strategy.build_strategy.reduce_strategy", "reduce",
       "strategy.build_strategy.reduce_strategy: Reduce", ""},
      {"build_strategy.reduce_strategy", "Reduce", "reduce_strategy: Reduce", ""},
      {"reduce_strategy", "1", "reduce_strategy: Reduce", ""},
      {"thread_num", "4", "execution_strategy.num_threads: 4", ""},
      {"localsgd_configs.k_steps", "4", "localsgd_configs.k_steps: 4", ""},
      {"data.dir", "/a b", "data.dir: /a b", ""},
      {"name", "\"quoted\"", "name: quoted", ""},
      {"epochs", " 010 ", "epochs: 10", ""},
      {"learning_rate", "1e-3", "optimizer.learning_rate: 0.001", ""},
      {"custom_black_list", "a, b", "custom_black_list: [a, b]", ""},
      {"custom_black_list", "[a]", "custom_black_list: [a]", ""},
      {"sparsity", "0.75,0.9", "sparsity: [0.75, 0.9]", ""},
      {"fuse_grad_size_in_MB", "-1", "fuse_grad_size_in_MB: -1", ""},
      {"k_steps", "4", "",
       "several settings [TD1110]; write one of: strategy.a_sync_configs.k_steps"},
      {"a_sink", "true", "", "did you mean \"a_sync\"?"},
      {"a_sync", "maybe", "", "a_sync expects true or false, got \"maybe\""},
      {"num_threads", "-1", "", "num_threads is out of range: -1 is less than 0"},
      {"num_threads", "", "", "num_threads expects an integer"},
      {"num_threads", "0x", "", "num_threads expects an integer"},
      {"num_threads", "--3", "", "num_threads expects an integer"},
      {"learning_rate", "nan", "", "is not a finite number"},
      {"learning_rate", "1e400", "", "is not a finite number"},
      {"learning_rate", "1e39", "", "is not a finite number"},
      {"build_strategy", "x", "", "is a group of settings"},
      {"arg", "x", "", "is a list of messages"},
      {"model.arg", "x", "", "is a list of messages"},
      {"", "x", "", "there is no setting"},
      {"sync_mode", "true", "", "a_sync: false"},
  };
  for (const Row& row : rows) {
    Origins origins;
    JobConfig job;
    const Status status = ApplyOverride(&job, row.name, row.value, FlagOrigin(row.name), &origins);
    const std::string text = EffectiveText(job, origins);
    EXPECT_EQ(status.ok(), *row.error == '\0') << row.name << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.error));
    EXPECT_THAT(text, HasSubstr(row.effective));
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("flag --" + std::string(row.name)));
      // A rejected flag must not change a field or create a submessage.
      EXPECT_EQ(job.ByteSizeLong(), 0u) << row.name;
    }
  }
}

TEST(Override, ReplacesLists) {
  Origins origins;
  JobConfig job = Parse("strategy { amp_configs { custom_black_list: [\"a\", \"b\"] } }", &origins);
  ASSERT_TRUE(ApplyOverride(&job, "custom_black_list", "c", FlagOrigin("x"), &origins).ok());
  EXPECT_THAT(job.strategy().amp_configs().custom_black_list(), ::testing::ElementsAre("c"));
  ASSERT_TRUE(ApplyOverride(&job, "custom_black_list", "", FlagOrigin("x"), &origins).ok());
  EXPECT_EQ(job.strategy().amp_configs().custom_black_list_size(), 0);
}

TEST(Environment, UnknownFlagsAreNotedWrongValuesAreErrors) {
  JobConfig job;
  Origins origins;
  Diagnostics diagnostics;
  ApplyEnvironment(&job,
                   {{"FLAGS_rpc_deadlin", "1"},
                    {"FLAGS_selected_gpus", "0"},
                    {"CPU_NUM", "no"},
                    {"NCCL_DEBUG", "INFO"},
                    {"a_sync", "true"},
                    {"FLAGS_benchmark", "1"}},
                   &origins, &diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(),
            "error: environment CPU_NUM: cpu_num expects an integer, got \"no\" [TD1103]\n");
  EXPECT_THAT(diagnostics.NoteText(), HasSubstr("environment FLAGS_rpc_deadlin: note: not a knob"));
  EXPECT_THAT(diagnostics.NoteText(), HasSubstr("did you mean \"FLAGS_rpc_deadline\"?"));
  EXPECT_THAT(diagnostics.NoteText(), HasSubstr("environment FLAGS_selected_gpus: note"));
  EXPECT_FALSE(job.strategy().a_sync());
  EXPECT_TRUE(job.strategy().runtime_flags().benchmark());
  EXPECT_EQ(job.strategy().runtime_flags().nccl_debug(), "");
}

TEST(SaveText, SaveLoadSaveGivesTheSameBytes) {
  const char* text = R"(
    name: "quo\"te\n\xe4\xb8\xad" seed: 18446744073709551615 steps_max: -9223372036854775807
    optimizer { learning_rate: 0.1 epsilon: 1e-08 beta2: 0.999 }
    data { train_samples_max: 0 }
    strategy { a_sync: false build_strategy { memory_optimize: Off mkldnn_enabled_op_types: "b"
      mkldnn_enabled_op_types: "a" } amp_configs { decr_ratio: 0.3333333333333333 }
      fuse_grad_size_in_MB: 0.1 dgc_configs { sparsity: [0.75, 0.9375, 0.1] } }
    model { arg { name: "a" } arg { value: "" } arg { } })";
  Origins origins;
  const JobConfig job = Parse(text, &origins);
  const std::string once = SaveText(job);
  const JobConfig again = Parse(once, &origins);
  EXPECT_EQ(SaveText(again), once);
  EXPECT_EQ(again.SerializeAsString(), job.SerializeAsString());
  // The text contains only fields that are set, including fields that are set to their default
  // value.
  EXPECT_THAT(once, HasSubstr("a_sync: false"));
  EXPECT_THAT(once, HasSubstr("train_samples_max: 0"));
  EXPECT_THAT(once, ::testing::Not(HasSubstr("nccl_comm_num")));
  EXPECT_EQ(SaveText(JobConfig()), "");
}

// Every knob keeps its value when a strategy is saved and loaded.
TEST(SaveText, EveryKnobSurvives) {
  DistributedStrategy strategy;
  std::vector<google::protobuf::Message*> open = {&strategy};
  while (!open.empty()) {
    google::protobuf::Message* m = open.back();
    open.pop_back();
    const auto* r = m->GetReflection();
    for (int i = 0; i < m->GetDescriptor()->field_count(); ++i) {
      const auto* f = m->GetDescriptor()->field(i);
      const auto& options = f->options().GetExtension(knob);
      if (f->message_type() != nullptr) {
        open.push_back(r->MutableMessage(m, f));
      } else if (f->is_repeated() && f->type() == f->TYPE_STRING) {
        r->AddString(m, f, "a\"b");
      } else if (f->is_repeated()) {
        r->AddDouble(m, f, options.min());
      } else if (f->type() == f->TYPE_BOOL) {
        r->SetBool(m, f, !f->default_value_bool());
      } else if (f->type() == f->TYPE_DOUBLE) {
        r->SetDouble(m, f, options.min() + 0.1);
      } else if (f->type() == f->TYPE_INT32) {
        r->SetInt32(m, f, static_cast<int32_t>(options.max()));
      } else if (f->type() == f->TYPE_INT64) {
        r->SetInt64(m, f, static_cast<int64_t>(options.max()));
      } else if (f->type() == f->TYPE_ENUM) {
        r->SetEnumValue(m, f, 1);
      } else if (f->type() == f->TYPE_STRING) {
        r->SetString(m, f, "x");
      }
    }
  }
  const std::string once = SaveText(strategy);
  DistributedStrategy again;
  Diagnostics diagnostics;
  ParseTextProto({"s", once}, &again, nullptr, &diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  EXPECT_EQ(SaveText(again), once);
}

}  // namespace
}  // namespace tandem::strategy
