#include "trainer/reader/table/column_values.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"

namespace tandem::reader {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kExactMax = 9007199254740992;  // 2^53; a double is exact for smaller whole numbers
constexpr size_t kNamesShown = 10;

// Returns a text of the file in quotes, shortened and without control characters, for a message.
std::string Shown(std::string_view text) {
  constexpr size_t kShownMax = 60;
  std::string out(text.substr(0, kShownMax));
  std::ranges::replace_if(out, absl::ascii_iscntrl, '?');
  return '"' + out + (text.size() > kShownMax ? "...\"" : "\"");
}

std::string Shown(const TableCell& cell) {
  return cell.is_text ? Shown(cell.text) : absl::StrFormat("%g", cell.number);
}

bool IsWhole(double number) { return std::floor(number) == number && std::abs(number) < kExactMax; }

// Returns the text of a number: the same as in a text file, so different numbers have different
// texts.
std::string TextOf(double number) {
  if (IsWhole(number)) return absl::StrFormat("%.0f", number + 0.0);
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), number);
  TD_REQUIRE(error == std::errc());
  return {text, end};
}

std::optional<double> NumberOfCell(const TableCell& cell) {
  if (cell.is_text) return ParseFinite(cell.text);
  return std::isfinite(cell.number) ? std::optional(cell.number) : std::nullopt;
}

// Parses `count` digits of `text` from position `at` on. nullopt: `text` has other characters at
// these positions, or is too short.
std::optional<int> Digits(std::string_view text, size_t at, size_t count) {
  if (text.size() < at + count) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(at, count)) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Parses an offset from UTC: Z, +hh:mm or +hhmm; an empty text means UTC. Returns the offset in
// seconds. nullopt: `text` is another text.
std::optional<double> ParseOffset(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  if (text[0] != '+' && text[0] != '-') return std::nullopt;
  const bool colon = text.size() == 6 && text[3] == ':';
  const auto hours = Digits(text, 1, 2), minutes = Digits(text, colon ? 4 : 3, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  if (text.size() != (colon ? 6 : 5)) return std::nullopt;
  return (text[0] == '-' ? -60.0 : 60.0) * (*hours * 60 + *minutes);
}

// Parses a time of day hh:mm, hh:mm:ss or hh:mm:ss.fraction, followed by an offset (ParseOffset).
// Returns seconds in UTC since the start of the day. nullopt: `text` is another text.
std::optional<double> ParseClock(std::string_view text) {
  const auto hours = Digits(text, 0, 2), minutes = Digits(text, 3, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59 || text[2] != ':') return std::nullopt;
  double seconds = *hours * 3600.0 + *minutes * 60.0;
  text.remove_prefix(5);
  if (text.starts_with(':')) {
    const auto whole = Digits(text, 1, 2);
    if (!whole || *whole > 60) return std::nullopt;
    seconds += *whole;
    text.remove_prefix(3);
    if (text.starts_with('.')) {
      size_t end = 1;
      double digit = 0.1;
      for (; end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]));
           ++end, digit /= 10) {
        seconds += digit * (text[end] - '0');
      }
      text.remove_prefix(end);
    }
  }
  const auto offset = ParseOffset(text);
  if (!offset) return std::nullopt;
  return seconds - *offset;
}

}  // namespace

const char* Name(ColumnKind kind) {
  constexpr const char* kNames[] = {"INFER",  "FLOAT",  "CATEGORY", "ONE_HOT", "LABEL",
                                    "TARGET", "WEIGHT", "TIME",     "IGNORE"};
  const auto at = static_cast<size_t>(kind);
  TD_REQUIRE(at < std::size(kNames));
  return kNames[at];
}

bool IsMissing(const TableCell& cell, std::span<const std::string> missing) {
  if (!cell.is_text) return std::isnan(cell.number);
  return cell.text.empty() || std::ranges::find(missing, cell.text) != missing.end();
}

