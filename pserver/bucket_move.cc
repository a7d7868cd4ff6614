#include "pserver/bucket_move.h"

#include <algorithm>

namespace tandem {
namespace {

// What either took. Of one sender, so that the windows differ in little.
SequenceWindow Both(const SequenceWindow& a, const SequenceWindow& b) {
  const SequenceWindow& older = a.highest() < b.highest() ? a : b;
  SequenceWindow all = a.highest() < b.highest() ? b : a;
  const uint64_t last = older.highest();
  const uint64_t first = last > SequenceWindow::kSize ? last - SequenceWindow::kSize : 1;
  for (uint64_t s = std::max<uint64_t>(first, 1); s <= last; ++s) {
    const bool taken = older.Look(s) == SequenceWindow::Seen::kTaken;
    if (taken && all.Look(s) == SequenceWindow::Seen::kNew) all.Take(s);
  }
  return all;
}

}  // namespace

void AddMark(const ServerMark& mark, std::vector<ServerMark>& all) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const ServerMark& have) {
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

}  // namespace tandem
