#include "trainer/reader/table/table_source.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "trainer/reader/input/gunzip.h"
#include "trainer/reader/input/input_file.h"
#include "trainer/reader/input/npy_array.h"
#include "trainer/reader/input/zip_entries.h"
#include "trainer/reader/table/csv_records.h"

namespace tandem::reader {
namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 36;  // maximum size of a file, also after unpacking
constexpr size_t kColumnsMax = size_t{1} << 20;    // maximum number of columns of all arrays

// Returns the content of a file. Unpacks gzip data.
StatusOr<std::vector<uint8_t>> ReadWhole(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kBytesMax) {
    return InvalidArgument("%s has %d bytes, expected at most %d [TD1104]; hint: split the file",
                           path, file.size(), kBytesMax);
  }
  std::vector<uint8_t> bytes(file.size());
  TD_ASSIGN_OR_RETURN(const size_t got,
                      file.Read(0, reinterpret_cast<char*>(bytes.data()), bytes.size()));
  bytes.resize(got);
  if (!IsGzip(bytes)) return bytes;
  Gunzip gunzip(bytes, path);
  TD_RETURN_IF_ERROR(gunzip.Open());
  std::vector<uint8_t> unpacked;
  TD_RETURN_IF_ERROR(gunzip.Read(kBytesMax, unpacked));
  return unpacked;
}

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status CheckText(const std::string& path, std::string_view text) {
  if (text.empty()) return DataLoss("%s:1: the file is empty [TD2006]", path);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return InvalidArgument(
        "%s:1: the text is in UTF-16, expected UTF-8 [TD2009]; hint: iconv -f UTF-16 -t UTF-8 %s",
        path, path);
  }
  if (text.starts_with("PAR1")) {
    const std::string out = std::filesystem::path(path).replace_extension(".csv").string();
    return Unimplemented(
        "%s is a Parquet file, which is not read [TD2009]; hint: python3 -c \"import pandas; "
        "pandas.read_parquet('%s').to_csv('%s', index=False)\"",
        path, path, out);
  }
  if (text.substr(0, 4096).find('\0') != std::string_view::npos) {
    return InvalidArgument(
        "%s:1: the file is neither text nor an array of numpy [TD2009]; hint: write it as csv",
        path);
  }
  return OkStatus();
}

// Returns the name of the array in a file: the file name without directory and ".npy".
std::string ArrayName(const std::string& file) {
  return std::filesystem::path(file).filename().replace_extension().string();
}

// Returns INVALID_ARGUMENT if two columns have the same name.
Status CheckNames(const std::string& path, std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return OkStatus();
  return InvalidArgument("%s: two columns have the name \"%s\" [TD2007]; hint: rename one", path,
                         *twice);
}

bool IsNpy(std::span<const uint8_t> bytes) { return TextOf(bytes).starts_with("\x93NUMPY"); }
bool IsZip(std::span<const uint8_t> bytes) { return TextOf(bytes).starts_with("PK"); }

}  // namespace

// A text file, or numpy arrays that have one row for each sample.
struct TableSource::File {
  std::string path;
  std::vector<uint8_t> text;                // content of a text file
  std::vector<std::vector<uint8_t>> bytes;  // contents of .npy files; `arrays` point into them
  std::vector<NpyArray> arrays;             // empty: this is a text file
};

TableSource::TableSource() = default;
TableSource::TableSource(TableSource&&) noexcept = default;
TableSource& TableSource::operator=(TableSource&&) noexcept = default;
TableSource::~TableSource() = default;

std::string PlaceOf(const TableRow& row) {
  TD_REQUIRE(row.file != nullptr);
  return absl::StrCat(*row.file, row.is_line ? ":" : ": row ", row.place);
}

