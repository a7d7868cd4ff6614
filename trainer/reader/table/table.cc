#include "trainer/reader/table/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <memory_resource>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "trainer/reader/input/dataset_arena.h"
#include "trainer/reader/table/table_source.h"

namespace tandem::reader {
namespace {

constexpr size_t kBadNamed = 10;  // maximum number of bad values that a message names

// Counts the bad rows of a table. Names the first kBadNamed bad values, with one line for each row.
class BadRows {
 public:
  void Add(const TableRow& row, const Status& why) {
    if (++values_ > kBadNamed) return;
    const std::string text(why.message());
    if (in_row_) {
      named_.back() += "; " + text;
    } else {
      named_.push_back(PlaceOf(row) + ": " + text);
    }
    in_row_ = true;
  }
  // The caller must call EndRow after the last Add() of each bad row.
  void EndRow() {
    ++rows_;
    in_row_ = false;
  }
  // Returns OK if there are at most `max` bad rows. DATA_LOSS: there are more bad rows.
  Status Check(int64_t max) const {
    if (rows_ <= max) return OkStatus();
    std::string more;
    if (values_ > kBadNamed) more = absl::StrFormat("\nand %d more", values_ - kBadNamed);
    return DataLoss(
        "%s%s\n%d bad rows, but max_bad_records is %d [TD2003]; hint: mend these rows, name the "
        "texts of missing values in data.table.missing, or give the columns another kind",
        absl::StrJoin(named_, "\n"), more, rows_, max);
  }
  std::vector<std::string> Warnings() const {
    std::vector<std::string> out = named_;
    if (rows_ > 0) out.push_back(absl::StrFormat("skipped %d bad rows", rows_));
    return out;
  }

 private:
  std::vector<std::string> named_;
  bool in_row_ = false;
  size_t values_ = 0;
  int64_t rows_ = 0;
};

// The samples of all rows: training, validation and test data.
struct TableData {
  DatasetArena memory;
  size_t features = 0, categories = 0, labels = 0, targets = 0;  // numbers per row
  bool weighted = false;
  std::pmr::vector<float> x{&memory}, target{&memory}, weight{&memory};
  std::pmr::vector<int64_t> label{&memory};
  std::pmr::vector<uint32_t> ids{&memory};  // ids of all rows, plus the first id of their column
  int64_t all_ids = 0, classes = 0;
};

// A dataset of the rows of one part, for example of the training rows.
class TableView final : public Dataset {
 public:
  TableView(std::shared_ptr<const TableData> data, std::vector<uint32_t> rows, std::string name)
      : data_(std::move(data)), rows_(std::move(rows)), name_(std::move(name)) {
    const auto add = [this](const char* field, DType type, size_t width, int64_t limit) {
      if (width > 0) fields_.push_back({field, {type, {static_cast<int64_t>(width)}}, limit});
    };
    add("x", DType::kF32, data_->features, 0);
    add("ids", DType::kI64, data_->categories, data_->all_ids);
    add("label", DType::kI64, data_->labels, data_->classes);
    add("target", DType::kF32, data_->targets, 0);
    add("weight", DType::kF32, data_->weighted ? 1 : 0, 0);
  }

  uint32_t size() const override { return static_cast<uint32_t>(rows_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    for (const uint32_t id : ids) {
      if (id < rows_.size()) continue;
      return OutOfRange("%s has no sample %d, expected a number below %d", name_, id, rows_.size());
    }
    size_t field = 0;
    const auto copy = [&](const auto& from, size_t width, auto* type) {
      if (width == 0) return;
      auto* to = static_cast<std::remove_pointer_t<decltype(type)>*>(out[field++]);
      for (const uint32_t id : ids) to = std::copy_n(from.data() + rows_[id] * width, width, to);
    };
    copy(data_->x, data_->features, static_cast<float*>(nullptr));
    copy(data_->ids, data_->categories, static_cast<int64_t*>(nullptr));
    copy(data_->label, data_->labels, static_cast<int64_t*>(nullptr));
    copy(data_->target, data_->targets, static_cast<float*>(nullptr));
    copy(data_->weight, data_->weighted ? 1 : 0, static_cast<float*>(nullptr));
    return OkStatus();
  }
  std::string Describe() const override {
    std::vector<std::string> parts;
    const auto add = [&parts](size_t count, const char* what) {
      if (count > 0) parts.push_back(absl::StrFormat("%d %s", count, what));
    };
    add(data_->features, "features");
    add(data_->categories, "categories");
    add(data_->labels, data_->labels == 1 ? "label" : "labels");
    add(static_cast<size_t>(data_->classes), "classes");
    add(data_->targets, data_->targets == 1 ? "target" : "targets");
    add(data_->weighted ? 1 : 0, "weight");
    return absl::StrFormat("%s: %d rows with %s", name_, rows_.size(), absl::StrJoin(parts, ", "));
  }

 private:
  const std::shared_ptr<const TableData> data_;
  const std::vector<uint32_t> rows_;  // indices in data_ of this part's rows
  const std::string name_;
  std::vector<SampleField> fields_;
};

class TableOpener {
 public:
  explicit TableOpener(const TableOptions& options)
      : options_(options), split_(options.split, options.split_seed) {
    if (options.memory != nullptr) {
      name_ = options.memory->name;
    } else if (!options.files.empty()) {
      name_ = options.files[0];
    }
  }

