#include "trainer/reader/csv_records.h"

#include <cerrno>
#include <fstream>

namespace tandem {
namespace {

constexpr size_t kLineMax = 1 << 20;  // longer lines are no records
constexpr size_t kWarningsMax = 10;   // of a file

StatusOr<std::ifstream> Open(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (file.good()) return file;
  const int error = errno;
  if (error == EACCES) return PermissionDenied("%s: %s", path, ErrnoText(error));
  return NotFound("%s: cannot be read (%s)", path, ErrnoText(error));
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<std::string_view> Split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (size_t at = 0;;) {
    const size_t end = line.find(separator, at);
    fields.push_back(Trimmed(line.substr(at, end - at)));
    if (end == std::string_view::npos) return fields;
    at = end + 1;
  }
}

Status VisitLine(const std::string& line, char separator, size_t columns, const CsvVisit& visit) {
  if (line.size() > kLineMax) return DataLoss("the line is longer than %d bytes", kLineMax);
  if (line.find('"') != std::string::npos) return DataLoss("quoted fields are not read");
  const auto fields = Split(line, separator);
  if (fields.size() != columns) {
    return DataLoss("%d fields, but the first line names %d columns", fields.size(), columns);
  }
  return visit(fields);
}

}  // namespace

StatusOr<std::vector<std::string>> CsvColumnNames(const std::string& path, char separator) {
  TD_ASSIGN_OR_RETURN(std::ifstream file, Open(path));
  std::string line;
  if (!std::getline(file, line)) return DataLoss("%s:1: the file is empty", path);
  std::vector<std::string> names;
  for (const std::string_view name : Split(line, separator)) names.emplace_back(name);
  return names;
}

Status VisitCsv(const std::string& path, char separator, const std::vector<std::string>& columns,
                const CsvTolerance& tolerance, const CsvVisit& visit) {
  TD_ASSIGN_OR_RETURN(std::ifstream file, Open(path));
  std::string line;
  int64_t bad = 0;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 || Trimmed(line).empty()) continue;
    const Status status = VisitLine(line, separator, columns.size(), visit);
    if (status.ok()) continue;
    const std::string what =
        absl::StrFormat("%s:%d: %s", path, number, std::string(status.message()));
    if (++bad > tolerance.bad_max) {
      return DataLoss("%s; that is bad record %d of this file, and bad_records_max is %d", what,
                      bad, tolerance.bad_max);
    }
    if (tolerance.warnings != nullptr && bad <= static_cast<int64_t>(kWarningsMax)) {
      tolerance.warnings->push_back(what);
    }
  }
  if (file.bad()) return DataLoss("%s: reading failed: %s", path, ErrnoText(errno));
  if (tolerance.warnings != nullptr && bad > 0) {
    tolerance.warnings->push_back(absl::StrFormat("%s: %d bad records left out", path, bad));
  }
  return OkStatus();
}

}  // namespace tandem
