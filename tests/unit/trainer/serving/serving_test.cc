// Predictions equal those of the forward program, whatever the batch is, and requests that do not
// fit the model are refused alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/exec/executor.h"
#include "proto/inference.pb.h"
#include "trainer/files/checkpoint.h"
#include "trainer/serving/infer_convert.h"
#include "trainer/serving/served_model.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHeight = 10, kDim = 2;

Tensor F32(const Shape& shape, const std::vector<float>& values) {
  static CpuDevice host;
  const Tensor tensor = Tensor::Make({DType::kF32, shape}, host).value();
  std::ranges::copy(values, tensor.span<float>().begin());
  return tensor;
}

// Returns a program with the prediction "scores" [n,2] = emb[ids] * x + b, and a loss with a label.
graph::Program Model() {
  graph::Program program;
  program.name = "model";
  const auto var = [&program](const char* name, graph::VarKind kind, DType dtype, Shape shape) {
    const bool batch = kind == graph::VarKind::kData;
    const Status added = program.AddVar(
        {.name = name, .kind = kind, .desc = {dtype, shape}, .batch_leading = batch});
    CHECK(added.ok()) << added.message();
  };
  const auto add = [&program](ops::Op op) {
    const Status added = graph::AppendOp(program, std::move(op));
    CHECK(added.ok()) << added.message();
  };
  var("ids", graph::VarKind::kData, DType::kI64, {4, 1});
  var("x", graph::VarKind::kData, DType::kF32, {4, kDim});
  var("label", graph::VarKind::kData, DType::kI64, {4, 1});
  var("emb", graph::VarKind::kParam, DType::kF32, {kHeight, kDim});
  var("b", graph::VarKind::kParam, DType::kF32, {kDim});
  add({.type = "lookup_table",
       .inputs = {{"ids"}, {"emb"}},
       .outputs = {{"rows"}},
       .attrs = {{"is_sparse", true}, {"is_distributed", true}}});
  add({.type = "elementwise_mul", .inputs = {{"rows"}, {"x"}}, .outputs = {{"product"}}});
  add({.type = "elementwise_add", .inputs = {{"product"}, {"b"}}, .outputs = {{"scores"}}});
  add({.type = "softmax_with_cross_entropy",
       .inputs = {{"scores"}, {"label"}},
       .outputs = {{"softmax"}, {"losses"}}});
  add({.type = "mean", .inputs = {{"losses"}}, .outputs = {{"loss"}}});
  program.loss = "loss";
  return program;
}

// Rows whose values are the id and its double. Counts the rows that were read.
class FakeSource final : public ModelSource {
 public:
  explicit FakeSource(std::vector<float> b) { Set(std::move(b), "first"); }
  void Set(std::vector<float> b, const std::string& version) {
    auto dense = std::make_shared<DenseValues>();
    dense->version = version;
    dense->tensors["b"] = F32({static_cast<int64_t>(b.size())}, b);
    MutexLock lock(mu_);
    dense_ = std::move(dense);
  }
  StatusOr<std::shared_ptr<const DenseValues>> Dense() override {
    MutexLock lock(mu_);
    return dense_;
  }
  Status ReadRows(const ServedTable& table, std::span<const int64_t> ids,
                  std::span<float* const> to) override {
    EXPECT_EQ(table.name, "emb");
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    for (size_t i = 0; i < ids.size(); ++i) {
      to[i][0] = static_cast<float>(ids[i]);
      to[i][1] = static_cast<float>(2 * ids[i]);
    }
    return OkStatus();
  }
  bool fixed() const override { return false; }
  void Fail(const Status& status) {
    MutexLock lock(mu_);
    error_ = status;
  }

 private:
  Mutex mu_;
  std::shared_ptr<const DenseValues> dense_ TD_GUARDED_BY(mu_);
  Status error_ TD_GUARDED_BY(mu_);
};

// A request with its memory.
struct Sent {
  Sent(std::vector<int64_t> of_ids, std::vector<float> of_x)
      : ids(std::move(of_ids)), x(std::move(of_x)) {}
  std::vector<int64_t> ids;
  std::vector<float> x;
  std::promise<StatusOr<Prediction>> answer;

