#include "kernels/graph/distribute/micro_batches.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/require.h"
#include "kernels/graph/op_device.h"
#include "kernels/graph/passes/gradient_merge.h"
#include "kernels/graph/passes/rewrite.h"
#include "kernels/ops/elementwise/dropout.h"

namespace tandem::graph {

std::vector<PipelineRow> OneForwardOneBackward(int section, int sections, int micro_batches) {
  TD_REQUIRE(section >= 0 && section < sections && micro_batches >= 1);
  const int ahead = std::min(sections - 1 - section, micro_batches);
  std::vector<PipelineRow> rows;
  int forward = 0;
  while (forward < ahead) rows.push_back({true, forward++});
  for (int backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) rows.push_back({true, forward++});
    rows.push_back({false, backward});
  }
  TD_REQUIRE(rows.size() == 2 * static_cast<size_t>(micro_batches));
  return rows;
}

double BubbleShare(int sections, int micro_batches) {
  TD_REQUIRE(sections >= 1 && micro_batches >= 1);
  return (sections - 1) / static_cast<double>(micro_batches + sections - 1);
}

constexpr char kMicro[] = "@MICRO";

std::string MicroName(const std::string& var, int micro) {
  return absl::StrFormat("%s%s%d", var, kMicro, micro);
}
std::string WholeName(const std::string& var) { return var.substr(0, var.rfind(kMicro)); }

namespace {

class Unroller {
 public:
  Unroller(const Program& whole, Sections cut, const PipelineRank& rank)
      : whole_(whole), cut_(std::move(cut)), rank_(rank) {
    out_.name = whole.name;
    TD_REQUIRE(cut_.of_op.size() == whole.ops.size());
    TD_REQUIRE(rank.section >= 0 && rank.section < rank.sections);
  }

  Status Begin();
  Status Forward(int micro);
  Status Backward(int micro);
  Status AddResults(const std::vector<std::string>& results);
  Status AddGradients(const std::vector<ParamGrad>& grads);
  Program Take() { return std::move(out_); }
  std::vector<ParamGrad> TakeGrads() { return std::move(grads_); }
  const std::vector<std::string>& accumulators() const { return accumulators_; }

 private:
  bool mine(size_t op) const { return cut_.of_op[op] == rank_.section; }
  bool several() const { return rank_.micro_batches > 1; }
  std::string At(const std::string& name, int micro) const;
  Status Declare(const std::string& name);
  Status Run(bool forward, int micro);
  Status Receive(bool forward, int micro);
  Status Send(bool forward, int micro);
  Status SendTo(int section, const std::string& var, int micro);
  Status ReceiveFrom(int section, const std::string& var, const TensorDesc& desc, int micro);