std::optional<double> ParseFinite(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> ParseTime(std::string_view text) {
  if (const auto number = ParseFinite(text)) return number;
  const auto year = Digits(text, 0, 4), month = Digits(text, 5, 2), day = Digits(text, 8, 2);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const double start =
      static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400.0;
  if (text.size() == 10) return start;
  if (text[10] != 'T' && text[10] != ' ') return std::nullopt;
  const auto clock = ParseClock(text.substr(11));
  if (!clock) return std::nullopt;
  return start + *clock;
}

void KindGuess::Add(const TableCell& cell) {
  ++values_;
  if (NumberOfCell(cell)) {
    ++numbers_;
  } else if (cell.is_text && ParseTime(cell.text)) {
    ++times_;
  }
}

ColumnKind KindGuess::Result() const {
  if (values_ == 0) return ColumnKind::kIgnore;
  if (numbers_ * 10 >= values_ * 9) return ColumnKind::kFloat;
  if (times_ * 10 >= values_ * 9) return ColumnKind::kTime;
  return ColumnKind::kCategory;
}

ColumnValues::ColumnValues(std::string name, ColumnKind kind, std::vector<std::string> classes)
    : name_(std::move(name)), kind_(kind), given_classes_(std::move(classes)) {
  TD_REQUIRE(kind != ColumnKind::kInfer && kind != ColumnKind::kIgnore);
}

bool ColumnValues::IsText() const {
  return kind_ == ColumnKind::kCategory || kind_ == ColumnKind::kOneHot ||
         kind_ == ColumnKind::kLabel;
}

// Sets text_ to the class of the cell. A whole number always becomes the same text, so that 1.0 in
// one file and 1 in another file are one class, "1".
Status ColumnValues::ConvertLabel(const TableCell& cell) {
  const auto number = NumberOfCell(cell);
  const bool as_number = !cell.is_text || (number && IsWhole(*number));
  text_ = as_number ? TextOf(number.value_or(cell.number)) : std::string(cell.text);
  if (given_classes_.empty() && number && !IsWhole(*number)) {
    return DataLoss(
        "column \"%s\": %s is not a class, which is a whole number or a name (kind: TARGET is for "
        "numbers)",
        name_, Shown(cell));
  }
  if (!given_classes_.empty()) {
    if (cell.is_text && std::ranges::find(given_classes_, cell.text) != given_classes_.end()) {
      text_ = cell.text;
    }
    if (std::ranges::find(given_classes_, text_) != given_classes_.end()) return OkStatus();
    return DataLoss("column \"%s\": %s is none of the %d classes of the job", name_, Shown(cell),
                    given_classes_.size());
  }
  if (learned_ && !codes_of_texts_.contains(text_)) {
    return DataLoss("column \"%s\": the class %s is not in the training files", name_, Shown(cell));
  }
  return OkStatus();
}

Status ColumnValues::Convert(const TableCell& cell, bool missing) {
  number_ = kNone;
  text_.clear();
  if (missing) {
    const bool needed =
        kind_ == ColumnKind::kLabel || kind_ == ColumnKind::kTarget || kind_ == ColumnKind::kWeight;
    if (!needed) return OkStatus();
    return DataLoss("column \"%s\": the value is missing, and a %s needs one", name_,
                    absl::AsciiStrToLower(Name(kind_)));
  }
  if (kind_ == ColumnKind::kLabel) return ConvertLabel(cell);
  if (IsText()) {
    text_ = cell.is_text ? std::string(cell.text) : TextOf(cell.number);
    return OkStatus();
  }
  const bool time = kind_ == ColumnKind::kTime && cell.is_text;
  const auto number = time ? ParseTime(cell.text) : NumberOfCell(cell);
  if (!number || std::abs(*number) > std::numeric_limits<float>::max()) {
    return DataLoss("column \"%s\": %s is not a %s", name_, Shown(cell),
                    time ? "time such as 2026-01-31T12:00:00" : "number");
  }
  if (kind_ == ColumnKind::kWeight && *number < 0) {
    return DataLoss("column \"%s\": the weight %s is negative", name_, Shown(cell));
  }
  number_ = *number;
  return OkStatus();
}

void ColumnValues::Keep() {
  if (!IsText()) {
    numbers_.push_back(number_);
    return;
  }
  if (text_.empty()) {
    codes_.push_back(0);
    return;
  }
  const auto [it, added] = codes_of_texts_.try_emplace(text_, static_cast<uint32_t>(texts_.size()));
  if (added) texts_.push_back(text_);
  codes_.push_back(it->second);
}

// Learns mean and deviation from the training rows. Adds the numbers in the order of the rows, so
// that the sums do not depend on threads or ranks.
void ColumnValues::LearnNumbers(std::span<const RowPart> parts, bool standardise) {
  double sum = 0, first = kNone;
  int64_t count = 0;
  for (size_t r = 0; r < parts.size(); ++r) {
    if (parts[r] != RowPart::kTrain) continue;
    if (std::isnan(numbers_[r])) {
      ++missing_;
      continue;
    }
    sum += numbers_[r];
    first = std::isnan(first) ? numbers_[r] : std::min(first, numbers_[r]);
    ++count;
  }
  has_missing_ = missing_ > 0;
  mean_ = count > 0 ? sum / static_cast<double>(count) : 0;
  double squares = 0;
  for (size_t r = 0; r < parts.size(); ++r) {
    if (parts[r] != RowPart::kTrain || std::isnan(numbers_[r])) continue;
    squares += (numbers_[r] - mean_) * (numbers_[r] - mean_);
  }
  deviation_ = count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
  if (kind_ == ColumnKind::kTarget || kind_ == ColumnKind::kWeight) return;
  if (standardise) {
    shift_ = mean_;
    scale_ = deviation_ > 0 ? 1 / deviation_ : 1;
  } else if (kind_ == ColumnKind::kTime && count > 0) {
    shift_ = first;
  }
}

void ColumnValues::LearnVocabulary(std::span<const RowPart> parts) {
  id_of_code_.assign(texts_.size(), 0);
  uint32_t next = 0;
  for (size_t r = 0; r < parts.size(); ++r) {
    if (parts[r] != RowPart::kTrain) continue;
    const uint32_t code = codes_[r];
    if (code == 0) {
      ++missing_;
    } else if (id_of_code_[code] == 0) {
      id_of_code_[code] = ++next;
      if (names_.size() < kNamesShown) names_.push_back(texts_[code]);
    }
  }
  has_missing_ = missing_ > 0;
  ids_ = kind_ == ColumnKind::kCategory ? int64_t{next} + 1 : int64_t{next};
}

Status ColumnValues::LearnClasses() {
  std::vector<std::string> classes = given_classes_;
  if (classes.empty()) {
    classes.assign(texts_.begin() + 1, texts_.end());
    const bool numbers = std::ranges::all_of(
        classes, [](const std::string& text) { return ParseFinite(text).has_value(); });
    if (numbers) {
      std::ranges::sort(classes, {}, [](const std::string& text) { return *ParseFinite(text); });
    } else {
      std::ranges::sort(classes);
    }
  }
  if (classes.size() > kClassesMax) {
    return InvalidArgument(
        "column \"%s\" has %d classes, expected at most %d [TD1104]; hint: kind: TARGET for "
        "numbers",
        name_, classes.size(), kClassesMax);
  }
  for (const std::string& name : classes) {
    if (codes_of_texts_.try_emplace(name, static_cast<uint32_t>(texts_.size())).second) {
      texts_.push_back(name);
    }
  }
  id_of_code_.assign(texts_.size(), 0);
  for (size_t i = 0; i < classes.size(); ++i) {
    id_of_code_[codes_of_texts_.at(classes[i])] = static_cast<uint32_t>(i);
  }
  ids_ = static_cast<int64_t>(classes.size());
  classes.resize(std::min(classes.size(), kNamesShown));
  names_ = std::move(classes);
  return OkStatus();
}

Status ColumnValues::Learn(std::span<const RowPart> parts, bool standardise) {
  TD_REQUIRE(parts.size() == (IsText() ? codes_.size() : numbers_.size()) && !learned_);
  learned_ = true;
  if (kind_ == ColumnKind::kLabel) return LearnClasses();
  if (IsText()) {
    LearnVocabulary(parts);
  } else {
    LearnNumbers(parts, standardise);
  }
  return OkStatus();
}

float ColumnValues::NumberOf(size_t row) const {
  TD_REQUIRE(learned_ && row < numbers_.size());
  const double number = std::isnan(numbers_[row]) ? mean_ : numbers_[row];
  return static_cast<float>((number - shift_) * scale_);
}

bool ColumnValues::MissingAt(size_t row) const {
  if (IsText()) return codes_[row] == 0;
  return std::isnan(numbers_[row]);
}

uint32_t ColumnValues::IdOf(size_t row) const {
  TD_REQUIRE(learned_ && row < codes_.size());
  const uint32_t code = codes_[row];
  // Test files are read after Learn(), so they may have texts without an id.
  return code < id_of_code_.size() ? id_of_code_[code] : 0;
}

std::string ColumnValues::Describe() const {
  if (!IsText()) {
    std::string text = absl::StrFormat("mean %g, deviation %g", mean_, deviation_);
    if (missing_ > 0) text += absl::StrFormat(", %d missing", missing_);
    return text;
  }
  const auto count = kind_ == ColumnKind::kCategory ? ids_ - 1 : ids_;
  std::string text =
      absl::StrFormat("%d %s: %s", count, kind_ == ColumnKind::kLabel ? "classes" : "values",
                      absl::StrJoin(names_, ", "));
  if (static_cast<size_t>(count) > names_.size()) text += ", ...";
  if (missing_ > 0) text += absl::StrFormat("; %d missing", missing_);
  return text;
}

}  // namespace tandem::reader
