#include "common/tables/table_rules.h"

#include <algorithm>
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
  std::variant<int64_t TableRules::*, double TableRules::*, RowAccessorKind TableRules::*> field;
  double min, max;
};

constexpr double kCountMax = 1 << 30;
constexpr double kScoreMax = 1e9;
// Maximum of ttl_s / shrink_every_s. It is less than RowCheckSchedule::kRecentMax, so a server
// remembers all checks of the last ttl_s seconds.
constexpr int64_t kPeriodsMax = 10'000;
constexpr std::array<const char*, 2> kAccessors = {"common", "ctr"};

const std::array<Rule, 12>& Rules() {
  static const std::array<Rule, 12> kRules = {
      {{"accessor", &TableRules::accessor, 0, kAccessors.size() - 1},
       {"nonclk_coeff", &TableRules::nonclk_coeff, 0, 1e3},
       {"click_coeff", &TableRules::click_coeff, 0, 1e3},
       {"embedx_threshold", &TableRules::embedx_threshold, 0, kScoreMax},
       {"admit_count", &TableRules::admit_count, 1, kCountMax},
       {"admit_probability", &TableRules::admit_probability, 1e-9, 1},
       {"shrink_every", &TableRules::shrink_every, 0, kCountMax},
       {"shrink_every_s", &TableRules::shrink_every_s, 0, kCountMax},
       {"decay", &TableRules::decay, 0, 1},
       {"shrink_score", &TableRules::shrink_score, 0, kScoreMax},
       {"ttl", &TableRules::ttl, 0, kCountMax},
       {"ttl_s", &TableRules::ttl_s, 0, kCountMax}}};
  return kRules;
}

double Get(const TableRules& rules, const Rule& rule) {
  return std::visit([&rules](auto field) { return static_cast<double>(rules.*field); }, rule.field);
}

bool Set(const Rule& rule, const std::string& value, TableRules& rules) {
  if (const auto* kind = std::get_if<RowAccessorKind TableRules::*>(&rule.field)) {
    const auto found = std::find(kAccessors.begin(), kAccessors.end(), value);
    rules.** kind = static_cast<RowAccessorKind>(found - kAccessors.begin());
    return found != kAccessors.end();
  }
  if (const auto* whole = std::get_if<int64_t TableRules::*>(&rule.field)) {
    return absl::SimpleAtoi(value, &(rules.**whole));
  }
  return absl::SimpleAtod(value, &(rules.*std::get<double TableRules::*>(rule.field)));
}

// Checks the rules that have an effect only with accessor=ctr.
Status CheckCounts(const TableRules& rules) {
  if (rules.accessor == RowAccessorKind::kCtr) return OkStatus();
  const TableRules none;
  if (rules.nonclk_coeff == none.nonclk_coeff && rules.click_coeff == none.click_coeff &&
      rules.embedx_threshold == none.embedx_threshold) {
    return OkStatus();
  }
  return InvalidArgument(
      "table rules nonclk_coeff, click_coeff and embedx_threshold have no effect without "
      "accessor=ctr [TD1107]");
}

// Checks the rules by which rows are removed.
Status CheckRemoval(const TableRules& rules) {
  const bool versions = rules.shrink_every > 0, seconds = rules.shrink_every_s > 0;
  if (versions && seconds) {
    return InvalidArgument(
        "table rules shrink_every and shrink_every_s are both set, expected one of them [TD1107]");
  }
  if (rules.ttl > 0 && seconds) {
    return InvalidArgument(
        "table rule ttl has no effect with shrink_every_s [TD1107]; hint: set ttl_s, or "
        "shrink_every instead of shrink_every_s");
  }
  if (rules.ttl_s > 0 && versions) {
    return InvalidArgument(
        "table rule ttl_s has no effect with shrink_every [TD1107]; hint: set ttl, or "
        "shrink_every_s instead of shrink_every");
  }
  const bool removes = rules.ttl > 0 || rules.ttl_s > 0 || rules.shrink_score > 0;
  if (removes && !versions && !seconds) {
    return InvalidArgument(
        "table rules ttl, ttl_s and shrink_score have no effect without shrink_every or "
        "shrink_every_s [TD1107]");
  }
  if (!removes && (versions || seconds || rules.decay != 1)) {
    return InvalidArgument(
        "table rules shrink_every, shrink_every_s and decay have no effect without ttl, ttl_s or "
        "shrink_score [TD1107]");
  }
  if (seconds && rules.ttl_s / rules.shrink_every_s > kPeriodsMax) {
    return InvalidArgument(
        "table rule ttl_s=%d is more than %d times shrink_every_s=%d [TD1104]; hint: increase "
        "shrink_every_s",
        rules.ttl_s, kPeriodsMax, rules.shrink_every_s);
  }
  return OkStatus();
}

std::string ValueText(const TableRules& rules, const Rule& rule) {
  if (const auto* kind = std::get_if<RowAccessorKind TableRules::*>(&rule.field)) {
    return Name(rules.**kind);
  }
  return absl::StrFormat("%.17g", Get(rules, rule));
}

}  // namespace

const char* Name(RowAccessorKind kind) { return kAccessors[static_cast<size_t>(kind)]; }

float ScoreOf(const TableRules& rules, float show, float click) {
  if (rules.accessor == RowAccessorKind::kCommon) return show;
  return static_cast<float>(rules.nonclk_coeff) * (show - click) +
         static_cast<float>(rules.click_coeff) * click;
}

Status CheckRules(const TableRules& rules) {
  for (const Rule& rule : Rules()) {
    const double value = Get(rules, rule);
    // This condition is false if `value` is NaN.
    if (value >= rule.min && value <= rule.max) continue;
    return InvalidArgument("table rule %s=%.9g is out of range, expected %.9g to %.9g [TD1104]",
                           rule.name, value, rule.min, rule.max);
  }
  TD_RETURN_IF_ERROR(CheckCounts(rules));
  return CheckRemoval(rules);
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
      return InvalidArgument("unknown table rule \"%s\" [TD1101]%s", parts.first,
                             OrDidYouMean(parts.first, names));
    }
    if (!Set(*found, parts.second, rules)) {
      // Error texts; the index is the type of the field.
      constexpr std::array<const char*, 3> kFaults = {"not a whole number", "not a number",
                                                      "unknown, expected common or ctr"};
      return InvalidArgument("table rule %s=\"%s\" is %s [TD1103]", parts.first, parts.second,
                             kFaults[found->field.index()]);
    }
  }
  TD_RETURN_IF_ERROR(CheckRules(rules));
  return rules;
}

std::string ToString(const TableRules& rules) {
  std::string text;
  for (const Rule& rule : Rules()) {
    if (Get(rules, rule) == Get(TableRules(), rule)) continue;
    text += absl::StrFormat("%s%s=%s", text.empty() ? "" : " ", rule.name, ValueText(rules, rule));
  }
  return text;
}

}  // namespace tandem