// Adds the columns of a file. INVALID_ARGUMENT: the columns differ from those of the first file, or
// two columns of the first file have the same name.
Status TableSource::AddColumns(const std::string& path, std::vector<std::string> columns) {
  if (files_.empty()) {
    columns_ = std::move(columns);
    return CheckNames(path, columns_);
  }
  if (columns == columns_) return OkStatus();
  size_t at = 0;
  while (at < std::min(columns.size(), columns_.size()) && columns[at] == columns_[at]) ++at;
  const auto name = [at](const std::vector<std::string>& names) {
    return at < names.size() ? '"' + names[at] + '"' : "missing";
  };
  return InvalidArgument("%s: column %d is %s, but in %s it is %s [TD2007]", path, at + 1,
                         name(columns), files_[0]->path, name(columns_));
}

Status TableSource::AddText(const std::string& path, std::vector<uint8_t> bytes) {
  const std::string_view text = TextOf(bytes);
  TD_RETURN_IF_ERROR(CheckText(path, text));
  CsvRecords records(text, separator_);
  const StatusOr<bool> found = records.Next();
  if (!found.ok()) return Annotate(found.status(), path + ":1");
  if (!*found) return DataLoss("%s:1: the file has no line with names of columns [TD2006]", path);
  std::vector<std::string> names(records.fields().begin(), records.fields().end());
  for (const char other : {';', '\t', ','}) {
    if (names.size() > 1 || other == separator_ || names[0].find(other) == std::string::npos) {
      continue;
    }
    return InvalidArgument(
        "%s:1: the first line has one column \"%s\" [TD2007]; hint: data { table { separator: "
        "\"%s\" } }",
        path, names[0], other == '\t' ? "\\t" : std::string(1, other));
  }
  TD_RETURN_IF_ERROR(AddColumns(path, std::move(names)));
  files_.push_back(std::make_unique<File>(File{path, std::move(bytes), {}, {}}));
  return OkStatus();
}

// Adds the arrays of an .npz file as further rows, or the array of an .npy file as further columns.
Status TableSource::AddArrays(const std::string& path, std::vector<uint8_t> bytes) {
  const bool npy = IsNpy(bytes);
  std::vector<ZipEntry> entries;
  if (npy) {
    entries.push_back({path, std::move(bytes)});
  } else {
    TD_ASSIGN_OR_RETURN(entries, ReadZip(bytes, path));
  }
  if (entries.empty()) return DataLoss("%s contains no array [TD2006]", path);
  auto file = npy && !files_.empty() ? std::move(files_[0])
                                     : std::make_unique<File>(File{path, {}, {}, {}});
  std::vector<std::string> columns;
  if (npy && !files_.empty()) {
    columns = std::move(columns_);
    files_.clear();
  }
  for (ZipEntry& entry : entries) {
    const std::string name = npy ? path : path + ": " + entry.name;
    // The array points into entry.bytes. Moving entry.bytes does not move the elements.
    TD_ASSIGN_OR_RETURN(NpyArray array, ParseNpy(entry.bytes, name));
    if (array.dims.empty()) array.dims = {1};
    const uint64_t rows = file->arrays.empty() ? array.dims[0] : file->arrays[0].dims[0];
    if (array.dims[0] != rows) {
      return InvalidArgument("%s: the array has %d rows, but another array has %d [TD2007]", name,
                             array.dims[0], rows);
    }
    const uint64_t width = array.elements / rows;
    if (width + columns.size() > kColumnsMax) {
      return InvalidArgument("%s: the arrays have more than %d columns [TD1104]", name,
                             kColumnsMax);
    }
    for (uint64_t k = 0; k < width; ++k) {
      columns.push_back(ArrayName(entry.name) + (width > 1 ? "." + std::to_string(k) : ""));
    }
    file->bytes.push_back(std::move(entry.bytes));
    file->arrays.push_back(std::move(array));
  }
  TD_RETURN_IF_ERROR(AddColumns(path, std::move(columns)));
  files_.push_back(std::move(file));
  return OkStatus();
}

