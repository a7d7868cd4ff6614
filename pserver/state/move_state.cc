#include "pserver/state/move_state.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Returns a window with the messages that were accepted in `a` or in `b`. Both windows are of the
// same sender, so their numbers differ only slightly.
SequenceWindow Both(const SequenceWindow& a, const SequenceWindow& b) {
  const SequenceWindow& older = a.highest() < b.highest() ? a : b;
  SequenceWindow all = a.highest() < b.highest() ? b : a;
  const uint64_t last = older.highest();
  const uint64_t first = last > SequenceWindow::kSize ? last - SequenceWindow::kSize : 1;
  for (uint64_t s = std::max<uint64_t>(first, 1); s <= last; ++s) {
    const bool taken = older.Look(s) == SequenceWindow::Seen::kTaken;
    if (taken && all.Look(s) == SequenceWindow::Seen::kNew) all.Take(s);
  }
  TD_REQUIRE(all.highest() >= last);
  return all;
}

}  // namespace

void AddMark(const ServerPushState& mark, std::vector<ServerPushState>& all) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const ServerPushState& have) {
    return have.server == mark.server && have.mark.trainer == mark.mark.trainer;
  });
  if (it == all.end()) return all.push_back(mark);
  if (it->mark.incarnation > mark.mark.incarnation) return;
  if (it->mark.incarnation < mark.mark.incarnation) {
    *it = mark;
    return;
  }
  it->mark.applied = Both(it->mark.applied, mark.mark.applied);
  it->mark.completed |= mark.mark.completed;
  it->pushes = std::max(it->pushes, mark.pushes);
  it->last_step = std::max(it->last_step, mark.last_step);
}

std::vector<BucketMove> MoveState::MovesOf(const std::vector<int>& buckets, int target) const {
  TD_REQUIRE(target >= 0);
  std::vector<BucketMove> moves;
  for (const int b : buckets) {
    const auto last = begun.find(b);
    const uint64_t epoch = std::max(map.epoch(b), last == begun.end() ? 0 : last->second) + 1;
    moves.push_back({b, epoch, target});
  }
  return moves;
}

void MoveState::Begin(const std::vector<BucketMove>& moves) {
  for (const BucketMove& m : moves) begun[m.bucket] = m.epoch;
}

bool MoveState::AreOver(const std::vector<BucketMove>& moves) const {
  return std::all_of(moves.begin(), moves.end(), [this](const BucketMove& m) {
    return m.bucket >= 0 && m.bucket < kBucketsMax && m.epoch != 0 &&
           map.epoch(m.bucket) == m.epoch && map.owner(m.bucket, -1) == m.server;
  });
}

void MoveState::GiveAway(const std::vector<BucketMove>& moves, const BucketMap& news) {
  map.Learn(news);
  ++generation;
  for (const BucketMove& m : moves) {
    map.Learn(m);
    begun.erase(m.bucket);
  }
}

BucketMap MoveState::TakeBack(int owner) {
  BucketMap back;
  for (const auto& [bucket, epoch] : begun) {
    if (epoch > map.epoch(bucket)) back.Learn(BucketMove{bucket, epoch + 1, owner});
  }
  begun.clear();
  map.Learn(back);
  return back;
}

size_t MoveState::Known(const std::vector<BucketMove>& moves) const {
  const auto known = std::count_if(moves.begin(), moves.end(), [this](const BucketMove& m) {
    const auto last = offered.find(m.bucket);
    return std::max(map.epoch(m.bucket), last == offered.end() ? 0 : last->second) >= m.epoch;
  });
  return static_cast<size_t>(known);
}

void MoveState::Offer(const std::vector<BucketMove>& moves) {
  for (const BucketMove& m : moves) offered[m.bucket] = m.epoch;
}

bool MoveState::Concerns(const BucketMap& news) const {
  const std::vector<BucketMove> moves = news.moves();
  return std::any_of(moves.begin(), moves.end(), [this](const BucketMove& m) {
    return m.epoch > map.epoch(m.bucket) && offered.contains(m.bucket);
  });
}

MoveState::Decided MoveState::Learn(const BucketMap& news, int server) {
  Decided decided;
  for (const BucketMove& m : map.Learn(news)) {
    const auto found = offered.find(m.bucket);
    if (found == offered.end() || m.epoch < found->second) continue;
    const bool mine = m.epoch == found->second && m.server == server;
    (mine ? decided.mine : decided.others).push_back(m.bucket);
    offered.erase(found);
  }
  return decided;
}

const SequenceWindow* MoveState::Inherited(int server, int trainer, uint64_t incarnation) const {
  for (const ServerPushState& m : inherited) {
    if (m.server == server && m.mark.trainer == trainer && m.mark.incarnation == incarnation) {
      return &m.mark.applied;
    }
  }
  return nullptr;
}

}  // namespace tandem::pserver
