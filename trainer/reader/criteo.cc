#include "trainer/reader/criteo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "trainer/reader/click_records.h"
#include "trainer/reader/input/text_values.h"

namespace tandem::reader {
namespace {

constexpr size_t kFields = 1 + kCriteoNumbers + kCriteoCategories;
constexpr int64_t kIdsMax = int64_t{1} << 32;
constexpr size_t kRecordBytes = 128;  // typical size of a short record, used to reserve memory

// Converts numbers to ids or logarithms. A table contains the results for small numbers, because
// most numbers are small.
class Transform {
 public:
  explicit Transform(const CriteoOptions& options)
      : last_id_(static_cast<double>(options.number_ids - 1)) {
    for (size_t i = 0; i < kSmall; ++i) {
      ids_[i] = ComputeId(static_cast<double>(i));
      logs_[i] = ComputeLog(static_cast<double>(i));
    }
  }
  uint32_t Id(double x) const { return IsSmall(x) ? ids_[Small(x)] : ComputeId(std::floor(x)); }
  float Log(double x) const {
    return IsSmall(x) && x == std::floor(x) ? logs_[Small(x)] : ComputeLog(x);
  }

 private:
  static constexpr size_t kSmall = 4096;
  static constexpr double kLowest = -2, kPlain = 2;  // range of whole numbers with separate ids

  static bool IsSmall(double x) { return x >= 0 && x < static_cast<double>(kSmall); }
  static size_t Small(double x) { return static_cast<size_t>(x); }
  // Returns the id of a whole number.
  uint32_t ComputeId(double x) const {
    double id = std::max(x, kLowest) - kLowest + 1;
    if (x > kPlain) id = kPlain - kLowest + 1 + std::floor(std::log(x) * std::log(x));
    return static_cast<uint32_t>(std::min(id, last_id_));
  }
  static float ComputeLog(double x) { return static_cast<float>(std::log1p(std::max(x, 0.0))); }

  const double last_id_;
  std::array<uint32_t, kSmall> ids_;
  std::array<float, kSmall> logs_;
};

class CriteoSink final : public LineSink {
 public:
  // `bytes`: size of a piece of the file. The sink stores the records in `memory`.
  CriteoSink(const CriteoOptions& options, const Transform& transform, size_t bytes,
             DatasetArena* memory)
      : separator_(options.separator),
        dense_(options.dense),
        columns_(options.dense ? kCriteoCategories : kFields - 1),
        buckets_(static_cast<uint64_t>(options.category_ids - 1)),
        transform_(transform),
        memory_(memory) {
    const size_t records = bytes / kRecordBytes + 1;
    labels_.reserve(records);
    ids_.reserve(records * columns_);
    if (dense_) numbers_.reserve(records * kCriteoNumbers);
  }

  Status Add(std::string_view line) override;
  LinePiece Finish() override;

