// The file `tables.rows` of a trainer's checkpoint: the rows of tables that only pservers store.
// The file is divided by row bucket (common/tables/row_buckets.h), so it does not depend on the
// number of servers. Neither reading nor writing needs the whole file in memory.
//
//   file    ::= record*
//   record  ::= length of the TableRecord in bytes (8 bytes, little-endian), then the
//               TableRecord (proto/pserver.proto)
//
// The records are sorted by table, and by row bucket within a table. Empty row buckets have no
// record. The checkpoint's manifest has the SHA-256 of the file.
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
  // Appends whole row buckets of `table`. The caller must add the buckets of a table in ascending
  // order.
  Status Add(const ps::PsTableRows& rows, const ps::PsTable& table);
  Status SyncAndClose() { return file_.SyncAndClose(); }

 private:
  FileWriter file_;
};

// Receives the rows of one record. Only name, dim and rules of `table` are set.
using TableSink = std::function<Status(const ps::PsTableRows& rows, const ps::PsTable& table)>;
// Calls `take` with the rows of each record in the file. DATA_LOSS: a record is damaged; the
// message names the file and the record. Returns the first error of `take`.
Status ReadTableFile(const std::string& path, const TableSink& take);

}  // namespace tandem::trainer
