// Records for click prediction in memory: ids of columns, numbers, and a label of two values. The
// csv and criteo readers produce them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset_arena.h"
#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

// Records that were read together, stored consecutively. Ids and numbers are in memory().
struct ClickPiece {
  std::pmr::vector<uint32_t> ids;  // [records, columns], each in the range of its column
  std::pmr::vector<float> dense;   // [records, numbers]
  std::vector<uint8_t> labels;     // [records]
};

struct ClickColumns {
  std::vector<int64_t> ids;  // number of ids by column; the ranges follow each other
  size_t dense = 0;          // numbers per record

  int64_t all_ids() const;
};

class ClickRecords {
 public:
  explicit ClickRecords(ClickColumns columns);

  DatasetArena* memory() { return &memory_; }
  void Add(ClickPiece piece);
  uint64_t size() const { return index_.size(); }

  // Makes a dataset of records [begin, begin + size) of `records`. Fields: "ids" i64 [columns],
  // "dense" f32 [numbers] if there are numbers, and "label" i64 [1]. `name` is used in messages.
  // REQUIRES: the records exist; size in [1, 2^32).
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