  PredictRequest Request() {
    PredictRequest request;
    request.samples = std::ssize(ids);
    request.inputs = {std::as_bytes(std::span(ids)), std::as_bytes(std::span(x))};
    request.done = [this](StatusOr<Prediction> result) { answer.set_value(std::move(result)); };
    return request;
  }
};

std::vector<float> Floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class ServingTest : public testing::Test {
 protected:
  void Start(const ServingOptions& options) {
    auto source = std::make_unique<FakeSource>(std::vector<float>{100, 200});
    source_ = source.get();
    auto started =
        ModelVersion::Start(Model(), {}, std::move(source), options, "answering", metrics_);
    ASSERT_TRUE(started.ok()) << started.status().message();
    version_ = *std::move(started);
  }
  StatusOr<Prediction> Ask(Sent& sent) {
    version_->Predict(sent.Request());
    return sent.answer.get_future().get();
  }

  Metrics metrics_;
  FakeSource* source_ = nullptr;
  std::unique_ptr<ModelVersion> version_;
};

TEST_F(ServingTest, TheModelHasNeitherLabelNorLoss) {
  Start({});
  const ServingProgram& program = version_->program();
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.inputs[0].name, "ids");
  EXPECT_EQ(program.inputs[0].limit, kHeight);
  EXPECT_EQ(program.inputs[1].name, "x");
  EXPECT_EQ(program.inputs[1].limit, 0);
  ASSERT_EQ(program.outputs.size(), 1u);
  EXPECT_EQ(program.outputs[0].name, "scores");
  EXPECT_EQ(program.outputs[0].sample.shape, Shape{kDim});
  EXPECT_EQ(program.program.FindVar("loss"), nullptr);
}

TEST_F(ServingTest, EachRequestGetsItsOwnPredictions) {
  Start({.threads = 2, .batch_max = 8});
  std::vector<std::unique_ptr<Sent>> sent;
  for (int64_t i = 0; i < 50; ++i) {
    // Requests of 1, 2 and 3 samples, so that batches are not full.
    std::vector<int64_t> ids;
    std::vector<float> x;
    for (int64_t k = 0; k <= i % 3; ++k) {
      ids.push_back((i + k) % kHeight);
      x.insert(x.end(), {static_cast<float>(i), static_cast<float>(k)});
    }
    sent.push_back(std::make_unique<Sent>(std::move(ids), std::move(x)));
    version_->Predict(sent.back()->Request());
  }
  for (const auto& one : sent) {
    const StatusOr<Prediction> answer = one->answer.get_future().get();
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    ASSERT_EQ(answer->outputs.size(), 1u);
    const std::vector<float> scores = Floats(answer->outputs[0]);
    ASSERT_EQ(scores.size(), one->x.size());
    for (size_t k = 0; k < one->ids.size(); ++k) {
      const auto id = static_cast<float>(one->ids[k]);
      EXPECT_EQ(scores[2 * k], id * one->x[2 * k] + 100);
      EXPECT_EQ(scores[2 * k + 1], 2 * id * one->x[2 * k + 1] + 200);
    }
  }
}

TEST_F(ServingTest, NewValuesAreUsedWithoutARestart) {
  Start({.refresh = std::chrono::milliseconds(1)});
  source_->Set({1, 2}, "second");
  const Time until = SteadyNow() + std::chrono::seconds(60);
  while (true) {
    Sent sent({3}, {0, 0});
    const StatusOr<Prediction> answer = Ask(sent);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    const std::vector<float> scores = Floats(answer->outputs[0]);
    if (answer->version == "second") {
      EXPECT_THAT(scores, ElementsAre(1, 2));
      break;
    }
    EXPECT_THAT(scores, ElementsAre(100, 200));
    ASSERT_LT(SteadyNow(), until);
  }
  // Values that do not fit the model are not used.
  source_->Set({1, 2, 3}, "third");
  for (int i = 0; i < 100; ++i) {
    Sent sent({3}, {0, 0});
    const StatusOr<Prediction> answer = Ask(sent);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->version, "second");
  }
}

