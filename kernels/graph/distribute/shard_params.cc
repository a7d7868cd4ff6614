#include "kernels/graph/distribute/shard_params.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "common/base/require.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

// Operators [begin, end) that share one received copy of a parameter: forward or backward.
struct Region {
  size_t begin, end;
  const char* suffix;
};

// The parameters that one broadcast sends, and the index of the first operator that uses one of
// them.
struct Segment {
  int owner;
  size_t first_use;
  std::vector<std::string> params;
};

// Returns the parameters in the order in which operators of the region first read their memory.
// Appends to `at`, for each parameter, the index of the operator that first reads it.
std::vector<std::string> InOrderOfUse(const Program& program, const Region& region,
                                      const std::function<bool(const std::string&)>& is_param,
                                      std::vector<size_t>* at) {
  std::vector<std::string> order;
  std::set<std::string> seen;
  for (size_t i = region.begin; i < region.end; ++i) {
    if (program.ops[i].role == ops::OpRole::kOptimize) continue;
    ForEachMemoryRead(program.ops[i], [&](const std::string& name) {
      if (!is_param(name) || !seen.insert(name).second) return;
      order.push_back(name);
      at->push_back(i);
    });
  }
  return order;
}

class Sharder {
 public:
  Sharder(Program& program, const ShardRule& rule) : program_(program), rule_(rule) {}

  StatusOr<ShardedParams> Run();

 private:
  bool IsParam(const std::string& name) const { return rule_.owners.contains(name); }
  bool IsOwn(const std::string& name) const { return rule_.owners.at(name) == rule_.rank; }
  std::map<std::string, size_t> FindDerived(size_t end) const;
  Status DeriveAgain(size_t backward);
  std::vector<Segment> Cut(const Region& region) const;
  StatusOr<int64_t> Fetch(const Region& region);

  Program& program_;
  const ShardRule& rule_;
};

// Returns the temporaries that operators before `end` compute only from parameters, each with the
// index of the operator that writes it.
std::map<std::string, size_t> Sharder::FindDerived(size_t end) const {
  std::map<std::string, size_t> derived;
  for (size_t i = 0; i < end; ++i) {
    const ops::Op& op = program_.ops[i];
    if (ops::FindOp(op.type)->has_side_effect || !op.run_if.empty()) continue;
    bool reads = false, of_params = true;
    ForEachMemoryRead(op, [&](const std::string& name) {
      reads = true;
      of_params &= IsParam(name) || derived.contains(name);
    });
    ForEachWrite(op, [&](const std::string& name) {
      of_params &= program_.FindVar(name)->kind == VarKind::kTemp;
    });
    if (!reads || !of_params) continue;
    ForEachWrite(op, [&](const std::string& name) { derived[name] = i; });
  }
  return derived;
}

// Recomputes the temporaries of FindDerived for backward. A copy of the operator that writes a
// temporary is inserted before the first backward reader of the temporary. Thus the temporary does
// not stay in memory from forward to backward.
Status Sharder::DeriveAgain(size_t backward) {
  TD_REQUIRE(backward < program_.ops.size());
  const std::map<std::string, size_t> derived = FindDerived(backward);
  if (derived.empty()) return OkStatus();
  const std::vector<ops::Op> before = program_.ops;
  std::map<std::string, std::string> again;
  const std::function<Status(std::string*)> redirect = [&](std::string* name) -> Status {
    const auto it = derived.find(*name);
    if (it == derived.end()) return OkStatus();
    if (!again.contains(*name)) {
      ops::Op copy = before[it->second];
      copy.role = ops::OpRole::kBackward;
      for (auto& slot : copy.inputs) {
        for (std::string& input : slot) TD_RETURN_IF_ERROR(redirect(&input));
      }
      for (auto& slot : copy.outputs) {
        for (std::string& output : slot) {
          if (output.empty()) continue;
          const std::string fresh = program_.FreshName(output + "@AGAIN");
          again[output] = fresh;
          output = fresh;
        }
      }
      TD_RETURN_IF_ERROR(AppendOp(program_, std::move(copy)));
    }
    *name = again.at(*name);
    return OkStatus();
  };
  program_.ops.resize(backward);
  for (size_t i = backward; i < before.size(); ++i) {
    ops::Op op = before[i];
    const ops::SlotList& slots = ops::FindOp(op.type)->inputs;
    for (size_t s = 0; s < op.inputs.size(); ++s) {
      if (slots[s].shape_only) continue;
      for (std::string& name : op.inputs[s]) TD_RETURN_IF_ERROR(redirect(&name));
    }
    program_.ops.push_back(std::move(op));
  }
  return OkStatus();
}

std::vector<Segment> Sharder::Cut(const Region& region) const {
  TD_REQUIRE(rule_.segment_bytes >= 0);
  std::vector<size_t> at;
  const std::vector<std::string> order = InOrderOfUse(
      program_, region, [this](const std::string& name) { return IsParam(name); }, &at);
  std::vector<Segment> segments;
  TD_REQUIRE(at.size() == order.size());
  int64_t bytes = 0;
  DType dtype = DType::kF32;
  for (size_t i = 0; i < order.size(); ++i) {
    const TensorDesc& desc = program_.FindVar(order[i])->desc;
    const int owner = rule_.owners.at(order[i]);
    const auto more = static_cast<int64_t>(desc.bytes());
    if (segments.empty() || segments.back().owner != owner || desc.dtype != dtype ||
        bytes + more > rule_.segment_bytes) {
      segments.push_back({owner, at[i], {}});
      bytes = 0;
    }
    segments.back().params.push_back(order[i]);
    bytes += more;
    dtype = desc.dtype;
  }
  return segments;
}

