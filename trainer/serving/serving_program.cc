#include "trainer/serving/serving_program.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/inference.h"

namespace tandem::trainer {
namespace {

// Batches whose shapes show which dimensions depend on the number of samples.
constexpr int64_t kBatch = 2, kOtherBatch = 3;

// Returns whether the values of the variable come from the source.
bool IsStored(const graph::Var& var) {
  return var.saved && (var.kind == graph::VarKind::kParam || var.kind == graph::VarKind::kState);
}

Status Lacks(const std::string& var) {
  return NotFound(
      "the source of the values lacks variable \"%s\" of the model [TD7030]; hint: use the "
      "checkpoint or the servers of a job with this model",
      var);
}

// Makes the lookups of `tables` reads of single rows. Removes what belongs to training only.
Status UseRows(graph::Program& program, const std::set<std::string>& tables) {
  for (ops::Op& op : program.ops) {
    if (op.type != "lookup_table") continue;
    op.attrs["is_distributed"] = tables.contains(op.inputs[1].front());
    op.attrs.erase("click");
  }
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> found, graph::DistributedTables(program));
  for (const std::string& table : tables) {
    if (std::ranges::find(found, table) != found.end()) continue;
    return Lacks(table);
  }
  return graph::PrefetchTables(program, found);
}

// Returns the variable as input or output. INVALID_ARGUMENT: its first dimension is not the batch.
StatusOr<ServedTensor> Served(const graph::Program& one, const graph::Program& other,
                              const std::string& name) {
  const TensorDesc& desc = one.FindVar(name)->desc;
  const Shape& shape = desc.shape;
  const Shape& other_shape = other.FindVar(name)->desc.shape;
  const bool by_sample = shape.rank() >= 1 && shape[0] == kBatch && other_shape[0] == kOtherBatch &&
                         std::ranges::equal(shape.dims().subspan(1), other_shape.dims().subspan(1));
  if (!by_sample) {
    return InvalidArgument(
        "the first dimension of variable \"%s\" is not the number of samples: its shape is %s for "
        "%d samples [TD7030]; hint: choose other variables with --outputs",
        name, ToString(shape), kBatch);
  }
  return ServedTensor{.name = name, .sample = {desc.dtype, Shape(shape.dims().subspan(1))}};
}

// Returns the least number of rows of the tables that are looked up with `ids`; 0: none.
int64_t LimitOf(const graph::Program& program, const std::string& ids) {
  int64_t limit = 0;
  for (const ops::Op& op : program.ops) {
    const bool prefetch = op.type == "prefetch_rows";
    if (!prefetch && op.type != "lookup_table") continue;
    const auto& by = op.inputs[prefetch ? 1 : 0];
    if (std::ranges::find(by, ids) == by.end()) continue;
    const int64_t rows = program.FindVar(op.inputs[prefetch ? 0 : 1][0])->desc.shape[0];
    limit = limit == 0 ? rows : std::min(limit, rows);
  }
  return limit;
}

}  // namespace

StatusOr<ServingProgram> ServingProgram::Make(const graph::Program& forward,
                                              std::vector<std::string> outputs,
                                              const DenseValues& dense) {
  for (const ops::Op& op : forward.ops) {
    if (op.type != "sample_image") continue;
    return Unimplemented(
        "a program with sample_image cannot be served [TD7030]; hint: set use_dali: false");
  }
  TD_ASSIGN_OR_RETURN(outputs, graph::ChooseOutputs(forward, std::move(outputs)));
  ServingProgram serving;
  serving.program = graph::InferenceProgram(forward, outputs);
  graph::Program& program = serving.program;
  std::set<std::string> tables;
  for (const graph::Var& var : program.vars()) {
    if (IsStored(var) && !dense.tensors.contains(var.name)) tables.insert(var.name);
  }
  TD_RETURN_IF_ERROR(UseRows(program, tables));
  TD_RETURN_IF_ERROR(serving.CheckValues(dense));
  for (const ops::Op& op : program.ops) {
    if (op.type != "prefetch_rows") continue;
    const graph::Var& var = *program.FindVar(op.inputs[0][0]);
    const auto rules = op.attrs.find("table_rules");
    serving.tables.push_back({.name = var.name,
                              .height = var.desc.shape[0],
                              .dim = var.desc.shape[1],
                              .init = var.init,
                              .rules = std::get<std::string>(rules->second)});
  }
  graph::Program other = program;
  TD_RETURN_IF_ERROR(graph::BindBatch(program, kBatch));
  TD_RETURN_IF_ERROR(graph::BindBatch(other, kOtherBatch));
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) {
    TD_ASSIGN_OR_RETURN(ServedTensor input, Served(program, other, var->name));
    input.limit = LimitOf(program, var->name);
    serving.inputs.push_back(std::move(input));
  }
  for (const std::string& name : outputs) {
    TD_ASSIGN_OR_RETURN(serving.outputs.emplace_back(), Served(program, other, name));
  }
  return serving;
}

void ServingProgram::PutValues(const DenseValues& dense, exec::Scope& scope) const {
  for (const graph::Var& var : program.vars()) {
    if (!IsStored(var)) continue;
    const Tensor& value = dense.tensors.at(var.name);
    const Tensor* const to = scope.Find(var.name);
    CHECK(to != nullptr && to->bytes() == value.bytes()) << var.name;
    std::memcpy(to->data(), value.data(), value.bytes());
  }
}

bool ServingProgram::writes_stored() const {
  bool writes = false;
  for (const ops::Op& op : program.ops) {
    graph::ForEachWrite(
        op, [&](const std::string& name) { writes |= IsStored(*program.FindVar(name)); });
  }
  return writes;
}

Status ServingProgram::CheckValues(const DenseValues& dense) const {
  for (const graph::Var& var : program.vars()) {
    if (!IsStored(var)) continue;
    const auto value = dense.tensors.find(var.name);
    if (value == dense.tensors.end()) return Lacks(var.name);
    if (value->second.numel() == var.desc.shape.numel() &&
        value->second.dtype() == var.desc.dtype) {
      continue;
    }
    return FailedPrecondition(
        "variable \"%s\" has the value %s in the checkpoint or on the servers, expected %s as in "
        "the "
        "job file [TD7030]; hint: use the job file with which the model was trained",
        var.name, ToString(value->second.desc()), ToString(var.desc));
  }
  return OkStatus();
}

}  // namespace tandem::trainer