TEST_F(ServingTest, WrongRequestsAreRefusedAlone) {
  Start({.batch_max = 2});
  Sent high({kHeight}, {0, 0}), low({-1}, {0, 0}), large({1, 2, 3}, {0, 0, 0, 0, 0, 0});
  Sent short_x({1}, {0});
  EXPECT_THAT(std::string(Ask(high).status().message()),
              HasSubstr("input \"ids\" has id 10, expected 0 to 9 [TD7031]"));
  EXPECT_THAT(std::string(Ask(low).status().message()), HasSubstr("has id -1"));
  EXPECT_THAT(std::string(Ask(large).status().message()),
              HasSubstr("the request has 3 samples, expected 1 to 2 [TD7031]"));
  EXPECT_THAT(std::string(Ask(short_x).status().message()),
              HasSubstr("input \"x\" has 4 bytes, but 1 samples of f32[2] have 8 bytes"));
  Sent good({1}, {1, 1});
  EXPECT_TRUE(Ask(good).ok());
}

TEST_F(ServingTest, ErrorsOfTheSourceReachTheCaller) {
  Start({});
  source_->Fail(Unavailable("no server"));
  Sent sent({1}, {1, 1});
  EXPECT_THAT(std::string(Ask(sent).status().message()), HasSubstr("no server"));
  source_->Fail(OkStatus());
  Sent again({1}, {1, 1});
  EXPECT_TRUE(Ask(again).ok());
}

