#include "trainer/monitoring/server_trace.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "common/base/check.h"

namespace tandem::trainer {
namespace {

int64_t Microseconds(Time t) {
  return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
}

bool Timed(const ps::PsCall& call) { return call.ok && call.at_server.received_us != 0; }

std::vector<size_t> InOrder(const std::vector<ps::PsCall>& calls, Time ps::PsCall::*by) {
  std::vector<size_t> order(calls.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return calls[a].*by < calls[b].*by; });
  return order;
}

}  // namespace

std::map<int, ClockBounds> ServerClocks(const std::vector<ps::PsCall>& calls) {
  std::map<int, ClockBounds> clocks;
  for (const ps::PsCall& call : calls) {
    if (!Timed(call)) continue;
    ClockBounds& clock = clocks[call.server];
    clock.low = std::max(clock.low, Microseconds(call.begin) - call.at_server.received_us);
    clock.high = std::min(clock.high, Microseconds(call.end) + 1 - call.at_server.answered_us);
  }
  return clocks;
}

std::vector<GradientFlow> GradientWays(const std::vector<ps::PsCall>& calls) {
  const std::vector<size_t> ended = InOrder(calls, &ps::PsCall::end);
  std::vector<GradientFlow> ways;
  for (size_t p = 0; p < calls.size(); ++p) {
    const ps::PsCall& push = calls[p];
    if (!Timed(push) || push.call != rpc::PserverCall::kPush) continue;
    // Searches the replies of the server that received the push. `update` is the earliest reply
    // that reports an update after the push. `pull` is the earliest of these replies that has the
    // new parameters.
    size_t update = calls.size(), pull = calls.size();
    const auto first = std::partition_point(ended.begin(), ended.end(),
                                            [&](size_t c) { return calls[c].end < push.begin; });
    for (auto it = first; it != ended.end(); ++it) {
      const size_t c = *it;
      const ps::PsCall& call = calls[c];
      if (call.server != push.server || !Timed(call)) continue;
      if (call.at_server.update_begin_us < push.at_server.received_us) continue;
      if (update == calls.size()) update = c;
      if (!call.at_server.values) continue;
      pull = c;
      break;
    }
    if (pull != calls.size()) ways.push_back({p, update, pull});
  }
  return ways;
}

std::vector<int> CallTracks(const std::vector<ps::PsCall>& calls) {
  std::map<int, std::vector<Time>> ends;  // end times of the tracks of each server
  std::vector<int> tracks(calls.size(), 0);
  for (const size_t c : InOrder(calls, &ps::PsCall::begin)) {
    std::vector<Time>& of_server = ends[calls[c].server];
    const auto free = std::find_if(of_server.begin(), of_server.end(),
                                   [&](Time end) { return end <= calls[c].begin; });
    tracks[c] = static_cast<int>(free - of_server.begin());
    if (free == of_server.end()) {
      of_server.push_back(calls[c].end);
    } else {
      *free = calls[c].end;
    }
  }
  DCHECK_EQ(tracks.size(), calls.size());
  return tracks;
}

}  // namespace tandem::trainer
