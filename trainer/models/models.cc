#include "trainer/models/models.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/nearest.h"
#include "trainer/models/zoo.h"

namespace tandem::trainer {
namespace {

struct ArgRow {
  const char* name;
  const char* default_value;
  const char* doc;
};

struct ModelRow {
  const char* name;
  const char* doc;
  // Arguments of the model. An image classifier (`logits`) also has the arguments of ImageArgs.
  std::vector<ArgRow> args;
  // Exactly one of `logits` and `build` is set.
  BuildLogitsFn logits = nullptr;  // builds the logits of an image classifier
  BuildModelFn build = nullptr;
};

// Returns the arguments that every image classifier has.
const std::vector<ArgRow>& ImageArgs() {
  static const std::vector<ArgRow> kArgs = {
      {"image", "1,28,28", "channels, height and width of an image"},
      {"classes", "10", "number of classes"},
  };
  return kArgs;
}

const ArgRow kDistributed = {"distributed", "0",
                             "1: in pserver mode only the servers store tables, and a server "
                             "creates a row on its first use; implies sparse=1"};
const ArgRow kTableRules = {
    "table_rules", "",
    "with distributed=1: when servers make and remove rows, as \"admit_count=5 ttl=1000 "
    "shrink_every=100\", or with accessor=ctr, how often an id was shown and clicked decides "
    "(common/tables/table_rules.h)"};

// Returns the arguments of the networks for click prediction on categorical columns.
std::vector<ArgRow> ClickArgs() {
  return {{"fields", "14", "number of columns, with one id each"},
          {"rows", "1000", "number of ids of all columns: the sum of data.csv.column.ids"},
          {"dim", "16", "elements of the vector of an id"},
          {"hidden", "128,64", "units of the hidden layers"},
          {"dense", "0", "dense numbers per sample: 13 with data.criteo.numbers: DENSE"},
          {"values", "0", "1: every id has a value, as in format \"libsvm\""},
          {"sparse", "0", "1: gradients of the tables are sparse rows"},
          kDistributed,
          kTableRules,
          {"device", "",
           "cpu or gpu: op_device of all operators but the tables' lookups, for heter "
           "workers (a_sync_configs.heter_worker_device_guard)"}};
}

std::vector<ArgRow> MlpArgs() {
  return {
      {"hidden", "256,256", "units of the hidden layers; none with features: a linear model"},
      {"image", "1,28,28", "without features: channels, height and width of an image"},
      {"classes", "10", "with loss=softmax: number of classes; format \"table\" sets it"},
      {"loss", "softmax",
       "softmax (one of several classes), sigmoid (labels 0 or 1), mse, huber or l1 (numbers)"},
      {"features", "0", "numbers per sample, in the field x; 0: images; format \"table\" sets it"},
      {"outputs", "1",
       "with loss=sigmoid, mse, huber or l1: labels or targets per sample; format \"table\" "
       "sets it"},
      {"weighted", "0",
       "1: the field weight multiplies the loss of a sample; format \"table\" sets it"}};
}

std::vector<ArgRow> WordArgs() {
  return {{"rows", "10000", "words: data.skipgram.vocabulary"},
          {"dim", "100", "elements of a word's vector"},
          {"negatives", "5", "words drawn for each pair: data.skipgram.negatives"},
          {"sparse", "1", "1: gradients of the tables are sparse rows"},
          kDistributed,
          kTableRules};
}

std::vector<ArgRow> ResnetArgs() {
  return {{"image", "3,224,224", "channels, height and width of an image"},
          {"stem", "7",
           "kernel size of the first convolution: 7 (with stride 2, followed by a pooling, for "
           "ImageNet) or 3 (for CIFAR)"}};
}

// Returns the models of the zoo, one row per model (docs/contributing/recipes.md).
const std::vector<ModelRow>& Zoo() {
  static const std::vector<ModelRow> kZoo = {
      {"softmax", "softmax regression: one fully connected layer", {}, BuildSoftmax},
      {"mlp", "multi-layer perceptron with relu, for images or the rows of a table", MlpArgs(),
       nullptr, BuildMlp},
      {"lenet",
       "LeNet-5 (LeCun 1998) with relu and max pooling",
       {{"channels", "6,16", "output channels of the two 5x5 convolutions"},
        {"hidden", "120,84", "units of the fully connected layers before the last"}},
       BuildLenet},
      {"residual_cnn",
       "residual 3x3 convolutions in stages, without batch normalisation (after He 2016)",
       {{"channels", "16,32,64", "channels of the stages; each after the first halves the image"},
        {"blocks", "1", "residual blocks of a stage"}},
       BuildResidualCnn},
      {"vgg16",
       "VGG-16 (Simonyan 2015)",
       {{"image", "3,224,224", "channels, height and width of an image, from 32x32 on"},
        {"batch_norm", "1", "1: batch normalisation after each convolution"},
        {"hidden", "4096,4096", "units of the fully connected layers before the last"}},
       BuildVgg16},
      {"resnet18", "ResNet-18 (He 2016)", ResnetArgs(), BuildResnet18},
      {"resnet50", "ResNet-50 (He 2016)", ResnetArgs(), BuildResnet50},
      {"mobilenet_v1",
       "MobileNet (Howard 2017): depthwise and 1x1 convolutions",
       {{"image", "3,224,224", "channels, height and width of an image"},
        {"width", "100", "channels in percent of the paper's"},
        {"stem", "2", "stride of the first convolution: 1 for small images"}},
       BuildMobilenetV1},
      {"wide_deep", "click prediction: linear model and multi-layer perceptron (Cheng 2016)",
       ClickArgs(), nullptr, BuildWideDeep},
      {"deepfm", "click prediction: factorization machine and multi-layer perceptron (Guo 2017)",
       ClickArgs(), nullptr, BuildDeepFm},
      {"word2vec", "word vectors: skip-gram with negative sampling (Mikolov 2013)", WordArgs(),
       nullptr, BuildWord2Vec},
      {"bert_base",
       "masked language model: layers of self-attention (BERT, Devlin 2019)",
       {{"layers", "12", "number of layers, each with attention and a multi-layer perceptron"},
        {"width", "768", "elements of the vector of a position"},
        {"heads", "12", "attention heads; width is a multiple of it"},
        {"vocabulary", "257",
         "tokens and the mask; format \"text\" has 257 with data.text.predicted"},
        {"sequence", "128", "tokens of a sample: data.text.sequence"},
        {"predicted", "19", "tokens of a sample that are predicted: data.text.predicted"},
        {"dropout", "0.1",
         "probability of dropout after the embedding, the softmax and the parts of each layer"}},
       nullptr,
       BuildBert},
      {"transformer_lm",
       "language model: layers of causal self-attention (GPT-2, Radford 2019)",
       {{"layers", "4", "number of layers, each with attention and a multi-layer perceptron"},
        {"width", "256", "elements of the vector of a position"},
        {"heads", "8", "attention heads; width is a multiple of it"},
        {"vocabulary", "256", "tokens; format \"text\" has 256"},
        {"sequence", "128", "tokens of a sample: data.text.sequence"},
        {"dropout", "0",
         "probability of dropout after the embedding, the softmax and the parts of each layer"}},
       nullptr,
       BuildTransformerLm},
  };
  return kZoo;
}

std::vector<ArgRow> ArgsOf(const ModelRow& model) {
  std::vector<ArgRow> args = model.args;
  if (model.logits == nullptr) return args;
  for (const ArgRow& arg : ImageArgs()) {
    const bool own = std::any_of(model.args.begin(), model.args.end(), [&](const ArgRow& other) {
      return std::string_view(other.name) == arg.name;
    });
    if (!own) args.push_back(arg);
  }
  return args;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

StatusOr<const ModelRow*> FindModel(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelRow& model : Zoo()) {
    if (name == model.name) return &model;
    names.push_back(model.name);
  }
  return NotFound("there is no model \"%s\" in the model zoo [TD1201]%s (models: %s)", name,
                  OrDidYouMean(name, names), Joined(names));
}

// Returns the values of all arguments: the defaults, replaced by the values in `given`.
StatusOr<std::map<std::string, std::string>> Merge(
    const ModelRow& model, const std::map<std::string, std::string>& given) {
  std::map<std::string, std::string> values;
  std::vector<std::string> names;
  for (const ArgRow& arg : ArgsOf(model)) {
    values[arg.name] = arg.default_value;
    names.push_back(arg.name);
  }
  for (const auto& [name, value] : given) {
    const auto it = values.find(name);
    if (it == values.end()) {
      return InvalidArgument("model \"%s\" has no argument \"%s\" [TD1202]%s (arguments: %s)",
                             model.name, name, OrDidYouMean(name, names), Joined(names));
    }
    it->second = value;
  }
  return values;
}

void BuildClassifier(graph::ProgramBuilder& builder, ModelArgs& values, BuildLogitsFn build) {
  const std::vector<int64_t> dims = values.Ints("image", 3, 3, 1, kSideMax);
  const int64_t classes = values.Int("classes", 2, kSideMax);
  if (!values.status().ok()) return;
  const std::string images = builder.Data("img", DType::kF32, dims);
  const std::string label = builder.Data("label", DType::kI64, {1});
  const std::string logits = build(builder, values, images, dims, classes);
  builder.SoftmaxLoss(logits, label);
  builder.Accuracy(logits, label);
}

}  // namespace

std::vector<ModelDoc> ListModels() {
  std::vector<ModelDoc> docs;
  for (const ModelRow& model : Zoo()) {
    ModelDoc doc{model.name, model.doc, {}};
    for (const ArgRow& arg : ArgsOf(model)) {
      doc.args.push_back({arg.name, arg.default_value, arg.doc});
    }
    docs.push_back(std::move(doc));
  }
  return docs;
}

std::string ListModelsText() {
  std::string out;
  for (const ModelDoc& model : ListModels()) {
    out += absl::StrFormat("%s: %s\n", model.name, model.doc);
    for (const ModelArgDoc& arg : model.args) {
      const std::string left = arg.name + "=" + arg.default_value;
      out += absl::StrFormat("  %-20s %s\n", left, arg.doc);
    }
  }
  return out;
}

Status CheckModelNames(const std::string& name, const std::map<std::string, std::string>& args) {
  TD_ASSIGN_OR_RETURN(const ModelRow* const model, FindModel(name));
  return Merge(*model, args).status();
}

StatusOr<graph::Program> BuildModel(const std::string& name,
                                    const std::map<std::string, std::string>& args, int64_t batch) {
  TD_ASSIGN_OR_RETURN(const ModelRow* model, FindModel(name));
  TD_ASSIGN_OR_RETURN(auto merged, Merge(*model, args));
  ModelArgs values(model->name, std::move(merged));
  if (batch < 1)
    return InvalidArgument("model \"%s\": the batch size is %d, expected at least 1 [TD1104]", name,
                           batch);

  graph::ProgramBuilder builder(model->name, batch);
  if (model->logits != nullptr) {
    BuildClassifier(builder, values, model->logits);
  } else {
    model->build(builder, values);
  }
  TD_RETURN_IF_ERROR(values.status());
  StatusOr<graph::Program> program = builder.Finish();
  if (!program.ok()) return Annotate(program.status(), absl::StrFormat("model \"%s\"", name));
  return program;
}

}  // namespace tandem::trainer
