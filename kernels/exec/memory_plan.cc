#include "kernels/exec/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::exec {
namespace {

class MemoryPlanner {
 public:
  MemoryPlanner(const graph::Program& program, const std::vector<Flight>& flights,
                const MemoryOptions& options)
      : program_(program),
        flights_(flights),
        options_(options),
        end_(static_cast<int>(program.ops.size())) {}

  Status FindLives(const std::vector<std::string>& fetch);
  void ShareInplace();
  MemoryPlan Pack();
  size_t LargestLive(const std::set<std::string>& temporaries) const;

 private:
  void Extend(const std::string& name, int at);
  void ShareAt(int at);
  size_t BlockOf(size_t var) const;
  std::vector<std::string> Positions(const std::vector<std::vector<std::string>>& slots) const;
  bool MayReplace(int at, const std::string& out, const std::string& in) const;
  std::vector<Lifetime> UntilFreed(std::vector<Lifetime> blocks) const;

  const graph::Program& program_;
  const std::vector<Flight>& flights_;
  const MemoryOptions& options_;
  const int end_;  // number of operators of the program

  std::vector<std::string> names_;
  std::vector<Lifetime> lives_;
  std::unordered_map<std::string, size_t> index_;
  // by variable: the variable whose memory it uses; itself: its own memory
  std::vector<size_t> replaced_;
  MemoryPlan plan_;
};

void MemoryPlanner::Extend(const std::string& name, int at) {
  TD_REQUIRE(at >= 0 && at <= end_);
  const graph::Var* var = program_.FindVar(name);
  if (var == nullptr || var->kind != graph::VarKind::kTemp) return;
  const auto [it, added] = index_.try_emplace(name, lives_.size());
  if (added) {
    lives_.push_back({var->desc.bytes(), at, at});
    names_.push_back(name);
  }
  lives_[it->second].last = std::max(lives_[it->second].last, at);
}

Status MemoryPlanner::FindLives(const std::vector<std::string>& fetch) {
  for (int i = 0; i < end_; ++i) {
    graph::ForEachWrite(program_.ops[i], [&](const std::string& v) { Extend(v, i); });
    graph::ForEachMemoryRead(program_.ops[i], [&](const std::string& v) { Extend(v, i); });
  }
  for (const Flight& flight : flights_) {
    TD_REQUIRE(flight.start >= 0 && flight.start < flight.wait && flight.wait <= end_);
    const ops::Op& op = program_.ops[flight.start];
    graph::ForEachRead(op, [&](const std::string& v) { Extend(v, flight.wait); });
    graph::ForEachWrite(op, [&](const std::string& v) { Extend(v, flight.wait); });
  }
  for (const std::string& name : fetch) {
    if (program_.FindVar(name) == nullptr)
      return NotFound("the program has no variable \"%s\" to fetch [TD1205]", name);
    Extend(name, end_);
  }
  replaced_.resize(lives_.size());
  TD_REQUIRE(names_.size() == lives_.size() && index_.size() == lives_.size());
  std::iota(replaced_.begin(), replaced_.end(), size_t{0});
  return OkStatus();
}

size_t MemoryPlanner::BlockOf(size_t var) const {
  TD_REQUIRE(var < replaced_.size());
  while (replaced_[var] != var) var = replaced_[var];
  return var;
}

std::vector<std::string> MemoryPlanner::Positions(
    const std::vector<std::vector<std::string>>& slots) const {
  std::vector<std::string> names;
  for (const auto& slot : slots) {
    if (slot.empty()) names.emplace_back();
    names.insert(names.end(), slot.begin(), slot.end());
  }
  return names;
}

// Returns true if `out` can use the memory of `in` at operator `at`: operator `at` is the last
// reader of the temporary `in` and the first writer of `out`, and `in` and `out` have the same
// size.
bool MemoryPlanner::MayReplace(int at, const std::string& out, const std::string& in) const {
  const auto o = index_.find(out), i = index_.find(in);
  if (o == index_.end() || i == index_.end() || o == i) return false;
  const Lifetime &output = lives_[o->second], &input = lives_[i->second];
  return output.first == at && replaced_[o->second] == o->second && input.last == at &&
         input.first < at && input.bytes == output.bytes;
}

void MemoryPlanner::ShareAt(int at) {
  const ops::Op& op = program_.ops[at];
  const ops::OpDef& def = *ops::FindOp(op.type);
  if (def.is_comm || !op.run_if.empty() || options_.apart.contains(op.type)) return;
  const std::vector<std::string> in = Positions(op.inputs), out = Positions(op.outputs);
  std::set<std::string> taken;
  for (const auto& [o, i] : def.inplace) {
    if (static_cast<size_t>(o) >= out.size() || static_cast<size_t>(i) >= in.size()) continue;
    // If an operator has one input at two positions, the operator may read the input later than
    // OpDef::inplace assumes. Therefore no output uses the memory of such an input.
    if (std::count(in.begin(), in.end(), in[i]) > 1) continue;
    if (taken.contains(in[i]) || !MayReplace(at, out[o], in[i])) continue;
    taken.insert(in[i]);
    replaced_[index_.at(out[o])] = index_.at(in[i]);
    plan_.inplace.emplace_back(out[o], in[i]);
  }
}

void MemoryPlanner::ShareInplace() {
  if (!options_.inplace) return;
  for (int i = 0; i < end_; ++i) ShareAt(i);
}

// Extends each lifetime to the operator after which the memory is freed. If options_.reuse is
// false, memory may be freed later than after the last use.
std::vector<Lifetime> MemoryPlanner::UntilFreed(std::vector<Lifetime> blocks) const {
  if (options_.reuse || options_.eager_delete_bytes == 0) return blocks;
  std::vector<std::vector<size_t>> dying(static_cast<size_t>(end_) + 1);
  for (size_t b = 0; b < blocks.size(); ++b) dying[blocks[b].last].push_back(b);
  std::vector<size_t> dead;
  int64_t dead_bytes = 0;
  for (int i = 0; i <= end_; ++i) {
    for (const size_t b : dying[i]) {
      dead.push_back(b);
      dead_bytes += static_cast<int64_t>(blocks[b].bytes);
    }
    const bool full = options_.eager_delete_bytes > 0 && dead_bytes >= options_.eager_delete_bytes;
    if (!full && i < end_) continue;
    for (const size_t b : dead) blocks[b].last = i;
    dead.clear();
    dead_bytes = 0;
  }
  return blocks;
}

MemoryPlan MemoryPlanner::Pack() {
  // By variable with its own memory: the index in `blocks`.
  std::vector<size_t> place(lives_.size());
  std::vector<Lifetime> blocks;
  for (size_t v = 0; v < lives_.size(); ++v) {
    plan_.bytes_sum += lives_[v].bytes;
    if (replaced_[v] != v) continue;
    place[v] = blocks.size();
    blocks.push_back(lives_[v]);
  }
  for (size_t v = 0; v < lives_.size(); ++v) {
    Lifetime& block = blocks[place[BlockOf(v)]];
    block.last = std::max(block.last, lives_[v].last);
    TD_REQUIRE(block.bytes == lives_[v].bytes && block.first <= lives_[v].first);
  }
  plan_.bytes_min = LargestLiveSum(blocks);
  const Packing packing = PackArena(UntilFreed(blocks));
  TD_REQUIRE(packing.offsets.size() == blocks.size() && packing.bytes >= plan_.bytes_min);
  plan_.bytes = packing.bytes;
  plan_.order = packing.order;
  for (size_t v = 0; v < lives_.size(); ++v) {
    plan_.offsets[names_[v]] = packing.offsets[place[BlockOf(v)]];
  }
  return std::move(plan_);
}

size_t MemoryPlanner::LargestLive(const std::set<std::string>& temporaries) const {
  std::vector<Lifetime> lives;
  for (size_t v = 0; v < lives_.size(); ++v) {
    if (temporaries.contains(names_[v])) lives.push_back(lives_[v]);
  }
  return LargestLiveSum(lives);
}

}  // namespace

