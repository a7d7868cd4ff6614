#include "trainer/session/evaluation/evaluator.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {
namespace {

// Returns the operator that computes the program's first metric; nullptr: the program has no
// metric.
const ops::Op* MetricOp(const graph::Program& program) {
  if (program.metrics.empty()) return nullptr;
  for (const ops::Op& op : program.ops) {
    for (const auto& slot : op.outputs) {
      if (std::find(slot.begin(), slot.end(), program.metrics[0]) != slot.end()) return &op;
    }
  }
  return nullptr;
}

// Checks that each id of `field` is a row number of the table that the program looks up with this
// field.
Status CheckTables(const graph::Program& program, const reader::SampleField& field) {
  for (const ops::Op& op : program.ops) {
    const bool prefetch = op.type == "prefetch_rows";
    if (!prefetch && op.type != "lookup_table") continue;
    const auto& ids = op.inputs[prefetch ? 1 : 0];
    if (std::find(ids.begin(), ids.end(), field.name) == ids.end()) continue;
    const std::string& table = op.inputs[prefetch ? 0 : 1][0];
    const int64_t rows = program.FindVar(table)->desc.shape[0];
    if (field.limit <= rows) continue;
    return InvalidArgument(
        "field \"%s\" of the data contains ids below %d, but table \"%s\" has only %d rows "
        "[TD2004]; hint: set model argument rows=%d",
        field.name, field.limit, table, rows, field.limit);
  }
  return OkStatus();
}

std::string DataNames(const graph::Program& program) {
  std::vector<std::string> names;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData))
    names.push_back('"' + var->name + '"');
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

}  // namespace

std::vector<std::string> MetricState(const graph::Program& program) {
  std::vector<std::string> state;
  const ops::Op* op = MetricOp(program);
  if (op == nullptr) return state;
  for (const auto& slot : op->outputs) {
    for (const std::string& name : slot) {
      const graph::Var* var = program.FindVar(name);
      if (var != nullptr && var->kind == graph::VarKind::kState) state.push_back(name);
    }
  }
  return state;
}

StatusOr<std::vector<Tensor>> BindFields(const exec::Plan& plan, const reader::Dataset& dataset) {
  std::vector<Tensor> bound;
  for (const reader::SampleField& field : dataset.fields()) {
    const auto tensor = plan.Get(field.name);
    if (!tensor.ok()) {
      return InvalidArgument(
          "the data have a field \"%s\" (%s), but the program has no such data variable [TD1208]; "
          "hint: name one of %s",
          field.name, ToString(field.desc), DataNames(plan.program()));
    }
    const Shape& shape = tensor->shape();
    const bool fits = tensor->dtype() == field.desc.dtype && shape.rank() >= 1 &&
                      shape.numel(1, shape.rank()) == field.desc.shape.numel();
    if (!fits) {
      return InvalidArgument(
          "data variable \"%s\" of the program is %s, but the field of the data is %s [TD1208]",
          field.name, ToString(tensor->desc()), ToString(field.desc));
    }
    TD_RETURN_IF_ERROR(CheckTables(plan.program(), field));
    bound.push_back(*tensor);
  }
  for (const graph::Var* var : plan.program().VarsOf(graph::VarKind::kData)) {
    const auto& fields = dataset.fields();
    if (std::none_of(fields.begin(), fields.end(),
                     [var](const reader::SampleField& f) { return f.name == var->name; })) {
      return InvalidArgument(
          "the program reads data variable \"%s\", but the data have no such field [TD1208]",
          var->name);
    }
  }
  return bound;
}

