#include "common/tensor/table_rules.h"

#include <array>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/nearest.h"

namespace tandem {
namespace {

struct Rule {
  const char* name;
  std::variant<int64_t TableRules::*, double TableRules::*> field;
  double min, max;
};

constexpr double kCountMax = 1 << 30;

const std::array<Rule, 6>& Rules() {
  static const std::array<Rule, 6> kRules = {
      {{"admit_count", &TableRules::admit_count, 1, kCountMax},
       {"admit_probability", &TableRules::admit_probability, 1e-9, 1},
       {"shrink_every", &TableRules::shrink_every, 0, kCountMax},
       {"decay", &TableRules::decay, 0, 1},
       {"shrink_score", &TableRules::shrink_score, 0, 1e9},
       {"ttl", &TableRules::ttl, 0, kCountMax}}};
  return kRules;
}

double Get(const TableRules& rules, const Rule& rule) {
  return std::visit([&rules](auto field) { return static_cast<double>(rules.*field); }, rule.field);
}

bool Set(const Rule& rule, const std::string& value, TableRules& rules) {
  if (const auto* whole = std::get_if<int64_t TableRules::*>(&rule.field)) {
    return absl::SimpleAtoi(value, &(rules.**whole));
  }
  return absl::SimpleAtod(value, &(rules.*std::get<double TableRules::*>(rule.field)));
}

}  // namespace

Status CheckRules(const TableRules& rules) {
  for (const Rule& rule : Rules()) {
    const double value = Get(rules, rule);
    if (value >= rule.min && value <= rule.max) continue;  // not so for NaN
    return InvalidArgument("table rule %s=%.9g must be in [%.9g, %.9g]", rule.name, value, rule.min,
                           rule.max);
  }
  const bool removes = rules.ttl > 0 || rules.shrink_score > 0;
  if (removes && rules.shrink_every == 0) {
    return InvalidArgument("table rules ttl and shrink_score have no effect without shrink_every");
  }
  if (!removes && (rules.shrink_every > 0 || rules.decay != 1)) {
    return InvalidArgument(
        "table rules shrink_every and decay have no effect without ttl or shrink_score");
  }
  return OkStatus();
}

StatusOr<TableRules> ParseTableRules(const std::string& text) {
  TableRules rules;
  for (const auto item : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    const Rule* found = nullptr;
    std::vector<std::string> names;
    for (const Rule& rule : Rules()) {
      names.push_back(rule.name);
      if (parts.first == rule.name) found = &rule;
    }
    if (found == nullptr) {
      return InvalidArgument("unknown table rule \"%s\"%s", parts.first,
                             OrDidYouMean(parts.first, names));
    }
    if (!Set(*found, parts.second, rules)) {
      return InvalidArgument("table rule %s=\"%s\" is no number of its kind", parts.first,
                             parts.second);
    }
  }
  TD_RETURN_IF_ERROR(CheckRules(rules));
  return rules;
}

std::string ToString(const TableRules& rules) {
  std::string text;
  for (const Rule& rule : Rules()) {
    if (Get(rules, rule) == Get(TableRules(), rule)) continue;
    text += absl::StrFormat("%s%s=%.17g", text.empty() ? "" : " ", rule.name, Get(rules, rule));
  }
  return text;
}

}  // namespace tandem
