// Converts the rows of messages of proto/pserver.proto, for readers of such messages or of files
// that contain them.
#pragma once

#include <span>

#include "pserver/client/client.h"

namespace tandem {
class TableRows;
}  // namespace tandem

namespace tandem::ps {

// Whether each use field has an entry for every row or for none.
bool HasConsistentLengths(const TableRows& rows);
// Converts everything except the slots, which `rows` does not contain. REQUIRES:
// HasConsistentLengths. The caller must check it, because input may be damaged.
PsTableRows RowsFromProto(const TableRows& rows);
// Adds the use data of some rows. `counted`: with clicks and brief flags, for all rows of `rows`.
void AddUse(std::span<const PsTableRows::Use> use, bool counted, TableRows* rows);

}  // namespace tandem::ps
