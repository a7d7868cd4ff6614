#include "trainer/config/optimizer_config.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "common/strategy/diagnostics.h"
#include "proto/job.pb.h"

namespace tandem::trainer {
namespace {

using google::protobuf::FieldDescriptor;

// Returns whether every optimizer type accepts the setting `name`.
bool IsCommon(const std::string& name) {
  static const std::set<std::string> names = {"clip_min",         "clip_max", "clip_norm",
                                              "clip_global_norm", "l1_decay", "l2_decay",
                                              "decay_exclude"};
  return names.contains(name);
}

bool IsSetting(const FieldDescriptor& field) {
  return field.name() != "type" && field.name() != "learning_rate" && field.name() != "schedule";
}

// Returns the operator's attribute name for a field of OptimizerConfig.
std::string AttrName(const FieldDescriptor& field) {
  return field.name() == "momentum" ? "mu" : std::string(field.name());
}

// Returns whether the optimizer type uses the attribute. adamw and adam are one operator, but only
// adamw uses weight_decay.
bool Uses(const std::string& type, const std::string& attr) {
  if (IsCommon(attr)) return true;
  if (attr == "weight_decay" && type == "adam") return false;
  const auto def = graph::OptimizerOp(type);
  return def.ok() && std::any_of((*def)->attrs.begin(), (*def)->attrs.end(),
                                 [&attr](const ops::AttrDef& a) { return attr == a.name; });
}

std::vector<std::string> TypesThatUse(const std::string& attr) {
  std::vector<std::string> types;
  for (const std::string& type : graph::OptimizerTypes()) {
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

ops::Attr ValueOf(const OptimizerConfig& config, const FieldDescriptor& field) {
  const auto& reflection = *config.GetReflection();
  if (field.is_repeated()) return absl::StrJoin(config.decay_exclude(), ",");
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return reflection.GetBool(config, &field);
  return double{reflection.GetFloat(config, &field)};
}

// Changes the optimizer to the one that the strategy's lars or lamb requires.
void ApplyStrategy(const DistributedStrategy& strategy, graph::OptimizerSpec* spec) {
  const auto exclude = [&spec](const auto& parts) {
    if (!parts.empty()) spec->attrs["decay_exclude"] = absl::StrJoin(parts, ",");
  };
  if (strategy.lars()) {
    const LarsConfigs& lars = strategy.lars_configs();
    spec->type = "lars_momentum";
    spec->attrs["lars_coeff"] = lars.lars_coeff();
    spec->attrs["weight_decay"] = lars.lars_weight_decay();
    spec->attrs["epsilon"] = lars.epsilon();
    exclude(lars.exclude_from_weight_decay());
  } else if (strategy.lamb()) {
    const LambConfigs& lamb = strategy.lamb_configs();
    spec->type = "lamb";
    spec->attrs["weight_decay"] = lamb.lamb_weight_decay();
    exclude(lamb.exclude_from_weight_decay());
  }
}

// Updates divide by the root of a sum of squared gradients plus epsilon. The sum is 0 where all
// gradients so far are 0. lars_momentum divides by norms of parameters instead.
void CheckEpsilon(const OptimizerConfig& config, const strategy::Origins& origins,
                  strategy::Diagnostics* diagnostics) {
  if (!config.has_epsilon() || config.type() == "lars_momentum") return;
  const bool starts_above = config.type() == "adagrad" && config.initial_accumulator() > 0;
  if (config.epsilon() > 0 || (config.epsilon() == 0 && starts_above)) return;
  diagnostics->Error(
      origins.Of("optimizer.epsilon").place,
      absl::StrFormat("optimizer.epsilon is %g, expected above 0: optimizer %s divides by it where "
                      "all gradients are 0 [TD1104]",
                      config.epsilon(), config.type()),
      "use 1e-8, or remove optimizer.epsilon");
}

void CheckStrategy(const JobConfig& job, const strategy::Origins& origins,
                   strategy::Diagnostics* diagnostics) {
  const auto check = [&](bool wanted, const std::string& knob, const std::string& base) {
    if (!wanted || job.optimizer().type() == base) return;
    diagnostics->Error(
        origins.Of("strategy." + knob).place,
        absl::StrFormat("%s: true needs optimizer %s, but the job uses optimizer %s [TD1108]", knob,
                        base, job.optimizer().type()),
        absl::StrFormat("set optimizer { type: \"%s\" }, or remove %s", base, knob));
  };
  check(job.strategy().lars(), "lars", "momentum");
  check(job.strategy().lamb(), "lamb", "adam");
  check(job.strategy().dgc(), "dgc", "momentum");
  if (job.strategy().lars() && job.optimizer().use_nesterov()) {
    diagnostics->Error(origins.Of("optimizer.use_nesterov").place,
                       "lars: true does not support optimizer.use_nesterov [TD1108]",
                       "remove one of the two");
  }
}

}  // namespace

void CheckOptimizer(const JobConfig& job, const strategy::Origins& origins,
                    strategy::Diagnostics* diagnostics) {
  const OptimizerConfig& config = job.optimizer();
  const auto place = [&origins](const std::string& field) {
    return origins.Of("optimizer." + field).place;
  };
  if (const Status known = graph::CheckJobOptimizer(config.type()); !known.ok()) {
    diagnostics->Error(place("type"), std::string(known.message()));
    return;
  }
  const graph::OptimizerSpec used = OptimizerSpecOf(job);
  for (const FieldDescriptor* field : SettingsGiven(config)) {
    const std::string attr = AttrName(*field);
    // The strategy's lars and lamb replace the optimizer by another one.
    const std::string& type = Uses(config.type(), attr) ? used.type : config.type();
    if (Uses(type, attr)) continue;
    diagnostics->Error(
        place(std::string(field->name())),
        absl::StrFormat("optimizer %s has no setting %s [TD1107]", type, field->name()),
        "use one of " + absl::StrJoin(TypesThatUse(attr), ", ") + ", which have this setting");
  }
  for (const std::string& part : config.decay_exclude()) {
    if (!part.empty() && part.find(',') == std::string::npos) continue;
    diagnostics->Error(place("decay_exclude"),
                       "an entry of optimizer.decay_exclude is empty or contains a comma [TD1104]");
  }
  CheckStrategy(job, origins, diagnostics);
  CheckEpsilon(config, origins, diagnostics);
  if (config.type() == "ftrl" && config.schedule().warmup_steps() > 0) {
    diagnostics->Error(place("schedule.warmup_steps"),
                       "optimizer ftrl divides by the learning rate, but a warm-up starts at "
                       "rate 0 [TD1108]",
                       "remove schedule.warmup_steps");
  }
  if (const auto reach = graph::ReachOf(used); !reach.ok()) {
    diagnostics->Error(origins.Of("optimizer").place, std::string(reach.status().message()));
  }
}

graph::OptimizerSpec OptimizerSpecOf(const JobConfig& job) {
  const OptimizerConfig& config = job.optimizer();
  graph::OptimizerSpec spec;
  spec.type = config.type();
  for (const FieldDescriptor* field : SettingsGiven(config)) {
    spec.attrs[AttrName(*field)] = ValueOf(config, *field);
  }
  ApplyStrategy(job.strategy(), &spec);
  return spec;
}

}  // namespace tandem::trainer
