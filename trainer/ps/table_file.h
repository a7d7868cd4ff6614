// The file `tables.rows` of a trainer's checkpoint: rows of tables that lie on pservers alone,
// bucket by bucket (common/tensor/row_buckets.h), so that it is the same whatever the number of
// servers, and never whole in memory.
//
//   file    ::= record*
//   record  ::= its bytes, 8 bytes little-endian; a TableRecord (proto/pserver.proto)
//
// Table after table, in each the buckets that have rows, ascending. The manifest holds its SHA-256.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "pserver/client/client.h"

namespace tandem {

class TableFileWriter {
 public:
  Status Open(const std::string& path) { return file_.Open(path); }
  // Whole buckets of `table`, in their order.
  Status Add(const PsTableRows& rows, const PsTable& table);
  Status SyncAndClose() { return file_.SyncAndClose(); }

 private:
  FileWriter file_;
};

// Of `table` name, dim and rules are known.
using TableSink = std::function<Status(const PsTableRows& rows, const PsTable& table)>;
// Gives `take` the records of the file. DATA_LOSS naming file and record when one is damaged, or
// what `take` says.
Status ReadTableFile(const std::string& path, const TableSink& take);

}  // namespace tandem
