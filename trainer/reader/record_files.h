// Records of several files, one behind the other, as training and test data. Internal to the
// readers of such formats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/dataset.h"
#include "trainer/reader/text_lines.h"

namespace tandem {

struct RecordFiles {
  std::vector<std::string> train, test;  // paths
  double test_share = 0;     // of the training records, at their end, are the test data instead
  uint32_t samples_max = 0;  // the first so many training records; 0: all
  LineReading reading;       // of each file; records_max is not used
};

// Which records are whose: training data are the first `train`, test data the last `test`. Those
// between are left out.
struct RecordSplit {
  uint64_t train = 0, test = 0, records = 0;
};

// Reads one file, of which no more than `records_max` records are needed (0: all); returns how many
// it had.
using ReadRecordFile =
    std::function<StatusOr<uint64_t>(const std::string& path, uint64_t records_max)>;

// Reads all files, one behind the other. INVALID_ARGUMENT for no training file, for test files
// beside a share, for a share that is not in [0, 1) or leaves nothing to test with, for more than
// 2^32 records; else as `read`.
StatusOr<RecordSplit> ReadRecordFiles(const RecordFiles& files, const ReadRecordFile& read);

// The same of text files, as ReadLines().
struct LineRecords {
  std::vector<LinePiece> pieces;
  RecordSplit split;
  std::vector<std::string> warnings;
};
StatusOr<LineRecords> ReadLineFiles(const RecordFiles& files, const MakeLineSink& make);

// Where a record lies in pieces of different sizes.
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

// A dataset of records [begin, begin + size) of those that were read. `name` is told in messages.
using MakeView =
    std::function<std::unique_ptr<Dataset>(uint64_t begin, uint64_t size, const std::string& name)>;

TrainAndTest MakeViews(const RecordFiles& files, const RecordSplit& split,
                       std::vector<std::string> warnings, const MakeView& view);

}  // namespace tandem