std::vector<Flight> FindCommIntervals(const graph::Program& program) {
  std::vector<Flight> flights;
  const int n = static_cast<int>(program.ops.size());
  for (int i = 0; i < n; ++i) {
    const ops::Op& op = program.ops[i];
    if (!ops::FindOp(op.type)->is_comm) continue;
    std::set<std::string> reads, writes;
    graph::ForEachRead(op, [&](const std::string& v) { reads.insert(v); });
    graph::ForEachWrite(op, [&](const std::string& v) { writes.insert(v); });
    int wait = i + 1;
    for (; wait < n; ++wait) {
      bool touches = false;
      graph::ForEachMemoryRead(program.ops[wait],
                               [&](const std::string& v) { touches |= writes.contains(v); });
      graph::ForEachWrite(program.ops[wait], [&](const std::string& v) {
        touches |= writes.contains(v) || reads.contains(v);
      });
      if (touches) break;
    }
    flights.push_back({i, wait});
    TD_REQUIRE(wait > i && wait <= n);
  }
  return flights;
}

StatusOr<MemoryPlan> PlanMemory(const graph::Program& program, const std::vector<Flight>& flights,
                                const std::vector<std::string>& fetch,
                                const MemoryOptions& options) {
  MemoryPlanner planner(program, flights, options);
  TD_RETURN_IF_ERROR(planner.FindLives(fetch));
  planner.ShareInplace();
  return planner.Pack();
}

size_t LargestLive(const graph::Program& program, const std::vector<Flight>& flights,
                   const std::set<std::string>& temporaries) {
  const MemoryOptions options;
  MemoryPlanner planner(program, flights, options);
  CHECK(planner.FindLives({}).ok());
  return planner.LargestLive(temporaries);
}

std::string ToText(const MemoryPlan& plan) {
  const auto mb = [](size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return absl::StrFormat(
      "%.1f MB for temporaries (at least %.1f MB live at once; %.1f MB without reuse), %d in place",
      mb(plan.bytes), mb(plan.bytes_min), mb(plan.bytes_sum), plan.inplace.size());
}

}  // namespace tandem::exec
