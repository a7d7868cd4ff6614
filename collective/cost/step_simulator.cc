#include "collective/cost/step_simulator.h"

#include <algorithm>
#include <deque>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "collective/schedule/schedule_cursor.h"
#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::collective {
namespace {

constexpr size_t kPiecesMax = 16;  // maximum pieces per step; more if a piece would be too large
constexpr size_t kPieceBytesMin = 4 << 10;    // minimum size of a piece that the simulation chooses
constexpr size_t kPieceBytesMax = 256 << 10;  // maximum size of a piece, as in the runner
constexpr size_t kPiecesAfforded = 512 << 10;  // maximum pieces of a simulation, over all steps
// Maximum number of schedule steps over all ranks for which a hierarchical allreduce is simulated
// with all ranks. Above this number only one host is simulated.
constexpr size_t kAllWalkedMax = 64 << 10;

struct Rank {
  Schedule schedule;
  ScheduleCursor progress;
  absl::flat_hash_map<int, size_t> arrived;  // bytes that wait to be received; key: the stream
  double slow = 1;
  bool busy = true;  // true while the thread is busy, and before it has started
  bool began_send = false, began_recv = false;
  bool receive_first = false;  // alternates between true and false, as in the runner
  double end = 0;
};

struct Event {
  enum Kind : uint8_t { kStart, kSent, kLanded, kArrived };
  double at = 0;
  uint64_t order = 0;  // order of events that have the same time
  Kind kind = kStart;
  int rank = 0;
  int stream = 0;  // number of the stream; only for kArrived events
  size_t bytes = 0;
};
struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
};

// The free processor cores of a host. A host may have fewer cores than its ranks have threads.
struct Cores {
  int free = 0;
  std::deque<int> waiting;  // ranks that wait for a core
};

// One simulation of the first ranks_.size() ranks of `layout`. Simulated rank r represents every
// rank that is equal to r modulo ranks_.size().
class Walker {
 public:
  Walker(const RankLayout& layout, int walked, const CostModel& model, size_t pieces,
         size_t piece_min)
      : layout_(layout),
        walked_(walked),
        model_(model),
        pieces_(pieces),
        piece_min_(piece_min),
        ranks_(static_cast<size_t>(walked)),
        inside_(ranks_.size()),
        between_(ranks_.size() / static_cast<size_t>(layout.ranks_per_host) + 1),
        cores_(between_.size(), Cores{model.cores, {}}) {}

  void Add(int rank, Schedule schedule, double start, double slow);
  StatusOr<std::vector<double>> Run();

 private:
  // The times at which an end of a wire is free again, for each direction.
  struct WireEnd {
    double out = 0, in = 0;
  };

  int Host(int rank) const { return rank / layout_.ranks_per_host; }
  // Returns the number of the stream of bytes from rank `from` to a rank. `far`: rank `from` is on
  // another host than the receiver. Both cases need their own stream, because a simulated rank may
  // represent both a sender on the receiver's host and a sender on another host.
  int Stream(int from, bool far) const { return from % walked_ * 2 + (far ? 1 : 0); }
  void Put(double at, Event::Kind kind, int rank, size_t bytes, int stream = 0) {
    events_.push({at, ++order_, kind, rank, stream, bytes});
  }
  // Lets the thread of `rank` do its next action, if one is possible at time `now`.
  void Look(int rank, double now);
  size_t Sendable(const Rank& rank) const;
  size_t Receivable(int rank) const;
  size_t PieceOf(size_t step_bytes) const;
  bool TakeCore(int rank);
  void LeaveCore(int rank, double now);
  void Sent(int rank, size_t bytes, double now);
  void Landed(int rank, size_t bytes);

  const RankLayout layout_;
  const int walked_;
  const CostModel model_;
  const size_t pieces_, piece_min_;
  std::vector<Rank> ranks_;
  std::vector<WireEnd> inside_, between_;  // ends of wires: `inside_` by rank, `between_` by host
  std::vector<Cores> cores_;               // cores of each host
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  uint64_t order_ = 0;
};

void Walker::Add(int rank, Schedule schedule, double start, double slow) {
  TD_REQUIRE(rank >= 0 && static_cast<size_t>(rank) < ranks_.size());
  Rank& added = ranks_[static_cast<size_t>(rank)];
  added.schedule = std::move(schedule);
  added.progress = ScheduleCursor(added.schedule);
  added.slow = slow;
  added.end = start + model_.thread.start * slow;
  Put(added.end, Event::kStart, rank, 0);
}

