// Collectives among ranks that share memory: each posts what it runs where all others see it, and
// they read (and write) each other's buffers in place, or pass pieces through a staging area.
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
#include "common/shm/arena.h"

namespace tandem {

// What lies at the begin of each rank's part of the shared memory. Written by its rank; what others
// find there is copied out before it is looked at.
struct ShmRankBlock {
  // Of data that is posted with the header instead of being fetched.
  static constexpr size_t kInlineMax = 4 << 10;
  static constexpr size_t kStagingBytes = 1 << 20;

  struct alignas(64) Posting {
    MessageHeader header;
    // Where the rank's buffers begin in the arena of its part, plus 1; 0: elsewhere, out of reach.
    uint64_t in = 0, out = 0;
    alignas(64) std::byte data[kInlineMax];
  };

  alignas(64) std::atomic<uint64_t> phase;  // that its rank has ended, since the first operation
  std::atomic<int32_t> sleeper;             // see shm_waiter.h
  alignas(64) std::atomic<uint64_t> claims[2];  // rank 0's: pieces of work that somebody took
  Posting postings[2];                          // of this operation and of the last
  alignas(64) std::byte staging[kStagingBytes];
};

// For one thread, but Allocate. Needs all ranks in one memory.
//
// An operation is a few phases; a rank ends each by counting `phase` up, and goes on when all
// others have ended it. The first is the posting: behind it a rank knows that all run the same
// operation and have left the one before. Waiting is that of shm_waiter.h.
//
// With everybody's buffers in the arena, an allreduce reads all inputs and writes all outputs in
// one pass, in pieces of which each rank takes the next that nobody has taken: a rank that has no
// processor holds nobody up. Otherwise a part of each rank is copied into its staging area, the
// owner of a chunk reduces it there, and all copy the result out (reduce-scatter and all-gather,
// piece by piece). The order of each sum is that of ring.h in either case.
class ShmCollectives {
 public:
  // `transport` is not owned, and is used for nothing else.
  ShmCollectives(std::shared_ptr<SharedMemory> memory, Transport& transport);

  // Bytes of each rank's part for so many bytes of arena.
  static size_t PartBytes(size_t arena_bytes, int ranks);
  // What it runs; of the rest it is told by Agree, or nothing (kSendRecv).
  static bool Runs(CollectiveOp op);

  // `tree`: sums are added as the tree of ring.h, else chunk by chunk in the ring's order. On
  // failure the transport must be aborted.
  Status Run(const Collective& call, const MessageHeader& header, bool tree, Time deadline);

  // Returns once all ranks have called it, with the same header, or fails.
  Status Agree(const MessageHeader& header, Time deadline);

  // For shm_transport.h. Whether `peer` has begun an operation here that this rank has not, and the
  // error that names it.
  bool Ahead(int peer) const { return Seat(peer).phase.load(std::memory_order_seq_cst) > phase_; }
  Status Passed(int peer) const;
  std::span<std::byte> PipesOf(int rank) const;
  ShmWaiter& doorbells() { return doorbells_; }

  // Memory in reach of all ranks, or null when the arena is full.
  Buffer Allocate(size_t bytes) { return arena_->Allocate(bytes); }

 private:
  // The operation under way.
  struct Job {
    const Collective* call;
    size_t element, bytes;  // of an element; of what each rank gives
    bool tree;
    bool takes;  // this rank
    Time deadline;
    const std::byte* in;
    std::byte* out;
  };

  ShmRankBlock& Seat(int rank) const { return *seats_[static_cast<size_t>(rank)]; }
  ShmRankBlock& Own() const { return Seat(transport_.rank()); }
  const ShmRankBlock::Posting& Posted(int rank) const { return Seat(rank).postings[turn_ % 2]; }

  // Ends a phase of this rank, and waits until all others have ended it.
  Status EndPhase(Time deadline);

  // What this rank posts next.
  ShmRankBlock::Posting& NextPosting();
  // Ends the first phase; behind it all have posted the same.
  Status Meet(const MessageHeader& header, Time deadline);
  Status Post(const Job& job, const MessageHeader& header);
  // Whether all buffers that `job` touches are in the arena: then they are in arena_ins_ and
  // arena_outs_.
  StatusOr<bool> Reach(const Job& job);
  StatusOr<std::byte*> Locate(const Job& job, int rank, uint64_t posted) const;

  Range Chunk(const Job& job, int chunk) const;
  bool Gives(const Job& job, int rank) const {
    return job.call->op != CollectiveOp::kBroadcast || job.call->root == rank;
  }
  // Which rank's value comes first in the sum of `chunk`.
  int First(const Job& job, int chunk) const {
    return job.tree ? 0 : (chunk + 1) % transport_.size();
  }
  // Reduces `bytes` at ins_ (of each rank, in the order from rank `first` on) into all of outs_.
  void ReduceInputs(const Job& job, int first, size_t bytes);

  void FinishPosted(const Job& job);
  Status ReduceInArena(const Job& job);
  Status ReduceStaged(const Job& job);
  Status CopyInArena(const Job& job);
  // Everybody's data (kAllGather) or the root's, through the staging areas.
  Status CopyStaged(const Job& job);

  const std::shared_ptr<SharedMemory> memory_;
  Transport& transport_;
  std::vector<ShmRankBlock*> seats_;
  std::vector<std::span<std::byte>> arenas_;
  const std::shared_ptr<Arena> arena_;  // of this rank
  ShmWaiter doorbells_;

  uint64_t phase_ = 0;                              // that this rank has ended
  uint64_t turn_ = 0;                               // operations
  std::vector<std::byte*> arena_ins_, arena_outs_;  // of each rank; null: out of reach
  std::vector<const std::byte*> ins_, ordered_;
  std::vector<std::byte*> outs_;
};

}  // namespace tandem
