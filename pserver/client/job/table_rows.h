// Rows of tables, and their conversion from TableRows messages of proto/pserver.proto, which
// checkpoint files also contain.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem {
class TableRows;
}  // namespace tandem

namespace tandem::ps {

// Rows of a table with their slots. `content` has the values of each row, followed by the slots of
// the row.
struct PsTableRows {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;
  std::vector<std::string> slots;  // names of the slots, in the order of `content`
  std::vector<float> slot_start;   // initial values of the slots, in the order of `slots`
  // The use data of a row: its shows, clicks and age (TableRows of proto/pserver.proto).
  struct Use {
    float show = 1;
    uint32_t age = 0;
    float click = 0;
    // accessor=ctr: the row has only its first value and the first value of each slot.
    bool brief = false;
    friend bool operator==(const Use&, const Use&) = default;
  };
  std::vector<Use> use;  // use data of each row; empty: the rows have no use data
  struct Waiting {
    uint64_t id = 0;
    uint32_t seen = 0, age = 0;
  };
  std::vector<Waiting> waiting;

  // Returns the offsets in `content` at which the rows begin, followed by the end of the last row.
  std::vector<size_t> Begins() const;
};

// Returns whether each list of use data in `rows` has an entry for every row, or is empty.
bool HasConsistentLengths(const TableRows& rows);
// Converts all fields of `rows`. The result has no names or initial values of slots, which `rows`
// does not contain. REQUIRES: HasConsistentLengths(rows), which the caller must check, because the
// input may be damaged.
PsTableRows RowsFromProto(const TableRows& rows);
// Adds the shows and ages of some rows to `rows`. `counted`: also adds the fields click and brief,
// which must then exist for all rows of `rows`.
void AddUse(std::span<const PsTableRows::Use> use, bool counted, TableRows* rows);

}  // namespace tandem::ps
