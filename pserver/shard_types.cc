#include "pserver/shard_types.h"

#include <algorithm>
#include <map>

namespace tandem {
namespace {

constexpr int kTrainersMax = 4096;
constexpr size_t kSlicesMax = 1 << 20;

bool IsName(const std::string& name, size_t length_max, const char* also) {
  if (name.empty() || name.size() > length_max) return false;
  if (name.find("..") != std::string::npos) return false;
  return std::all_of(name.begin(), name.end(), [also](unsigned char c) {
    return std::isalnum(c) ||
           (c != 0 && std::string_view(also).find(static_cast<char>(c)) != std::string_view::npos);
  });
}

std::string AttrText(const Attr& attr) {
  if (const bool* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&attr)) return std::to_string(*i);
  if (const double* f = std::get_if<double>(&attr)) return absl::StrFormat("%.9g", *f);
  if (const std::string* s = std::get_if<std::string>(&attr)) return *s;
  return "(list)";
}

std::string OptimizerText(const OptimizerSpec& spec) {
  std::string text = spec.type + "(";
  for (const auto& [name, value] : spec.attrs) {
    if (text.back() != '(') text += ", ";
    text += name + "=" + AttrText(value);
  }
  return text + ")";
}

std::string SliceText(const SliceSpec& s) {
  return absl::StrFormat("%s %s [%d, %d)", s.variable, ToString(s.shape), s.offset,
                         s.offset + s.numel);
}

Status CheckSlice(const SliceSpec& s) {
  if (!IsName(s.variable, 200, "._@/-")) {
    return InvalidArgument("slice of variable \"%s\": not a name of [A-Za-z0-9._@/-]{1,200}",
                           s.variable);
  }
  if (s.numel < 1 || s.offset < 0 || s.offset > s.shape.numel() - s.numel) {
    return InvalidArgument("slice of %s: elements [%d, %d+%d) do not lie in a variable of shape %s",
                           s.variable, s.offset, s.offset, s.numel, ToString(s.shape));
  }
  return OkStatus();
}

}  // namespace

const char* Name(ShardMode mode) { return mode == ShardMode::kSync ? "sync" : "a_sync"; }

Status CheckConfig(const ShardConfig& config) {
  if (!IsName(config.job, 64, "._-")) {
    return InvalidArgument("job \"%s\": not a name of [A-Za-z0-9._-]{1,64}", config.job);
  }
  if (config.trainers < 1 || config.trainers > kTrainersMax) {
    return InvalidArgument("%d trainers; expected 1 to %d", config.trainers, kTrainersMax);
  }
  if (config.slices.size() > kSlicesMax) {
    return InvalidArgument("%d slices; expected at most %d", config.slices.size(), kSlicesMax);
  }
  if (config.step_timeout <= Duration::zero()) {
    return InvalidArgument("step_timeout must be longer than 0");
  }
  std::map<std::string, std::map<int64_t, const SliceSpec*>> by_variable;
  for (const SliceSpec& s : config.slices) {
    TD_RETURN_IF_ERROR(CheckSlice(s));
    auto& slices = by_variable[s.variable];
    if (!slices.empty() && !(slices.begin()->second->shape == s.shape)) {
      return InvalidArgument("%s is %s in one slice and %s in another", s.variable,
                             ToString(slices.begin()->second->shape), ToString(s.shape));
    }
    const auto next = slices.lower_bound(s.offset);
    const bool hits_next = next != slices.end() && next->first < s.offset + s.numel;
    const bool hits_before = next != slices.begin() &&
                             std::prev(next)->first + std::prev(next)->second->numel > s.offset;
    if (hits_next || hits_before) {
      return InvalidArgument("slice %s overlaps another one", SliceText(s));
    }
    slices[s.offset] = &s;
  }
  return OkStatus();
}

std::string Difference(const ShardConfig& now, const ShardConfig& before) {
  if (now.job != before.job) {
    return absl::StrFormat("job is \"%s\", was \"%s\"", now.job, before.job);
  }
  if (now.trainers != before.trainers) {
    return absl::StrFormat("trainers is %d, was %d", now.trainers, before.trainers);
  }
  if (now.mode != before.mode) {
    return absl::StrFormat("mode is %s, was %s", Name(now.mode), Name(before.mode));
  }
  const std::string a = OptimizerText(now.optimizer), b = OptimizerText(before.optimizer);
  if (a != b) return absl::StrFormat("optimizer is %s, was %s", a, b);
  if (now.step_timeout != before.step_timeout) {
    return absl::StrFormat("step_timeout is %s, was %s", FormatDuration(now.step_timeout),
                           FormatDuration(before.step_timeout));
  }
  for (size_t i = 0; i < std::min(now.slices.size(), before.slices.size()); ++i) {
    if (now.slices[i] == before.slices[i]) continue;
    return absl::StrFormat("slice %d is %s, was %s", i, SliceText(now.slices[i]),
                           SliceText(before.slices[i]));
  }
  if (now.slices.size() != before.slices.size()) {
    return absl::StrFormat("%d slices, were %d", now.slices.size(), before.slices.size());
  }
  return "";
}

size_t ShardImage::bytes() const {
  size_t sum = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    sum += static_cast<size_t>(config.slices[i].numel) * sizeof(float);
    for (const SliceImage::Slot& slot : slices[i].slots) {
      sum += static_cast<size_t>(slot.numel) * sizeof(float);
    }
  }
  return sum;
}

}  // namespace tandem
