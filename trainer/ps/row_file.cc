#include "trainer/ps/row_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/tensor/device.h"
#include "trainer/files/safetensors.h"
#include "trainer/reader/input/npy_array.h"
#include "trainer/reader/input/zip_entries.h"

namespace tandem::trainer {
namespace {

constexpr double kProgressSeconds = 5;                       // time between two log lines
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // at the begin of files in UTF-8

Status WrongWidth(const std::string& path, const std::string& where, const RowTable& table,
                  uint64_t found) {
  return InvalidArgument("%s: %s has %d values, but table \"%s\" has %d values in a row [TD2105]",
                         path, where, found, table.name, table.dim);
}

// ---- csv ----------------------------------------------------------------------------------------

// Reads the fields of one line after the id into `rows`.
Status AddLine(const std::string& path, int64_t number, const std::string& line, size_t at,
               const RowTable& table, FileRows* rows) {
  uint64_t count = 0;
  while (at < line.size()) {
    const size_t end = std::min(line.find(',', at + 1), line.size());
    float value = 0;
    if (!absl::SimpleAtof(line.substr(at + 1, end - at - 1), &value)) {
      return DataLoss("%s: line %d: \"%s\" is not a number [TD2111]", path, number,
                      line.substr(at + 1, end - at - 1));
    }
    rows->values.push_back(value);
    ++count;
    at = end;
  }
  if (count == static_cast<uint64_t>(table.dim)) return OkStatus();
  return WrongWidth(path, absl::StrFormat("line %d", number), table, count);
}

// Returns whether the first line of a file is a header and not a row. A line whose values are
// numbers is a row, unless its first field is a usual name of ids.
bool IsHeader(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, ',');
  double number = 0;
  if (absl::SimpleAtod(fields[0], &number)) return false;
  if (fields[0].empty() || fields[0] == "id" || fields[0] == "ids") return true;
  return std::any_of(fields.begin() + 1, fields.end(), [&number](const std::string& field) {
    return !absl::SimpleAtod(field, &number);
  });
}

StatusOr<FileRows> ReadCsv(const std::string& path, const RowTable& table) {
  FileReader probe;  // reports why a file cannot be opened
  TD_RETURN_IF_ERROR(probe.Open(path));
  std::ifstream file(path);
  FileRows rows;
  std::string line;
  uint64_t bytes = 0;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    bytes += line.size() + 1;
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    int64_t id = 0;
    const size_t comma = std::min(line.find(','), line.size());
    if (!absl::SimpleAtoi(line.substr(0, comma), &id)) {
      if (number == 1 && IsHeader(line)) continue;
      return DataLoss("%s: line %d: \"%s\" is not the id of a row [TD2111]", path, number,
                      line.substr(0, comma));
    }
    rows.ids.push_back(id);
    TD_RETURN_IF_ERROR(AddLine(path, number, line, comma, table, &rows));
    LOG_EVERY_T(INFO, kProgressSeconds)
        << path << ": " << rows.ids.size() << " rows of table \"" << table.name << "\" are read ("
        << bytes * 100 / std::max<uint64_t>(probe.bytes(), 1) << " %)";
  }
  if (file.bad()) return DataLoss("%s cannot be read [TD2106]", path);
  return rows;
}

// ---- Arrays -------------------------------------------------------------------------------------

// An array of a file.
struct Array {
  enum class Type : uint8_t { kF32, kI64, kOther };
  Type type = Type::kOther;
  std::vector<uint64_t> dims;
  const void* data = nullptr;
};
struct NamedArray {
  std::string name;
  Array array;
};

const Array* Find(const std::vector<NamedArray>& arrays, const std::string& name) {
  for (const NamedArray& a : arrays) {
    if (a.name == name) return &a.array;
  }
  return nullptr;
}

StatusOr<FileRows> FromArrays(const std::string& path, const RowTable& table,
                              const std::vector<NamedArray>& arrays) {
  const Array* ids = Find(arrays, table.name + "/ids");
  const Array* values = Find(arrays, table.name + "/rows");
  if (values == nullptr) ids = Find(arrays, "ids"), values = Find(arrays, "rows");
  const bool named = values != nullptr;  // false: an array of all rows, from row 0 on
  if (!named) ids = nullptr, values = Find(arrays, table.name);
  if (values == nullptr) {
    return InvalidArgument(
        "%s has no rows of table \"%s\" [TD2105]; hint: name the arrays \"%s/ids\" and \"%s/rows\"",
        path, table.name, table.name, table.name);
  }
  if (named && ids == nullptr) {
    return InvalidArgument(
        "%s has rows of table \"%s\", but not their ids [TD2105]; hint: name the arrays \"%s/ids\" "
        "(i64) and \"%s/rows\" (f32)",
        path, table.name, table.name, table.name);
  }
  if (values->type != Array::Type::kF32 || values->dims.size() != 2) {
    return InvalidArgument("%s: the rows of table \"%s\" must be f32 with two dimensions [TD2105]",
                           path, table.name);
  }
  const uint64_t count = values->dims[0];
  if (values->dims[1] != static_cast<uint64_t>(table.dim)) {
    return WrongWidth(path, "each row", table, values->dims[1]);
  }
  FileRows rows;
  rows.ids.resize(count);
  if (ids == nullptr) {
    std::iota(rows.ids.begin(), rows.ids.end(), 0);
  } else if (ids->type != Array::Type::kI64 || ids->dims != std::vector<uint64_t>{count}) {
    return InvalidArgument(
        "%s: the ids of table \"%s\" must be i64 [%d], one for each row [TD2105]", path, table.name,
        count);
  } else if (count != 0) {
    std::memcpy(rows.ids.data(), ids->data, count * sizeof(int64_t));
  }
  rows.values.resize(count * values->dims[1]);
  if (!rows.values.empty()) {
    std::memcpy(rows.values.data(), values->data, rows.values.size() * sizeof(float));
  }
  return rows;
}

