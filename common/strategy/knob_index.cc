#include "common/strategy/knob_index.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/require.h"
#include "proto/knob.pb.h"
#include "proto/strategy.pb.h"

namespace tandem::strategy {

namespace {

namespace gpb = google::protobuf;

constexpr size_t kDepthMax = 8;

bool IsSingularMessage(const gpb::FieldDescriptor& field) {
  return !field.is_repeated() && field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE;
}

bool IsPathEnd(const std::string& path, std::string_view name) {
  if (path.size() < name.size()) return false;
  const size_t start = path.size() - name.size();
  return path.compare(start, name.size(), name) == 0 && (start == 0 || path[start - 1] == '.');
}

}  // namespace

bool FieldPlace::holds_fields() const { return IsSingularMessage(field()); }

FieldIndex::FieldIndex(const gpb::Descriptor& root) { Enter(root, FieldPlace()); }

void FieldIndex::Enter(const gpb::Descriptor& type, const FieldPlace& at) {
  for (const gpb::FieldDescriptor* step : at.steps) {
    if (step->containing_type() == &type) return;  // a recursive message type is not entered again
  }
  if (at.steps.size() >= kDepthMax) return;
  for (int i = 0; i < type.field_count(); ++i) {
    FieldPlace place = at;
    place.steps.push_back(type.field(i));
    if (!place.path.empty()) place.path += '.';
    place.path += type.field(i)->name();
    places_.push_back(place);
    if (place.holds_fields()) Enter(*type.field(i)->message_type(), place);
  }
}

std::vector<const FieldPlace*> FieldIndex::Find(std::string_view name) const {
  // Matches with their ranks; the lowest rank is best. Fields near the root have the lowest ranks.
  // At equal depth, a match by the field's own name has a lower rank than a match by another
  // spelling.
  std::vector<std::pair<size_t, const FieldPlace*>> found;
  for (const FieldPlace& place : places_) {
    const bool own = IsPathEnd(place.path, name);
    if (place.path == name) return {&place};
    if (own || IsAlias(place.field(), name)) {
      found.emplace_back(place.steps.size() * 2 + (own ? 0 : 1), &place);
    }
  }
  size_t best = SIZE_MAX;
  for (const auto& [rank, place] : found) best = std::min(best, rank);
  std::vector<const FieldPlace*> nearest;
  for (const auto& [rank, place] : found) {
    if (rank == best) nearest.push_back(place);
  }
  return nearest;
}

std::vector<std::string> FieldIndex::Names() const {
  std::vector<std::string> names;
  for (const FieldPlace& place : places_) names.push_back(place.field().name());
  for (const FieldPlace& place : places_) {
    for (const std::string& alias : place.field().options().GetExtension(knob).alias()) {
      names.push_back(alias);
    }
  }
  return names;
}

gpb::Message* HolderOf(const FieldPlace& place, gpb::Message* root) {
  TD_REQUIRE(!place.steps.empty());
  TD_REQUIRE(root->GetDescriptor() == place.steps[0]->containing_type());
  gpb::Message* holder = root;
  for (size_t i = 0; i + 1 < place.steps.size(); ++i) {
    holder = holder->GetReflection()->MutableMessage(holder, place.steps[i]);
  }
  return holder;
}

std::string PathList(const std::vector<const FieldPlace*>& places) {
  std::string list;
  for (const FieldPlace* place : places) list += (list.empty() ? "" : ", ") + place->path;
  return list;
}

bool IsAlias(const gpb::FieldDescriptor& field, std::string_view name) {
  const auto& aliases = field.options().GetExtension(knob).alias();
  return std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

bool IsStrategy(const gpb::Descriptor& type) { return &type == DistributedStrategy::descriptor(); }

std::string_view InsteadOf(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kInstead[] = {
      {"num_trainers", "the launcher gives the number of trainers; remove it"},
      {"trainer_id", "the launcher gives each trainer its rank; remove it"},
      {"trainers_endpoints", "the launcher gives the addresses; remove it"},
      {"sync_mode", "write a_sync: false (or true for its opposite)"},
      {"completely_not_async", "write a_sync: false"},
      {"geo_sgd_mode", "write a_sync: true and a_sync_configs { k_steps: N }"},
      {"collective_mode", "the job's mode tells it: mode: COLLECTIVE"},
      {"remove_unnecessary_lock", "there is no such lock here; remove it"},
      {"enable_parallel_graph", "there is one executor here; remove it"},
      {"use_experimental_executor", "there is one executor here; remove it"},
      {"allow_op_delay", "it had no effect in the reference; remove it"},
      {"print_log", "remove it; --v sets how much is logged"},
      {"use_cuda", "the job's place tells it: place: \"cuda\""},
      {"FLAGS_selected_gpus", "the job's place tells the device: place: \"cuda:N\""},
      {"CUDA_VISIBLE_DEVICES", "set it in the environment; the CUDA driver reads it"},
      {"dist_strategy", "use field strategy: strategy { a_sync: true }"},
      {"distributed_strategy", "use field strategy: strategy { a_sync: true }"},
      {"sync_bn", "use knob sync_batch_norm"},
      {"reduce_mode", "use knob build_strategy.reduce_strategy with AllReduce or Reduce"},
      {"grad_merge", "use knob gradient_merge"},
      {"num_iteration_per_drop", "use knob execution_strategy.num_iteration_per_drop_scope"},
      {"FLAGS_START_PORT", "the launcher takes free ports"},
  };
  for (const auto& [known, instead] : kInstead) {
    if (known == name) return instead;
  }
  return "";
}

}  // namespace tandem::strategy
