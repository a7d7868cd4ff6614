// A stand-in for libnccl.so.2 that needs no GPU. It has NCCL's C interface
// (collective/nccl/nccl_library.h). The ranks are threads or processes of one host and share named
// memory. Operations run on the streams of the stand-in device (guarded_device_module.cc). A sum
// adds the values of the ranks in ascending order of ranks.
//
// If the environment has TANDEM_FAKE_NCCL_LOG=FILE, each communicator and each operation adds a
// line to FILE. With TANDEM_FAKE_NCCL_FAULT=KIND:RANK:N, rank RANK of a communicator fails at its
// operation N (counted from 1). KIND is one of three: "hang": the operation never ends; "error":
// the operation never ends, and ncclCommGetAsyncError returns ncclRemoteError; "exit": the process
// exits at once.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/nccl/nccl_library.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "tests/support/guarded_stream.h"

namespace tandem {
namespace {

constexpr size_t kSlot = 64 << 10;  // bytes that each rank exchanges in one round

void Log(const std::string& line) {
  const char* path = std::getenv("TANDEM_FAKE_NCCL_LOG");
  if (path == nullptr) return;
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  CHECK_EQ(write(fd, (line + "\n").c_str(), line.size() + 1),
           static_cast<ssize_t>(line.size() + 1));
  close(fd);
}

std::string Variables() {
  std::string text;
  for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE",
                           "NCCL_NET_GDR_LEVEL", "NCCL_DEBUG", "NCCL_LAUNCH_MODE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) text += std::string(" ") + name + "=" + value;
  }
  return text;
}

// Shared memory of the ranks of a communicator. The slots of the ranks follow this header. New
// memory is zero.
struct Board {
  std::atomic<uint32_t> joined;
  // State of the barrier: number of waiting ranks, and number of the round.
  std::atomic<uint32_t> waiting, round;
};

struct Fault {
  std::string kind;
  int rank = -1;
  uint64_t at = 0;
};

Fault FaultOfEnvironment() {
  Fault fault;
  char kind[16] = {};
  unsigned long at = 0;
  const char* text = std::getenv("TANDEM_FAKE_NCCL_FAULT");
  if (text == nullptr || std::sscanf(text, "%15[a-z]:%d:%lu", kind, &fault.rank, &at) != 3) {
    return Fault();
  }
  fault.kind = kind;
  fault.at = at;
  return fault;
}

// A mailbox for messages from one rank to another. The mailbox holds one piece of a message at a
// time. In the shared memory, all mailboxes follow the slots.
struct Mailbox {
  std::atomic<uint32_t> bytes_and_1;  // size of the piece in bytes plus 1; 0: the mailbox is empty
  std::byte data[kSlot];
};

// Returns a pointer to the number of operations that all communicators have in progress on a
// stream. The number exists until the process ends.
std::atomic<int>* JobsOf(void* stream) {
  static Mutex mu;
  static std::map<void*, std::atomic<int>> all;
  MutexLock lock(mu);
  return &all[stream];
}

class Comm {
 public:
  Comm(const char* name, int rank, int size)
      : rank_(rank),
        size_(size),
        bytes_(4096 +
               (kSlot + sizeof(Mailbox) * static_cast<size_t>(size)) * static_cast<size_t>(size)) {
    const int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes_)) == 0) << name;
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    board_ = static_cast<Board*>(at);
    // The last rank that joins removes the name of the shared memory. Thus no shared memory remains
    // after the ranks end.
    if (board_->joined.fetch_add(1) + 1 == static_cast<uint32_t>(size)) shm_unlink(name);
  }
  ~Comm() { munmap(board_, bytes_); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool complete() const { return board_->joined.load() == static_cast<uint32_t>(size_); }
  collective::NcclResult error() const {
    return static_cast<collective::NcclResult>(error_.load());
  }
  void Abort() { aborted_.store(true); }
  // Adds `delta` to the number of operations in progress on a stream.
  void Count(void* stream, int delta) {
    jobs_ = JobsOf(stream);
    *jobs_.load() += delta;
  }
  bool stream_busy() const { return jobs_.load() != nullptr && *jobs_.load() > 0; }

  // Returns true if operation `number` has no fault. If a fault is injected into this or an earlier
  // operation of the rank, exits the process, or blocks until the communicator is aborted and
  // returns false.
  bool GoesOn(uint64_t number) {
    if (fault_.rank != rank_ || number < fault_.at) return true;
    if (fault_.kind == "exit") _exit(3);
    if (fault_.kind == "error")
      error_.store(static_cast<int>(collective::NcclResult::kRemoteError));
    while (!aborted_.load()) std::this_thread::yield();
    return false;
  }
  uint64_t NextNumber() { return ++operations_; }

  std::byte* Slot(int rank) const {
    return reinterpret_cast<std::byte*>(board_) + 4096 + kSlot * static_cast<size_t>(rank);
  }
  Mailbox& Mail(int from, int to) const {
    auto* const all = reinterpret_cast<Mailbox*>(Slot(size_));
    return all[from * size_ + to];
  }
  bool aborted() const { return aborted_.load(); }
  // Waits until all ranks call this function. Returns false if the communicator is aborted during
  // the wait.
  bool Meet() {
    const uint32_t round = board_->round.load();
    if (board_->waiting.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
      board_->waiting.store(0);
      board_->round.fetch_add(1);
      return true;
    }
    while (board_->round.load() == round) {
      if (aborted_.load()) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  const int rank_, size_;
  const size_t bytes_;
  const Fault fault_ = FaultOfEnvironment();
  Board* board_ = nullptr;
  std::atomic<bool> aborted_{false};
  std::atomic<int> error_{0};
  // Number of operations on the communicator's stream, from JobsOf.
  std::atomic<std::atomic<int>*> jobs_{nullptr};
  std::atomic<uint64_t> operations_{0};
};

Comm* Of(collective::NcclComm comm) { return reinterpret_cast<Comm*>(comm); }

DType DTypeOf(collective::NcclType type) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kU8}) {
    if (collective::NcclTypeOf(dtype) == type) return dtype;
  }
  LOG(FATAL) << "element type " << static_cast<int>(type);
}
ReduceOp ReduceOpOf(collective::NcclReduce reduce) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd}) {
    if (collective::NcclReduceOf(op) == reduce) return op;
  }
  LOG(FATAL) << "reduction " << static_cast<int>(reduce);
}

