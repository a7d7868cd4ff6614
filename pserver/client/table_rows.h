// The rows of a message of proto/pserver.proto, for those that read such messages or files of them.
#pragma once

#include "pserver/client/client.h"

namespace tandem {

class TableRows;

// All of PsTableRows but the slots, of which `rows` says nothing. REQUIRES: lists of `rows` that
// belong together are of one length (the caller looked: what came from outside may be damaged).
PsTableRows RowsFromProto(const TableRows& rows);

}  // namespace tandem
