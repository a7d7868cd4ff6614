#include "common/base/agreement.h"

#include "absl/strings/str_format.h"

namespace tandem {
namespace {

std::string Shown(const std::string* value) {
  if (value == nullptr) return "none";
  return value->empty() ? "\"\"" : *value;
}

}  // namespace

std::string Disagreement(const Agreement& a, std::string_view a_name, const Agreement& b,
                         std::string_view b_name) {
  std::string first;
  int more = 0;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool in_a = i < a.size() && (j == b.size() || a[i].first <= b[j].first);
    const bool in_b = j < b.size() && (i == a.size() || b[j].first <= a[i].first);
    const std::string* of_a = in_a ? &a[i].second : nullptr;
    const std::string* of_b = in_b ? &b[j].second : nullptr;
    const std::string& name = in_a ? a[i].first : b[j].first;
    i += in_a ? 1 : 0;
    j += in_b ? 1 : 0;
    if (in_a && in_b && *of_a == *of_b) continue;
    if (first.empty()) {
      first = absl::StrFormat("%s has %s %s, %s has %s", a_name, name, Shown(of_a), b_name,
                              Shown(of_b));
    } else {
      ++more;
    }
  }
  if (more > 0) {
    first += absl::StrFormat(" (%d more %s)", more, more == 1 ? "setting differs" : "differ");
  }
  return first;
}

}  // namespace tandem
