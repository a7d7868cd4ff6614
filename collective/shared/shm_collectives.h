// Implements collectives for ranks on one host through shared memory. Each rank posts a descriptor
// of its operation in its control block. Ranks then read and write each other's buffers directly if
// all buffers are in shared memory; otherwise they copy chunks through a staging area.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "collective/communicator.h"
#include "collective/schedule/schedule.h"
#include "collective/shared/shared_memory.h"
#include "collective/shared/shm_waiter.h"
#include "collective/transport/message.h"
#include "collective/transport/transport.h"
#include "common/base/require.h"
#include "common/shm/arena.h"

namespace tandem::collective {

// The control block at the start of each rank's part of the shared memory. Only its rank writes to
// it. Other ranks copy data out of it before they validate them.
struct ShmRankBlock {
  // Most bytes of data that a rank posts with the header, instead of letting peers fetch them.
  static constexpr size_t kInlineMax = 4 << 10;
  static constexpr size_t kStagingBytes = 1 << 20;

  struct alignas(64) Posting {
    MessageHeader header;
    // Offsets of the rank's buffers in the arena of its part, plus 1. 0: the buffer is outside the
    // arena and peers cannot reach it.
    uint64_t in = 0, out = 0;
    alignas(64) std::byte data[kInlineMax];
  };

  alignas(64) std::atomic<uint64_t> phase;      // phases completed by this rank, since the start
  std::atomic<int32_t> sleeper;                 // see shm_waiter.h
  alignas(64) std::atomic<uint64_t> claims[2];  // of rank 0: chunks that ranks have claimed
  Posting postings[2];                          // of the current operation and of the previous one
  alignas(64) std::byte staging[kStagingBytes];
};
// Processes share the counters, so the compiler must not guard them by a lock of one process.
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<int32_t>::is_always_lock_free);

// Runs collectives in shared memory. REQUIRES that all ranks share one memory. For one thread,
// except Allocate.
//
// An operation consists of a few phases. A rank ends a phase by incrementing `phase`, and continues
// when all other ranks have ended it. The first phase is the posting: after it, a rank knows that
// all ranks run the same operation and have left the previous one. ShmWaiter does the waiting.
//
// If the buffers of all ranks are in the arena, an allreduce reads all inputs and writes all
// outputs in one pass. Each rank repeatedly claims the next unclaimed chunk, so a rank without a
// processor delays no other rank. Otherwise each rank copies a part of its data into its staging
// area. The owner of a chunk reduces it there, and all ranks copy the result out. This is a
// reduce-scatter and an all-gather, chunk by chunk. Both ways add in the order of ring.h.
class ShmCollectives {
 public:
  // `transport` is not owned. Nothing else may use it.
  ShmCollectives(std::shared_ptr<SharedMemory> memory, Transport& transport);

  // Bytes of each rank's part that are needed for `arena_bytes` of arena.
  static size_t PartBytes(size_t arena_bytes, int ranks);
  // True for operations that Run implements. For other operations the caller calls Agree first,
  // except for kSendRecv.
  static bool Runs(CollectiveOp op);

  // `tree`: adds in the order of the tree of ring.h; else chunk by chunk in the order of the ring.
  // After a failure the caller must abort the transport.
  Status Run(const Collective& call, const MessageHeader& header, bool tree, Time deadline);

  // Returns OK when all ranks have called it with the same header; fails otherwise.
  Status Agree(const MessageHeader& header, Time deadline);

  // For shm_transport.h: Ahead tells whether `peer` has begun an operation here that this rank has
  // not begun, and Passed returns the error that names it.
  bool Ahead(int peer) const { return Seat(peer).phase.load(std::memory_order_seq_cst) > phase_; }
  Status Passed(int peer) const;
  std::span<std::byte> PipesOf(int rank) const;
  ShmWaiter& doorbells() { return doorbells_; }

  // Allocates memory that all ranks can access. Null: the arena is full.
  Buffer Allocate(size_t bytes) { return arena_->Allocate(bytes); }

 private:
  // The running operation.
  struct Job {
    const Collective* call;
    size_t element, bytes;  // of one element; of the data of each rank
    bool tree;
    bool takes;  // whether this rank gets a result
    Time deadline;
    const std::byte* in;
    std::byte* out;
  };

  ShmRankBlock& Seat(int rank) const {
    TD_REQUIRE(rank >= 0 && static_cast<size_t>(rank) < seats_.size());
    return *seats_[static_cast<size_t>(rank)];
  }
  ShmRankBlock& Own() const { return Seat(transport_.rank()); }
  const ShmRankBlock::Posting& Posted(int rank) const { return Seat(rank).postings[turn_ % 2]; }

  // Ends a phase of this rank and waits until all other ranks have ended it.
  Status EndPhase(Time deadline);

  // Returns the posting that this rank fills next.
  ShmRankBlock::Posting& NextPosting();
  // Ends the first phase. On OK all ranks have posted the same header.
  Status Meet(const MessageHeader& header, Time deadline);
  Status Post(const Job& job, const MessageHeader& header);
  // Returns whether all buffers that `job` accesses are in the arena. If so, sets arena_ins_ and
  // arena_outs_.
  StatusOr<bool> Reach(const Job& job);
  StatusOr<std::byte*> Locate(const Job& job, int rank, uint64_t posted) const;

  Range Chunk(const Job& job, int chunk) const;
  bool Gives(const Job& job, int rank) const {
    return job.call->op != CollectiveOp::kBroadcast || job.call->root == rank;
  }
  // The rank that provides the first value in the sum of `chunk`.
  int First(const Job& job, int chunk) const {
    return job.tree ? 0 : (chunk + 1) % transport_.size();
  }
  // Reduces `bytes` bytes at ins_ into all of outs_. Adds the ranks in order, starting with rank
  // `first`.
  void ReduceInputs(const Job& job, int first, size_t bytes);

  void FinishPosted(const Job& job);
  Status ReduceInArena(const Job& job);
  Status ReduceStaged(const Job& job);
  Status CopyInArena(const Job& job);
  // Copies through the staging areas: the data of all ranks (kAllGather), or those of the root.
  Status CopyStaged(const Job& job);

  const std::shared_ptr<SharedMemory> memory_;
  Transport& transport_;
  std::vector<ShmRankBlock*> seats_;
  std::vector<std::span<std::byte>> arenas_;
  const std::shared_ptr<Arena> arena_;  // this rank's
  ShmWaiter doorbells_;

  uint64_t phase_ = 0;                              // phases that this rank has ended
  uint64_t turn_ = 0;                               // operations so far
  std::vector<std::byte*> arena_ins_, arena_outs_;  // by rank; null: not reachable
  std::vector<const std::byte*> ins_, ordered_;
  std::vector<std::byte*> outs_;
};

}  // namespace tandem::collective
