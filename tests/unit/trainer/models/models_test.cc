#include "trainer/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trainer {
namespace {

using testing::HasSubstr;
using Args = std::map<std::string, std::string>;

int64_t Parameters(const graph::Program& program) {
  int64_t n = 0;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) n += var->desc.shape.numel();
  return n;
}

TEST(Models, HaveTheParametersTheyShould) {
  const struct {
    const char* name;
    Args args;
    int64_t parameters;
  } cases[] = {
      {"softmax", {}, 784 * 10 + 10},
      {"softmax", {{"classes", "3"}, {"image", "3,4,5"}}, 60 * 3 + 3},
      {"mlp", {}, 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10},
      {"mlp", {{"hidden", "7"}}, 784 * 7 + 7 + 70 + 10},
      // The expected number of parameters is that of LeNet-5 on 28x28 images with a dense second
      // convolution.
      {"lenet", {}, 61706},
      {"lenet",
       {{"channels", "20,50"}, {"hidden", "500"}},
       20 * 26 + 50 * (20 * 25 + 1) + (50 * 25 * 500 + 500) + 5010},
      {"residual_cnn",
       {{"channels", "4,8"}},
       (9 * 4 + 4) + 2 * (9 * 16 + 4) + (9 * 32 + 8) + (9 * 64 + 8) + (32 + 8) + (80 + 10)},
      // The expected numbers of parameters of these models are those of torchvision.
      {"resnet18", {{"classes", "1000"}}, 11689512},
      {"resnet50", {{"classes", "1000"}}, 25557032},
      {"resnet18", {{"stem", "3"}, {"image", "3,32,32"}}, 11173962},
      {"vgg16", {{"classes", "1000"}, {"batch_norm", "0"}}, 138357544},
      {"mobilenet_v1", {{"classes", "1000"}}, 4231976},
      {"word2vec", {{"rows", "70"}, {"dim", "9"}}, 2 * 70 * 9},
      // The 12 layers of bert_base have 86 million parameters, as BERT base has in its paper.
      {"bert_base",
       {},
       257 * 768 + 128 * 768 + 2 * 768 + 12 * 7087872 + (768 * 768 + 768) + 2 * 768 +
           (768 * 257 + 257)},
      {"transformer_lm",
       {{"layers", "2"}, {"width", "12"}, {"heads", "3"}, {"vocabulary", "7"}, {"sequence", "5"}},
       7 * 12 + 5 * 12 +
           2 * (2 * 24 + (12 * 36 + 36) + (144 + 12) + (12 * 48 + 48) + (48 * 12 + 12)) + 24 +
           (12 * 7 + 7)},
      {"wide_deep",
       {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"hidden", "5"}},
       50 + 50 * 4 + (12 * 5 + 5) + 6},
      {"deepfm",
       {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"hidden", "5"}, {"sparse", "1"}},
       50 + 50 * 4 + (12 * 5 + 5) + 6},
      {"deepfm",
       {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"hidden", "5"}, {"dense", "7"}},
       50 + 50 * 4 + (12 * 5 + 5) + (7 * 5 + 5) + 6},
      {"wide_deep",
       {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"hidden", ""}, {"values", "1"}},
       50 + 50 * 4 + 12 + 1},
  };
  for (const auto& c : cases) {
    const auto program = BuildModel(c.name, c.args, 16);
    ASSERT_TRUE(program.ok()) << c.name << ": " << program.status();
    EXPECT_EQ(Parameters(*program), c.parameters) << c.name;
    EXPECT_FALSE(program->loss.empty());
    EXPECT_EQ(program->metrics.size(), std::string(c.name) == "bert_base" ? 0u : 1u);
    const auto data = program->VarsOf(graph::VarKind::kData);
    ASSERT_EQ(data.size(), c.args.contains("dense") || c.args.contains("values") ||
                                   std::string(c.name) == "word2vec"
                               ? 3u
                               : 2u);
    EXPECT_EQ(data[0]->desc.shape[0], 16);
    ASSERT_NE(program->FindVar("label"), nullptr);
    EXPECT_EQ(program->FindVar("label")->desc.dtype, DType::kI64);
    EXPECT_EQ(program->FindVar("label")->desc.shape[0], 16);
    EXPECT_TRUE(graph::Verify(*program).ok()) << graph::Verify(*program);
  }
}

