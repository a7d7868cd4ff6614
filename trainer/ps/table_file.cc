#include "trainer/ps/table_file.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/tables/row_buckets.h"
#include "proto/pserver.pb.h"
#include "pserver/client/job/table_rows.h"

namespace tandem::trainer {
namespace {

constexpr uint64_t kRecordBytesMax = uint64_t{1} << 31;

bool IsWhole(const TableRecord& record) {
  const TableRows& rows = record.rows();
  const int used = rows.show_size();
  if (!ps::HasConsistentLengths(rows) || used != rows.id_size()) return false;
  const auto brief =
      static_cast<size_t>(std::count(rows.brief().begin(), rows.brief().end(), true));
  const size_t weights = (static_cast<size_t>(used) - brief) * record.dim() + brief;
  return rows.content().size() ==
         weights * static_cast<size_t>(1 + record.slot_size()) * sizeof(float);
}

}  // namespace

Status TableFileWriter::Add(const ps::PsTableRows& rows, const ps::PsTable& table) {
  CHECK_EQ(rows.use.size(), rows.ids.size());
  const std::vector<size_t> begins = rows.Begins();
  size_t row = 0, waiting = 0;
  while (row < rows.ids.size() || waiting < rows.waiting.size()) {
    int bucket = kRowBuckets;
    if (row < rows.ids.size()) bucket = RowBucket(rows.ids[row]);
    if (waiting < rows.waiting.size()) {
      bucket = std::min(bucket, RowBucket(rows.waiting[waiting].id));
    }
    TableRecord record;
    record.set_bucket(static_cast<uint32_t>(bucket));
    record.mutable_slot()->Add(rows.slots.begin(), rows.slots.end());
    record.set_dim(static_cast<uint32_t>(table.dim));
    record.set_rules(table.rules);
    TableRows& to = *record.mutable_rows();
    to.set_variable(rows.variable);
    const size_t first = row;
    for (; row < rows.ids.size() && RowBucket(rows.ids[row]) == bucket; ++row) {
      to.add_id(rows.ids[row]);
    }
    const std::span use = std::span(rows.use).subspan(first, row - first);
    const bool counted = std::ranges::any_of(
        use, [](const ps::PsTableRows::Use& one) { return one.click != 0 || one.brief; });
    ps::AddUse(use, counted, &to);
    to.set_content(rows.content.data() + begins[first],
                   (begins[row] - begins[first]) * sizeof(float));
    for (; waiting < rows.waiting.size() && RowBucket(rows.waiting[waiting].id) == bucket;
         ++waiting) {
      to.add_waiting_id(rows.waiting[waiting].id);
      to.add_waiting_seen(rows.waiting[waiting].seen);
      to.add_waiting_age(rows.waiting[waiting].age);
    }
    DCHECK(IsWhole(record));
    const std::string text = record.SerializeAsString();
    const uint64_t bytes = text.size();
    TD_RETURN_IF_ERROR(file_.Write(&bytes, sizeof(bytes)));
    TD_RETURN_IF_ERROR(file_.Write(text.data(), text.size()));
  }
  return OkStatus();
}

Status ReadTableFile(const std::string& path, const TableSink& take) {
  FileReader file;
  TD_RETURN_IF_ERROR(file.Open(path));
  std::string text;
  uint64_t at = 0;
  for (int64_t number = 0; at < file.bytes(); ++number) {
    uint64_t bytes = 0;
    TD_RETURN_IF_ERROR(file.Read(&bytes, sizeof(bytes)));
    TableRecord record;
    const bool fits = bytes <= kRecordBytesMax && bytes <= file.bytes() - at - sizeof(bytes);
    if (fits) {
      text.resize(bytes);
      TD_RETURN_IF_ERROR(file.Read(text.data(), bytes));
    }
    if (!fits || !record.ParseFromString(text) || !IsWhole(record)) {
      return DataLoss("%s: record %d is damaged [TD2111]", path, number);
    }
    at += sizeof(bytes) + bytes;
    ps::PsTableRows rows = ps::RowsFromProto(record.rows());
    rows.slots.assign(record.slot().begin(), record.slot().end());
    const ps::PsTable table{
        .variable = rows.variable, .dim = record.dim(), .rules = record.rules()};
    TD_RETURN_IF_ERROR(Annotate(take(rows, table), path));
  }
  return OkStatus();
}

}  // namespace tandem::trainer