StatusOr<Evaluator::Sized*> Evaluator::ForBatch(size_t place, uint32_t batch) {
  TD_REQUIRE(place < sized_.size());
  Sized& sized = sized_[place][batch];
  if (sized.plan != nullptr) return &sized;
  TD_RETURN_IF_ERROR(graph::BindBatch(forward_, batch));
  graph::Program program = forward_;
  if (part_) {
    TD_ASSIGN_OR_RETURN(program, part_(forward_));
  }
  exec::PlanOptions options = options_;
  if (!program.loss.empty()) options.fetch = {program.loss};
  if (!program.metrics.empty()) options.fetch.push_back(program.metrics[0]);
  sized.fetch = options.fetch;
  sized.scored = scored_.kind != ScoreKind::kNone && !program.loss.empty() &&
                 program.FindVar(scored_.prediction) != nullptr;
  if (sized.scored) options.fetch.push_back(scored_.prediction);
  TD_ASSIGN_OR_RETURN(sized.plan, exec::Plan::Make(program, backend_, scope_, comm_, options));
  sized.executor = std::make_unique<exec::Executor>(*sized.plan);
  TD_ASSIGN_OR_RETURN(const auto bound, BindFields(*sized.plan, *dataset_));
  for (const Tensor& field : bound) TD_RETURN_IF_ERROR(Stage(field, &sized));
  return &sized;
}

// Prepares the memory into which a field of the dataset is read. On the CPU this memory is the
// variable's own memory. On a device it is host memory, from which the evaluator copies to the
// variable.
Status Evaluator::Stage(const Tensor& field, Sized* sized) {
  if (field.place().kind == PlaceKind::kCpu) {
    sized->inputs.push_back(field.data());
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(Tensor host, Tensor::Make(field.desc(), host_));
  sized->inputs.push_back(host.data());
  sized->staged.emplace_back(std::move(host), field);
  return OkStatus();
}

// Returns the number of samples per batch. For large samples the number is small, because the
// activations of a batch must fit into memory.
uint32_t Evaluator::Batch() const {
  constexpr int64_t kBatch = 500, kElements = 1 << 21;
  int64_t elements = 1;
  for (const reader::SampleField& field : dataset_->fields()) {
    // The operator sample_image makes one element from up to four bytes.
    const bool bytes = field.desc.dtype == DType::kU8;
    elements += field.desc.shape.numel() / (bytes ? 4 : 1);
  }
  return static_cast<uint32_t>(std::clamp<int64_t>(kElements / elements, 1, kBatch));
}

int64_t Evaluator::batches() const { return (int64_t{dataset_->size()} + Batch() - 1) / Batch(); }

Status Evaluator::Serve(int64_t batches) {
  TD_REQUIRE(comm_ != nullptr && batches >= 0);
  if (served_.plan == nullptr) {
    graph::Program communication = forward_;
    std::erase_if(communication.ops,
                  [](const ops::Op& op) { return !ops::FindOp(op.type)->is_comm; });
    TD_ASSIGN_OR_RETURN(served_.plan,
                        exec::Plan::Make(communication, backend_, scope_, comm_, options_));
    served_.executor = std::make_unique<exec::Executor>(*served_.plan);
  }
  for (int64_t i = 0; i < batches; ++i) TD_RETURN_IF_ERROR(served_.executor->Run());
  return OkStatus();
}

// Returns the scores of the batch that the plan has just evaluated.
StatusOr<Scores> Evaluator::ScoresOf(const Sized& sized, uint32_t batch) const {
  Scores scores(scored_.kind, scored_.width);
  const auto& fields = dataset_->fields();
  for (size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].name != scored_.wanted) continue;
    TD_ASSIGN_OR_RETURN(const Tensor prediction, sized.plan->Get(scored_.prediction));
    std::vector<float> values(batch * static_cast<size_t>(scored_.width));
    TD_REQUIRE(prediction.bytes() == values.size() * sizeof(float));
    TD_RETURN_IF_ERROR(
        scope_.device().CopyToHost(values.data(), prediction.data(), prediction.bytes()));
    scores.Add(values.data(), sized.inputs[f], batch);
  }
  return scores;
}

