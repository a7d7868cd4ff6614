// Rows of tables, and their conversion from messages of proto/pserver.proto. Files contain such
// messages too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem {
class TableRows;
}  // namespace tandem

namespace tandem::ps {

// Rows with their slots. For each row, `content` holds its values, then its slots.
struct PsTableRows {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;
  std::vector<std::string> slots;  // names of the slots in `content`
  std::vector<float> slot_start;   // initial values of the slots
  // Use data of each row (TableRows of proto/pserver.proto); empty: no use data.
  struct Use {
    float show = 1;
    uint32_t age = 0;
    float click = 0;
    // accessor=ctr: the row has only its first value and the first value of each slot
    bool brief = false;
    friend bool operator==(const Use&, const Use&) = default;
  };
  std::vector<Use> use;
  struct Waiting {
    uint64_t id = 0;
    uint32_t seen = 0, age = 0;
  };
  std::vector<Waiting> waiting;

  // Offsets in `content` at which the rows begin, followed by the end.
  std::vector<size_t> Begins() const;
};

// Whether each use field has an entry for every row or for none.
bool HasConsistentLengths(const TableRows& rows);
// Converts everything except the slots, which `rows` does not contain. REQUIRES:
// HasConsistentLengths. The caller must check it, because input may be damaged.
PsTableRows RowsFromProto(const TableRows& rows);
// Adds the use data of some rows. `counted`: with clicks and brief flags, for all rows of `rows`.
void AddUse(std::span<const PsTableRows::Use> use, bool counted, TableRows* rows);

}  // namespace tandem::ps
