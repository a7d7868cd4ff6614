#include "pserver/state/shard_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {
namespace {

// Maximum bytes of a job name in messages. A caller may send a longer name.
constexpr size_t kJobBytesMax = 64;

constexpr int kTrainersMax = 4096;
constexpr size_t kTablesMax = 4096;
constexpr int64_t kDimMax = 1 << 16;
constexpr int64_t kTableElementsMax = int64_t{1} << 62;

bool IsName(const std::string& name, size_t length_max, const char* also) {
  if (name.empty() || name.size() > length_max) return false;
  if (name.find("..") != std::string::npos) return false;
  return std::all_of(name.begin(), name.end(), [also](unsigned char c) {
    return std::isalnum(c) ||
           (c != 0 && std::string_view(also).find(static_cast<char>(c)) != std::string_view::npos);
  });
}

std::string AttrText(const ops::Attr& attr) {
  if (const bool* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&attr)) return std::to_string(*i);
  if (const double* f = std::get_if<double>(&attr)) return absl::StrFormat("%.9g", *f);
  if (const std::string* s = std::get_if<std::string>(&attr)) return *s;
  return "(list)";
}

std::string OptimizerText(const graph::OptimizerSpec& spec) {
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
    return InvalidArgument(
        "variable name \"%s\" of a slice is invalid, expected [A-Za-z0-9._@/-]{1,200}", s.variable);
  }
  if (s.numel < 1 || s.offset < 0 || s.offset > s.shape.numel() - s.numel) {
    return InvalidArgument(
        "slice of %s: %d elements from element %d on do not fit a variable of %d elements (shape "
        "%s)",
        s.variable, s.numel, s.offset, s.shape.numel(), ToString(s.shape));
  }
  if (s.bucket != 0 && (s.bucket < kRowBuckets || s.bucket >= kBucketsMax)) {
    return InvalidArgument("slice of %s: partition %d is out of range, expected 0, or %d to %d",
                           s.variable, s.bucket, kRowBuckets, kBucketsMax - 1);
  }
  return OkStatus();
}

// Returns text about the first slice whose bucket numbers differ; "": no slice has two different
// known bucket numbers (0: unknown).
std::string BucketDifference(const std::vector<SliceSpec>& now,
                             const std::vector<SliceSpec>& before) {
  for (size_t i = 0; i < now.size(); ++i) {
    const int is = now[i].bucket, was = before[i].bucket;
    if (is == was || is == 0 || was == 0) continue;
    return absl::StrFormat("slice %d is bucket %d, was %d", i, is, was);
  }
  return "";
}

std::string TableText(const TableSpec& t) {
  const std::string text = absl::StrFormat(
      "%s %s from %d(%.9g, %.9g) of seed %d, buckets [%d, %d)", t.variable, ToString(t.shape),
      static_cast<int>(t.init.kind), t.init.a, t.init.b, t.seed, t.bucket_begin, t.bucket_end);
  return t.rules == TableRules() ? text : text + ", rules " + ToString(t.rules);
}

Status CheckTable(const TableSpec& t) {
  if (!IsName(t.variable, 200, "._@/-")) {
    return InvalidArgument("table name \"%s\" is invalid, expected [A-Za-z0-9._@/-]{1,200}",
                           t.variable);
  }
  if (t.shape.rank() != 2 || t.height() < 1 || t.dim() < 1 || t.dim() > kDimMax ||
      t.height() > kTableElementsMax / t.dim()) {
    return InvalidArgument(
        "table %s has shape %s, expected [height, dim] with dim up to %d and at most 2^62 elements",
        t.variable, ToString(t.shape), kDimMax);
  }
  if (t.bucket_begin < 0 || t.bucket_end > kRowBuckets || t.bucket_begin > t.bucket_end) {
    return InvalidArgument(
        "table %s: row buckets %d to %d are out of range, expected buckets below %d", t.variable,
        t.bucket_begin, t.bucket_end, kRowBuckets);
  }
  TD_RETURN_IF_ERROR(Annotate(CheckRules(t.rules), "table " + t.variable));
  if (t.rules.accessor == RowAccessorKind::kCtr && t.dim() < 2) {
    return InvalidArgument(
        "table %s has shape %s, but accessor=ctr needs a dim of at least 2 for the weight and the "
        "embedding",
        t.variable, ToString(t.shape));
  }
  return OkStatus();
}

Status CheckTables(const ShardConfig& config, const std::set<std::string>& slices) {
  if (config.tables.size() > kTablesMax) {
    return InvalidArgument("the configuration has %d tables, expected at most %d",
                           config.tables.size(), kTablesMax);
  }
  std::set<std::string> names;
  for (const TableSpec& t : config.tables) {
    TD_RETURN_IF_ERROR(CheckTable(t));
    if (slices.contains(t.variable) || !names.insert(t.variable).second) {
      return InvalidArgument("table %s has the same name as a variable", t.variable);
    }
  }
  return OkStatus();
}

