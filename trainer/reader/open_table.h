// Opens the table of a job, or columns in memory, and describes tables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"
#include "trainer/reader/table/memory_columns.h"

namespace tandem {
class DataConfig;
}  // namespace tandem

namespace tandem::reader {

// Opens the files of data.table; see OpenData(). `memory`: the columns, for a job without files;
// null: the job has files.
StatusOr<TrainAndTest> OpenJobTable(const DataConfig& config, const std::string& dir,
                                    bool with_test, std::shared_ptr<const MemoryColumns> memory);

// Opens columns that are in memory as a table with the options of data.table, which name no file.
// Also opens validation and test rows, if data.table.split has them. Errors: those of OpenTable()
// (trainer/reader/table/table.h).
StatusOr<TrainAndTest> OpenColumns(const DataConfig& config,
                                   std::shared_ptr<const MemoryColumns> columns);

// Returns a line for each column of a table's file, with inferred kinds. Errors: those of
// DescribeColumns (trainer/reader/table/table.h).
StatusOr<std::vector<std::string>> DescribeTable(const std::string& path);

}  // namespace tandem::reader
