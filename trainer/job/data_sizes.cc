#include "trainer/job/data_sizes.h"

#include <map>

#include "common/base/require.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/origins.h"
#include "proto/job.pb.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {
namespace {

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

}  // namespace

void SetDataSizes(const std::string& job_dir, const strategy::Origins& origins,
                  strategy::Diagnostics* diagnostics, JobConfig* config) {
  if (config->data().format() != "table" || config->model().zoo() != "mlp") return;
  if (!diagnostics->ok()) return;
  const strategy::SourcePlace place = origins.Of("data.format").place;
  const auto data = reader::OpenData(config->data(), job_dir, /*with_test=*/false);
  if (!data.ok()) return diagnostics->Error(place, std::string(data.status().message()));
  Arguments given;
  for (const ModelArg& arg : config->model().arg()) given[arg.name()] = arg.value();
  const StatusOr<Arguments> decided = ArgumentsOf(*data->train, given);
  if (!decided.ok()) return diagnostics->Error(place, std::string(decided.status().message()));
  std::string note = "model \"mlp\" gets from the data:";
  for (const auto& [name, value] : *decided) {
    if (given.contains(name)) continue;
    ModelArg* const arg = config->mutable_model()->add_arg();
    arg->set_name(name);
    arg->set_value(value);
    note += " " + name + "=" + value;
  }
  diagnostics->Note(place, note);
}

}  // namespace tandem::trainer
