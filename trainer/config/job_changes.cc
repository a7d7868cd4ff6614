#include "trainer/config/job_changes.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tandem::trainer {
namespace {

using Values = std::map<std::string, std::string>;

bool Matters(absl::string_view name) {
  if (name == "data.reader_threads" || name == "data.max_bad_records") return false;
  for (const char* group : {"model.", "data.", "optimizer.", "strategy."})
    if (absl::StartsWith(name, group)) return true;
  return name == "batch_size" || name == "global_batch_size" || name == "epochs" || name == "seed";
}

// Parses lines of the form "name: value   (origin)".
Values ValuesOf(const std::string& text) {
  Values values;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(": ");
    const size_t origin = line.rfind("   (");
    if (colon == line.npos || origin == line.npos || origin < colon + 2) continue;
    const absl::string_view name = line.substr(0, colon);
    if (Matters(name))
      values.emplace(std::string(name), std::string(line.substr(colon + 2, origin - colon - 2)));
  }
  return values;
}

std::string ValueOf(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "default" : found->second;
}

}  // namespace

std::string ChangesOfJob(const std::string& before, const std::string& now) {
  const Values old_values = ValuesOf(before);
  const Values new_values = ValuesOf(now);
  Values all = old_values;
  all.insert(new_values.begin(), new_values.end());
  std::vector<std::string> changes;
  for (const auto& [name, unused] : all) {
    std::string was = ValueOf(old_values, name);
    std::string is = ValueOf(new_values, name);
    if (was != is) changes.push_back(absl::StrCat(name, " ", was, " -> ", is));
  }
  return absl::StrJoin(changes, ", ");
}

}  // namespace tandem::trainer