  const Program& whole_;
  const Sections cut_;
  const PipelineRank& rank_;
  Program out_;
  // Variables that this rank has sent. They become inputs of the next receive, because the message
  // of this receive proves that they arrived.
  std::vector<std::string> sent_;
  std::vector<ParamGrad> grads_;
  // The gradients of this stage, by index of the operator that completes them.
  std::multimap<size_t, std::string> sums_;
  std::vector<std::string> accumulators_;
};

// Returns the name of variable `name` in micro batch `micro`. Each micro batch has its own
// temporaries, data and dropout position.
std::string Unroller::At(const std::string& name, int micro) const {
  TD_REQUIRE(micro >= 0 && micro < rank_.micro_batches);
  const VarKind kind = whole_.FindVar(name)->kind;
  const bool own =
      kind == VarKind::kTemp || kind == VarKind::kData || name == ops::kDropoutPosition;
  return own && several() ? MicroName(name, micro) : name;
}

Status Unroller::Declare(const std::string& name) {
  const Var& var = *whole_.FindVar(name);
  if (var.kind == VarKind::kTemp || var.kind == VarKind::kData) return OkStatus();
  for (int micro = 0; micro < rank_.micro_batches; ++micro) {
    Var own = var;
    own.name = At(name, micro);
    if (out_.FindVar(own.name) != nullptr) continue;
    TD_RETURN_IF_ERROR(out_.AddVar(std::move(own)));
  }
  return OkStatus();
}

// Declares all data variables with the shapes that the reader delivers. Splits the data that this
// stage uses into micro batches.
Status Unroller::Begin() {
  std::set<std::string> used;
  for (size_t i = 0; i < whole_.ops.size(); ++i) {
    if (!mine(i)) continue;
    ForEachRead(whole_.ops[i], [&](const std::string& name) { used.insert(name); });
    ForEachWrite(whole_.ops[i], [&](const std::string& name) { used.insert(name); });
  }
  for (const Var& var : whole_.vars()) {
    if (var.kind == VarKind::kData) {
      Var data = var;
      if (!var.batch_leading && several()) {
        return InvalidArgument(
            "pipeline: the first dimension of data variable \"%s\" is not the batch, so the "
            "variable cannot be divided into micro batches [TD1207]",
            var.name);
      }
      if (several()) data.desc.shape[0] *= rank_.micro_batches;
      TD_RETURN_IF_ERROR(out_.AddVar(std::move(data)));
    }
    if (!used.contains(var.name)) continue;
    TD_RETURN_IF_ERROR(Declare(var.name));
    if (var.kind != VarKind::kData || !several()) continue;
    ops::Op split = {.type = "split",
                     .inputs = {{var.name}},
                     .outputs = {{}},
                     .attrs = {{"axis", int64_t{0}}, {"num", int64_t{rank_.micro_batches}}}};
    for (int m = 0; m < rank_.micro_batches; ++m) split.outputs[0].push_back(At(var.name, m));
    TD_RETURN_IF_ERROR(AppendOp(out_, std::move(split)));
  }
  return OkStatus();
}

Status Unroller::Run(bool forward, int micro) {
  for (size_t i = 0; i < whole_.ops.size(); ++i) {
    if (!mine(i) || IsBackward(whole_.ops[i]) == forward) continue;
    ops::Op op = whole_.ops[i];
    op.attrs.erase(kOpDevice);
    for (auto* slots : {&op.inputs, &op.outputs}) {
      for (auto& slot : *slots) {
        for (std::string& name : slot) name = name.empty() ? "" : At(name, micro);
      }
    }
    if (!op.run_if.empty()) op.run_if = At(op.run_if, micro);
    TD_RETURN_IF_ERROR(AppendOp(out_, std::move(op)));
    const auto [first, last] = sums_.equal_range(i);
    for (auto sum = first; sum != last; ++sum) {
      const std::string& grad = sum->second;
      TD_RETURN_IF_ERROR(AppendOp(out_, AddToAccumulator(grad + "@MERGED", At(grad, micro))));
    }
  }
  return OkStatus();
}

Status Unroller::SendTo(int section, const std::string& var, int micro) {
  return AppendOp(out_, {.type = "send_v2",
                         .inputs = {{var}},
                         .outputs = {{var}},
                         .attrs = {{"peer", int64_t{rank_.RankOf(section, micro)}}}});
}

Status Unroller::ReceiveFrom(int section, const std::string& var, const TensorDesc& desc,
                             int micro) {
  const auto dims = desc.shape.dims();
  return AppendOp(out_, {.type = "recv_v2",
                         .inputs = {std::exchange(sent_, {})},
                         .outputs = {{var}},
                         .attrs = {{"peer", int64_t{rank_.RankOf(section, micro)}},
                                   {"out_shape", std::vector<int64_t>(dims.begin(), dims.end())},
                                   {"dtype", std::string(Name(desc.dtype))}}});
}

// Appends the sends of one micro batch. Messages of one direction have the same order on all ranks:
// by micro batch, then by receiving stage, then by sending stage. In backward, the stages are in
// descending order. Therefore each message waits only for earlier messages.
Status Unroller::Send(bool forward, int micro) {
  std::vector<const Crossing*> sent;
  for (const Crossing& c : cut_.crossings) {
    if (c.forward == forward && c.from == rank_.section) sent.push_back(&c);
  }
  std::stable_sort(sent.begin(), sent.end(), [forward](const Crossing* a, const Crossing* b) {
    return forward ? a->to < b->to : a->to > b->to;
  });
  for (const Crossing* c : sent) TD_RETURN_IF_ERROR(SendTo(c->to, At(c->var, micro), micro));
  return OkStatus();
}

Status Unroller::Receive(bool forward, int micro) {
  std::vector<const Crossing*> received;
  for (const Crossing& c : cut_.crossings) {
    if (c.forward == forward && c.to == rank_.section) received.push_back(&c);
    // The gradient that a later stage sends proves that the later stage no longer reads this
    // stage's activation.
    if (!forward && c.forward && c.from == rank_.section) sent_.push_back(At(c.var, micro));
  }
  std::stable_sort(received.begin(), received.end(),
                   [forward](const Crossing* a, const Crossing* b) {
                     return forward ? a->from < b->from : a->from > b->from;
                   });
  for (const Crossing* c : received) {
    TD_RETURN_IF_ERROR(
        ReceiveFrom(c->from, At(c->var, micro), whole_.FindVar(c->var)->desc, micro));
  }
  return OkStatus();
}

Status Unroller::Forward(int micro) {
  TD_RETURN_IF_ERROR(Receive(true, micro));
  TD_RETURN_IF_ERROR(Run(true, micro));
  return Send(true, micro);
}

Status Unroller::Backward(int micro) {
  TD_RETURN_IF_ERROR(Receive(false, micro));
  TD_RETURN_IF_ERROR(Run(false, micro));
  TD_RETURN_IF_ERROR(Send(false, micro));
  for (const Crossing& c : cut_.crossings) {
    if (!c.forward && c.from == rank_.section) sent_.push_back(At(c.var, micro));
  }
  return OkStatus();
}

// Declares the accumulators for the gradients of this stage's parameters. The caller calls
// AddGradients before it adds the operators of the schedule.
Status Unroller::AddGradients(const std::vector<ParamGrad>& grads) {
  for (const ParamGrad& pair : grads) {
    if (cut_.homes.at(pair.param) != rank_.section) continue;
    TD_REQUIRE(whole_.FindVar(pair.grad) != nullptr && pair.rows.empty());
    grads_.push_back(pair);
    if (!several()) continue;
    const std::string total = pair.grad + "@MERGED";
    TD_RETURN_IF_ERROR(AddAccumulator(out_, total, whole_.FindVar(pair.grad)->desc));
    sums_.emplace(BehindWritersOf(whole_, {pair.grad}) - 1, pair.grad);
    grads_.back().grad = total;
    accumulators_.push_back(total);
  }
  return OkStatus();
}

Status Unroller::AddResults(const std::vector<std::string>& results) {
  const bool last = rank_.section + 1 == rank_.sections;
  const bool told = rank_.section == 0 && rank_.first_rank == 0;
  for (const std::string& name : results) {
    if (last && several()) {
      std::vector<std::string> parts;
      for (int m = 0; m < rank_.micro_batches; ++m) parts.push_back(At(name, m));
      const std::string sum = name + "@SUM";
      TD_RETURN_IF_ERROR(AppendOp(out_, {.type = "sum", .inputs = {parts}, .outputs = {{sum}}}));
      TD_RETURN_IF_ERROR(AppendOp(out_, {.type = "scale",
                                         .inputs = {{sum}},
                                         .outputs = {{name}},
                                         .attrs = {{"scale", 1.0 / rank_.micro_batches}}}));
    }
    if (last && !told && rank_.first_rank == 0) TD_RETURN_IF_ERROR(SendTo(0, name, 0));
    if (told && !last) {
      TD_RETURN_IF_ERROR(ReceiveFrom(rank_.sections - 1, name, whole_.FindVar(name)->desc, 0));
    }
  }
  if (!(last || told) || results.empty()) return OkStatus();
  out_.loss = results[0];
  out_.metrics.assign(results.begin() + 1, results.end());
  return OkStatus();
}

std::vector<std::string> ResultsOf(const Program& program) {
  std::vector<std::string> results = {program.loss};
  results.insert(results.end(), program.metrics.begin(), program.metrics.end());
  return results;
}

}  // namespace

