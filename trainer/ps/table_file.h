// The file `tables.rows` of a trainer's checkpoint: the rows of tables that are stored only on
// pservers. The rows are stored by row bucket (common/tables/row_buckets.h). The file therefore
// does not depend on the number of servers, and is never whole in memory.
//
//   file    ::= record*
//   record  ::= its bytes, 8 bytes little-endian; a TableRecord (proto/pserver.proto)
//
// The records are sorted by table, then by row bucket; empty row buckets are left out. The manifest
// holds the file's SHA-256.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/os/files.h"
#include "pserver/client/client.h"

namespace tandem::trainer {

class TableFileWriter {
 public:
  Status Open(const std::string& path) { return file_.Open(path); }
  // Adds whole row buckets of `table`; they must come in ascending order.
  Status Add(const ps::PsTableRows& rows, const ps::PsTable& table);
  Status SyncAndClose() { return file_.SyncAndClose(); }

 private:
  FileWriter file_;
};

// Receives the rows. In `table` only name, dim and rules are set.
using TableSink = std::function<Status(const ps::PsTableRows& rows, const ps::PsTable& table)>;
// Calls `take` with each record of the file. DATA_LOSS: a record is damaged; the message names file
// and record. Returns an error of `take`.
Status ReadTableFile(const std::string& path, const TableSink& take);

}  // namespace tandem::trainer