// An operation over `count` elements of each rank. The operation runs in pieces that fit into a
// slot.
struct Call {
  const char* name;
  const void* in;
  void* out;
  size_t count;
  collective::NcclType type;
  collective::NcclReduce reduce = collective::NcclReduce::kSum;
  int root = 0;
};

using Elements = std::pair<size_t, size_t>;  // first element and number of elements

// Copies the elements `range` of this rank's input into its slot. When all ranks have copied their
// elements, calls `take`, which reads all slots. No rank writes to its slot again before `take` has
// returned on all ranks.
bool Exchange(Comm& comm, const Call& call, Elements range, const std::function<void()>& take) {
  const size_t element = SizeOf(DTypeOf(call.type));
  std::memcpy(comm.Slot(comm.rank()),
              static_cast<const std::byte*>(call.in) + range.first * element,
              range.second * element);
  if (!comm.Meet()) return false;
  take();
  return comm.Meet();
}

void ReduceSlots(const Comm& comm, const Call& call, size_t count, std::byte* out) {
  std::vector<const std::byte*> slots;
  for (int r = 0; r < comm.size(); ++r) slots.push_back(comm.Slot(r));
  ReduceAcross(ReduceOpOf(call.reduce), DTypeOf(call.type), slots, {&out, 1}, count);
}

bool Carry(Comm& comm, const Call& call) {
  const std::string name = call.name;
  const size_t element = SizeOf(DTypeOf(call.type)), step = kSlot / element;
  auto* const out = static_cast<std::byte*>(call.out);
  // A reduce-scatter consists of one reduction per rank, over the elements that the rank receives.
  const int parts = name == "reduce_scatter" ? comm.size() : 1;
  for (int part = 0; part < parts; ++part) {
    for (size_t at = 0; at < call.count; at += step) {
      const size_t n = std::min(step, call.count - at);
      const bool going =
          Exchange(comm, call, {static_cast<size_t>(part) * call.count + at, n}, [&] {
            if (name == "broadcast") {
              std::memcpy(out + at * element, comm.Slot(call.root), n * element);
            } else if (name == "all_gather") {
              for (int r = 0; r < comm.size(); ++r) {
                std::memcpy(out + (static_cast<size_t>(r) * call.count + at) * element,
                            comm.Slot(r), n * element);
              }
            } else if (name == "all_reduce" || comm.rank() == (parts > 1 ? part : call.root)) {
              ReduceSlots(comm, call, n, out + at * element);
            }
          });
      if (!going) return false;
    }
  }
  return true;
}

// The sending or the receiving end of a message.
struct Message {
  bool sends;
  int peer;
  std::byte* data;
  size_t bytes;
};