StatusOr<TableSource> TableSource::Load(const std::vector<std::string>& files, char separator) {
  TableSource source;
  source.separator_ = separator;
  std::string kind, first;
  for (const std::string& path : files) {
    TD_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadWhole(path));
    const char* const found = IsNpy(bytes) ? "npy" : IsZip(bytes) ? "npz" : "csv";
    if (first.empty()) {
      first = path;
      kind = found;
    }
    if (kind != found) {
      return InvalidArgument(
          "%s has the format %s, but %s has the format %s [TD2009]; hint: convert one of them",
          path, found, first, kind);
    }
    TD_RETURN_IF_ERROR(kind == "csv" ? source.AddText(path, std::move(bytes))
                                     : source.AddArrays(path, std::move(bytes)));
  }
  source.is_text_ = kind == "csv";
  return source;
}

StatusOr<TableSource> TableSource::FromMemory(std::shared_ptr<const MemoryColumns> columns) {
  TD_REQUIRE(columns != nullptr);
  TableSource source;
  if (columns->columns.empty()) {
    return InvalidArgument("%s has no column [TD2007]", columns->name);
  }
  const MemoryColumn& first = columns->columns[0];
  for (const MemoryColumn& column : columns->columns) {
    source.columns_.push_back(column.name);
    if (column.rows() == first.rows()) continue;
    return InvalidArgument(
        "%s: column \"%s\" has %d rows, but column \"%s\" has %d [TD2007]; hint: give all columns "
        "the "
        "same number of rows",
        columns->name, column.name, column.rows(), first.name, first.rows());
  }
  if (first.rows() == 0) return DataLoss("%s has no row [TD2006]", columns->name);
  TD_RETURN_IF_ERROR(CheckNames(columns->name, source.columns_));
  source.is_text_ = !columns->arrays;
  source.memory_ = std::move(columns);
  return source;
}

void TableSource::VisitMemory(const std::function<void(const TableRow&)>& visit) const {
  TD_REQUIRE(memory_ != nullptr && memory_->columns.size() == columns_.size());
  std::vector<TableCell> cells;
  for (size_t r = 0; r < memory_->columns[0].rows(); ++r) {
    cells.clear();
    for (const MemoryColumn& column : memory_->columns) {
      cells.push_back(column.is_text ? TableCell{column.texts[r], 0, true}
                                     : TableCell{{}, column.numbers[r], false});
    }
    visit({.cells = cells,
           .status = OkStatus(),
           .file = &memory_->name,
           .place = static_cast<int64_t>(r)});
  }
}

void TableSource::VisitText(const File& file,
                            const std::function<void(const TableRow&)>& visit) const {
  CsvRecords records(TextOf(file.text), separator_);
  std::vector<TableCell> cells;
  bool header = true;
  for (;;) {
    TableRow row{.file = &file.path, .is_line = true};
    const StatusOr<bool> found = records.Next();
    if (found.ok() && !*found) return;
    row.place = records.line();
    if (!found.ok()) {
      row.status = found.status();
    } else if (header) {
      header = false;
      continue;
    } else if (records.fields().size() != columns_.size()) {
      row.status = DataLoss("the row has %d fields, but the first line names %d columns",
                            records.fields().size(), columns_.size());
    } else {
      cells.clear();
      for (const std::string_view field : records.fields()) cells.push_back({field, 0, true});
      row.cells = cells;
    }
    visit(row);
  }
}

void TableSource::VisitArrays(const File& file,
                              const std::function<void(const TableRow&)>& visit) const {
  const uint64_t rows = file.arrays[0].dims[0];
  std::vector<TableCell> cells;
  for (uint64_t r = 0; r < rows; ++r) {
    cells.clear();
    for (const NpyArray& array : file.arrays) {
      const uint64_t width = array.elements / rows;
      for (uint64_t k = 0; k < width; ++k) cells.push_back({{}, array.At(r * width + k), false});
    }
    TD_REQUIRE(cells.size() == columns_.size());
    visit({.cells = cells,
           .status = OkStatus(),
           .file = &file.path,
           .place = static_cast<int64_t>(r)});
  }
}

void TableSource::Visit(const std::function<void(const TableRow&)>& visit) const {
  if (memory_ != nullptr) return VisitMemory(visit);
  for (const auto& file : files_) {
    if (file->arrays.empty()) {
      VisitText(*file, visit);
    } else {
      VisitArrays(*file, visit);
    }
  }
}

}  // namespace tandem::reader