TEST(Models, OnServersWeightAndVectorOfAnIdAreOneRow) {
  for (const char* name : {"wide_deep", "deepfm"}) {
    const auto program = BuildModel(
        name,
        {{"fields", "3"}, {"rows", "50"}, {"dim", "4"}, {"sparse", "1"}, {"distributed", "1"}}, 16);
    ASSERT_TRUE(program.ok()) << name << ": " << program.status();
    std::vector<Shape> tables;
    for (const ops::Op& op : program->ops) {
      if (op.type != "lookup_table") continue;
      tables.push_back(program->FindVar(op.inputs[1][0])->desc.shape);
    }
    EXPECT_EQ(tables, (std::vector<Shape>{{50, 5}})) << name;
  }
}

TEST(Models, AllBuildWithTheirDefaultsAndBindOtherBatches) {
  for (const ModelDoc& model : ListModels()) {
    EXPECT_FALSE(model.doc.empty());
    EXPECT_THAT(ListModelsText(), HasSubstr(model.name + ": "));
    auto program = BuildModel(model.name, {}, 4);
    ASSERT_TRUE(program.ok()) << model.name << ": " << program.status();
    const Status bound = graph::BindBatch(*program, 9);
    EXPECT_TRUE(bound.ok()) << model.name << ": " << bound;
    for (const graph::Var* data : program->VarsOf(graph::VarKind::kData))
      EXPECT_EQ(data->desc.shape[0], 9);
  }
}

TEST(Models, WrongNamesAndValues) {
  const struct {
    const char* name;
    Args args;
    StatusCode code;
    const char* expected;
  } cases[] = {
      {"lent", {}, StatusCode::kNotFound, "did you mean \"lenet\"?"},
      {"zzzzzzzz", {}, StatusCode::kNotFound, "models: softmax, mlp, lenet, residual_cnn"},
      {"mlp", {{"hiden", "3"}}, StatusCode::kInvalidArgument, "did you mean \"hidden\"?"},
      {"mlp", {{"hidden", ""}}, StatusCode::kInvalidArgument, "expected 1 to 1000 numbers"},
      {"mlp", {{"hidden", "3,x"}}, StatusCode::kInvalidArgument, "\"3,x\""},
      {"mlp", {{"hidden", "0"}}, StatusCode::kInvalidArgument, "from 1 to 65536"},
      {"mlp", {{"hidden", "99999999999999999999"}}, StatusCode::kInvalidArgument, "from 1 to"},
      {"lenet", {{"channels", "6"}}, StatusCode::kInvalidArgument, "expected 2 to 2 numbers"},
      {"lenet", {{"image", "1,8,8"}}, StatusCode::kInvalidArgument, "expected at least 12x12"},
      {"softmax", {{"image", "28,28"}}, StatusCode::kInvalidArgument, "expected 3 to 3 numbers"},
      {"resnet18", {{"stem", "5"}}, StatusCode::kInvalidArgument, "expected 3 or 7"},
      {"vgg16", {{"image", "3,28,28"}}, StatusCode::kInvalidArgument, "expected at least 32x32"},
      {"deepfm", {{"sparse", "2"}}, StatusCode::kInvalidArgument, "from 0 to 1"},
      {"deepfm", {{"image", "1,8,8"}}, StatusCode::kInvalidArgument, "no argument \"image\""},
      {"softmax", {{"classes", "1"}}, StatusCode::kInvalidArgument, "from 2 to"},
  };
  for (const auto& c : cases) {
    const Status status = BuildModel(c.name, c.args, 4).status();
    EXPECT_EQ(status.code(), c.code) << c.name << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr(c.expected));
  }
  EXPECT_EQ(BuildModel("mlp", {}, 0).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::trainer