StatusOr<SectionProgram> UnrollSection(const Program& whole, const std::vector<ParamGrad>& grads,
                                       const PipelineRank& rank) {
  for (const ParamGrad& pair : grads) {
    if (pair.rows.empty()) continue;
    return Unimplemented(
        "pipeline with the sparse gradient of \"%s\" is not implemented [TD1109]; hint: make the "
        "gradient dense (model argument sparse=0)",
        pair.param);
  }
  Program scaled = whole;
  if (rank.micro_batches > 1) {
    TD_RETURN_IF_ERROR(ScaleLossGradient(scaled, 1.0 / rank.micro_batches));
  }
  TD_ASSIGN_OR_RETURN(Sections cut, CutSections(scaled));
  Unroller unroller(scaled, std::move(cut), rank);
  TD_RETURN_IF_ERROR(unroller.Begin());
  TD_RETURN_IF_ERROR(unroller.AddGradients(grads));
  for (const auto [forward, micro] :
       OneForwardOneBackward(rank.section, rank.sections, rank.micro_batches)) {
    TD_RETURN_IF_ERROR(forward ? unroller.Forward(micro) : unroller.Backward(micro));
  }
  TD_RETURN_IF_ERROR(unroller.AddResults(ResultsOf(whole)));
  SectionProgram made;
  made.program = unroller.Take();
  for (const std::string& total : unroller.accumulators()) {
    made.resets.push_back(ResetAccumulator(made.program, total));
  }
  made.grads = unroller.TakeGrads();
  return made;
}

StatusOr<Program> ForwardSection(const Program& forward, const PipelineRank& rank) {
  PipelineRank once = rank;
  once.micro_batches = 1;
  TD_ASSIGN_OR_RETURN(Sections cut, CutSections(forward));
  Unroller unroller(forward, std::move(cut), once);
  TD_RETURN_IF_ERROR(unroller.Begin());
  TD_RETURN_IF_ERROR(unroller.Forward(0));
  TD_RETURN_IF_ERROR(unroller.AddResults(ResultsOf(forward)));
  return unroller.Take();
}

}  // namespace tandem::graph
