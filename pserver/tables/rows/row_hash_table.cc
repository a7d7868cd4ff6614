#include "pserver/tables/rows/row_hash_table.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Maximum number of rows per line, as an average over all lines. With an average of three rows, 5 %
// of the rows are outside their home line; with four rows, 10 %.
constexpr size_t kMostOfLine = 3;

}  // namespace

size_t RowHashTable::Line::size() const {
  return static_cast<size_t>(std::find(at.begin(), at.end(), kNone) - at.begin());
}

void RowHashTable::Line::Add(uint64_t id, uint32_t place) {
  const size_t entry = size();
  TD_REQUIRE(entry < kEntries);
  ids[entry] = id;
  at[entry] = place;
}

void RowHashTable::Line::Remove(size_t entry) {
  TD_REQUIRE(entry < size());
  const size_t last = size() - 1;
  ids[entry] = ids[last];
  at[entry] = at[last];
  at[last] = kNone;
}

uint32_t RowHashTable::FindOrAdd(uint64_t id, uint32_t at) {
  TD_REQUIRE(at != kNone);
  if (const uint32_t found = Find(id); found != kNone) return found;
  Reserve(size_t{size_} + 1);
  Insert(id, at);
  ++size_;
  return at;
}

void RowHashTable::Insert(uint64_t id, uint32_t at) {
  TD_REQUIRE(count_ > 0);
  size_t i = Home(id);
  while (lines_[i].full()) i = Next(i);
  lines_[i].Add(id, at);
}

RowHashTable::Entry RowHashTable::EntryOf(uint64_t id) const {
  CHECK_NE(size_, 0u);
  for (size_t i = Home(id);; i = Next(i)) {
    const Line& line = lines_[i];
    for (size_t j = 0; j < line.size(); ++j) {
      if (line.ids[j] == id) return {i, j};
    }
    CHECK(line.full()) << "row " << id;
  }
}

void RowHashTable::Set(uint64_t id, uint32_t at) {
  TD_REQUIRE(at != kNone);
  const Entry entry = EntryOf(id);
  lines_[entry.line].at[entry.entry] = at;
}

void RowHashTable::Erase(uint64_t id) {
  auto [hole, entry] = EntryOf(id);
  bool went_on = lines_[hole].full();
  lines_[hole].Remove(entry);
  --size_;
  // While the line was full, rows with this or an earlier home line may have been added to later
  // lines. The loop moves such a row into the hole, and the old position of the row is the next
  // hole.
  for (size_t i = hole; went_on;) {
    i = Next(i);
    went_on = lines_[i].full();
    for (size_t j = 0; j < lines_[i].size(); ++j) {
      if (Ahead(Home(lines_[i].ids[j]), i) < Ahead(hole, i)) continue;
      lines_[hole].Add(lines_[i].ids[j], lines_[i].at[j]);
      lines_[i].Remove(j);
      hole = i;
      break;
    }
  }
}

void RowHashTable::Reserve(size_t size) {
  const size_t lines = (size + kMostOfLine - 1) / kMostOfLine;
  if (lines > count_) Rehash(std::max(lines, size_t{count_} + count_ / 2));
}

void RowHashTable::Rehash(size_t lines) {
  const auto before = std::exchange(lines_, std::make_unique<Line[]>(lines));
  const size_t count = std::exchange(count_, static_cast<uint32_t>(lines));
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < before[i].size(); ++j) Insert(before[i].ids[j], before[i].at[j]);
  }
}

}  // namespace tandem::pserver
