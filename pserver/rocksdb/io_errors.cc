#include "pserver/rocksdb/io_errors.h"

#include <rocksdb/listener.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/base/error_text.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem::pserver {
namespace {

// The first failed operation of this process.
struct IoError {
  Mutex mu;
  std::string text TD_GUARDED_BY(mu);  // "": no operation has failed
  bool no_space TD_GUARDED_BY(mu) = false;
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
    if (!first.text.empty()) return;
    first.text = info.file_path + ": " + info.io_status.ToString();
    first.no_space = info.io_status.IsNoSpace();
  }
};

// Ends the process if an operation on a file has failed.
void EndAfterIoError() {
  IoError& first = FirstIoError();
  std::string text;
  bool no_space = false;
  {
    MutexLock lock(first.mu);
    text = first.text;
    no_space = first.no_space;
  }
  if (text.empty()) return;
  const Status why =
      no_space
          ? ResourceExhausted("the disk is full: %s [TD2107]; hint: free space on the disk", text)
          : Unavailable(
                "the checkpoint store failed: %s [TD2110]; hint: start the server again, which "
                "recovers its state from the directory",
                text);
  std::fputs(ErrorText(program_invocation_short_name, why).c_str(), stderr);
  std::fflush(stderr);
  _exit(no_space ? kExitIo : kExitStorage);
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
