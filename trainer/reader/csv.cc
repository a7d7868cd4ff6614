#include "trainer/reader/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/rng.h"
#include "trainer/reader/click_records.h"
#include "trainer/reader/csv_columns.h"
#include "trainer/reader/input/text_values.h"

namespace tandem::reader {
namespace {

// The positions of the label and of the used columns in a line.
struct CsvPlaces {
  size_t fields = 0;  // number of fields of a line
  size_t label = 0;
  std::vector<size_t> columns;  // position of each column in options.columns
};

class CsvSink final : public LineSink {
 public:
  // `bytes`: size of a piece of the file. The sink stores the records in `memory`.
  CsvSink(const CsvOptions& options, const CsvPlaces& places, size_t bytes, DatasetArena* memory)
      : options_(options),
        places_(places),
        bytes_(bytes),
        memory_(memory),
        fields_(places.fields),
        texts_(places.columns.size()) {}

  Status Add(std::string_view line) override;
  LinePiece Finish() override;

 private:
  StatusOr<size_t> Split(std::string_view line);
  void Reserve(size_t line_bytes);
  StatusOr<uint8_t> Label(std::string_view value) const;
  bool Missing(std::string_view value) const {
    return value.empty() || (value.size() == options_.missing.size() &&
                             value[0] == options_.missing[0] && value == options_.missing);
  }
  Status Convert(const CsvColumn& column, std::string_view value, uint32_t& out) const;
  Status ConvertAll(uint32_t* record) const;

  const CsvOptions& options_;
  const CsvPlaces& places_;
  const size_t bytes_;  // size of the piece in bytes
  DatasetArena* const memory_;
  std::vector<std::string_view> fields_;
  std::string quoted_;  // memory for texts of fields_ that had quotes
  std::vector<uint32_t> values_;
  std::vector<uint8_t> labels_;
  std::vector<TextCodes> texts_;
};

LinePiece CsvSink::Finish() {
  const size_t records = labels_.size();
  CsvPiece piece{memory_->Keep(values_), std::exchange(labels_, {}),
                 std::exchange(texts_, std::vector<TextCodes>(places_.columns.size()))};
  return {std::make_shared<CsvPiece>(std::move(piece)), records};
}

// Reserves memory for a piece whose lines are as long as its first line, and one eighth more.
void CsvSink::Reserve(size_t line_bytes) {
  const size_t records = (bytes_ + bytes_ / 8) / (line_bytes + 1) + 1;
  values_.reserve(records * places_.columns.size());
  labels_.reserve(records);
}

StatusOr<uint8_t> CsvSink::Label(std::string_view value) const {
  for (const uint8_t label : {0, 1}) {
    const auto& texts = label == 1 ? options_.positive_labels : options_.negative_labels;
    if (std::find(texts.begin(), texts.end(), value) != texts.end()) return label;
  }
  return DataLoss("the label is \"%s\", expected positive_label or negative_label",
                  std::string(value));
}

Status CsvSink::Convert(const CsvColumn& column, std::string_view value, uint32_t& out) const {
  const bool missing = Missing(value);
  if (column.kind == CsvColumn::kHash) {
    const auto buckets = static_cast<uint64_t>(column.ids - 1);
    // Uses the upper bits of FNV-1a, because they are mixed better than the lower bits.
    out = missing ? 0 : static_cast<uint32_t>((StableHash(value) >> 16) % buckets) + 1;
  } else if (column.kind == CsvColumn::kNumeric) {
    float number = std::numeric_limits<float>::quiet_NaN();
    if (!missing) {
      if (const auto digits = ParseDigits(value); digits.has_value()) {
        number = static_cast<float>(*digits);
      } else if (const auto parsed = ParseNumber(value); parsed.has_value()) {
        number = static_cast<float>(*parsed);
      }
      if (!std::isfinite(number)) {
        return DataLoss("column \"%s\": \"%s\" is not a number", column.name, std::string(value));
      }
    }
    out = NumberBits(number);
  }
  return OkStatus();
}

// Converts fields_ to the values of a record, except columns of kind kVocabulary. The texts of
// these columns are counted only after the whole record was accepted.
Status CsvSink::ConvertAll(uint32_t* record) const {
  for (size_t c = 0; c < places_.columns.size(); ++c) {
    TD_RETURN_IF_ERROR(Convert(options_.columns[c], fields_[places_.columns[c]], record[c]));
  }
  return OkStatus();
}

// Splits `line` into fields_. Returns the number of fields in the line.
StatusOr<size_t> CsvSink::Split(std::string_view line) {
  const bool plain = IsPlain(line);
  if (!plain && line.find('"') != std::string_view::npos) {
    return SplitQuotedLine(line, options_.separator, quoted_, fields_.data(), fields_.size());
  }
  const size_t count = SplitLine(line, options_.separator, fields_.data(), fields_.size());
  if (plain) return count;
  // Trims only the fields of this line. The remaining elements of fields_ are from an earlier line,
  // and their texts may point to freed memory.
  const auto end = fields_.begin() + static_cast<ptrdiff_t>(std::min(count, fields_.size()));
  std::transform(fields_.begin(), end, fields_.begin(), Trimmed);
  return count;
}

Status CsvSink::Add(std::string_view line) {
  TD_ASSIGN_OR_RETURN(const size_t count, Split(line));
  if (count != fields_.size()) {
    return DataLoss("the record has %d fields, but the first line names %d columns", count,
                    fields_.size());
  }
  TD_ASSIGN_OR_RETURN(const uint8_t label, Label(fields_[places_.label]));
  if (labels_.empty()) Reserve(line.size());
  const size_t columns = places_.columns.size(), before = values_.size();
  values_.resize(before + columns);
  uint32_t* const record = values_.data() + before;
  if (Status status = ConvertAll(record); !status.ok()) {
    values_.resize(before);
    return status;
  }
  for (size_t c = 0; c < columns; ++c) {
    if (options_.columns[c].kind != CsvColumn::kVocabulary) continue;
    const std::string_view field = fields_[places_.columns[c]];
    record[c] = Missing(field) ? 0 : texts_[c].Code(field);
  }
  labels_.push_back(label);
  return OkStatus();
}

// Returns the column names in the first line of the file.
StatusOr<std::vector<std::string>> ColumnNames(const std::string& path, char separator) {
  TD_ASSIGN_OR_RETURN(const std::string line, FirstLine(path));
  if (line.empty()) return DataLoss("%s:1: the file is empty [TD2006]", path);
  std::string text;
  std::vector<std::string_view> names(line.size() + 1);
  const StatusOr<size_t> count = SplitQuotedLine(line, separator, text, names.data(), names.size());
  if (!count.ok()) return Annotate(count.status(), path + ":1");
  return std::vector<std::string>(names.begin(), names.begin() + static_cast<ptrdiff_t>(*count));
}

class Opener {
 public:
  explicit Opener(const CsvOptions& options) : options_(options) {}
  StatusOr<TrainAndTest> Run();