// Moves one piece of the message if the mailbox permits it. Returns true when the whole message has
// been moved.
bool Advance(const Comm& comm, Message& message) {
  const int own = comm.rank();
  Mailbox& mail = message.sends ? comm.Mail(own, message.peer) : comm.Mail(message.peer, own);
  const uint32_t there = mail.bytes_and_1.load();
  if (message.sends != (there == 0)) return false;
  const size_t n = message.sends ? std::min(kSlot, message.bytes) : there - 1;
  CHECK_LE(n, message.bytes) << "rank " << message.peer << " sent more than rank " << own
                             << " expects";
  std::byte* const to = message.sends ? mail.data : message.data;
  if (n > 0) std::memcpy(to, message.sends ? message.data : mail.data, n);
  mail.bytes_and_1.store(message.sends ? static_cast<uint32_t>(n + 1) : 0);
  message.data += n;
  message.bytes -= n;
  return message.bytes == 0;
}

// Moves all messages concurrently, as NCCL does in a group. Messages of one pair of ranks in one
// direction are moved one after another.
void CarryMessages(const Comm& comm, std::vector<Message> messages) {
  while (!messages.empty() && !comm.aborted()) {
    for (auto at = messages.begin(); at != messages.end(); ++at) {
      const bool behind = std::any_of(messages.begin(), at, [&](const Message& m) {
        return m.sends == at->sends && m.peer == at->peer;
      });
      if (behind || !Advance(comm, *at)) continue;
      messages.erase(at);
      break;
    }
    std::this_thread::yield();
  }
}

// Calls of this thread in the current group. The calls begin when the group ends.
thread_local int group_depth = 0;
thread_local std::vector<std::function<void()>> group;
thread_local std::vector<Message> group_messages;

// Communicators that this thread aborted and whose memory is not freed yet.
thread_local std::vector<std::unique_ptr<Comm>> aborted;

// Waits until the streams of all aborted communicators are idle, then frees the communicators.
void FreeAborted() {
  for (const auto& comm : aborted) {
    while (comm->stream_busy()) std::this_thread::yield();
  }
  aborted.clear();
}

// Puts the collected messages of the group on the stream as one operation.
void PutMessages(Comm* comm, void* stream) {
  comm->Count(stream, 1);
  const uint64_t number = comm->NextNumber();
  static_cast<GuardedStream*>(stream)->Put([comm, stream, number, messages = group_messages] {
    if (comm->GoesOn(number)) CarryMessages(*comm, messages);
    comm->Count(stream, -1);
  });
  group_messages.clear();
}

collective::NcclResult PutMessage(const Message& message, collective::NcclComm handle,
                                  void* stream) {
  Comm* const comm = Of(handle);
  if (!comm->complete()) return collective::NcclResult::kInvalidUsage;
  Log(std::string(message.sends ? "send" : "recv") + " rank " + std::to_string(comm->rank()) +
      " of " + std::to_string(comm->size()) + " peer " + std::to_string(message.peer));
  if (group_depth > 0 && group_messages.empty()) {
    group.push_back([comm, stream] { PutMessages(comm, stream); });
  }
  group_messages.push_back(message);
  if (group_depth == 0) PutMessages(comm, stream);
  return collective::NcclResult::kInProgress;
}

collective::NcclResult Put(const Call& call, collective::NcclComm handle, void* stream) {
  Comm* const comm = Of(handle);
  if (!comm->complete()) return collective::NcclResult::kInvalidUsage;
  const uint64_t number = comm->NextNumber();
  Log(std::string(call.name) + " rank " + std::to_string(comm->rank()) + " of " +
      std::to_string(comm->size()) + " count " + std::to_string(call.count));
  auto start = [comm, call, number, stream] {
    comm->Count(stream, 1);
    static_cast<GuardedStream*>(stream)->Put([comm, stream, call, number] {
      if (comm->GoesOn(number)) (void)Carry(*comm, call);
      comm->Count(stream, -1);
    });
  };
  if (group_depth > 0) {
    group.push_back(std::move(start));
    return collective::NcclResult::kInProgress;
  }
  start();
  return collective::NcclResult::kInProgress;
}

}  // namespace
}  // namespace tandem

using tandem::collective::NcclComm;
using tandem::collective::NcclConfig;
using tandem::collective::NcclReduce;
using tandem::collective::NcclResult;
using tandem::collective::NcclType;
using tandem::collective::NcclUniqueId;

#define FAKE_NCCL_API extern "C" __attribute__((visibility("default")))

