// Records for click prediction in memory: ids of columns, numbers, and a label with two values. The
// readers of csv and Criteo files make these records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset_arena.h"
#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

// The records of one piece of a file, stored consecutively. `ids` and `dense` are in the memory of
// ClickRecords.
struct ClickPiece {
  std::pmr::vector<uint32_t> ids;  // [records, columns]; each id is in the range of its column
  std::pmr::vector<float> dense;   // the numbers of the records, [records, numbers]
  std::vector<uint8_t> labels;     // the label of each record, 0 or 1
};

struct ClickColumns {
  std::vector<int64_t> ids;  // number of ids of each column; the id ranges of columns are
                             // consecutive
  size_t dense = 0;          // number of numbers of a record

  int64_t all_ids() const;
};

class ClickRecords {
 public:
  explicit ClickRecords(ClickColumns columns);

  // Returns the fields of a view.
  static std::vector<SampleField> FieldsOf(const ClickColumns& columns);

  DatasetArena* memory() { return &memory_; }
  void Add(ClickPiece piece);
  uint64_t size() const { return index_.size(); }

  // Makes a dataset of the records [begin, begin + size) of `records`. The fields are "ids" i64
  // [columns], "dense" f32 [numbers] if there are numbers, and "label" i64 [1]. `name`: name of the
  // data in messages. REQUIRES: `records` contains this range; size is in [1, 2^32).
  static std::unique_ptr<Dataset> View(std::shared_ptr<const ClickRecords> records, uint64_t begin,
                                       uint64_t size, std::string name);

 private:
  friend class ClickView;

  const ClickColumns columns_;
  DatasetArena memory_;
  std::vector<int64_t> base_;  // the first id of each column
  PieceIndex index_;
  std::vector<ClickPiece> pieces_;
};

}  // namespace tandem::reader