  StatusOr<TrainAndTest> Run();
  StatusOr<std::vector<std::string>> Describe();

 private:
  StatusOr<TableSource> Load() const {
    if (options_.memory != nullptr) return TableSource::FromMemory(options_.memory);
    return TableSource::Load(options_.files, options_.separator);
  }
  // Returns the entry of options_.columns that matches the column; nullptr: no entry matches.
  // `text`: the column is in a text file.
  const TableColumn* EntryOf(const std::string& column, bool text) const;
  Status CheckEntries(const TableSource& source) const;
  Status ChooseColumns(const TableSource& source);
  std::vector<ColumnKind> GuessKinds(const TableSource& source) const;
  void Read(const TableSource& source, bool test_files);
  bool ConvertRow(const TableRow& row);
  RowPart PartOf(uint64_t number) const;
  Status ReadTestFiles(const TableSource& source);
  Status LearnAll();
  Status CheckFields() const;
  std::shared_ptr<TableData> Encode() const;
  void EncodeFeatures(TableData& data) const;
  void EncodeIds(TableData& data) const;
  StatusOr<std::unique_ptr<Dataset>> View(const std::shared_ptr<TableData>& data, RowPart part,
                                          const char* name) const;
  std::vector<std::string> Lines() const;
  size_t Count(ColumnKind kind) const {
    return static_cast<size_t>(
        std::ranges::count_if(columns_, [kind](const auto& c) { return c.kind() == kind; }));
  }
  int64_t Count(RowPart part) const { return std::ranges::count(parts_, part); }

