// Reads records of several files, in order, as training and test data. Internal to the readers of
// such formats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"
#include "trainer/reader/input/text_lines.h"

namespace tandem::reader {

struct RecordFiles {
  std::vector<std::string> train, test;  // paths
  double test_share = 0;     // share of the training records, at their end, used as test data
  uint32_t samples_max = 0;  // uses only the first samples_max training records; 0: all
  LineReading reading;       // for each file; records_max is unused
};

// The split of the records: the first `train` are training data, the last `test` are test data.
// Records between them are unused.
struct RecordSplit {
  uint64_t train = 0, test = 0, records = 0;
};

// Reads one file, of which at most `records_max` records are needed (0: all). Returns the number of
// its records.
using ReadRecordFile =
    std::function<StatusOr<uint64_t>(const std::string& path, uint64_t records_max)>;

// Reads all files in order. INVALID_ARGUMENT:
//
// - no training file;
// - test files as well as a share;
// - a share outside [0, 1), or one that leaves no test data;
// - more than 2^32 records.
//
// Other errors: as `read`.
StatusOr<RecordSplit> ReadRecordFiles(const RecordFiles& files, const ReadRecordFile& read);

// Like RecordSplit and ReadRecordFiles, for text files, which ReadLines() reads.
struct LineRecords {
  std::vector<LinePiece> pieces;
  RecordSplit split;
  std::vector<std::string> warnings;
};
StatusOr<LineRecords> ReadLineFiles(const RecordFiles& files, const MakeLineSink& make);

// Finds a record in pieces of different sizes.
class PieceIndex {
 public:
  struct Place {
    size_t piece = 0, record = 0;
  };

  void Add(uint64_t records) { ends_.push_back(size() + records); }
  uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // REQUIRES: record < size().
  Place Find(uint64_t record) const;

 private:
  std::vector<uint64_t> ends_;
};

// Makes a dataset of records [begin, begin + size) of the records read. `name` is used in messages.
using MakeView =
    std::function<std::unique_ptr<Dataset>(uint64_t begin, uint64_t size, const std::string& name)>;

TrainAndTest MakeViews(const RecordFiles& files, const RecordSplit& split,
                       std::vector<std::string> warnings, const MakeView& view);

}  // namespace tandem::reader