TEST_F(ServingTest, RequestsThatNobodyWaitsForAreNotComputed) {
  Start({});
  Sent late({1}, {1, 1}), cancelled({1}, {1, 1});
  PredictRequest request = late.Request();
  request.deadline = SteadyNow() - std::chrono::seconds(1);
  version_->Predict(std::move(request));
  EXPECT_EQ(late.answer.get_future().get().status().code(), StatusCode::kDeadlineExceeded);
  request = cancelled.Request();
  request.cancelled = [] { return true; };
  version_->Predict(std::move(request));
  EXPECT_EQ(cancelled.answer.get_future().get().status().code(), StatusCode::kCancelled);
  version_->Stop();
  Sent after({1}, {1, 1});
  EXPECT_EQ(Ask(after).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(version_->ready());
}

TEST_F(ServingTest, ATableThatTheSourceLacksIsFoundAtTheStart) {
  auto source = std::make_unique<FakeSource>(std::vector<float>{100, 200});
  source->Fail(NotFound("no such table"));
  const auto started =
      ModelVersion::Start(Model(), {}, std::move(source), {}, "answering", metrics_);
  EXPECT_THAT(std::string(started.status().message()), HasSubstr("no such table"));
}

TEST_F(ServingTest, AFullQueueRefusesAndAnEndingVersionAnswers) {
  Start({.threads = 1, .batch_max = 1, .queue_max = 2});
  std::vector<std::unique_ptr<Sent>> sent;
  for (int i = 0; i < 200; ++i) {
    sent.push_back(std::make_unique<Sent>(std::vector<int64_t>{1}, std::vector<float>{1, 1}));
    version_->Predict(sent.back()->Request());
  }
  version_.reset();
  int answered = 0, refused = 0;
  for (const auto& one : sent) {
    const StatusOr<Prediction> answer = one->answer.get_future().get();
    if (answer.ok()) {
      ++answered;
    } else {
      EXPECT_THAT(std::string(answer.status().message()), HasSubstr("[TD7032]"));
      ++refused;
    }
  }
  EXPECT_GT(answered, 0);
  EXPECT_GT(refused, 0);
}

TEST(ServingProgramTest, ValuesThatDoNotFitAreRefused) {
  DenseValues dense;
  const auto message = [&](const graph::Program& program, std::vector<std::string> outputs) {
    return std::string(ServingProgram::Make(program, std::move(outputs), dense).status().message());
  };
  EXPECT_THAT(message(Model(), {}), HasSubstr("lacks variable \"b\" of the model [TD7030]"));
  dense.tensors["b"] = F32({3}, {1, 2, 3});
  EXPECT_THAT(message(Model(), {}),
              HasSubstr("variable \"b\" has the value f32[3] in the checkpoint or on the servers, "
                        "expected f32[2] as in the job file"));
  dense.tensors["b"] = F32({2}, {1, 2});
  EXPECT_EQ(message(Model(), {}), "");
  EXPECT_THAT(message(Model(), {"score"}), HasSubstr("did you mean \"scores\"?"));
  EXPECT_THAT(message(Model(), {"loss"}),
              HasSubstr("the first dimension of variable \"loss\" is not the number of samples"));
}

class CheckpointsTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/serving_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  // Writes a checkpoint whose variable b has `b` twice. The table is a dense variable.
  void Save(uint64_t step, float b) {
    Checkpoint checkpoint;
    checkpoint.job = "model";
    checkpoint.step = step;
    std::vector<float> rows(kHeight * kDim, 1);
    checkpoint.params = {{"b", F32({kDim}, {b, b})}, {"emb", F32({kHeight, kDim}, rows)}};
    std::vector<std::string> warnings;
    const Status saved = CheckpointStore(dir_, 2).Save(checkpoint, &warnings);
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  float Ask(const ServedModel& model, const std::string& version) {
    Sent sent({1}, {1, 1});
    const StatusOr<ServedModel::Chosen> chosen = model.Choose(version);
    EXPECT_TRUE(chosen.ok()) << chosen.status().message();
    if (!chosen.ok()) return NAN;
    model.Predict(*chosen, sent.Request());
    const StatusOr<Prediction> answer = sent.answer.get_future().get();
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? Floats(answer->outputs[0])[0] : NAN;
  }
  ModelSpec Spec() {
    ModelSpec spec;
    spec.name = "model";
    spec.forward = Model();
    spec.checkpoints = dir_;
    spec.options.refresh = std::chrono::milliseconds(5);
    return spec;
  }

  std::string dir_;
  Metrics metrics_;
};

TEST_F(CheckpointsTest, NewCheckpointsReplaceOldOnes) {
  Save(10, 5);
  Save(20, 7);
  ModelSpec spec = Spec();
  spec.keep = 2;
  const auto model = ServedModel::Start(std::move(spec), nullptr, metrics_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->versions(), ElementsAre("10", "20"));
  EXPECT_EQ(Ask(**model, ""), 8);
  EXPECT_EQ(Ask(**model, "10"), 6);
  EXPECT_THAT(
      std::string((*model)->Choose("30").status().message()),
      HasSubstr("model \"model\" has no version \"30\", its versions are: 10, 20 [TD7033]"));
  Save(30, 9);
  const Time until = SteadyNow() + std::chrono::seconds(60);
  while ((*model)->versions().back() != "30") ASSERT_LT(SteadyNow(), until);
  EXPECT_EQ(Ask(**model, ""), 10);
  EXPECT_THAT((*model)->versions(), ElementsAre("20", "30"));
}

TEST_F(CheckpointsTest, ADamagedCheckpointIsLeftOut) {
  Save(10, 5);
  Save(20, 7);
  std::filesystem::resize_file(dir_ + "/step-00000020/model.safetensors", 10);
  auto model = ServedModel::Start(Spec(), nullptr, metrics_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->versions(), ElementsAre("10"));
  EXPECT_TRUE((*model)->ready());
  Save(30, 9);
  const Time until = SteadyNow() + std::chrono::seconds(60);
  while ((*model)->versions().back() != "30") ASSERT_LT(SteadyNow(), until);
  EXPECT_EQ(Ask(**model, ""), 10);
  (*model)->Stop();
  EXPECT_FALSE((*model)->ready());
}

TEST_F(CheckpointsTest, TheShadowVersionIsComparedAndDoesNotAnswer) {
  Save(10, 5);
  Save(20, 7);
  ModelSpec spec = Spec();
  spec.shadow = 10;
  const auto model = ServedModel::Start(std::move(spec), nullptr, metrics_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(Ask(**model, ""), 8);
  const Time until = SteadyNow() + std::chrono::seconds(60);
  while (metrics_.Text().find("tandem_serve_shadow_difference_sum 2") == std::string::npos) {
    ASSERT_LT(SteadyNow(), until) << metrics_.Text();
  }
}

TEST_F(CheckpointsTest, ADirectoryWithoutCheckpointsIsRefused) {
  const auto model = ServedModel::Start(Spec(), nullptr, metrics_);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("contains no checkpoint [TD7030]"));
}

class ConvertTest : public testing::Test {
 protected:
  void SetUp() override {
    DenseValues dense;
    dense.tensors["b"] = F32({2}, {1, 2});
    program_ = ServingProgram::Make(Model(), {}, dense).value();
    auto* const ids = message_.add_inputs();
    ids->set_name("ids");
    ids->set_datatype("INT64");
    ids->add_shape(1);
    ids->add_shape(1);
    ids->mutable_contents()->add_int64_contents(3);
    auto* const x = message_.add_inputs();
    x->set_name("x");
    x->set_datatype("FP32");
    x->add_shape(1);
    x->add_shape(2);
    x->mutable_contents()->add_fp32_contents(0.5);
    x->mutable_contents()->add_fp32_contents(1.5);
  }
  std::string Error() const {
    return std::string(ReadRequest(message_, program_).status().message());
  }

  ServingProgram program_;
  inference::ModelInferRequest message_;
};

TEST_F(ConvertTest, RawAndTypedContentsAreEqual) {
  const auto typed = ReadRequest(message_, program_);
  ASSERT_TRUE(typed.ok()) << typed.status().message();
  inference::ModelInferRequest raw = message_;
  for (auto& input : *raw.mutable_inputs()) input.clear_contents();
  const int64_t id = 3;
  const float x[] = {0.5, 1.5};
  raw.add_raw_input_contents(&id, sizeof(id));
  raw.add_raw_input_contents(x, sizeof(x));
  const auto bytes = ReadRequest(raw, program_);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::ranges::equal(typed->request.inputs[i], bytes->request.inputs[i])) << i;
  }
  EXPECT_EQ(typed->request.samples, 1);
  EXPECT_THAT(typed->outputs, ElementsAre(0));
}

