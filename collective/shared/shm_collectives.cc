#include "collective/shared/shm_collectives.h"

#include <algorithm>
#include <cstring>

#include "collective/schedule/ring.h"
#include "collective/shared/shm_transport.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/tensor/reduce.h"

namespace tandem::collective {
namespace {

constexpr size_t kPieceBytes = 16 << 10;         // piece size in bytes for inputs in the arena
constexpr size_t kStagedPieceBytes = 128 << 10;  // maximum piece size in bytes in the staging area
constexpr size_t kCopySlotBytes = 128 << 10;     // size of one of the two staging slots

constexpr size_t kSeatBytes =
    (sizeof(ShmRankBlock) + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;

size_t BeforeArena(int ranks) { return kSeatBytes + ShmTransport::PartBytes(ranks); }

ShmRankBlock* SeatOf(const SharedMemory& memory, int rank) {
  // No constructor is needed, because the memory is initially zero.
  return reinterpret_cast<ShmRankBlock*>(memory.Part(rank).data());
}

std::vector<std::atomic<int32_t>*> SleepersOf(const SharedMemory& memory, int ranks) {
  std::vector<std::atomic<int32_t>*> sleepers;
  for (int r = 0; r < ranks; ++r) sleepers.push_back(&SeatOf(memory, r)->sleeper);
  return sleepers;
}

void Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Divides `range` into pieces of `bytes` bytes and returns piece `index`, which may be empty.
Range Piece(Range range, size_t index, size_t bytes) {
  const size_t begin = std::min(range.begin + index * bytes, range.end);
  return {begin, std::min(begin + bytes, range.end)};
}

size_t PiecesOf(size_t bytes, size_t piece) { return (bytes + piece - 1) / piece; }

}  // namespace

size_t ShmCollectives::PartBytes(size_t arena_bytes, int ranks) {
  return BeforeArena(ranks) +
         (arena_bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

ShmCollectives::ShmCollectives(std::shared_ptr<SharedMemory> memory, Transport& transport)
    : memory_(std::move(memory)),
      transport_(transport),
      arena_(std::make_shared<Arena>(
          memory_->Part(transport.rank()).subspan(BeforeArena(transport.size())), memory_)),
      doorbells_(SleepersOf(*memory_, transport.size()), transport),
      arena_ins_(static_cast<size_t>(transport.size())),
      arena_outs_(arena_ins_.size()),
      ins_(arena_ins_.size()),
      ordered_(arena_ins_.size()) {
  for (int r = 0; r < transport.size(); ++r) {
    seats_.push_back(SeatOf(*memory_, r));
    arenas_.push_back(memory_->Part(r).subspan(BeforeArena(transport.size())));
  }
  outs_.reserve(seats_.size());
}

// ---- Phases -------------------------------------------------------------------------------------

Status ShmCollectives::EndPhase(Time deadline) {
  const int rank = transport_.rank(), size = transport_.size();
  Own().phase.store(++phase_, std::memory_order_seq_cst);
  for (int i = 1; i < size; ++i) doorbells_.Ring((rank + i) % size);
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + i) % size;
    const auto& theirs = Seat(peer).phase;
    TD_RETURN_IF_ERROR(doorbells_.Await(
        {&peer, 1}, deadline, [&] { return theirs.load(std::memory_order_seq_cst) >= phase_; }));
  }
  return OkStatus();
}

// ---- Posting operations -------------------------------------------------------------------------

ShmRankBlock::Posting& ShmCollectives::NextPosting() {
  ++turn_;
  return Own().postings[turn_ % 2];
}

Status ShmCollectives::Meet(const MessageHeader& header, Time deadline) {
  TD_RETURN_IF_ERROR(EndPhase(deadline));
  // At this point all ranks have left the previous operation, and no rank has begun the next one.
  if (transport_.rank() == 0) {
    Own().claims[(turn_ + 1) % 2].store(0, std::memory_order_relaxed);
  }
  for (int r = 0; r < transport_.size(); ++r) {
    MessageHeader got;
    std::memcpy(&got, &Posted(r).header, sizeof(got));
    if (std::memcmp(&got, &header, sizeof(got)) == 0) continue;
    TD_RETURN_IF_ERROR(CheckHeader(got, header, transport_.PeerName(r)));
  }
  return OkStatus();
}

Status ShmCollectives::Agree(const MessageHeader& header, Time deadline) {
  NextPosting().header = header;
  return Meet(header, deadline);
}

Status ShmCollectives::Post(const Job& job, const MessageHeader& header) {
  ShmRankBlock::Posting& mine = NextPosting();
  mine.header = header;
  mine.in = static_cast<uint64_t>(arena_->OffsetOf(job.in, job.bytes) + 1);
  mine.out = static_cast<uint64_t>(arena_->OffsetOf(job.out, job.bytes) + 1);
  if (job.bytes <= ShmRankBlock::kInlineMax && Gives(job, transport_.rank())) {
    Copy(mine.data, job.in, job.bytes);
  }
  return Meet(header, job.deadline);
}

Status ShmCollectives::Passed(int peer) const {
  MessageHeader runs;  // the operation of `peer` after the last operation of this rank
  std::memcpy(&runs, &Seat(peer).postings[(turn_ + 1) % 2].header, sizeof(runs));
  return FailedPrecondition(
      "ranks do not run the same operation: %s runs %s; all ranks must make the same calls in the "
      "same order [TD3004]",
      transport_.PeerName(peer), ToString(runs));
}

std::span<std::byte> ShmCollectives::PipesOf(int rank) const {
  return memory_->Part(rank).subspan(kSeatBytes, ShmTransport::PartBytes(transport_.size()));
}

StatusOr<std::byte*> ShmCollectives::Locate(const Job& job, int rank, uint64_t posted) const {
  if (posted == 0) return static_cast<std::byte*>(nullptr);
  const std::span<std::byte> arena = arenas_[static_cast<size_t>(rank)];
  const uint64_t offset = posted - 1;
  if (offset > arena.size() || job.bytes > arena.size() - offset || offset % job.element != 0) {
    return DataLoss(
        "%s announced a buffer of %d bytes at offset %d of its shared memory, expected an end of "
        "at most %d and a multiple of %d as the offset",
        transport_.PeerName(rank), job.bytes, offset, arena.size(), job.element);
  }
  return arena.data() + offset;
}

StatusOr<bool> ShmCollectives::Reach(const Job& job) {
  const CollectiveOp op = job.call->op;
  const bool reduces = op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce;
  for (int r = 0; r < transport_.size(); ++r) {
    const size_t at = static_cast<size_t>(r);
    const bool takes = op == CollectiveOp::kAllReduce || (reduces && r == job.call->root);
    const uint64_t in = Posted(r).in, out = Posted(r).out;
    TD_ASSIGN_OR_RETURN(arena_ins_[at], Locate(job, r, in));
    TD_ASSIGN_OR_RETURN(arena_outs_[at], Locate(job, r, takes ? out : 0));
    if (arena_ins_[at] == nullptr && Gives(job, r)) return false;
    if (arena_outs_[at] == nullptr && takes) return false;
  }
  return true;
}

// ---- Operations ---------------------------------------------------------------------------------

bool ShmCollectives::Runs(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kBroadcast || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kBarrier;
}

Status ShmCollectives::Run(const Collective& call, const MessageHeader& header, bool tree,
                           Time deadline) {
  TD_REQUIRE(Runs(call.op));
  Job job;
  job.call = &call;
  job.element = SizeOf(call.dtype);
  job.bytes = call.count * job.element;
  job.tree = tree;
  job.takes = call.op != CollectiveOp::kReduce || call.root == transport_.rank();
  job.deadline = deadline;
  job.in = static_cast<const std::byte*>(call.in);
  job.out = static_cast<std::byte*>(call.out);
  TD_RETURN_IF_ERROR(Post(job, header));
  if (job.bytes <= ShmRankBlock::kInlineMax) {
    FinishPosted(job);
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(const bool in_arena, Reach(job));
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
      return in_arena ? ReduceInArena(job) : ReduceStaged(job);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kAllGather:
      return in_arena ? CopyInArena(job) : CopyStaged(job);
    default:
      return OkStatus();  // a barrier has no data
  }
}

Range ShmCollectives::Chunk(const Job& job, int chunk) const {
  return RingChunk(job.call->count, job.element, transport_.size(), chunk);
}

void ShmCollectives::ReduceInputs(const Job& job, int first, size_t bytes) {
  TD_REQUIRE(bytes % job.element == 0);
  TD_REQUIRE(first >= 0 && static_cast<size_t>(first) < ins_.size());
  const size_t n = ins_.size();
  for (size_t k = 0; k < n; ++k) ordered_[k] = ins_[(static_cast<size_t>(first) + k) % n];
  const auto reduce = job.tree ? &ReduceTree : &ReduceAcross;
  reduce(job.call->reduce, job.call->dtype, ordered_, outs_, bytes / job.element);
}

void ShmCollectives::FinishPosted(const Job& job) {
  const int size = transport_.size();
  switch (job.call->op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
      for (int c = 0; c < size && job.takes; ++c) {
        const Range range = Chunk(job, c);
        for (int r = 0; r < size; ++r) ins_[static_cast<size_t>(r)] = Posted(r).data + range.begin;
        outs_.assign(1, job.out + range.begin);
        ReduceInputs(job, First(job, c), range.size());
      }
      return;
    case CollectiveOp::kBroadcast:
      return Copy(job.out, Posted(job.call->root).data, job.bytes);
    case CollectiveOp::kAllGather:
      for (int r = 0; r < size; ++r) {
        Copy(job.out + static_cast<size_t>(r) * job.bytes, Posted(r).data, job.bytes);
      }
      return;
    default:
      return;  // a barrier has no data
  }
}

Status ShmCollectives::ReduceInArena(const Job& job) {
  const size_t size = seats_.size();
  // The number of pieces follows from chunk 0, because no chunk is larger.
  const size_t pieces = PiecesOf(Chunk(job, 0).size(), kPieceBytes);
  std::atomic<uint64_t>& claims = Seat(0).claims[turn_ % 2];
  while (true) {
    const uint64_t claim = claims.fetch_add(1, std::memory_order_relaxed);
    if (claim >= size * pieces) break;
    const int chunk = static_cast<int>(claim % size);
    const Range range = Piece(Chunk(job, chunk), claim / size, kPieceBytes);
    outs_.clear();
    for (size_t r = 0; r < size; ++r) {
      ins_[r] = arena_ins_[r] + range.begin;
      if (arena_outs_[r] != nullptr) outs_.push_back(arena_outs_[r] + range.begin);
    }
    ReduceInputs(job, First(job, chunk), range.size());
  }
  return EndPhase(job.deadline);
}

// Reduces through the staging areas. Rank c reduces chunk c in pieces of P bytes. The staging area
// of each rank holds the rank's piece of chunk c at offset c * P. The rank that reduces a chunk
// stores the result in its own staging area at offset size * P.
Status ShmCollectives::ReduceStaged(const Job& job) {
  const int rank = transport_.rank(), size = transport_.size();
  const size_t slots = static_cast<size_t>(size) + 1;
  const size_t piece = std::min(kStagedPieceBytes, ShmRankBlock::kStagingBytes / slots / 64 * 64);
  const size_t windows = PiecesOf(Chunk(job, 0).size(), piece);
  const auto slot = [&](int r, int index) {
    return Seat(r).staging + static_cast<size_t>(index) * piece;
  };
  for (size_t w = 0; w < windows; ++w) {
    for (int c = 0; c < size; ++c) {
      const Range range = Piece(Chunk(job, c), w, piece);
      if (c != rank) Copy(slot(rank, c), job.in + range.begin, range.size());
    }
    TD_RETURN_IF_ERROR(EndPhase(job.deadline));
    const Range mine = Piece(Chunk(job, rank), w, piece);
    for (int r = 0; r < size; ++r) {
      ins_[static_cast<size_t>(r)] = r == rank ? job.in + mine.begin : slot(r, rank);
    }
    outs_.assign(1, slot(rank, size));
    if (job.takes) outs_.push_back(job.out + mine.begin);
    ReduceInputs(job, First(job, rank), mine.size());
    TD_RETURN_IF_ERROR(EndPhase(job.deadline));
    for (int c = 0; c < size && job.takes; ++c) {
      const Range range = Piece(Chunk(job, c), w, piece);
      if (c != rank) Copy(job.out + range.begin, slot(c, size), range.size());
    }
  }
  return OkStatus();
}

Status ShmCollectives::CopyInArena(const Job& job) {
  const bool gather = job.call->op == CollectiveOp::kAllGather;
  for (int r = 0; r < transport_.size(); ++r) {
    if (!Gives(job, r)) continue;
    std::byte* const to = job.out + (gather ? static_cast<size_t>(r) * job.bytes : 0);
    Copy(to, arena_ins_[static_cast<size_t>(r)], job.bytes);
  }
  return EndPhase(job.deadline);
}

Status ShmCollectives::CopyStaged(const Job& job) {
  const int rank = transport_.rank();
  const bool gather = job.call->op == CollectiveOp::kAllGather;
  if (gather) Copy(job.out + static_cast<size_t>(rank) * job.bytes, job.in, job.bytes);
  for (size_t w = 0; w < PiecesOf(job.bytes, kCopySlotBytes); ++w) {
    const Range range = Piece({0, job.bytes}, w, kCopySlotBytes);
    const size_t slot = w % 2 * kCopySlotBytes;
    if (Gives(job, rank)) Copy(Own().staging + slot, job.in + range.begin, range.size());
    // After this phase all ranks have also finished copying from the other slot.
    TD_RETURN_IF_ERROR(EndPhase(job.deadline));
    for (int r = 0; r < transport_.size(); ++r) {
      if (r == rank || !Gives(job, r)) continue;
      std::byte* const to = job.out + (gather ? static_cast<size_t>(r) * job.bytes : 0);
      Copy(to + range.begin, Seat(r).staging + slot, range.size());
    }
  }
  return OkStatus();
}

}  // namespace tandem::collective