size_t Walker::PieceOf(size_t step_bytes) const {
  TD_REQUIRE(pieces_ > 0);
  const size_t piece = (step_bytes + pieces_ - 1) / pieces_;
  return std::clamp<size_t>(piece, piece_min_, kPieceBytesMax);
}

size_t Walker::Sendable(const Rank& rank) const {
  const Step* const step = rank.progress.sending();
  if (step == nullptr) return 0;
  return std::min(rank.progress.send_end() - rank.progress.send_at(), PieceOf(step->send.size()));
}

size_t Walker::Receivable(int rank) const {
  const Rank& own = ranks_[static_cast<size_t>(rank)];
  const Step* const step = own.progress.receiving();
  if (step == nullptr) return 0;
  const auto it = own.arrived.find(Stream(step->recv_from, Host(step->recv_from) != Host(rank)));
  if (it == own.arrived.end()) return 0;
  const size_t room = own.progress.land_end() - own.progress.land_at();
  return std::min({it->second, room, PieceOf(step->recv.size())});
}

bool Walker::TakeCore(int rank) {
  if (model_.cores == 0) return true;
  Cores& cores = cores_[static_cast<size_t>(Host(rank))];
  if (cores.free > 0) {
    --cores.free;
    return true;
  }
  if (std::find(cores.waiting.begin(), cores.waiting.end(), rank) == cores.waiting.end()) {
    cores.waiting.push_back(rank);
  }
  return false;
}

void Walker::LeaveCore(int rank, double now) {
  if (model_.cores == 0) return;
  Cores& cores = cores_[static_cast<size_t>(Host(rank))];
  ++cores.free;
  while (cores.free > 0 && !cores.waiting.empty()) {
    const int next = cores.waiting.front();
    cores.waiting.pop_front();
    Look(next, now);
  }
}

void Walker::Look(int rank, double now) {
  Rank& own = ranks_[static_cast<size_t>(rank)];
  if (own.busy) return;
  const size_t out = Sendable(own), in = Receivable(rank);
  if ((out == 0 && in == 0) || !TakeCore(rank)) return;
  const bool receives = in > 0 && (out == 0 || own.receive_first);
  own.receive_first = !receives;
  own.busy = true;
  const ThreadCost& cost = model_.thread;
  const double bytes = static_cast<double>(receives ? in : out);
  bool& began = receives ? own.began_recv : own.began_send;
  double takes = (began ? 0 : cost.message) + bytes * cost.byte;
  began = true;
  if (receives && own.progress.receiving()->land != Land::kStore) takes += bytes * cost.add_byte;
  Put(now + takes * own.slow, receives ? Event::kLanded : Event::kSent, rank, receives ? in : out);
}

void Walker::Sent(int rank, size_t bytes, double now) {
  Rank& own = ranks_[static_cast<size_t>(rank)];
  const int to = own.progress.sending()->send_to, there = to % walked_;
  const bool far = Host(to) != Host(rank);
  const WireCost& wire = far ? model_.between : model_.inside;
  auto& ends = far ? between_ : inside_;
  WireEnd& mine = ends[static_cast<size_t>(far ? Host(rank) : rank)];
  WireEnd& theirs = ends[static_cast<size_t>(far ? Host(there) : there)];
  const double takes = static_cast<double>(bytes) * wire.byte;
  mine.out = std::max(now, mine.out) + takes;
  theirs.in = std::max(mine.out + wire.latency, theirs.in + takes);
  Put(theirs.in, Event::kArrived, there, bytes, Stream(rank, far));
  own.progress.Sent(bytes);
  if (!own.progress.all_sent()) return;
  own.progress.NextSend();
  own.began_send = false;
}

void Walker::Landed(int rank, size_t bytes) {
  Rank& own = ranks_[static_cast<size_t>(rank)];
  const int from = own.progress.receiving()->recv_from;
  own.arrived[Stream(from, Host(from) != Host(rank))] -= bytes;
  own.progress.Landed(bytes);
  if (!own.progress.all_landed()) return;
  own.progress.NextRecv();
  own.began_recv = false;
}