  const TableOptions& options_;
  const RowSplit split_;
  std::string name_;                   // name of the table in messages
  std::vector<ColumnValues> columns_;  // the columns that are not ignored
  std::vector<size_t> places_;         // index in a row of each element of columns_
  std::vector<std::string> unused_, inferred_;
  std::vector<RowPart> parts_;  // training, validation or test, for each kept row
  uint64_t train_ = 0;          // number of kept training rows
  BadRows bad_;
};

const TableColumn* TableOpener::EntryOf(const std::string& column, bool text) const {
  for (const TableColumn& entry : options_.columns) {
    const bool pattern = entry.name.ends_with('*');
    const std::string_view start = std::string_view(entry.name).substr(0, entry.name.size() - 1);
    if (entry.name == column || (pattern && column.starts_with(start))) return &entry;
    if (!text && column.starts_with(entry.name + ".")) return &entry;
  }
  return nullptr;
}

// Checks that each entry of options_.columns matches a column. The message names all entries
// without a match.
Status TableOpener::CheckEntries(const TableSource& source) const {
  std::vector<std::string> wrong;
  for (const TableColumn& entry : options_.columns) {
    const bool fits = std::ranges::any_of(source.columns(), [&](const std::string& column) {
      return EntryOf(column, source.is_text()) == &entry;
    });
    if (fits) continue;
    wrong.push_back(absl::StrFormat("there is no column \"%s\" [TD2007]%s", entry.name,
                                    OrDidYouMean(entry.name, source.columns())));
  }
  if (wrong.empty()) return OkStatus();
  std::vector<std::string> names = source.columns();
  constexpr size_t kShown = 20;
  if (names.size() > kShown) {
    names.resize(kShown);
    names.emplace_back("...");
  }
  return InvalidArgument("%s: %s (columns: %s)", name_, absl::StrJoin(wrong, "\n"),
                         absl::StrJoin(names, ", "));
}

// Returns the kind of each column of the source, given in the options or inferred.
std::vector<ColumnKind> TableOpener::GuessKinds(const TableSource& source) const {
  std::vector<ColumnKind> kinds;
  bool guess = false;
  for (const std::string& column : source.columns()) {
    const TableColumn* const entry = EntryOf(column, source.is_text());
    kinds.push_back(entry != nullptr ? entry->kind : options_.others);
    guess = guess || kinds.back() == ColumnKind::kInfer;
  }
  if (!guess) return kinds;
  std::vector<KindGuess> guesses(kinds.size());
  source.Visit([&](const TableRow& row) {
    if (!row.status.ok()) return;
    for (size_t c = 0; c < kinds.size(); ++c) {
      if (kinds[c] != ColumnKind::kInfer || IsMissing(row.cells[c], options_.missing)) continue;
      guesses[c].Add(row.cells[c]);
    }
  });
  for (size_t c = 0; c < kinds.size(); ++c) {
    if (kinds[c] == ColumnKind::kInfer) kinds[c] = guesses[c].Result();
  }
  return kinds;
}

Status TableOpener::ChooseColumns(const TableSource& source) {
  TD_RETURN_IF_ERROR(CheckEntries(source));
  const std::vector<ColumnKind> kinds = GuessKinds(source);
  for (size_t c = 0; c < kinds.size(); ++c) {
    const std::string& name = source.columns()[c];
    const TableColumn* const entry = EntryOf(name, source.is_text());
    const ColumnKind asked = entry != nullptr ? entry->kind : options_.others;
    if (kinds[c] == ColumnKind::kIgnore) {
      unused_.push_back(name);
      continue;
    }
    if (asked == ColumnKind::kInfer) inferred_.push_back(name);
    columns_.emplace_back(name, kinds[c],
                          entry != nullptr ? entry->classes : std::vector<std::string>());
    places_.push_back(c);
  }
  return OkStatus();
}

Status TableOpener::CheckFields() const {
  const size_t labels = Count(ColumnKind::kLabel), targets = Count(ColumnKind::kTarget);
  if (labels + targets == 0) {
    return InvalidArgument(
        "%s: no column is a label or a target [TD1106]; hint: data { table { column { name: \"%s\" "
        "kind: LABEL } } }, or kind: TARGET for a number",
        name_, columns_.empty() ? "NAME" : columns_.back().name());
  }
  if (labels > 0 && targets > 0) {
    return InvalidArgument(
        "%s: there are columns of kind LABEL and of kind TARGET, expected one of the two kinds "
        "[TD1108]; hint: set one of them to IGNORE",
        name_);
  }
  if (Count(ColumnKind::kWeight) > 1) {
    return InvalidArgument("%s: %d columns have the kind WEIGHT, expected at most one [TD1108]",
                           name_, Count(ColumnKind::kWeight));
  }
  if (columns_.size() == labels + targets + Count(ColumnKind::kWeight)) {
    return InvalidArgument("%s: no column is a feature [TD1106]; hint: give a column kind: FLOAT",
                           name_);
  }
  return OkStatus();
}

// Converts all cells of a row. Returns false if the row is bad.
bool TableOpener::ConvertRow(const TableRow& row) {
  bool good = row.status.ok();
  if (!good) bad_.Add(row, row.status);
  for (size_t c = 0; good && c < columns_.size(); ++c) {
    const TableCell& cell = row.cells[places_[c]];
    const Status status = columns_[c].Convert(cell, IsMissing(cell, options_.missing));
    if (status.ok()) continue;
    // Also reports the bad values in the other columns of the row.
    for (; c < columns_.size(); ++c) {
      const TableCell& other = row.cells[places_[c]];
      const Status why = columns_[c].Convert(other, IsMissing(other, options_.missing));
      if (!why.ok()) bad_.Add(row, why);
    }
    good = false;
  }
  if (!good) bad_.EndRow();
  return good;
}

RowPart TableOpener::PartOf(uint64_t number) const {
  const RowPart part = split_.PartOf(number);
  const bool enough = options_.samples_max > 0 && train_ >= options_.samples_max;
  return part == RowPart::kTrain && enough ? RowPart::kUnused : part;
}

void TableOpener::Read(const TableSource& source, bool test_files) {
  uint64_t number = 0;  // number of the row in the files; bad rows count too
  source.Visit([&](const TableRow& row) {
    const uint64_t n = number++;
    if (!ConvertRow(row)) return;
    const RowPart part = test_files ? RowPart::kTest : PartOf(n);
    train_ += part == RowPart::kTrain ? 1 : 0;
    for (ColumnValues& column : columns_) column.Keep();
    parts_.push_back(part);
  });
}

Status TableOpener::ReadTestFiles(const TableSource& source) {
  if (options_.test_files.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const TableSource test,
                      TableSource::Load(options_.test_files, options_.separator));
  if (test.columns() != source.columns()) {
    return InvalidArgument(
        "%s: the columns differ from those of %s [TD2007]; hint: give both files the same first "
        "line",
        options_.test_files[0], name_);
  }
  Read(test, true);
  return OkStatus();
}

Status TableOpener::LearnAll() {
  for (ColumnValues& column : columns_) {
    TD_RETURN_IF_ERROR(Annotate(column.Learn(parts_, options_.standardise), name_));
    if (column.kind() != ColumnKind::kLabel || Count(ColumnKind::kLabel) == 1) continue;
    if (column.ids() > 2) {
      return InvalidArgument(
          "%s: label column \"%s\" has %d classes, expected 2, because the table has several label "
          "columns [TD1104]; hint: give the other label columns kind: IGNORE",
          name_, column.name(), column.ids());
    }
  }
  return OkStatus();
}

void TableOpener::EncodeFeatures(TableData& data) const {
  std::vector<const ColumnValues*> indicated;
  for (const ColumnValues& column : columns_) {
    const bool number = column.kind() == ColumnKind::kFloat || column.kind() == ColumnKind::kTime;
    if (number) ++data.features;
    if (column.kind() == ColumnKind::kOneHot) data.features += static_cast<size_t>(column.ids());
    if (number && options_.missing_indicator && column.has_missing()) indicated.push_back(&column);
  }
  const size_t indicators = data.features;
  data.features += indicated.size();
  data.x.resize(parts_.size() * data.features);
  for (size_t r = 0; r < parts_.size(); ++r) {
    float* to = data.x.data() + r * data.features;
    for (size_t i = 0; i < indicated.size(); ++i) {
      to[indicators + i] = indicated[i]->MissingAt(r) ? 1.0f : 0.0f;
    }
    for (const ColumnValues& column : columns_) {
      if (column.kind() == ColumnKind::kOneHot) {
        if (const uint32_t id = column.IdOf(r); id > 0) to[id - 1] = 1;
        to += column.ids();
      } else if (column.kind() == ColumnKind::kFloat || column.kind() == ColumnKind::kTime) {
        *to++ = column.NumberOf(r);
      }
    }
  }
}

void TableOpener::EncodeIds(TableData& data) const {
  data.categories = Count(ColumnKind::kCategory);
  data.labels = Count(ColumnKind::kLabel);
  data.ids.reserve(parts_.size() * data.categories);
  data.label.reserve(parts_.size() * data.labels);
  for (const ColumnValues& column : columns_) {
    if (column.kind() == ColumnKind::kCategory) data.all_ids += column.ids();
    if (column.kind() == ColumnKind::kLabel) data.classes = std::max(data.classes, column.ids());
  }
  // Sets the number of classes to at least two, because a loss needs two classes.
  if (data.labels > 0) data.classes = std::max<int64_t>(data.classes, 2);
  for (size_t r = 0; r < parts_.size(); ++r) {
    int64_t base = 0;
    for (const ColumnValues& column : columns_) {
      if (column.kind() == ColumnKind::kLabel) data.label.push_back(column.IdOf(r));
      if (column.kind() != ColumnKind::kCategory) continue;
      data.ids.push_back(static_cast<uint32_t>(base + column.IdOf(r)));
      base += column.ids();
    }
  }
}

std::shared_ptr<TableData> TableOpener::Encode() const {
  auto data = std::make_shared<TableData>();
  EncodeFeatures(*data);
  EncodeIds(*data);
  data->targets = Count(ColumnKind::kTarget);
  data->weighted = Count(ColumnKind::kWeight) > 0;
  data->target.reserve(parts_.size() * data->targets);
  for (size_t r = 0; r < parts_.size(); ++r) {
    for (const ColumnValues& column : columns_) {
      if (column.kind() == ColumnKind::kTarget) data->target.push_back(column.NumberOf(r));
      if (column.kind() == ColumnKind::kWeight) data->weight.push_back(column.NumberOf(r));
    }
  }
  return data;
}

StatusOr<std::unique_ptr<Dataset>> TableOpener::View(const std::shared_ptr<TableData>& data,
                                                     RowPart part, const char* name) const {
  std::vector<uint32_t> rows;
  for (size_t r = 0; r < parts_.size(); ++r) {
    if (parts_[r] == part) rows.push_back(static_cast<uint32_t>(r));
  }
  const std::string& file =
      part == RowPart::kTest && !options_.test_files.empty() ? options_.test_files[0] : name_;
  if (rows.empty()) {
    return DataLoss("%s: the table has no %s row [TD2006]; hint: change data.table.split", file,
                    name);
  }
  return std::make_unique<TableView>(data, std::move(rows), file);
}

std::vector<std::string> TableOpener::Lines() const {
  std::vector<std::string> lines;
  for (const ColumnValues& column : columns_) {
    const bool guessed = std::ranges::find(inferred_, column.name()) != inferred_.end();
    lines.push_back(absl::StrFormat("column %s: %s%s, %s", column.name(),
                                    reader::Name(column.kind()), guessed ? " (inferred)" : "",
                                    column.Describe()));
  }
  for (const std::string& name : unused_) lines.push_back("column " + name + ": IGNORE");
  lines.push_back(absl::StrFormat("rows: %d for training, %d for validation, %d for test",
                                  Count(RowPart::kTrain), Count(RowPart::kValidation),
                                  Count(RowPart::kTest)));
  return lines;
}

StatusOr<std::vector<std::string>> TableOpener::Describe() {
  TD_ASSIGN_OR_RETURN(const TableSource source, Load());
  TD_RETURN_IF_ERROR(ChooseColumns(source));
  Read(source, false);
  TD_RETURN_IF_ERROR(LearnAll());
  std::vector<std::string> lines = Lines();
  for (const std::string& warning : bad_.Warnings()) lines.push_back("bad: " + warning);
  return lines;
}

StatusOr<TrainAndTest> TableOpener::Run() {
  if (options_.files.empty() && options_.memory == nullptr) {
    return InvalidArgument("data.table names no file [TD1106]; hint: file: \"table.csv\"");
  }
  TD_ASSIGN_OR_RETURN(const TableSource source, Load());
  TD_RETURN_IF_ERROR(ChooseColumns(source));
  TD_RETURN_IF_ERROR(CheckFields());
  Read(source, false);
  TD_RETURN_IF_ERROR(bad_.Check(options_.bad_rows_max));
  TD_RETURN_IF_ERROR(LearnAll());
  TD_RETURN_IF_ERROR(ReadTestFiles(source));
  TD_RETURN_IF_ERROR(bad_.Check(options_.bad_rows_max));
  if (parts_.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("%s has more than 2^32 rows, which is not supported [TD1104]", name_);
  }
  const std::shared_ptr<TableData> data = Encode();
  if (data->all_ids > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("%s: the categories have %d values, expected at most 2^32 [TD1104]",
                           name_, data->all_ids);
  }
  TrainAndTest out;
  TD_ASSIGN_OR_RETURN(out.train, View(data, RowPart::kTrain, "training"));
  if (options_.split[1] > 0 && (options_.evaluate_validation || Count(RowPart::kValidation) > 0)) {
    TD_ASSIGN_OR_RETURN(out.validation, View(data, RowPart::kValidation, "validation"));
  }
  if (options_.evaluate_validation) {
    out.test = std::move(out.validation);
  } else if (options_.split[2] > 0 || !options_.test_files.empty()) {
    TD_ASSIGN_OR_RETURN(out.test, View(data, RowPart::kTest, "test"));
  }
  out.warnings = bad_.Warnings();
  out.columns = Lines();
  return out;
}

}  // namespace

StatusOr<std::vector<std::string>> DescribeColumns(const TableOptions& options) {
  return TableOpener(options).Describe();
}

StatusOr<TrainAndTest> OpenTable(const TableOptions& options) { return TableOpener(options).Run(); }

}  // namespace tandem::reader