FAKE_NCCL_API NcclResult ncclGetVersion(int* version) {
  *version = 22801;
  return NcclResult::kSuccess;
}
FAKE_NCCL_API const char* ncclGetErrorString(NcclResult result) {
  return result == NcclResult::kRemoteError ? "remote process exited or there was a network error"
         : result == NcclResult::kInvalidUsage ? "invalid usage"
                                               : "some error";
}
FAKE_NCCL_API const char* ncclGetLastError(NcclComm) { return "the fault that was asked for"; }
FAKE_NCCL_API NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  static std::atomic<int> made{0};
  std::snprintf(id->bytes, sizeof(id->bytes), "/tandem-fake-nccl-%d-%d", getpid(),
                made.fetch_add(1));
  return NcclResult::kSuccess;
}
FAKE_NCCL_API NcclResult ncclCommInitRankConfig(NcclComm* comm, int size, NcclUniqueId id, int rank,
                                                NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return NcclResult::kInvalidArgument;
  *comm = reinterpret_cast<NcclComm>(new tandem::Comm(id.bytes, rank, size));
  tandem::Log("init rank " + std::to_string(rank) + " of " + std::to_string(size) +
              tandem::Variables());
  return NcclResult::kInProgress;
}
FAKE_NCCL_API NcclResult ncclCommFinalize(NcclComm) { return NcclResult::kInProgress; }
FAKE_NCCL_API NcclResult ncclCommDestroy(NcclComm comm) {
  const std::unique_ptr<tandem::Comm> owned(tandem::Of(comm));
  tandem::Log("destroy");
  return NcclResult::kSuccess;
}
FAKE_NCCL_API NcclResult ncclCommAbort(NcclComm comm) {
  tandem::aborted.emplace_back(tandem::Of(comm))->Abort();
  tandem::Log("abort");
  if (tandem::group_depth == 0) tandem::FreeAborted();
  return NcclResult::kSuccess;
}
FAKE_NCCL_API NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* error) {
  *error = tandem::Of(comm)->complete() ? tandem::Of(comm)->error() : NcclResult::kInProgress;
  return NcclResult::kSuccess;
}
FAKE_NCCL_API NcclResult ncclAllReduce(const void* in, void* out, size_t count, NcclType type,
                                       NcclReduce op, NcclComm comm, void* stream) {
  return tandem::Put({"all_reduce", in, out, count, type, op}, comm, stream);
}
FAKE_NCCL_API NcclResult ncclReduce(const void* in, void* out, size_t count, NcclType type,
                                    NcclReduce op, int root, NcclComm comm, void* stream) {
  return tandem::Put({"reduce", in, out, count, type, op, root}, comm, stream);
}
FAKE_NCCL_API NcclResult ncclBroadcast(const void* in, void* out, size_t count, NcclType type,
                                       int root, NcclComm comm, void* stream) {
  return tandem::Put({"broadcast", in, out, count, type, NcclReduce::kSum, root}, comm, stream);
}
FAKE_NCCL_API NcclResult ncclAllGather(const void* in, void* out, size_t count, NcclType type,
                                       NcclComm comm, void* stream) {
  return tandem::Put({"all_gather", in, out, count, type}, comm, stream);
}
FAKE_NCCL_API NcclResult ncclReduceScatter(const void* in, void* out, size_t count, NcclType type,
                                           NcclReduce op, NcclComm comm, void* stream) {
  return tandem::Put({"reduce_scatter", in, out, count, type, op}, comm, stream);
}
FAKE_NCCL_API NcclResult ncclSend(const void* in, size_t count, NcclType type, int to,
                                  NcclComm comm, void* stream) {
  auto* const data = static_cast<std::byte*>(const_cast<void*>(in));
  return tandem::PutMessage({true, to, data, count * SizeOf(tandem::DTypeOf(type))}, comm, stream);
}
FAKE_NCCL_API NcclResult ncclRecv(void* out, size_t count, NcclType type, int from, NcclComm comm,
                                  void* stream) {
  auto* const data = static_cast<std::byte*>(out);
  return tandem::PutMessage({false, from, data, count * SizeOf(tandem::DTypeOf(type))}, comm,
                            stream);
}
FAKE_NCCL_API NcclResult ncclGroupStart() {
  ++tandem::group_depth;
  return NcclResult::kSuccess;
}
FAKE_NCCL_API NcclResult ncclGroupEnd() {
  if (--tandem::group_depth > 0) return NcclResult::kSuccess;
  if (!tandem::aborted.empty()) tandem::FreeAborted();
  tandem::Log("group of " + std::to_string(tandem::group.size()));
  for (const auto& start : tandem::group) start();
  tandem::group.clear();
  return NcclResult::kInProgress;
}
