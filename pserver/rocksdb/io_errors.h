// Errors of files that RocksDB meets. RocksDB ends the process with an assertion if it uses a file
// again whose write failed, for example when it closes the file. The message of the assertion does
// not name the error.
#pragma once

#include <memory>

namespace rocksdb {
class EventListener;
}

namespace tandem::pserver {

// Returns a listener for RocksDB's options that notes failed operations on files. After a noted
// error, an assertion of RocksDB about a written file prints the noted error to stderr and ends the
// process: with kExitIo if the disk is full, and with kExitStorage otherwise. All other assertions
// abort the process. Thread-safe.
std::shared_ptr<rocksdb::EventListener> NoteIoErrors();

}  // namespace tandem::pserver