StatusOr<FileRows> ReadSafetensorsRows(const std::string& path, const RowTable& table) {
  CpuDevice host;
  TD_ASSIGN_OR_RETURN(const Safetensors file, ReadSafetensors(path, host));
  std::vector<NamedArray> arrays;
  for (const auto& [name, tensor] : file.tensors) {
    const auto dims = tensor.shape().dims();
    arrays.push_back({name,
                      {.type = tensor.dtype() == DType::kI64   ? Array::Type::kI64
                               : tensor.dtype() == DType::kF32 ? Array::Type::kF32
                                                               : Array::Type::kOther,
                       .dims = {dims.begin(), dims.end()},
                       .data = tensor.data()}});
  }
  return FromArrays(path, table, arrays);
}

StatusOr<FileRows> ReadNpz(const std::string& path, const RowTable& table) {
  FileReader file;
  TD_RETURN_IF_ERROR(file.Open(path));
  std::vector<uint8_t> bytes(file.bytes());
  TD_RETURN_IF_ERROR(file.Read(bytes.data(), bytes.size()));
  TD_ASSIGN_OR_RETURN(const std::vector<reader::ZipEntry> entries, reader::ReadZip(bytes, path));
  std::vector<NamedArray> arrays;
  for (const reader::ZipEntry& entry : entries) {
    if (!entry.name.ends_with(".npy")) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - 4);
    TD_ASSIGN_OR_RETURN(const reader::NpyArray array,
                        reader::ParseNpy(entry.bytes, path + ": " + name));
    arrays.push_back({name,
                      {.type = array.type == reader::NpyType::kI8   ? Array::Type::kI64
                               : array.type == reader::NpyType::kF4 ? Array::Type::kF32
                                                                    : Array::Type::kOther,
                       .dims = array.dims,
                       .data = array.data.data()}});
  }
  return FromArrays(path, table, arrays);
}

// ---- Checks -------------------------------------------------------------------------------------

// Sorts the rows by id.
void Sort(int64_t dim, FileRows* rows) {
  if (std::is_sorted(rows->ids.begin(), rows->ids.end())) return;
  std::vector<size_t> order(rows->ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return rows->ids[a] < rows->ids[b]; });
  FileRows sorted;
  sorted.ids.reserve(rows->ids.size());
  sorted.values.reserve(rows->values.size());
  for (const size_t i : order) {
    sorted.ids.push_back(rows->ids[i]);
    const float* const from = rows->values.data() + i * static_cast<size_t>(dim);
    sorted.values.insert(sorted.values.end(), from, from + dim);
  }
  *rows = std::move(sorted);
}

// REQUIRES: the rows are sorted.
Status Check(const std::string& path, const RowTable& table, const FileRows& rows) {
  TD_REQUIRE(rows.values.size() == rows.ids.size() * static_cast<size_t>(table.dim));
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    const int64_t id = rows.ids[i];
    if (id < 0 || id >= table.height) {
      return InvalidArgument(
          "%s: row %d is outside table \"%s\", which has the rows 0 to %d [TD2105]", path, id,
          table.name, table.height - 1);
    }
    if (i != 0 && rows.ids[i - 1] == id) {
      return InvalidArgument("%s: row %d occurs twice [TD2105]; hint: keep one of them", path, id);
    }
  }
  for (size_t i = 0; i < rows.values.size(); ++i) {
    if (std::isfinite(rows.values[i])) continue;
    const auto dim = static_cast<size_t>(table.dim);
    return InvalidArgument("%s: row %d: value %d is %f, expected a finite number [TD2105]", path,
                           rows.ids[i / dim], i % dim, rows.values[i]);
  }
  return OkStatus();
}

}  // namespace

StatusOr<FileRows> ReadRowFile(const std::string& path, const RowTable& table) {
  TD_REQUIRE(table.dim > 0);
  StatusOr<FileRows> rows = InvalidArgument(
      "%s: expected the end .csv, .npz or .safetensors [TD2105]; hint: rename or convert the file",
      path);
  if (path.ends_with(".csv")) rows = ReadCsv(path, table);
  if (path.ends_with(".npz")) rows = ReadNpz(path, table);
  if (path.ends_with(".safetensors")) rows = ReadSafetensorsRows(path, table);
  TD_RETURN_IF_ERROR(rows.status());
  Sort(table.dim, &*rows);
  TD_RETURN_IF_ERROR(Check(path, table, *rows));
  return rows;
}

}  // namespace tandem::trainer
