#include "trainer/reader/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/rng.h"
#include "trainer/reader/csv_records.h"

namespace tandem {
namespace {

// One column: learns from the training file, then turns values into ids of [0, column.ids).
class Encoder {
 public:
  explicit Encoder(CsvColumn column) : column_(std::move(column)) {}

  Status Learn(std::string_view value);
  void Finish();
  // Of a value that is not missing.
  StatusOr<int64_t> Id(std::string_view value) const;

 private:
  StatusOr<float> Number(std::string_view value) const;

  CsvColumn column_;
  std::map<std::string, int64_t, std::less<>> counts_;  // kVocabulary, while learning
  std::unordered_map<std::string, int64_t> ids_;        // kVocabulary
  std::vector<float> numbers_;                          // kNumeric, while learning
  std::vector<float> bounds_;                           // kNumeric, ascending
};

StatusOr<float> Encoder::Number(std::string_view value) const {
  float number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error == std::errc() && stop == end && std::isfinite(number)) return number;
  return DataLoss("column \"%s\": \"%s\" is no number", column_.name, std::string(value));
}

Status Encoder::Learn(std::string_view value) {
  if (column_.kind == CsvColumn::kNumeric) {
    TD_ASSIGN_OR_RETURN(const float number, Number(value));
    numbers_.push_back(number);
  } else if (column_.kind == CsvColumn::kVocabulary) {
    const auto it = counts_.find(value);
    if (it == counts_.end()) {
      counts_.emplace(value, 1);
    } else {
      ++it->second;
    }
  }
  return OkStatus();
}

void Encoder::Finish() {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [value, count] : counts_) order.emplace_back(-count, value);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size() && std::cmp_less(i, column_.ids - 1); ++i) {
    ids_[order[i].second] = static_cast<int64_t>(i) + 1;
  }
  counts_.clear();

  std::sort(numbers_.begin(), numbers_.end());
  // A bucket takes its share of what is left and all that equals its last number, so that a number
  // that most records have takes one bucket and leaves the others to the rest.
  const size_t n = numbers_.size();
  for (size_t at = 0, left = static_cast<size_t>(column_.ids - 1); left > 1 && at < n; --left) {
    at += std::max<size_t>((n - at) / left, 1);
    while (at < n && numbers_[at] == numbers_[at - 1]) ++at;
    if (at < n) bounds_.push_back(numbers_[at]);
  }
  numbers_ = {};
}

StatusOr<int64_t> Encoder::Id(std::string_view value) const {
  if (column_.kind == CsvColumn::kNumeric) {
    TD_ASSIGN_OR_RETURN(const float number, Number(value));
    return std::upper_bound(bounds_.begin(), bounds_.end(), number) - bounds_.begin() + 1;
  }
  if (column_.kind == CsvColumn::kHash) {
    const auto buckets = static_cast<uint64_t>(column_.ids - 1);
    // The upper bits of FNV-1a are the better mixed ones.
    return static_cast<int64_t>((StableHash(value) >> 16) % buckets) + 1;
  }
  const auto it = ids_.find(std::string(value));
  return it == ids_.end() ? 0 : it->second;
}

class Csv final : public Dataset {
 public:
  Csv(std::string path, int64_t columns, int64_t ids, std::vector<uint32_t> values,
      std::vector<uint8_t> labels)
      : path_(std::move(path)),
        columns_(static_cast<size_t>(columns)),
        values_(std::move(values)),
        labels_(std::move(labels)) {
    fields_ = {{"ids", {DType::kI64, {columns}}, ids}, {"label", {DType::kI64, {1}}, 2}};
  }

  uint32_t size() const override { return static_cast<uint32_t>(labels_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    auto* values = static_cast<int64_t*>(out[0]);
    auto* labels = static_cast<int64_t*>(out[1]);
    for (const uint32_t id : ids) {
      if (id >= size()) return OutOfRange("%s: sample %d of %d", path_, id, size());
      values = std::copy_n(values_.begin() + static_cast<int64_t>(id * columns_), columns_, values);
      *labels++ = labels_[id];
    }
    return OkStatus();
  }
  std::string Describe() const override {
    return absl::StrFormat("%s: %d records of %d columns", path_, size(), columns_);
  }

 private:
  const std::string path_;
  const size_t columns_;
  const std::vector<uint32_t> values_;  // [records, columns]
  const std::vector<uint8_t> labels_;
  std::vector<SampleField> fields_;
};

class Opener {
 public:
  explicit Opener(const CsvOptions& options) : options_(options) {}
  StatusOr<CsvData> Run();

 private:
  Status Check();
  StatusOr<size_t> Position(const std::string& column) const;
  StatusOr<uint8_t> Label(std::string_view value) const;
  bool Missing(std::string_view value) const { return value.empty() || value == options_.missing; }
  StatusOr<std::unique_ptr<Dataset>> Encode(const std::string& path, uint32_t samples_max,
                                            std::vector<std::string>* warnings);
  Status Learn();

