#include "collective/schedule/ring.h"

#include <functional>

#include "common/base/require.h"

namespace tandem::collective {
namespace {

int Mod(int a, int n) { return ((a % n) + n) % n; }

Range Part(int index, size_t bytes) {
  const size_t begin = static_cast<size_t>(index) * bytes;
  return {begin, begin + bytes};
}

// Adds the schedule steps in which every other rank sends its part to rank `root`.
void AppendGather(int rank, int size, int root, const std::function<Range(int)>& part,
                  Schedule* steps) {
  if (rank != root) {
    Step step;
    step.send_to = root;
    step.send = part(rank);
    steps->push_back(step);
    return;
  }
  for (int r = 0; r < size; ++r) {
    if (r == root) continue;
    Step step;
    step.recv_from = r;
    step.recv = part(r);
    steps->push_back(step);
  }
}

}  // namespace

Range RingChunk(size_t count, size_t element_bytes, int size, int chunk) {
  TD_REQUIRE(chunk >= 0 && chunk < size);
  const size_t n = static_cast<size_t>(size), c = static_cast<size_t>(chunk);
  const size_t base = count / n, extra = count % n;
  const size_t begin = c * base + (c < extra ? c : extra);
  return {begin * element_bytes, (begin + base + (c < extra ? 1 : 0)) * element_bytes};
}

Schedule RingReduceScatter(int rank, int size, size_t count, size_t element_bytes) {
  TD_REQUIRE(rank >= 0 && rank < size);
  Schedule steps;
  for (int s = 0; s + 1 < size; ++s) {
    Step step;
    step.send_to = Mod(rank + 1, size);
    step.send = RingChunk(count, element_bytes, size, Mod(rank - s - 1, size));
    step.recv_from = Mod(rank - 1, size);
    step.recv = RingChunk(count, element_bytes, size, Mod(rank - s - 2, size));
    step.land = Land::kReduceInFirst;
    steps.push_back(step);
  }
  return steps;
}

Schedule RingAllGather(int rank, int size, size_t count, size_t element_bytes) {
  TD_REQUIRE(rank >= 0 && rank < size);
  Schedule steps;
  for (int s = 0; s + 1 < size; ++s) {
    Step step;
    step.send_to = Mod(rank + 1, size);
    step.send = RingChunk(count, element_bytes, size, Mod(rank - s, size));
    step.recv_from = Mod(rank - 1, size);
    step.recv = RingChunk(count, element_bytes, size, Mod(rank - s - 1, size));
    steps.push_back(step);
  }
  return steps;
}

Schedule RingAllReduce(int rank, int size, size_t count, size_t element_bytes) {
  Schedule steps = RingReduceScatter(rank, size, count, element_bytes);
  const Schedule gather = RingAllGather(rank, size, count, element_bytes);
  steps.insert(steps.end(), gather.begin(), gather.end());
  return steps;
}

Schedule RingReduce(int rank, int size, int root, size_t count, size_t element_bytes) {
  Schedule steps = RingReduceScatter(rank, size, count, element_bytes);
  const auto owned = [&](int r) { return RingChunk(count, element_bytes, size, r); };
  AppendGather(rank, size, root, owned, &steps);
  return steps;
}

Schedule ChainBroadcast(int rank, int size, int root, size_t bytes) {
  TD_REQUIRE(rank >= 0 && rank < size && root >= 0 && root < size);
  Schedule steps;
  const int place = Mod(rank - root, size);
  if (place > 0) {
    Step step;
    step.recv_from = Mod(rank - 1, size);
    step.recv = {0, bytes};
    steps.push_back(step);
  }
  if (place + 1 < size) {
    Step step;
    step.send_to = Mod(rank + 1, size);
    step.send = {0, bytes};
    steps.push_back(step);
  }
  return steps;
}

Schedule PairAllReduce(int rank, size_t bytes) {
  TD_REQUIRE(rank == 0 || rank == 1);
  Step step;
  step.send_to = step.recv_from = 1 - rank;
  step.send = step.recv = {0, bytes};
  step.land = rank == 0 ? Land::kReduceHereFirst : Land::kReduceInFirst;
  return {step};
}

Schedule PairReduce(int rank, int root, size_t bytes) {
  TD_REQUIRE((rank == 0 || rank == 1) && (root == 0 || root == 1));
  Step step;
  if (rank == root) {
    step.recv_from = 1 - rank;
    step.recv = {0, bytes};
    step.land = rank == 0 ? Land::kReduceHereFirst : Land::kReduceInFirst;
  } else {
    step.send_to = root;
    step.send = {0, bytes};
  }
  return {step};
}

Schedule DirectAllGather(int rank, int size, size_t bytes) {
  TD_REQUIRE(rank >= 0 && rank < size);
  Schedule steps;
  for (int s = 1; s < size; ++s) {
    Step step;
    step.send_to = Mod(rank + s, size);
    step.send = Part(rank, bytes);
    step.recv_from = Mod(rank - s, size);
    step.recv = Part(step.recv_from, bytes);
    steps.push_back(step);
  }
  return steps;
}

Schedule DirectGather(int rank, int size, int root, size_t bytes) {
  TD_REQUIRE(rank >= 0 && rank < size && root >= 0 && root < size);
  Schedule steps;
  if (rank != root) {
    Step step;
    step.send_to = root;
    step.send = Part(rank, bytes);
    return {step};
  }
  for (int s = 1; s < size; ++s) {
    Step step;
    step.recv_from = Mod(rank + s, size);
    step.recv = Part(step.recv_from, bytes);
    steps.push_back(step);
  }
  return steps;
}

Schedule DirectBroadcast(int rank, int size, int root, size_t bytes) {
  TD_REQUIRE(rank >= 0 && rank < size && root >= 0 && root < size);
  Schedule steps;
  if (rank != root) {
    Step step;
    step.recv_from = root;
    step.recv = {0, bytes};
    return {step};
  }
  for (int s = 1; s < size; ++s) {
    Step step;
    step.send_to = Mod(rank + s, size);
    step.send = {0, bytes};
    steps.push_back(step);
  }
  return steps;
}

Schedule PairwiseAllToAll(int rank, int size, size_t bytes) {
  TD_REQUIRE(rank >= 0 && rank < size);
  Schedule steps;
  for (int s = 0; s < size; ++s) {
    const int partner = Mod(s - rank, size);
    if (partner == rank) continue;
    Step step;
    step.send_to = step.recv_from = partner;
    step.send = step.recv = Part(partner, bytes);
    steps.push_back(step);
  }
  return steps;
}

Schedule PointToPoint(int to, int from, size_t bytes) {
  Step step;
  step.send_to = to;
  step.recv_from = from;
  step.send = step.recv = {0, bytes};
  return {step};
}

Schedule DisseminationBarrier(int rank, int size) {
  TD_REQUIRE(rank >= 0 && rank < size);
  Schedule steps;
  for (int distance = 1; distance < size; distance *= 2) {
    Step step;
    step.send_to = Mod(rank + distance, size);
    step.send = {0, 1};
    step.recv_from = Mod(rank - distance, size);
    step.recv = {0, 1};
    steps.push_back(step);
  }
  return steps;
}

}  // namespace tandem::collective
