#include "trainer/job/data_sizes.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/origins.h"
#include "proto/job.pb.h"
#include "trainer/models/models.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {
namespace {

constexpr size_t kClassesShown = 10;

const reader::SampleField* FieldOf(const reader::Dataset& data, const std::string& name) {
  for (const reader::SampleField& field : data.fields()) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Status NoSuchField(const char* what, const char* hint) {
  return InvalidArgument("model \"mlp\" reads no %s [TD1208]; hint: %s", what, hint);
}

using Arguments = std::map<std::string, std::string>;

// Returns the arguments that can be derived from `data`. `given`: the arguments that the job sets.
StatusOr<Arguments> ArgumentsOf(const reader::Dataset& data, const Arguments& given) {
  if (FieldOf(data, "ids") != nullptr) {
    return NoSuchField("categories, but the table has columns of kind CATEGORY",
                       "data { table { column { name: \"NAME\" kind: ONE_HOT } } }");
  }
  const reader::SampleField* const x = FieldOf(data, "x");
  const reader::SampleField* const label = FieldOf(data, "label");
  const reader::SampleField* const target = FieldOf(data, "target");
  if (x == nullptr) {
    return NoSuchField("table without numbers", "give a column kind: FLOAT or kind: ONE_HOT");
  }
  TD_REQUIRE((label != nullptr) != (target != nullptr));
  Arguments out;
  out["features"] = std::to_string(x->desc.shape.numel());
  const int64_t outputs = (label != nullptr ? label : target)->desc.shape.numel();
  out["outputs"] = std::to_string(outputs);
  if (label != nullptr) out["classes"] = std::to_string(label->limit);
  if (FieldOf(data, "weight") != nullptr) out["weighted"] = "1";
  out["loss"] = target != nullptr ? "mse" : outputs > 1 ? "sigmoid" : "softmax";
  const auto found = given.find("loss");
  if (found == given.end()) return out;
  const bool of_classes = found->second == "softmax" || found->second == "sigmoid";
  if (of_classes && label == nullptr) {
    return InvalidArgument(
        "model \"mlp\": loss=%s needs a column of kind LABEL, but the table has TARGET [TD1208]; "
        "hint: loss=mse",
        found->second);
  }
  if (!of_classes && target == nullptr) {
    return InvalidArgument(
        "model \"mlp\": loss=%s needs a column of kind TARGET, but the table has LABEL [TD1208]; "
        "hint: loss=softmax, or kind: TARGET",
        found->second);
  }
  if (found->second == "sigmoid" && label->limit > 2) {
    return InvalidArgument(
        "model \"mlp\": loss=sigmoid needs labels of two classes, but the table has %d [TD1208]; "
        "hint: loss=softmax",
        label->limit);
  }
  return out;
}

// The arguments that the job sets.
Arguments GivenArguments(const ModelConfig& model) {
  Arguments given;
  for (const ModelArg& arg : model.arg()) given[arg.name()] = arg.value();
  return given;
}

// Sets the arguments `decided` that the job does not set. Returns them as text: " name=value ...".
std::string SetArguments(const Arguments& decided, const Arguments& given, ModelConfig* model) {
  std::string text;
  for (const auto& [name, value] : decided) {
    if (given.contains(name)) continue;
    ModelArg* const arg = model->add_arg();
    arg->set_name(name);
    arg->set_value(value);
    absl::StrAppend(&text, " ", name, "=", value);
  }
  return text;
}

Status SetTableSizes(const std::string& job_dir, const strategy::SourcePlace& place,
                     strategy::Diagnostics* diagnostics, JobConfig* config) {
  TD_ASSIGN_OR_RETURN(const auto data,
                      reader::OpenData(config->data(), job_dir, /*with_test=*/false));
  const Arguments given = GivenArguments(config->model());
  TD_ASSIGN_OR_RETURN(const Arguments decided, ArgumentsOf(*data.train, given));
  diagnostics->Note(place, "model \"mlp\" gets from the data:" +
                               SetArguments(decided, given, config->mutable_model()));
  return OkStatus();
}

Status SetImageSizes(const std::string& job_dir, const strategy::SourcePlace& place,
                     strategy::Diagnostics* diagnostics, JobConfig* config) {
  TD_ASSIGN_OR_RETURN(const auto data,
                      reader::OpenData(config->data(), job_dir, /*with_test=*/false));
  for (const std::string& note : data.notes) diagnostics->Note(place, note);
  const std::string& zoo = config->model().zoo();
  const std::string size = std::to_string(config->data().images().size());
  Arguments decided = {{"classes", std::to_string(data.classes.size())},
                       {"image", "3," + size + "," + size}};
  if (!CheckModelNames(zoo, decided).ok()) return OkStatus();
  if (config->data().images().layout() == ImagesConfig::NHWC) decided.erase("image");
  const Arguments given = GivenArguments(config->model());
  const auto classes = given.find("classes");
  if (classes != given.end() && classes->second != decided["classes"]) {
    return InvalidArgument(
        "model \"%s\" has classes=%s, but the directory of images has %s classes [TD2004]; hint: "
        "remove the argument",
        zoo, classes->second, decided["classes"]);
  }
  const std::string set = SetArguments(decided, given, config->mutable_model());
  std::vector<std::string> names = data.classes;
  if (names.size() > kClassesShown) {
    names.resize(kClassesShown);
    names.emplace_back("...");
  }
  diagnostics->Note(place, absl::StrFormat("model \"%s\" gets from the data:%s; the classes are %s",
                                           zoo, set, absl::StrJoin(names, ", ")));
  return OkStatus();
}

}  // namespace

void SetDataSizes(const std::string& job_dir, const strategy::Origins& origins,
                  strategy::Diagnostics* diagnostics, JobConfig* config) {
  const DataConfig& data = config->data();
  const bool table = data.format() == "table" && config->model().zoo() == "mlp";
  const bool folder = data.format() == "images" && data.images().has_folder();
  if ((!table && !folder) || !diagnostics->ok()) return;
  const strategy::SourcePlace place = origins.Of("data.format").place;
  const Status status = table ? SetTableSizes(job_dir, place, diagnostics, config)
                              : SetImageSizes(job_dir, place, diagnostics, config);
  if (!status.ok()) diagnostics->Error(place, std::string(status.message()));
}

}  // namespace tandem::trainer