 private:
  const char separator_;
  const bool dense_;
  const size_t columns_;
  const uint64_t buckets_;
  const Transform& transform_;
  DatasetArena* const memory_;
  std::vector<uint8_t> labels_;
  std::vector<uint32_t> ids_;
  std::vector<float> numbers_;
};

LinePiece CriteoSink::Finish() {
  const size_t records = labels_.size();
  ClickPiece piece{memory_->Keep(ids_), memory_->Keep(numbers_), std::exchange(labels_, {})};
  return {std::make_shared<ClickPiece>(std::move(piece)), records};
}

Status CriteoSink::Add(std::string_view line) {
  std::string_view fields[kFields];
  const size_t count = SplitLine(line, separator_, fields, kFields);
  if (count != kFields) {
    return DataLoss("the record has %d fields, expected %d: a label, %d numbers and %d categories",
                    count, kFields, kCriteoNumbers, kCriteoCategories);
  }
  const std::string_view label = fields[0];
  if (label.size() != 1 || (label[0] != '0' && label[0] != '1')) {
    return DataLoss("the label is \"%s\", expected 0 or 1", std::string(label));
  }
  uint32_t ids[kFields - 1];
  float dense[kCriteoNumbers];
  for (size_t i = 0; i < kCriteoNumbers; ++i) {
    const std::string_view field = fields[1 + i];
    std::optional<double> number;
    if (!field.empty() && !(number = ParseNumber(field)).has_value()) {
      return DataLoss("column I%d: \"%s\" is not a number", i + 1, std::string(field));
    }
    if (dense_) {
      dense[i] = number.has_value() ? transform_.Log(*number) : 0.0f;
    } else {
      ids[i] = number.has_value() ? transform_.Id(*number) : 0;
    }
  }
  uint32_t* const categories = ids + (columns_ - kCriteoCategories);
  for (size_t i = 0; i < kCriteoCategories; ++i) {
    const std::string_view field = fields[1 + kCriteoNumbers + i];
    categories[i] = field.empty() ? 0 : static_cast<uint32_t>(HashToRange(field, i, buckets_) + 1);
  }
  labels_.push_back(static_cast<uint8_t>(label[0] - '0'));
  ids_.insert(ids_.end(), ids, ids + columns_);
  if (dense_) numbers_.insert(numbers_.end(), dense, dense + kCriteoNumbers);
  return OkStatus();
}

Status Check(const CriteoOptions& options) {
  if (options.category_ids < 2 || options.category_ids > kIdsMax) {
    return InvalidArgument("data.criteo.category_ids is %d, expected 2 to 2^32 [TD1104]",
                           options.category_ids);
  }
  if (options.number_ids < 7 || options.number_ids > kIdsMax) {
    return InvalidArgument("data.criteo.number_ids is %d, expected 7 to 2^32 [TD1104]",
                           options.number_ids);
  }
  return OkStatus();
}

ClickColumns ColumnsOf(const CriteoOptions& options) {
  ClickColumns columns;
  if (options.dense) {
    columns.dense = kCriteoNumbers;
  } else {
    columns.ids.assign(kCriteoNumbers, options.number_ids);
  }
  columns.ids.insert(columns.ids.end(), kCriteoCategories, options.category_ids);
  return columns;
}

bool NamesColumns(std::string_view first_line) {
  return !first_line.empty() && absl::ascii_isalpha(first_line[0]);
}

class CriteoLines final : public LineFormat {
 public:
  explicit CriteoLines(const CriteoOptions& options)
      : options_(options),
        transform_(options),
        columns_(ColumnsOf(options)),
        fields_(ClickRecords::FieldsOf(columns_)),
        empty_("0" + std::string(kFields - 1, options.separator)) {
    empty_bytes_ = empty_.size();
    empty_.append(kLineSlack, '\0');
  }

  const std::vector<SampleField>& fields() const override { return fields_; }
  bool IsRecord(std::string_view line, bool first) const override {
    return !IsBlankLine(line) && !(first && NamesColumns(line));
  }
  Status Parse(std::span<const std::string_view> lines, const OnBadLine& on_bad,
               std::span<void* const> out) const override {
    auto records = std::make_shared<ClickRecords>(columns_);
    CriteoSink sink(options_, transform_, lines.size() * kRecordBytes, records->memory());
    TD_RETURN_IF_ERROR(
        AddLines(lines, std::string_view(empty_).substr(0, empty_bytes_), on_bad, sink));
    LinePiece piece = sink.Finish();
    records->Add(std::move(*static_cast<ClickPiece*>(piece.data.get())));
    return FillAll(*ClickRecords::View(records, 0, piece.records, "the batch"), out);
  }

 private:
  const CriteoOptions options_;
  const Transform transform_;
  const ClickColumns columns_;
  const std::vector<SampleField> fields_;
  std::string empty_;  // a record without values, and kLineSlack bytes
  size_t empty_bytes_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<LineFormat>> MakeCriteoLines(const CriteoOptions& options) {
  TD_RETURN_IF_ERROR(Check(options));
  return std::make_unique<CriteoLines>(options);
}

StatusOr<TrainAndTest> OpenCriteo(const CriteoOptions& options) {
  TD_RETURN_IF_ERROR(Check(options));
  RecordFiles files = options.files;
  files.reading.names_columns = NamesColumns;
  const Transform transform(options);
  auto records = std::make_shared<ClickRecords>(ColumnsOf(options));
  const auto make = [&](size_t bytes) {
    return std::make_unique<CriteoSink>(options, transform, bytes, records->memory());
  };
  TD_ASSIGN_OR_RETURN(LineRecords read, ReadLineFiles(files, make));
  for (LinePiece& piece : read.pieces) {
    records->Add(std::move(*static_cast<ClickPiece*>(piece.data.get())));
  }
  return MakeViews(files, read.split, std::move(read.warnings),
                   [&](uint64_t begin, uint64_t size, const auto& name) {
                     return ClickRecords::View(records, begin, size, name);
                   });
}

}  // namespace tandem::reader