// Inserts the broadcasts for one region. The operators of the region then read the received copies.
StatusOr<int64_t> Sharder::Fetch(const Region& region) {
  TD_REQUIRE(region.begin <= region.end && region.end <= program_.ops.size());
  const std::vector<Segment> segments = Cut(region);
  std::map<std::string, std::string> here;
  // By index of an operator: the broadcasts that are inserted before it.
  std::vector<std::vector<ops::Op>> before(region.end);
  size_t at = region.begin;  // index of the first operator that uses the previous segment
  for (size_t s = 0; s < segments.size(); ++s) {
    ops::Op fetch = {
        .type = "c_broadcast_params",
        .inputs = {segments[s].params},
        .outputs = {{}},
        .attrs = {{"root", int64_t{segments[s].owner}}, {"group", int64_t{rule_.group}}},
        .role = program_.ops[segments[s].first_use].role};
    for (const std::string& name : segments[s].params) {
      here[name] = IsOwn(name) ? name : program_.FreshName(name + region.suffix);
      fetch.outputs[0].push_back(here[name]);
    }
    if (s > 0 && segments[s - 1].first_use < segments[s].first_use) {
      at = segments[s - 1].first_use;
    }
    before[at].push_back(std::move(fetch));
  }
  std::vector<ops::Op> ops;
  ops.swap(program_.ops);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i >= region.begin && i < region.end) {
      for (ops::Op& fetch : before[i]) TD_RETURN_IF_ERROR(AppendOp(program_, std::move(fetch)));
      const ops::SlotList& slots = ops::FindOp(ops[i].type)->inputs;
      for (size_t s = 0; s < ops[i].inputs.size(); ++s) {
        if (slots[s].shape_only) continue;
        for (std::string& name : ops[i].inputs[s]) {
          if (here.contains(name)) name = here.at(name);
        }
      }
    }
    program_.ops.push_back(std::move(ops[i]));
  }
  return static_cast<int64_t>(segments.size());
}

StatusOr<ShardedParams> Sharder::Run() {
  for (const Var* var : program_.VarsOf(VarKind::kParam)) {
    if (!IsParam(var->name)) return Internal("sharding: no rank owns variable \"%s\"", var->name);
  }
  ShardedParams done;
  const StatusOr<size_t> loss = FindLossGradient(program_);
  if (loss.ok()) {
    TD_RETURN_IF_ERROR(DeriveAgain(*loss));
    // Backward is changed first, so that the operator indices of forward stay valid.
    TD_ASSIGN_OR_RETURN(done.backward, Fetch({*loss, program_.ops.size(), "@BACKWARD"}));
  }
  const size_t end = loss.ok() ? *loss : program_.ops.size();
  TD_ASSIGN_OR_RETURN(done.forward, Fetch({0, end, "@FORWARD"}));
  for (const auto& [name, owner] : rule_.owners) {
    Var* var = program_.FindVar(name);
    if (var != nullptr && !IsOwn(name)) var->kind = VarKind::kRemote;
  }
  return done;
}

}  // namespace

StatusOr<ShardedParams> ShardParams(Program& program, const ShardRule& rule) {
  return Sharder(program, rule).Run();
}

std::set<std::string> PassingParams(const Program& program) {
  std::set<std::string> passing;
  for (const ops::Op& op : program.ops) {
    if (op.type != "c_broadcast_params") continue;
    ForEachWrite(op, [&](const std::string& name) {
      if (program.FindVar(name)->kind == VarKind::kTemp) passing.insert(name);
    });
  }
  return passing;
}

ParamOwners OwnersInOrder(const Program& program, int ranks) {
  TD_REQUIRE(ranks >= 1);
  std::vector<size_t> at;
  const auto is_param = [&](const std::string& name) {
    return program.FindVar(name)->kind == VarKind::kParam;
  };
  std::vector<std::string> order =
      InOrderOfUse(program, {0, program.ops.size(), ""}, is_param, &at);
  // The parameters that no operator reads also get an owner.
  for (const Var* var : program.VarsOf(VarKind::kParam)) {
    if (std::find(order.begin(), order.end(), var->name) == order.end()) order.push_back(var->name);
  }
  std::vector<int64_t> bytes;
  for (const std::string& name : order) {
    bytes.push_back(static_cast<int64_t>(program.FindVar(name)->desc.bytes()));
  }
  // Splits the parameters into runs of at most `limit` bytes, each as long as possible. Returns the
  // owner of each parameter. Empty: there are more runs than ranks.
  const auto n = static_cast<int>(order.size());
  const auto runs = [&](int64_t limit) {
    std::vector<int> owners;
    int64_t sum = 0;
    int owner = 0;
    for (int i = 0; i < n; ++i) {
      const bool others_need_it = i > 0 && owner + 1 < ranks && n - i == ranks - owner - 1;
      if (others_need_it || (i > 0 && sum + bytes[static_cast<size_t>(i)] > limit)) {
        ++owner;
        sum = 0;
      }
      sum += bytes[static_cast<size_t>(i)];
      if (owner >= ranks || sum > limit) return std::vector<int>();
      owners.push_back(owner);
    }
    return owners;
  };
  int64_t low = 0, high = 1;
  for (const int64_t b : bytes) high += b;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (runs(middle).empty() ? low : high) = middle;
  }
  ParamOwners result;
  const std::vector<int> owners = runs(high);
  TD_REQUIRE(owners.size() == order.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = owners[i];
  return result;
}

}  // namespace tandem::graph
