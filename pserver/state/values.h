// Parameters, optimizer slots and rows as values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/device.h"

namespace tandem::pserver {

// The f32 values of one slice.
struct SliceValues {
  std::string variable;
  int64_t offset = 0;
  int64_t numel = 0;
  Buffer values;
};
struct SlotValues {
  std::string variable;
  int64_t offset = 0;
  std::string slot;
  int64_t numel = 0;
  Buffer values;
};

// Use data of a row like RowUse (row_slabs.h), with an age instead of a version. The age is the
// number of versions since the last gradient of the row.
struct RowAge {
  float show = 1;
  uint32_t age = 0;
  float click = 0;
  bool brief = false;  // true: the row has only its first value and the first value of each slot
};
// A row that is not admitted yet. `seen`: number of versions in which the row had a gradient.
// `age`: number of versions since the last gradient of the row.
struct WaitingRow {
  uint64_t id = 0;
  uint32_t seen = 0, age = 0;
  friend bool operator==(const WaitingRow&, const WaitingRow&) = default;
};

// Rows of a table with their slots. The calls InitParams and PullTable transfer these rows.
struct RowValues {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;  // values of each row, followed by its slots; brief rows are shorter
  bool last = false;
  std::vector<RowAge> use;  // by row: its use data; empty: all rows count as used now
  std::vector<WaitingRow> waiting;
};
struct TablePage {
  uint64_t version = 0;
  RowValues rows;
  std::vector<std::string> slots;  // names of the slots in `rows`
  std::vector<float> slot_start;
  int next_bucket = 0;
};
// The optimizer slots at one version.
struct VersionedSlots {
  uint64_t version = 0;
  std::vector<SlotValues> slots;
};

inline std::span<const float> Floats(const Buffer& buffer, int64_t numel) {
  return {reinterpret_cast<const float*>(buffer.get()), static_cast<size_t>(numel)};
}

}  // namespace tandem::pserver
