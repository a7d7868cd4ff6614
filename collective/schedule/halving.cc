#include "collective/schedule/halving.h"

#include <bit>

#include "collective/schedule/ring.h"
#include "common/base/check.h"

namespace tandem::collective {
namespace {

// A block of consecutive ranks. The ranks are divided into blocks whose sizes are powers of two,
// the largest block first: 7 = 4 + 2 + 1.
struct Block {
  int first = 0, size = 1;

  int rounds() const { return std::countr_zero(static_cast<unsigned>(size)); }
  int end() const { return first + size; }
};

Block BlockOf(int rank, int size) {
  const auto largest = [](int n) { return static_cast<int>(std::bit_floor<unsigned>(n)); };
  CHECK(rank >= 0 && rank < size) << rank << " of " << size;
  Block block{0, largest(size)};
  while (rank >= block.end()) block = {block.end(), largest(size - block.end())};
  return block;
}

// Returns the byte range on which rank `local` of a block works after `rounds` halvings. In round k
// the rank's partner is the rank whose number differs in bit k. The rank with the lower number
// keeps the first half of the common range.
Range HalvedRange(int local, int rounds, size_t count, size_t element_bytes) {
  size_t begin = 0, end = count;
  for (int k = 0; k < rounds; ++k) {
    const size_t middle = begin + (end - begin) / 2;
    ((local >> k & 1) == 0 ? end : begin) = middle;
  }
  return {begin * element_bytes, end * element_bytes};
}

// Builds the schedule of one rank.
class Halving {
 public:
  Halving(int rank, int size, size_t count, size_t element_bytes)
      : size_(size),
        count_(count),
        element_bytes_(element_bytes),
        block_(BlockOf(rank, size)),
        local_(rank - block_.first) {}

  // Adds the schedule steps of the reduction. Each block first reduces by recursive halving. Then
  // the results of the blocks are reduced, from the last block to the first. Afterwards rank
  // `local` of the first block has part `local` of the reduction over all ranks.
  void Reduce();
  // Adds the schedule steps that send all parts to all ranks after Reduce. They are the exchanges
  // of Reduce in reverse order.
  void Spread();
  void GatherAt(int root);
  Schedule Take() { return std::move(steps_); }

 private:
  Range Part(int local, int rounds) const {
    return HalvedRange(local, rounds, count_, element_bytes_);
  }
  void Exchange(int round, bool halve);
  // Adds the exchange between this block and the next smaller block. `sums`: true in Reduce, false
  // in Spread. The part of a rank in the smaller block is spread over several ranks of this block.
  void WithSmaller(bool sums);
  // Adds the exchange between this block and the next larger block. `sums`: as for WithSmaller.
  void WithLarger(bool sums);
  bool has_smaller() const { return block_.end() < size_; }

  const int size_;
  const size_t count_, element_bytes_;
  const Block block_;
  const int local_;
  Schedule steps_;
};

void Halving::Exchange(int round, bool halve) {
  const int peer = local_ ^ (1 << round);
  const Range mine = Part(local_, round + 1), others = Part(peer, round + 1);
  Step step;
  step.send_to = step.recv_from = block_.first + peer;
  step.send = halve ? others : mine;
  step.recv = halve ? mine : others;
  if (halve) step.land = local_ < peer ? Land::kReduceHereFirst : Land::kReduceInFirst;
  steps_.push_back(step);
}

void Halving::WithSmaller(bool sums) {
  if (!has_smaller()) return;
  const Block smaller = BlockOf(block_.end(), size_);
  const int peer = smaller.first + local_ % smaller.size;
  const Range part = Part(local_, block_.rounds());
  Step step;
  if (sums) {
    step.recv_from = peer;
    step.recv = part;
    step.land = Land::kReduceHereFirst;
  } else {
    step.send_to = peer;
    step.send = part;
  }
  steps_.push_back(step);
}

void Halving::WithLarger(bool sums) {
  if (block_.first == 0) return;
  const Block larger = BlockOf(block_.first - 1, size_);
  for (int there = local_; there < larger.size; there += block_.size) {
    const Range part = Part(there, larger.rounds());
    Step step;
    if (sums) {
      step.send_to = larger.first + there;
      step.send = part;
    } else {
      step.recv_from = larger.first + there;
      step.recv = part;
    }
    steps_.push_back(step);
  }
}

void Halving::Reduce() {
  for (int k = 0; k < block_.rounds(); ++k) Exchange(k, /*halve=*/true);
  WithSmaller(/*sums=*/true);
  WithLarger(/*sums=*/true);
}

void Halving::Spread() {
  WithLarger(/*sums=*/false);
  WithSmaller(/*sums=*/false);
  for (int k = block_.rounds() - 1; k >= 0; --k) Exchange(k, /*halve=*/false);
}

void Halving::GatherAt(int root) {
  const Block first = BlockOf(0, size_);
  const int rank = block_.first + local_;
  for (int r = 0; r < first.size; ++r) {
    if (r == root || (rank != r && rank != root)) continue;
    Step step;
    (rank == r ? step.send_to : step.recv_from) = rank == r ? root : r;
    (rank == r ? step.send : step.recv) = Part(r, first.rounds());
    steps_.push_back(step);
  }
}

}  // namespace

Schedule HalvingDoublingAllReduce(int rank, int size, size_t count, size_t element_bytes) {
  Halving halving(rank, size, count, element_bytes);
  halving.Reduce();
  halving.Spread();
  return halving.Take();
}

Schedule HalvingReduce(int rank, int size, int root, size_t count, size_t element_bytes) {
  Halving halving(rank, size, count, element_bytes);
  halving.Reduce();
  halving.GatherAt(root);
  return halving.Take();
}

}  // namespace tandem::collective