TEST_F(ConvertTest, WrongMessagesAreRefusedByName) {
  const inference::ModelInferRequest good = message_;
  message_.mutable_inputs(1)->set_datatype("FP64");
  EXPECT_THAT(Error(), HasSubstr("input \"x\" is FP64 [1,2], expected FP32 [samples,2] [TD7031]"));
  message_ = good;
  message_.mutable_inputs(1)->set_shape(1, 3);
  EXPECT_THAT(Error(), HasSubstr("input \"x\" is FP32 [1,3], expected FP32 [samples,2]"));
  message_ = good;
  message_.mutable_inputs(1)->set_shape(0, 2);
  EXPECT_THAT(Error(), HasSubstr("input \"x\" has 2 samples, but an input before it has 1"));
  message_ = good;
  message_.mutable_inputs(1)->set_name("y");
  EXPECT_THAT(Error(), HasSubstr("the request has input \"x\" 0 times, expected once"));
  message_ = good;
  *message_.add_inputs() = good.inputs(1);
  EXPECT_THAT(Error(), HasSubstr("the request names 3 inputs and 0 outputs, but the model has "
                                 "inputs ids, x and outputs scores [TD7031]"));
  message_ = good;
  *message_.mutable_inputs(0) = good.inputs(1);
  EXPECT_THAT(Error(), HasSubstr("the request has input \"ids\" 0 times, expected once"));
  message_ = good;
  for (int i = 0; i < 2; ++i) message_.add_outputs()->set_name("scores");
  EXPECT_THAT(Error(), HasSubstr("the request names 2 inputs and 2 outputs"));
  message_ = good;
  message_.add_outputs()->set_name("softmax");
  EXPECT_THAT(Error(), HasSubstr("the model has no output \"softmax\", its outputs are: scores"));
  message_ = good;
  message_.add_raw_input_contents("12345678");
  EXPECT_THAT(Error(), HasSubstr("the request has 2 inputs but 1 raw_input_contents"));
  message_.add_raw_input_contents("12345678");
  EXPECT_THAT(Error(), HasSubstr("input \"ids\" has contents, but the elements are in raw"));
}

}  // namespace
}  // namespace tandem::trainer