  const CsvOptions& options_;
  std::vector<std::string> names_;  // of the training file
  size_t label_at_ = 0;
  std::vector<size_t> at_;  // of options_.columns
  std::vector<int64_t> base_;
  int64_t ids_ = 0;
  std::vector<Encoder> encoders_;
};

StatusOr<size_t> Opener::Position(const std::string& column) const {
  const auto it = std::find(names_.begin(), names_.end(), column);
  if (it != names_.end()) return static_cast<size_t>(it - names_.begin());
  return InvalidArgument("%s:1: there is no column \"%s\"%s", options_.train_path, column,
                         OrDidYouMean(column, names_));
}

StatusOr<uint8_t> Opener::Label(std::string_view value) const {
  for (const uint8_t label : {0, 1}) {
    const auto& texts = label == 1 ? options_.positive_labels : options_.negative_labels;
    if (std::find(texts.begin(), texts.end(), value) != texts.end()) return label;
  }
  return DataLoss("label \"%s\" is neither positive nor negative", std::string(value));
}

Status Opener::Check() {
  if (options_.columns.empty()) return InvalidArgument("a csv needs at least one column");
  if (options_.positive_labels.empty() || options_.negative_labels.empty()) {
    return InvalidArgument("a csv needs positive_label and negative_label");
  }
  TD_ASSIGN_OR_RETURN(names_, CsvColumnNames(options_.train_path, options_.separator));
  TD_ASSIGN_OR_RETURN(label_at_, Position(options_.label_column));
  for (const CsvColumn& column : options_.columns) {
    TD_ASSIGN_OR_RETURN(at_.emplace_back(), Position(column.name));
    if (column.ids < 2 || column.ids > int64_t{1} << 30) {
      return InvalidArgument("column \"%s\": ids is %d; it must be in [2, 2^30]", column.name,
                             column.ids);
    }
    base_.push_back(ids_);
    ids_ += column.ids;
    encoders_.emplace_back(column);
  }
  if (ids_ > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("the columns have %d ids together; at most 2^32 are built", ids_);
  }
  return OkStatus();
}

// Records are bad for the same reasons here as in Encode, which tells of them.
Status Opener::Learn() {
  const auto learn = [&](CsvFields fields) -> Status {
    TD_RETURN_IF_ERROR(Label(fields[label_at_]).status());
    for (size_t c = 0; c < at_.size(); ++c) {
      if (!Missing(fields[at_[c]])) TD_RETURN_IF_ERROR(encoders_[c].Learn(fields[at_[c]]));
    }
    return OkStatus();
  };
  TD_RETURN_IF_ERROR(VisitCsv(options_.train_path, options_.separator, names_,
                              {options_.bad_records_max, nullptr}, learn));
  for (Encoder& encoder : encoders_) encoder.Finish();
  return OkStatus();
}

StatusOr<std::unique_ptr<Dataset>> Opener::Encode(const std::string& path, uint32_t samples_max,
                                                  std::vector<std::string>* warnings) {
  std::vector<uint32_t> values, record(at_.size());
  std::vector<uint8_t> labels;
  const auto encode = [&](CsvFields fields) -> Status {
    if (samples_max > 0 && labels.size() == samples_max) return OkStatus();
    TD_ASSIGN_OR_RETURN(const uint8_t label, Label(fields[label_at_]));
    for (size_t c = 0; c < at_.size(); ++c) {
      int64_t id = 0;
      if (!Missing(fields[at_[c]])) {
        TD_ASSIGN_OR_RETURN(id, encoders_[c].Id(fields[at_[c]]));
      }
      record[c] = static_cast<uint32_t>(base_[c] + id);
    }
    values.insert(values.end(), record.begin(), record.end());
    labels.push_back(label);
    return OkStatus();
  };
  TD_RETURN_IF_ERROR(
      VisitCsv(path, options_.separator, names_, {options_.bad_records_max, warnings}, encode));
  if (labels.empty()) return DataLoss("%s: holds no record", path);
  if (labels.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("%s: more than 2^32 records", path);
  }
  return std::make_unique<Csv>(path, static_cast<int64_t>(at_.size()), ids_, std::move(values),
                               std::move(labels));
}

StatusOr<CsvData> Opener::Run() {
  TD_RETURN_IF_ERROR(Check());
  TD_RETURN_IF_ERROR(Learn());
  CsvData data;
  TD_ASSIGN_OR_RETURN(data.train,
                      Encode(options_.train_path, options_.samples_max, &data.warnings));
  if (options_.test_path.empty()) return data;
  TD_ASSIGN_OR_RETURN(const auto names, CsvColumnNames(options_.test_path, options_.separator));
  if (names != names_) {
    return InvalidArgument("%s:1: the columns are other ones than those of %s", options_.test_path,
                           options_.train_path);
  }
  TD_ASSIGN_OR_RETURN(data.test, Encode(options_.test_path, 0, &data.warnings));
  return data;
}

}  // namespace

StatusOr<CsvData> OpenCsv(const CsvOptions& options) { return Opener(options).Run(); }

}  // namespace tandem