StatusOr<std::vector<double>> Walker::Run() {
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    Rank& own = ranks_[static_cast<size_t>(event.rank)];
    if (event.kind == Event::kArrived) {
      own.arrived[event.stream] += event.bytes;
    } else {
      if (event.kind == Event::kSent) Sent(event.rank, event.bytes, event.at);
      if (event.kind == Event::kLanded) Landed(event.rank, event.bytes);
      own.busy = false;
      own.end = event.at;
      // A send or receive of 0 bytes has no message, so it is skipped.
      while (own.progress.sending() != nullptr && own.progress.all_sent()) own.progress.NextSend();
      while (own.progress.receiving() != nullptr && own.progress.all_landed()) {
        own.progress.NextRecv();
      }
      if (event.kind != Event::kStart) LeaveCore(event.rank, event.at);
    }
    Look(event.rank, event.at);
  }
  std::vector<double> ends;
  for (const Rank& rank : ranks_) {
    if (!rank.progress.done())
      return Internal("the schedules of the ranks deadlock: each rank waits for another rank");
    ends.push_back(rank.end);
  }
  return ends;
}

StatusOr<std::vector<double>> WalkOf(const std::function<Schedule(int)>& schedule,
                                     const RankLayout& layout, int walked, const CostModel& model,
                                     const RankSkew& starts, size_t pieces) {
  std::vector<Schedule> tables;
  size_t steps = 0;
  for (int r = 0; r < walked; ++r) {
    tables.push_back(schedule(r));
    steps += tables.back().size();
    // The length of the first schedule is an estimate for all schedules, because the lengths differ
    // little.
    if (steps <= kWalkStepsMax && tables[0].size() * walked <= 2 * kWalkStepsMax) continue;
    return ResourceExhausted(
        "the schedules of %d ranks have more than %d steps, which is too many to simulate",
        layout.ranks, kWalkStepsMax);
  }
  const size_t piece_min = pieces == 0 ? kPieceBytesMin : 1;
  if (pieces == 0) {
    pieces = std::clamp<size_t>(kPiecesAfforded / std::max<size_t>(steps, 1), 1, kPiecesMax);
  }
  Walker walker(layout, walked, model, pieces, piece_min);
  for (int r = 0; r < walked; ++r) {
    const auto at = static_cast<size_t>(r);
    walker.Add(r, std::move(tables[at]), starts.start.empty() ? 0 : starts.start[at],
               r == starts.slow_rank ? starts.slow_factor : 1);
  }
  return walker.Run();
}

}  // namespace

StatusOr<std::vector<double>> Walk(const std::function<Schedule(int rank)>& schedule,
                                   const RankLayout& layout, const CostModel& model,
                                   const RankSkew& starts, size_t pieces) {
  CHECK_EQ(layout.ranks % layout.ranks_per_host, 0);
  return WalkOf(schedule, layout, layout.ranks, model, starts, pieces);
}

StatusOr<std::vector<double>> SimulateAllReduce(AllReduceAlgorithm algorithm,
                                                const RankLayout& layout, int group, size_t count,
                                                size_t element_bytes, const CostModel& any_model,
                                                const RankSkew& starts) {
  CHECK_EQ(layout.ranks % layout.ranks_per_host, 0);
  const CostModel model = any_model.For(count * element_bytes);
  const auto schedule = [&](int rank) {
    return AllReduceSchedule(algorithm, rank, layout.ranks, group, count, element_bytes);
  };
  const bool hierarchical =
      (algorithm == AllReduceAlgorithm::kLeaders || algorithm == AllReduceAlgorithm::kShards) &&
      group == layout.ranks_per_host;
  const bool rotation =
      algorithm == AllReduceAlgorithm::kRing ||
      (hierarchical && schedule(0).size() * static_cast<size_t>(layout.ranks) > kAllWalkedMax);
  const bool alike = rotation && starts.start.empty() && starts.slow_rank < 0;
  // Rounds `count` up, so that all chunks have the same size. Then each host sends as many bytes as
  // it receives.
  if (alike && count > 0) {
    const auto ranks = static_cast<size_t>(layout.ranks);
    count = (count + ranks - 1) / ranks * ranks;
  }
  TD_ASSIGN_OR_RETURN(
      std::vector<double> ends,
      WalkOf(schedule, layout, alike ? layout.ranks_per_host : layout.ranks, model, starts, 0));
  if (algorithm != AllReduceAlgorithm::kDirect) return ends;
  const double sums = static_cast<double>(count * element_bytes) * (layout.ranks - 1);
  for (size_t r = 0; r < ends.size(); ++r) {
    const bool slow = static_cast<int>(r) == starts.slow_rank;
    ends[r] += sums * model.thread.add_byte * (slow ? starts.slow_factor : 1);
  }
  return ends;
}

}  // namespace tandem::collective
