#include "trainer/reader/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/rng.h"
#include "trainer/reader/click_records.h"
#include "trainer/reader/csv_columns.h"
#include "trainer/reader/text_values.h"

namespace tandem {
namespace {

// Where the columns that are read stand in a line.
struct CsvPlaces {
  size_t fields = 0;  // of a line
  size_t label = 0;
  std::vector<size_t> columns;  // of options.columns
};

class CsvSink final : public LineSink {
 public:
  CsvSink(const CsvOptions& options, const CsvPlaces& places)
      : options_(options), places_(places), fields_(places.fields), record_(places.columns.size()) {
    piece_.texts.resize(places.columns.size());
  }

  Status Add(std::string_view line) override;
  uint64_t Finish() override {
    piece_.values.shrink_to_fit();
    return piece_.labels.size();
  }
  CsvPiece Take() { return std::move(piece_); }

 private:
  StatusOr<uint8_t> Label(std::string_view value) const;
  bool Missing(std::string_view value) const { return value.empty() || value == options_.missing; }
  // Values whose texts are counted when the whole record is known to be good: kVocabulary is left.
  Status Convert(const CsvColumn& column, std::string_view value, uint32_t& out) const;

  const CsvOptions& options_;
  const CsvPlaces& places_;
  std::vector<std::string_view> fields_;
  std::vector<uint32_t> record_;
  CsvPiece piece_;
};

StatusOr<uint8_t> CsvSink::Label(std::string_view value) const {
  for (const uint8_t label : {0, 1}) {
    const auto& texts = label == 1 ? options_.positive_labels : options_.negative_labels;
    if (std::find(texts.begin(), texts.end(), value) != texts.end()) return label;
  }
  return DataLoss("label \"%s\" is neither positive nor negative", std::string(value));
}

Status CsvSink::Convert(const CsvColumn& column, std::string_view value, uint32_t& out) const {
  const bool missing = Missing(value);
  if (column.kind == CsvColumn::kHash) {
    const auto buckets = static_cast<uint64_t>(column.ids - 1);
    // The upper bits of FNV-1a are the better mixed ones.
    out = missing ? 0 : static_cast<uint32_t>((StableHash(value) >> 16) % buckets) + 1;
  } else if (column.kind == CsvColumn::kNumeric) {
    float number = std::numeric_limits<float>::quiet_NaN();
    if (!missing) {
      const auto parsed = ParseNumber(value);
      if (parsed.has_value()) number = static_cast<float>(*parsed);
      if (!std::isfinite(number)) {
        return DataLoss("column \"%s\": \"%s\" is no number", column.name, std::string(value));
      }
    }
    out = NumberBits(number);
  }
  return OkStatus();
}

Status CsvSink::Add(std::string_view line) {
  if (line.find('"') != std::string_view::npos) return DataLoss("quoted fields are not read");
  const size_t count = SplitLine(line, options_.separator, fields_.data(), fields_.size());
  if (count != fields_.size()) {
    return DataLoss("%d fields, but the first line names %d columns", count, fields_.size());
  }
  TD_ASSIGN_OR_RETURN(const uint8_t label, Label(Trimmed(fields_[places_.label])));
  for (size_t c = 0; c < record_.size(); ++c) {
    std::string_view& field = fields_[places_.columns[c]];
    field = Trimmed(field);
    TD_RETURN_IF_ERROR(Convert(options_.columns[c], field, record_[c]));
  }
  for (size_t c = 0; c < record_.size(); ++c) {
    if (options_.columns[c].kind != CsvColumn::kVocabulary) continue;
    const std::string_view field = fields_[places_.columns[c]];
    record_[c] = Missing(field) ? 0 : piece_.texts[c].Code(field);
  }
  piece_.values.insert(piece_.values.end(), record_.begin(), record_.end());
  piece_.labels.push_back(label);
  return OkStatus();
}

// The names in the first line.
StatusOr<std::vector<std::string>> ColumnNames(const std::string& path, char separator) {
  TD_ASSIGN_OR_RETURN(const std::string line, FirstLine(path));
  if (line.empty()) return DataLoss("%s:1: the file is empty", path);
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(line, separator)) {
    names.emplace_back(Trimmed({name.data(), name.size()}));
  }
  return names;
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
  std::vector<std::string> names_;  // of the training file
  CsvPlaces places_;
  ClickColumns columns_;
  std::vector<std::string> warnings_;
};

StatusOr<size_t> Opener::Position(const std::string& column) const {
  const auto it = std::find(names_.begin(), names_.end(), column);
  if (it != names_.end()) return static_cast<size_t>(it - names_.begin());
  return InvalidArgument("%s:1: there is no column \"%s\"%s", options_.train_path, column,
                         OrDidYouMean(column, names_));
}

Status Opener::Check() {
  if (options_.columns.empty()) return InvalidArgument("a csv needs at least one column");
  if (options_.positive_labels.empty() || options_.negative_labels.empty()) {
    return InvalidArgument("a csv needs positive_label and negative_label");
  }
  TD_ASSIGN_OR_RETURN(names_, ColumnNames(options_.train_path, options_.separator));
  places_.fields = names_.size();
  TD_ASSIGN_OR_RETURN(places_.label, Position(options_.label_column));
  for (const CsvColumn& column : options_.columns) {
    TD_ASSIGN_OR_RETURN(places_.columns.emplace_back(), Position(column.name));
    if (column.ids < 2 || column.ids > int64_t{1} << 30) {
      return InvalidArgument("column \"%s\": ids is %d; it must be in [2, 2^30]", column.name,
                             column.ids);
    }
    columns_.ids.push_back(column.ids);
  }
  return OkStatus();
}

StatusOr<std::vector<CsvPiece>> Opener::Read(const std::string& path) {
  LineReading reading = options_.reading;
  reading.names_columns = [](std::string_view) { return true; };
  const auto make = [this](size_t) { return std::make_unique<CsvSink>(options_, places_); };
  TD_ASSIGN_OR_RETURN(auto lines, ReadLines(path, reading, make, &warnings_));
  std::vector<CsvPiece> pieces;
  for (LinePiece& piece : lines) {
    pieces.push_back(static_cast<CsvSink*>(piece.sink.get())->Take());
    piece.sink.reset();
  }
  return pieces;
}

StatusOr<TrainAndTest> Opener::Run() {
  TD_RETURN_IF_ERROR(Check());
  TD_ASSIGN_OR_RETURN(std::vector<CsvPiece> pieces, Read(options_.train_path));
  std::vector<ColumnIds> columns;
  for (size_t c = 0; c < options_.columns.size(); ++c) {
    columns.emplace_back(options_.columns[c], c, pieces);
  }
  uint64_t train = 0;
  for (const CsvPiece& piece : pieces) train += piece.labels.size();
  if (!options_.test_path.empty()) {
    TD_ASSIGN_OR_RETURN(const auto names, ColumnNames(options_.test_path, options_.separator));
    if (names != names_) {
      return InvalidArgument("%s:1: the columns are other ones than those of %s",
                             options_.test_path, options_.train_path);
    }
    TD_ASSIGN_OR_RETURN(std::vector<CsvPiece> test, Read(options_.test_path));
    std::move(test.begin(), test.end(), std::back_inserter(pieces));
  }
  auto records = std::make_shared<ClickRecords>(columns_);
  for (CsvPiece& piece : pieces) {
    for (const ColumnIds& column : columns) column.Encode(piece);
    records->Add({std::move(piece.values), {}, std::move(piece.labels)});
  }
  if (records->size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("%s: more than 2^32 records", options_.train_path);
  }
  const uint64_t wanted = options_.samples_max > 0 ? options_.samples_max : train;
  TrainAndTest out;
  out.train = ClickRecords::View(records, 0, std::min(train, wanted), options_.train_path);
  if (records->size() > train) {
    out.test = ClickRecords::View(records, train, records->size() - train, options_.test_path);
  }
  out.warnings = std::move(warnings_);
  return out;
}

}  // namespace

StatusOr<TrainAndTest> OpenCsv(const CsvOptions& options) { return Opener(options).Run(); }

}  // namespace tandem
