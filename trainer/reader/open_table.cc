#include "trainer/reader/open_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "trainer/reader/open.h"
#include "trainer/reader/table/table.h"

namespace tandem::reader {
namespace {

// The ColumnKind of each value of TableColumnConfig::Kind, in the order of these values.
constexpr ColumnKind kColumnKinds[] = {
    ColumnKind::kInfer,  ColumnKind::kFloat, ColumnKind::kCategory,
    ColumnKind::kOneHot, ColumnKind::kLabel, ColumnKind::kTarget,
    ColumnKind::kWeight, ColumnKind::kTime,  ColumnKind::kIgnore};
static_assert(std::size(kColumnKinds) == TableColumnConfig::Kind_ARRAYSIZE);

ColumnKind KindOf(TableColumnConfig::Kind kind) { return kColumnKinds[static_cast<size_t>(kind)]; }

std::vector<std::string> InDir(const std::string& dir,
                               const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(name.starts_with('/') ? name : absl::StrCat(dir, "/", name));
  }
  return paths;
}

}  // namespace

StatusOr<TrainAndTest> OpenJobTable(const DataConfig& config, const std::string& dir,
                                    bool with_test, std::shared_ptr<const MemoryColumns> memory) {
  const TableConfig& table = config.table();
  TableOptions options;
  if (memory != nullptr && table.file_size() + table.test_file_size() > 0) {
    return InvalidArgument(
        "data.table names files, but the columns are in memory [TD1108]; hint: remove file and "
        "test_file");
  }
  options.memory = std::move(memory);
  options.files = InDir(dir, table.file());
  if (with_test) options.test_files = InDir(dir, table.test_file());
  TD_ASSIGN_OR_RETURN(options.separator, SeparatorOf("data.table.separator", table.separator()));
  if (table.missing_size() > 0) options.missing = {table.missing().begin(), table.missing().end()};
  for (const TableColumnConfig& column : table.column()) {
    options.columns.push_back(
        {column.name(), KindOf(column.kind()), {column.class_().begin(), column.class_().end()}});
  }
  options.others = KindOf(table.others());
  options.standardise = table.standardise();
  options.missing_indicator = table.missing_indicator();
  TD_ASSIGN_OR_RETURN(options.split,
                      ParseSplit("data.table.split", table.split(), !table.test_file().empty()));
  options.split_seed = table.split_seed();
  options.evaluate_validation = table.evaluate() == TableConfig::VALIDATION;
  options.samples_max = static_cast<uint32_t>(config.train_samples_max());
  options.bad_rows_max = config.max_bad_records();
  return OpenTable(options);
}

StatusOr<TrainAndTest> OpenColumns(const DataConfig& config,
                                   std::shared_ptr<const MemoryColumns> columns) {
  return OpenJobTable(config, "", /*with_test=*/true, std::move(columns));
}

StatusOr<std::vector<std::string>> DescribeTable(const std::string& path) {
  TableOptions options;
  options.files = {path};
  if (path.ends_with(".tsv") || path.ends_with(".tsv.gz")) options.separator = '\t';
  return DescribeColumns(options);
}

}  // namespace tandem::reader
