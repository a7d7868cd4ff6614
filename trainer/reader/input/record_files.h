// Reads the records of several files, in the order of the files, as training data and test data.
// Internal to the readers of formats with records.
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
  std::vector<std::string> train, test;  // paths of the training files and of the test files
  double test_share = 0;                 // last share of the training records, used as test data
  uint32_t samples_max = 0;  // number of training records to use, from the first on; 0: all
  LineReading reading;       // how each file is read; records_max is unused
};

// The division of all records: the first `train` records are training data, the last `test` records
// are test data. Records between them are unused.
struct RecordSplit {
  uint64_t train = 0, test = 0, records = 0;
};

// Reads the file `path` and returns the number of its records. The function may stop after
// `records_max` records (0: all).
using ReadRecordFile =
    std::function<StatusOr<uint64_t>(const std::string& path, uint64_t records_max)>;

// Reads the records of all files in order. Returns the division of the records. INVALID_ARGUMENT:
// one of the following causes.
// - There is no training file.
// - There are test files, and test_share is set too.
// - test_share is outside [0, 1), or leaves no test data.
// - There are more than 2^32 records.
//
// All other errors of ReadRecordFiles come from `read`.
StatusOr<RecordSplit> ReadRecordFiles(const RecordFiles& files, const ReadRecordFile& read);

// The records of text files, which ReadLines() has read, and their division into training and test
// data.
struct LineRecords {
  std::vector<LinePiece> pieces;
  RecordSplit split;
  std::vector<std::string> warnings;
};
StatusOr<LineRecords> ReadLineFiles(const RecordFiles& files, const MakeLineSink& make);

// Finds a record by its number in a sequence of pieces of different sizes.
class PieceIndex {
 public:
  struct Place {
    size_t piece = 0, record = 0;
  };

  void Add(uint64_t records) { ends_.push_back(size() + records); }
  uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // Returns the piece of the record, and the record's number in this piece. REQUIRES: record <
  // size().
  Place Find(uint64_t record) const;

 private:
  std::vector<uint64_t> ends_;
};

// Makes a dataset of the records [begin, begin + size). `name`: name of the data in messages.
using MakeView =
    std::function<std::unique_ptr<Dataset>(uint64_t begin, uint64_t size, const std::string& name)>;

TrainAndTest MakeViews(const RecordFiles& files, const RecordSplit& split,
                       std::vector<std::string> warnings, const MakeView& view);

}  // namespace tandem::reader
