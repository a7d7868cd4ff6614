// The rows of a message of proto/pserver.proto, for those that read such messages or files of them.
#pragma once

#include <span>

#include "pserver/client/client.h"

namespace tandem {

class TableRows;

// Whether what is said of each row is said of all or of none.
bool HasConsistentLengths(const TableRows& rows);
// All of PsTableRows but the slots, of which `rows` says nothing. REQUIRES: HasConsistentLengths
// (the caller looked: what came from outside may be damaged).
PsTableRows RowsFromProto(const TableRows& rows);
// Adds what is counted of some rows; `counted`: with clicks and which are brief, as all of `rows`
// or none of them.
void AddUse(std::span<const PsTableRows::Use> use, bool counted, TableRows* rows);

}  // namespace tandem
