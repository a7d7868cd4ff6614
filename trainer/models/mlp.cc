// Fully connected networks: softmax regression (no hidden layer) and the multi-layer perceptron.
#include <array>

#include "common/base/nearest.h"
#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

std::string HiddenLayers(graph::ProgramBuilder& builder, std::string x,
                         const std::vector<int64_t>& hidden) {
  for (const int64_t units : hidden) x = builder.Fc(x, units, graph::Act::kRelu);
  return x;
}

struct LossRow {
  const char* name;
  const char* op;  // operator of a regression loss; nullptr: a classification loss
};
constexpr std::array<LossRow, 5> kLosses = {{{"softmax", nullptr},
                                             {"sigmoid", nullptr},
                                             {"mse", "square_error_cost"},
                                             {"huber", "huber_loss"},
                                             {"l1", "l1_loss"}}};

// Returns the row for the argument "loss". Returns nullptr if the argument is wrong; `args` has the
// error.
const LossRow* LossOf(ModelArgs& args) {
  const std::string& name = args.Text("loss");
  std::vector<std::string> names;
  for (const LossRow& row : kLosses) {
    if (name == row.name) return &row;
    names.emplace_back(row.name);
  }
  args.Fail(InvalidArgument(
      "model \"mlp\": argument \"loss\" is \"%s\", expected softmax, sigmoid, mse, huber or l1 "
      "[TD1202]%s",
      name, OrDidYouMean(name, names)));
  return nullptr;
}

void BuildOnImages(graph::ProgramBuilder& builder, ModelArgs& args) {
  const std::vector<int64_t> dims = args.Ints("image", 3, 3, 1, kSideMax);
  const int64_t classes = args.Int("classes", 2, kSideMax);
  const std::vector<int64_t> hidden = args.Ints("hidden", 1, 1000, 1, 65536);
  if (!args.status().ok()) return;
  const std::string images = builder.Data("img", DType::kF32, dims);
  const std::string label = builder.Data("label", DType::kI64, {1});
  const std::string logits = builder.Fc(HiddenLayers(builder, images, hidden), classes);
  builder.SoftmaxLoss(logits, label);
  builder.Accuracy(logits, label);
}

void BuildOnTable(graph::ProgramBuilder& builder, ModelArgs& args, const LossRow& loss) {
  const int64_t features = args.Int("features", 1, int64_t{1} << 24);
  const int64_t outputs = args.Int("outputs", 1, kSideMax);
  const bool softmax = std::string_view(loss.name) == "softmax";
  const int64_t classes = softmax ? args.Int("classes", 2, kSideMax) : outputs;
  const std::vector<int64_t> hidden = args.Ints("hidden", 0, 1000, 1, 65536);
  const bool weighted = args.Int("weighted", 0, 1) == 1;
  if (!args.status().ok()) return;
  const std::string x = builder.Data("x", DType::kF32, {features});
  const std::string wanted = loss.op != nullptr
                                 ? builder.Data("target", DType::kF32, {outputs})
                                 : builder.Data("label", DType::kI64, {softmax ? 1 : outputs});
  const std::string weight = weighted ? builder.Data("weight", DType::kF32, {1}) : "";
  const std::string out = builder.Fc(HiddenLayers(builder, x, hidden), classes);
  if (loss.op != nullptr) {
    builder.RegressionLoss(loss.op, out, wanted, weight);
  } else if (softmax) {
    builder.SoftmaxLoss(out, wanted, 1, weight);
    builder.Accuracy(out, wanted);
  } else {
    const std::string probability = builder.SigmoidLoss(out, wanted, weight);
    if (outputs == 1) builder.Auc(probability, wanted);
  }
}

}  // namespace

std::string BuildSoftmax(graph::ProgramBuilder& builder, ModelArgs&, const std::string& images,
                         const std::vector<int64_t>&, int64_t classes) {
  return builder.Fc(images, classes);
}

void BuildMlp(graph::ProgramBuilder& builder, ModelArgs& args) {
  const LossRow* const loss = LossOf(args);
  if (loss == nullptr) return;
  if (args.Text("features") != "0") return BuildOnTable(builder, args, *loss);
  if (std::string_view(loss->name) != "softmax") {
    return args.Fail(InvalidArgument(
        "model \"mlp\": loss=%s needs the argument \"features\", which data of format \"table\" "
        "set [TD1202]",
        loss->name));
  }
  BuildOnImages(builder, args);
}

}  // namespace tandem::trainer
