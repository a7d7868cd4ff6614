// Counts the calls of a process to the operating system, and lets one of them fail. The library of
// shim_calls.cc is loaded with LD_PRELOAD. Variables of the environment configure it:
//   TANDEM_FAULT_DIR      only files below this directory count, and anonymous shared memory
//   TANDEM_FAULT_LOG      file that gets a line for each counted call; not set: none
//   TANDEM_FAULT_PROCESS  name of the program whose calls fail
//   TANDEM_FAULT_INDEX    rank of the trainer or index of the pserver; not set: any
//   TANDEM_FAULT_CALL     name of the function that fails
//   TANDEM_FAULT_AT       number of the first call that fails, from 1
//   TANDEM_FAULT_TIMES    number of calls that fail; 0: all from the first on
//   TANDEM_FAULT_ERRNO    errno of the failing call; 0: the call transfers half of its bytes
//   TANDEM_FAULT_DROP     1: a failing fsync loses the bytes that were written after the last one
//   TANDEM_FAULT_MARK     file that gets the line of the first failing call. It must be absent at
//                         the start of a job. Only the process that creates it has failing calls.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tandem::os_faults {

enum class Call {
  kOpen,
  kOpendir,
  kReaddir,
  kMkdir,
  kRename,
  kLink,
  kUnlink,
  kFtruncate,
  kFallocate,
  kWrite,
  kRead,
  kFsync,
  kClose,
  kMmap,
  kMemfdCreate,
  kSocket,
  kSocketpair,
  kBind,
  kListen,
  kAccept,
  kConnect,
  kSend,
  kRecv,
  kEpollCreate,
  kEpollCtl,
  kEventfd,
  kTimerfd,
  kSignalfd,
  kPipe,
  kDup,
  kFork,
  kExec,
  kPthreadCreate,
  kMalloc,
  kCount,
};

// Result of the check of one call.
struct Fate {
  bool fails = false;
  bool is_short = false;  // the call transfers half of its bytes
  int error = 0;          // errno of a call that fails
};

// Counts a call on `path`, or on any object if `path` is null. Thread-safe, and safe between fork
// and exec.
Fate FateOf(Call call, const char* path);
// The same for an open file. Sockets and pipes do not count.
Fate FateOfFile(Call call, int fd);

// Notes that the bytes of an open file are durable.
void NoteDurable(int fd);
// Removes the bytes of an open file that are not durable, as a disk does that lost them. Does
// nothing without TANDEM_FAULT_DROP.
void DropUnsynced(int fd);

}  // namespace tandem::os_faults