 private:
  Status Check();
  StatusOr<size_t> Position(const std::string& column) const;
  StatusOr<std::vector<CsvPiece>> Read(const std::string& path);

  const CsvOptions& options_;
  std::vector<std::string> names_;  // column names of the training file
  CsvPlaces places_;
  ClickColumns columns_;
  std::shared_ptr<ClickRecords> records_;
  std::vector<std::string> warnings_;
};

StatusOr<size_t> Opener::Position(const std::string& column) const {
  const auto it = std::find(names_.begin(), names_.end(), column);
  if (it != names_.end()) return static_cast<size_t>(it - names_.begin());
  return InvalidArgument("%s:1: there is no column \"%s\" [TD2007]%s", options_.train_path, column,
                         OrDidYouMean(column, names_));
}

Status Opener::Check() {
  if (options_.columns.empty())
    return InvalidArgument("data.csv names no column, expected at least one [TD1106]");
  if (options_.positive_labels.empty() || options_.negative_labels.empty()) {
    return InvalidArgument("data.csv lacks positive_label or negative_label [TD1106]");
  }
  TD_ASSIGN_OR_RETURN(names_, ColumnNames(options_.train_path, options_.separator));
  places_.fields = names_.size();
  TD_ASSIGN_OR_RETURN(places_.label, Position(options_.label_column));
  for (const CsvColumn& column : options_.columns) {
    TD_ASSIGN_OR_RETURN(places_.columns.emplace_back(), Position(column.name));
    if (column.ids < 2 || column.ids > int64_t{1} << 30) {
      return InvalidArgument("data.csv.column \"%s\": ids is %d, expected 2 to 2^30 [TD1104]",
                             column.name, column.ids);
    }
    columns_.ids.push_back(column.ids);
  }
  return OkStatus();
}

StatusOr<std::vector<CsvPiece>> Opener::Read(const std::string& path) {
  LineReading reading = options_.reading;
  reading.names_columns = [](std::string_view) { return true; };
  const auto make = [this](size_t bytes) {
    return std::make_unique<CsvSink>(options_, places_, bytes, records_->memory());
  };
  TD_ASSIGN_OR_RETURN(auto lines, ReadLines(path, reading, make, &warnings_));
  std::vector<CsvPiece> pieces;
  for (LinePiece& piece : lines) {
    pieces.push_back(std::move(*static_cast<CsvPiece*>(piece.data.get())));
  }
  return pieces;
}

StatusOr<TrainAndTest> Opener::Run() {
  TD_RETURN_IF_ERROR(Check());
  records_ = std::make_shared<ClickRecords>(columns_);
  TD_ASSIGN_OR_RETURN(std::vector<CsvPiece> pieces, Read(options_.train_path));
  const std::vector<ColumnIds> columns = ColumnIds::Learn(options_.columns, pieces);
  uint64_t train = 0;
  for (const CsvPiece& piece : pieces) train += piece.labels.size();
  if (!options_.test_path.empty()) {
    TD_ASSIGN_OR_RETURN(const auto names, ColumnNames(options_.test_path, options_.separator));
    if (names != names_) {
      return InvalidArgument("%s:1: the columns differ from those of %s [TD2007]",
                             options_.test_path, options_.train_path);
    }
    TD_ASSIGN_OR_RETURN(std::vector<CsvPiece> test, Read(options_.test_path));
    std::move(test.begin(), test.end(), std::back_inserter(pieces));
  }
  for (CsvPiece& piece : pieces) {
    for (const ColumnIds& column : columns) column.Encode(piece);
    records_->Add({std::move(piece.values), {}, std::move(piece.labels)});
  }
  if (records_->size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("%s has more than 2^32 records, which is not supported",
                           options_.train_path);
  }
  const uint64_t wanted = options_.samples_max > 0 ? options_.samples_max : train;
  TrainAndTest out;
  out.train = ClickRecords::View(records_, 0, std::min(train, wanted), options_.train_path);
  if (records_->size() > train) {
    out.test = ClickRecords::View(records_, train, records_->size() - train, options_.test_path);
  }
  out.warnings = std::move(warnings_);
  return out;
}

}  // namespace

StatusOr<TrainAndTest> OpenCsv(const CsvOptions& options) { return Opener(options).Run(); }

}  // namespace tandem::reader