StatusOr<Evaluation> Evaluator::RunBatch(Sized& sized, uint32_t at, uint32_t batch) const {
  TD_REQUIRE(batch > 0 && at + batch <= dataset_->size());
  std::vector<uint32_t> ids(batch);
  std::iota(ids.begin(), ids.end(), at);
  TD_RETURN_IF_ERROR(dataset_->Fill(ids, sized.inputs));
  for (size_t f = 0; f < sized.staged.size(); ++f) {
    const auto& [host, field] = sized.staged[f];
    TD_RETURN_IF_ERROR(scope_.device().CopyFromHost(field.data(), host.data(),
                                                    dataset_->BytesOf(f, batch, sized.inputs)));
  }
  TD_RETURN_IF_ERROR(sized.executor->Run());
  const auto read = [&](size_t i) { return ReadScalar(scope_, *sized.plan, sized.fetch[i]); };
  Evaluation result{.samples = batch};
  if (sized.fetch.empty()) return result;
  TD_ASSIGN_OR_RETURN(result.loss, read(0));
  if (sized.fetch.size() > 1) {
    TD_ASSIGN_OR_RETURN(result.metric, read(1));
  }
  if (sized.scored) {
    TD_ASSIGN_OR_RETURN(result.scores, ScoresOf(sized, batch));
  }
  return result;
}

// Makes all plans before the first run. Then evaluates all batches with `places` threads. Returns
// the results in the order of the data.
StatusOr<std::vector<Evaluation>> Evaluator::RunBatches(size_t places) {
  const uint32_t at_once = Batch(), batches = static_cast<uint32_t>(this->batches());
  const auto size = [&](uint32_t i) { return std::min(at_once, dataset_->size() - i * at_once); };
  std::vector<Sized*> plans;
  for (uint32_t i = 0; i < batches; ++i) {
    TD_ASSIGN_OR_RETURN(plans.emplace_back(), ForBatch(i % places, size(i)));
  }
  std::vector<StatusOr<Evaluation>> results(batches);
  const auto run = [&](size_t place) {
    for (auto i = static_cast<uint32_t>(place); i < batches; i += places) {
      results[i] = RunBatch(*plans[i], i * at_once, size(i));
      if (!results[i].ok()) return;
    }
  };
  std::vector<std::thread> threads;
  for (size_t p = 1; p < places; ++p) threads.emplace_back(run, p);
  run(0);
  for (std::thread& thread : threads) thread.join();
  std::vector<Evaluation> all;
  for (auto& result : results) {
    TD_ASSIGN_OR_RETURN(all.emplace_back(), std::move(result));
  }
  return all;
}

StatusOr<Evaluation> Evaluator::Run() {
  TD_REQUIRE(dataset_ != nullptr);
  // A metric with state over batches uses the same variables as in training. Run saves their
  // values, sets them to 0 for the evaluation, and restores the values afterwards.
  std::vector<std::pair<Tensor, std::vector<std::byte>>> kept;
  for (const std::string& name : MetricState(forward_)) {
    const Tensor* tensor = scope_.Find(name);
    if (tensor == nullptr) continue;  // the variable belongs to another pipeline stage
    std::vector<std::byte> bytes(tensor->bytes());
    const std::vector<std::byte> zeros(tensor->bytes());
    TD_RETURN_IF_ERROR(scope_.device().CopyToHost(bytes.data(), tensor->data(), bytes.size()));
    TD_RETURN_IF_ERROR(scope_.device().CopyFromHost(tensor->data(), zeros.data(), zeros.size()));
    kept.emplace_back(*tensor, std::move(bytes));
  }
  const bool running = !MetricState(forward_).empty();
  const auto results = RunBatches(running ? 1 : sized_.size());
  for (const auto& [tensor, bytes] : kept) {
    TD_RETURN_IF_ERROR(scope_.device().CopyFromHost(tensor.data(), bytes.data(), bytes.size()));
  }
  TD_RETURN_IF_ERROR(results.status());
  Evaluation total;
  for (const Evaluation& batch : *results) {
    const auto samples = static_cast<double>(batch.samples);
    total.loss += samples * batch.loss;
    total.metric = running ? batch.metric : total.metric + samples * batch.metric;
    total.samples += batch.samples;
    total.scores.Merge(batch.scores);
  }
  total.loss /= static_cast<double>(total.samples);
  if (!running) total.metric /= static_cast<double>(total.samples);
  return total;
}

std::string MetricName(const graph::Program& program) {
  const ops::Op* op = MetricOp(program);
  return op == nullptr ? "" : op->type;
}

}  // namespace tandem::trainer
