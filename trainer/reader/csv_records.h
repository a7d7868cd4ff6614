// Internal to the csv reader: the records of one file, one after the other.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// One value of a record by its column's index; blanks around it are gone.
using CsvFields = std::span<const std::string_view>;

// What is wrong with a record, or OK.
using CsvVisit = std::function<Status(CsvFields fields)>;

// How the bad records of a file are dealt with.
struct CsvTolerance {
  int64_t bad_max = 0;
  std::vector<std::string>* warnings = nullptr;  // the first bad ones; nullptr: said already
};

// Calls `visit` for every record but the first line, of which `columns` are the names. DATA_LOSS
// naming file and line when `visit` refuses more than tolerance.bad_max records.
Status VisitCsv(const std::string& path, char separator, const std::vector<std::string>& columns,
                const CsvTolerance& tolerance, const CsvVisit& visit);

// The names in the first line. NOT_FOUND, PERMISSION_DENIED, DATA_LOSS for an empty file.
StatusOr<std::vector<std::string>> CsvColumnNames(const std::string& path, char separator);

}  // namespace tandem
