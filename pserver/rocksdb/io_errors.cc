#include "pserver/rocksdb/io_errors.h"

#include <rocksdb/listener.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/error_text.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/rocksdb/rocksdb_status.h"

namespace tandem::pserver {
namespace {

// The first failed operation of this process.
struct IoError {
  Mutex mu;
  Status status TD_GUARDED_BY(mu);  // OK: no operation has failed
};

// Never destroyed, because RocksDB's threads may use it while the process ends.
IoError& FirstIoError() {
  static IoError* const error = new IoError;
  return *error;
}

class IoErrorListener final : public rocksdb::EventListener {
 public:
  bool ShouldBeNotifiedOnFileIO() override { return true; }
  void OnIOError(const rocksdb::IOErrorInfo& info) override {
    IoError& first = FirstIoError();
    MutexLock lock(first.mu);
    if (first.status.ok()) first.status = FromRocksdb(info.io_status, info.file_path);
  }
};

// Ends the process if an operation on a file has failed.
void EndAfterIoError() {
  IoError& first = FirstIoError();
  Status why;
  {
    MutexLock lock(first.mu);
    why = first.status;
  }
  if (why.ok()) return;
  std::fputs(ErrorText(program_invocation_short_name, why).c_str(), stderr);
  std::fflush(stderr);
  _exit(why.code() == StatusCode::kResourceExhausted ? kExitIo : kExitStorage);
}

}  // namespace

std::shared_ptr<rocksdb::EventListener> NoteIoErrors() {
  return std::make_shared<IoErrorListener>();
}

}  // namespace tandem::pserver

// Replaces the function of the C library that RocksDB's assertions call.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void __assert_fail(const char* assertion, const char* file, unsigned int line,
                              const char* function) noexcept {
  if (std::strstr(file, "writable_file_writer") != nullptr) tandem::pserver::EndAfterIoError();
  std::fprintf(stderr, "%s: %s:%u: %s: Assertion `%s' failed.\n", program_invocation_short_name,
               file, line, function, assertion);
  std::abort();
}
