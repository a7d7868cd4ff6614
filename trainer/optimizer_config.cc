#include "trainer/optimizer_config.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "common/strategy/diagnostics.h"
#include "proto/job.pb.h"

namespace tandem {
namespace {

using google::protobuf::FieldDescriptor;

// Settings that every type takes.
bool IsCommon(const std::string& name) {
  static const std::set<std::string> names = {"clip_min",         "clip_max", "clip_norm",
                                              "clip_global_norm", "l1_decay", "l2_decay",
                                              "decay_exclude"};
  return names.contains(name);
}

bool IsSetting(const FieldDescriptor& field) {
  return field.name() != "type" && field.name() != "learning_rate" && field.name() != "schedule";
}

// The operator's name of a field.
std::string AttrName(const FieldDescriptor& field) {
  return field.name() == "momentum" ? "mu" : std::string(field.name());
}

// weight_decay of adam itself is that of adamw.
bool Uses(const std::string& type, const std::string& attr) {
  if (IsCommon(attr)) return true;
  if (attr == "weight_decay" && type == "adam") return false;
  const auto def = OptimizerOp(type);
  return def.ok() && std::any_of((*def)->attrs.begin(), (*def)->attrs.end(),
                                 [&attr](const AttrDef& a) { return attr == a.name; });
}

std::vector<std::string> TypesThatUse(const std::string& attr) {
  std::vector<std::string> types;
  for (const std::string& type : OptimizerTypes()) {
    if (Uses(type, attr)) types.push_back(type);
  }
  return types;
}

std::vector<const FieldDescriptor*> SettingsGiven(const OptimizerConfig& config) {
  std::vector<const FieldDescriptor*> all, given;
  config.GetReflection()->ListFields(config, &all);
  for (const FieldDescriptor* field : all) {
    if (IsSetting(*field)) given.push_back(field);
  }
  return given;
}

Attr ValueOf(const OptimizerConfig& config, const FieldDescriptor& field) {
  const auto& reflection = *config.GetReflection();
  if (field.is_repeated()) return absl::StrJoin(config.decay_exclude(), ",");
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return reflection.GetBool(config, &field);
  return double{reflection.GetFloat(config, &field)};
}

}  // namespace

void CheckOptimizer(const OptimizerConfig& config, const Origins& origins,
                    Diagnostics* diagnostics) {
  const auto place = [&origins](const std::string& field) {
    return origins.Of("optimizer." + field).place;
  };
  if (const auto def = OptimizerOp(config.type()); !def.ok()) {
    diagnostics->Error(place("type"), std::string(def.status().message()));
    return;
  }
  for (const FieldDescriptor* field : SettingsGiven(config)) {
    const std::string attr = AttrName(*field);
    if (Uses(config.type(), attr)) continue;
    diagnostics->Error(place(std::string(field->name())),
                       absl::StrFormat("optimizer %s has no %s", config.type(), field->name()),
                       absl::StrJoin(TypesThatUse(attr), ", ") + " use it");
  }
  for (const std::string& part : config.decay_exclude()) {
    if (!part.empty() && part.find(',') == std::string::npos) continue;
    diagnostics->Error(place("decay_exclude"), "a part of a name is empty or holds a comma");
  }
  if (const auto reach = ReachOf(OptimizerSpecOf(config)); !reach.ok()) {
    diagnostics->Error(origins.Of("optimizer").place, std::string(reach.status().message()));
  }
}

OptimizerSpec OptimizerSpecOf(const OptimizerConfig& config) {
  OptimizerSpec spec;
  spec.type = config.type();
  for (const FieldDescriptor* field : SettingsGiven(config)) {
    spec.attrs[AttrName(*field)] = ValueOf(config, *field);
  }
  return spec;
}

}  // namespace tandem