// Returns text about the first difference of the two lists; "": the lists are equal. `what`: name
// of an element in the text.
template <typename T>
std::string ListDifference(const char* what, const std::vector<T>& now,
                           const std::vector<T>& before, std::string (*text)(const T&)) {
  for (size_t i = 0; i < std::min(now.size(), before.size()); ++i) {
    if (text(now[i]) == text(before[i])) continue;
    return absl::StrFormat("%s %d is %s, was %s", what, i, text(now[i]), text(before[i]));
  }
  if (now.size() == before.size()) return "";
  return absl::StrFormat("%d %ss, were %d", now.size(), what, before.size());
}

}  // namespace

Status CheckConfig(const ShardConfig& config) {
  if (!IsName(config.job, 64, "._-")) {
    return InvalidArgument("job name \"%s\" is invalid, expected [A-Za-z0-9._-]{1,64} [TD1011]",
                           absl::CHexEscape(config.job.substr(0, kJobBytesMax)));
  }
  if (config.trainers < 1 || config.trainers > kTrainersMax) {
    return InvalidArgument("the job has %d trainers, expected 1 to %d", config.trainers,
                           kTrainersMax);
  }
  if (config.slices.size() > static_cast<size_t>(kSlicesMax)) {
    return InvalidArgument("the configuration has %d slices, expected at most %d",
                           config.slices.size(), kSlicesMax);
  }
  if (config.step_timeout <= Duration::zero()) {
    return InvalidArgument("step_timeout must be above 0");
  }
  if (config.lost_after <= Duration::zero()) {
    return InvalidArgument("lost_after must be above 0");
  }
  if (!std::isfinite(config.delay_compensation) || config.delay_compensation < 0) {
    return InvalidArgument("delay_compensation is %g, expected at least 0",
                           config.delay_compensation);
  }
  if (config.delay_compensation > 0 && config.mode == UpdatePolicy::kSync) {
    return InvalidArgument(
        "delay_compensation has no effect in sync mode, because no gradient is stale");
  }
  if (config.each_step_once && config.mode == UpdatePolicy::kSync) {
    return InvalidArgument(
        "each_step_once has no effect in sync mode, which counts each step once anyway");
  }
  std::map<std::string, std::map<int64_t, const SliceSpec*>> by_variable;
  std::set<int> buckets;
  for (const SliceSpec& s : config.slices) {
    TD_RETURN_IF_ERROR(CheckSlice(s));
    if (s.bucket != 0 && !buckets.insert(s.bucket).second) {
      return InvalidArgument("two slices have the same partition %d", s.bucket);
    }
    auto& slices = by_variable[s.variable];
    if (!slices.empty() && !(slices.begin()->second->shape == s.shape)) {
      return InvalidArgument("variable %s has shape %s in one slice, but %s in another", s.variable,
                             ToString(slices.begin()->second->shape), ToString(s.shape));
    }
    const auto next = slices.lower_bound(s.offset);
    const bool hits_next = next != slices.end() && next->first < s.offset + s.numel;
    const bool hits_before = next != slices.begin() &&
                             std::prev(next)->first + std::prev(next)->second->numel > s.offset;
    if (hits_next || hits_before) {
      return InvalidArgument("slice %s overlaps another slice", SliceText(s));
    }
    slices[s.offset] = &s;
  }
  std::set<std::string> names;
  for (const auto& [name, slices] : by_variable) names.insert(name);
  return CheckTables(config, names);
}

Status CheckJob(const std::string& job, const std::string& served) {
  if (job == served) return OkStatus();
  return FailedPrecondition(
      "the caller is of job \"%s\", but this server serves job \"%s\" [TD4002]; hint: use another "
      "port for one of the jobs, or the right --job",
      absl::CHexEscape(job.substr(0, kJobBytesMax)), served);
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
  if (now.nonfinite != before.nonfinite) {
    return absl::StrFormat("nonfinite gradients: %s, was %s", Name(now.nonfinite),
                           Name(before.nonfinite));
  }
  if (now.lost_after != before.lost_after) {
    return absl::StrFormat("lost_after is %s, was %s", FormatDuration(now.lost_after),
                           FormatDuration(before.lost_after));
  }
  if (now.delay_compensation != before.delay_compensation) {
    return absl::StrFormat("delay_compensation is %.9g, was %.9g", now.delay_compensation,
                           before.delay_compensation);
  }
  std::string slices = ListDifference("slice", now.slices, before.slices, SliceText);
  if (!slices.empty()) return slices;
  std::string buckets = BucketDifference(now.slices, before.slices);
  if (!buckets.empty()) return buckets;
  return ListDifference("table", now.tables, before.tables, TableText);
}

void CopyFaultPolicy(const ShardConfig& from, ShardConfig& config) {
  config.step_timeout = from.step_timeout;
  config.nonfinite = from.nonfinite;
  config.lost_after = from.lost_after;
  config.delay_compensation = from.delay_compensation;
}

}  // namespace tandem::pserver
