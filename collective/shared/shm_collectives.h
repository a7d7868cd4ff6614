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

// The control block at the start of each rank's part of the shared memory. Only the rank itself
// writes to its block, except that all ranks increment `claims` of rank 0. Other ranks copy data
// out of the block before they validate the data.
struct ShmRankBlock {
  // Maximum bytes of data that a rank posts together with the header. Larger data are in the arena
  // or are copied through the staging area.
  static constexpr size_t kInlineMax = 4 << 10;
  static constexpr size_t kStagingBytes = 1 << 20;

  struct alignas(64) Posting {
    MessageHeader header;
    // Offsets of the rank's input and output in the arena of its part, plus 1. 0: the buffer is
    // outside the arena, so other ranks cannot access it.
    uint64_t in = 0, out = 0;
    alignas(64) std::byte data[kInlineMax];
  };

  alignas(64) std::atomic<uint64_t> phase;      // number of phases completed by this rank
  std::atomic<int32_t> sleeper;                 // sleep word of the rank (shm_waiter.h)
  alignas(64) std::atomic<uint64_t> claims[2];  // number of claimed pieces; used on rank 0
  Posting postings[2];  // postings for the current operation and the previous one
  alignas(64) std::byte staging[kStagingBytes];
};
// The counters must be lock-free: processes share them, and a lock works only inside one process.
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<int32_t>::is_always_lock_free);

// Runs collectives in shared memory. REQUIRES: the ranks share one memory. Not thread-safe, except
// Allocate.
//
// An operation consists of a few phases. A rank ends a phase by incrementing `phase`, and continues
// after all other ranks have ended the same phase. The first phase is the posting: after it, a rank
// knows that all ranks run the same operation and have left the previous one. Ranks wait with
// ShmWaiter.
//
// If the buffers of all ranks are in the arena, an allreduce reads all inputs and writes all
// outputs in one pass. Each rank repeatedly claims the next unclaimed piece, so the other ranks do
// the work of a rank that has no processor. Otherwise each rank copies a part of its data into its
// staging area. The owner of a chunk reduces the chunk from the staging areas, and all ranks copy
// the result to their outputs. This is a reduce-scatter and an all-gather, piece by piece. Both
// methods reduce in the order of ring.h.
class ShmCollectives {
 public:
  // `transport` is not owned. Nothing else may send or receive on it while this object exists.
  ShmCollectives(std::shared_ptr<SharedMemory> memory, Transport& transport);

  // Returns the bytes of each rank's part with an arena of `arena_bytes` bytes.
  static size_t PartBytes(size_t arena_bytes, int ranks);
  // Returns true for operations that Run implements. For other operations, except kSendRecv, the
  // caller must first call Agree.
  static bool Runs(CollectiveOp op);

  // Runs an operation. If `tree` is true, reduces in the tree order of ring.h. Otherwise reduces
  // each chunk in the ring order of ring.h. After a failure the caller must abort the transport.
  Status Run(const Collective& call, const MessageHeader& header, bool tree, Time deadline);

  // Returns OK after all ranks have called Agree with the same header. Fails if the headers differ.
  Status Agree(const MessageHeader& header, Time deadline);

  // Functions for shm_transport.h. Ahead returns whether `peer` has begun an operation that this
  // rank has not begun. Passed returns an error that names this operation of `peer`. PipesOf
  // returns the memory of the pipes to `rank`.
  bool Ahead(int peer) const { return Seat(peer).phase.load(std::memory_order_seq_cst) > phase_; }
  Status Passed(int peer) const;
  std::span<std::byte> PipesOf(int rank) const;
  ShmWaiter& doorbells() { return doorbells_; }

  // Allocates memory that all ranks can access. Returns null if the arena is full.
  Buffer Allocate(size_t bytes) { return arena_->Allocate(bytes); }

 private:
  // The operation that is running.
  struct Job {
    const Collective* call;
    size_t element, bytes;  // size of one element, and of the data of each rank, in bytes
    bool tree;
    bool takes;  // true: this rank gets a result
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

  // Ends a phase of this rank. Waits until all other ranks have ended the same phase.
  Status EndPhase(Time deadline);

  // Begins the next operation of this rank, and returns the posting that the rank fills for it.
  ShmRankBlock::Posting& NextPosting();
  // Ends the first phase. After OK all ranks have posted the same header.
  Status Meet(const MessageHeader& header, Time deadline);
  Status Post(const Job& job, const MessageHeader& header);
  // Returns whether all buffers of `job` are in the arena. Sets arena_ins_ and arena_outs_.
  StatusOr<bool> Reach(const Job& job);
  StatusOr<std::byte*> Locate(const Job& job, int rank, uint64_t posted) const;

  Range Chunk(const Job& job, int chunk) const;
  bool Gives(const Job& job, int rank) const {
    return job.call->op != CollectiveOp::kBroadcast || job.call->root == rank;
  }
  // Returns the rank whose value is the first operand in the sum of `chunk`.
  int First(const Job& job, int chunk) const {
    return job.tree ? 0 : (chunk + 1) % transport_.size();
  }
  // Reduces `bytes` bytes of all inputs (ins_) into all outputs (outs_). The operands are in the
  // order of the ranks, starting with rank `first`.
  void ReduceInputs(const Job& job, int first, size_t bytes);

  void FinishPosted(const Job& job);
  Status ReduceInArena(const Job& job);
  Status ReduceStaged(const Job& job);
  Status CopyInArena(const Job& job);
  // Copies the data of all ranks (kAllGather) or of the root (kBroadcast) through the staging
  // areas.
  Status CopyStaged(const Job& job);

  const std::shared_ptr<SharedMemory> memory_;
  Transport& transport_;
  std::vector<ShmRankBlock*> seats_;
  std::vector<std::span<std::byte>> arenas_;
  const std::shared_ptr<Arena> arena_;  // allocator of this rank's part of the shared memory
  ShmWaiter doorbells_;

  uint64_t phase_ = 0;                              // number of phases that this rank has ended
  uint64_t turn_ = 0;                               // number of operations so far
  std::vector<std::byte*> arena_ins_, arena_outs_;  // buffers by rank; null: outside the arena
  std::vector<const std::byte*> ins_, ordered_;
  std::vector<std::byte*> outs_;
};

}  // namespace tandem::collective
