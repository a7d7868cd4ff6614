#include "trainer/reader/input/record_files.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/require.h"

namespace tandem::reader {
namespace {

Status Check(const RecordFiles& files) {
  if (files.train.empty()) return InvalidArgument("train_file is not set [TD1106]");
  if (!(files.test_share >= 0 && files.test_share < 1)) {
    return InvalidArgument("test_share is %g, expected at least 0 and below 1 [TD1104]",
                           files.test_share);
  }
  if (files.test_share > 0 && !files.test.empty()) {
    return InvalidArgument(
        "test_share and test_file are both set [TD1108]; hint: keep only one of these settings");
  }
  return OkStatus();
}

// Reads the records of `paths`, file by file. Stops after `records_max` records; 0: reads all.
StatusOr<uint64_t> ReadAll(const std::vector<std::string>& paths, uint64_t records_max,
                           const ReadRecordFile& read) {
  uint64_t records = 0;
  for (const std::string& path : paths) {
    if (records_max > 0 && records >= records_max) break;
    TD_ASSIGN_OR_RETURN(const uint64_t more,
                        read(path, records_max > 0 ? records_max - records : 0));
    records += more;
  }
  return records;
}

}  // namespace

StatusOr<RecordSplit> ReadRecordFiles(const RecordFiles& files, const ReadRecordFile& read) {
  TD_RETURN_IF_ERROR(Check(files));
  RecordSplit split;
  // Reads all records if test_share is set, because the share refers to all records, even if
  // training uses fewer.
  const uint64_t needed = files.test_share > 0 ? 0 : files.samples_max;
  TD_ASSIGN_OR_RETURN(split.records, ReadAll(files.train, needed, read));
  split.test = static_cast<uint64_t>(static_cast<double>(split.records) * files.test_share);
  split.train = split.records - split.test;
  if (files.samples_max > 0) split.train = std::min<uint64_t>(split.train, files.samples_max);
  if (files.test_share > 0 && split.test == 0) {
    return InvalidArgument("%s: a test_share of %g of %d records selects no record [TD2006]",
                           files.train[0], files.test_share, split.records);
  }
  if (!files.test.empty()) {
    TD_ASSIGN_OR_RETURN(split.test, ReadAll(files.test, 0, read));
    split.records += split.test;
  }
  if (split.records <= std::numeric_limits<uint32_t>::max()) return split;
  return InvalidArgument(
      "%s and the other files have more than 2^32 records, which is not supported", files.train[0]);
}

StatusOr<LineRecords> ReadLineFiles(const RecordFiles& files, const MakeLineSink& make) {
  LineRecords out;
  const auto read = [&](const std::string& path, uint64_t records_max) -> StatusOr<uint64_t> {
    LineReading reading = files.reading;
    reading.records_max = records_max;
    TD_ASSIGN_OR_RETURN(auto pieces, ReadLines(path, reading, make, &out.warnings));
    uint64_t records = 0;
    for (LinePiece& piece : pieces) {
      records += piece.records;
      out.pieces.push_back(std::move(piece));
    }
    return records;
  };
  TD_ASSIGN_OR_RETURN(out.split, ReadRecordFiles(files, read));
  return out;
}

TrainAndTest MakeViews(const RecordFiles& files, const RecordSplit& split,
                       std::vector<std::string> warnings, const MakeView& view) {
  TrainAndTest out;
  out.warnings = std::move(warnings);
  out.train = view(0, split.train, files.train[0]);
  if (split.test > 0) {
    const std::string& name = files.test.empty() ? files.train[0] : files.test[0];
    out.test = view(split.records - split.test, split.test, name);
  }
  return out;
}

PieceIndex::Place PieceIndex::Find(uint64_t record) const {
  TD_REQUIRE(record < size());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), record);
  const uint64_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return {static_cast<size_t>(end - ends_.begin()), static_cast<size_t>(record - begin)};
}

}  // namespace tandem::reader
