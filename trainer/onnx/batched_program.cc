#include "trainer/onnx/batched_program.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/require.h"

namespace tandem::onnx {
namespace {

// Two batch sizes for which the program is built.
constexpr int64_t kBuildBatch = 2, kOtherBuildBatch = 3;
constexpr size_t kVarNameBytesMax = 150;

}  // namespace

BatchedProgram::BatchedProgram(graph::Program& program) : program_(program) {
  TD_REQUIRE(program.ops.empty());
}

const TensorDesc& BatchedProgram::Desc(const std::string& var) const {
  const tandem::graph::Var* const found = program_.FindVar(var);
  TD_REQUIRE(found != nullptr);
  return found->desc;
}

std::string BatchedProgram::NewVar(const std::string& base) const {
  std::string name = base.substr(0, kVarNameBytesMax);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!absl::ascii_isalnum(byte) && c != '.' && c != '_' && c != '/' && c != '-') c = '_';
  }
  return program_.FreshName(name.empty() ? "value" : name);
}

Status BatchedProgram::AddVar(tandem::graph::Var var) {
  if (var.batch_leading) var.desc.shape[0] = kBuildBatch;
  TD_RETURN_IF_ERROR(program_.AddVar(var));
  if (var.batch_leading) var.desc.shape[0] = kOtherBuildBatch;
  return other_.AddVar(std::move(var));
}

Status BatchedProgram::AddInput(const std::string& var, DType dtype,
                                const std::vector<int64_t>& dims, int64_t fixed_batch) {
  TD_REQUIRE(fixed_batch >= 0);
  std::vector<int64_t> whole = {kBuildBatch};
  whole.insert(whole.end(), dims.begin(), dims.end());
  TD_ASSIGN_OR_RETURN(const Shape shape, ParseShape(whole));
  if (fixed_batch > 0) fixed_batch_ = fixed_batch;
  return AddVar(
      {.name = var, .kind = graph::VarKind::kData, .desc = {dtype, shape}, .batch_leading = true});
}

// Returns whether `op` reads a parameter or state whose first dimension is the batch size for which
// the model was saved.
bool BatchedProgram::ReadsFixedBatch(const ops::Op& op) const {
  bool reads = false;
  graph::ForEachRead(op, [&](const std::string& name) {
    const tandem::graph::Var* var = program_.FindVar(name);
    const bool kept = var != nullptr &&
                      (var->kind == graph::VarKind::kParam || var->kind == graph::VarKind::kState);
    reads |= kept && fixed_batch_ > 1 && var->desc.shape.rank() > 0 &&
             var->desc.shape[0] == fixed_batch_;
  });
  return reads;
}

Status BatchedProgram::Append(const ops::Op& op) {
  const Status here = graph::AppendOp(program_, op);
  if (!here.ok() && ReadsFixedBatch(op)) {
    return Unimplemented(
        "the model contains constants that fit only batch size %d: %s [TD7016]; hint: export the "
        "model with a dynamic batch",
        fixed_batch_, std::string(here.message()));
  }
  TD_RETURN_IF_ERROR(here);
  const Status other = graph::AppendOp(other_, op);
  if (!other.ok()) {
    return Unimplemented(
        "the operator accepts batch size %d, but not %d: %s [TD1214]; hint: export the model with "
        "a dynamic batch",
        kBuildBatch, kOtherBuildBatch, std::string(other.message()));
  }
  CarryPieces(op);
  return OkStatus();
}

Status BatchedProgram::Append(const std::string& type, std::vector<std::vector<std::string>> inputs,
                              ops::AttrMap attrs, const std::string& out) {
  const ops::OpDef* const found = ops::FindOp(type);
  TD_REQUIRE(found != nullptr);
  const ops::OpDef& def = *found;
  inputs.resize(def.inputs.size());
  std::vector<std::vector<std::string>> outputs = {{out}};
  for (size_t s = 1; s < def.outputs.size(); ++s) {
    outputs.push_back({program_.FreshName(out + "." + def.outputs[s].name)});
  }
  return Append(ops::Op{.type = type,
                        .inputs = std::move(inputs),
                        .outputs = std::move(outputs),
                        .attrs = std::move(attrs)});
}

bool BatchedProgram::DependsOnBatch(const std::string& var, int axis) const {
  TD_REQUIRE(axis >= 0 && axis < Desc(var).shape.rank() && other_.FindVar(var) != nullptr);
  return Desc(var).shape[axis] != other_.FindVar(var)->desc.shape[axis];
}

bool BatchedProgram::HasBatch(const std::string& var) const {
  const Shape& shape = Desc(var).shape;
  return shape.rank() > 0 && shape[0] == kBuildBatch && DependsOnBatch(var, 0);
}

StatusOr<std::optional<BatchAxis>> BatchedProgram::BatchOf(const std::string& var) const {
  const Shape &here = Desc(var).shape, &there = other_.FindVar(var)->desc.shape;
  std::optional<BatchAxis> batch;
  for (int axis = 0; axis < here.rank(); ++axis) {
    if (here[axis] == there[axis]) continue;
    if (batch) {
      return Unimplemented(
          "dimensions %d and %d of \"%s\" depend on the batch, but only one dimension may depend "
          "on the batch [TD1214]",
          batch->axis, axis, var);
    }
    if (here[axis] * kOtherBuildBatch != there[axis] * kBuildBatch ||
        here[axis] / kBuildBatch > kBatchesMax) {
      return Unimplemented(
          "dimension %d of \"%s\" depends on the batch, but is not a multiple of the batch size "
          "[TD1214]",
          axis, var);
    }
    const auto pieces = pieces_.find(var);
    batch = {.axis = axis,
             .times = here[axis] / kBuildBatch,
             .stride = (pieces == pieces_.end() ? 1 : pieces->second) *
                       here.numel(axis + 1, here.rank())};
  }
  TD_REQUIRE(!batch || batch->times > 0);
  return batch;
}

StatusOr<std::vector<int64_t>> BatchedProgram::Sizes(const std::string& var) const {
  TD_ASSIGN_OR_RETURN(const std::optional<BatchAxis> batch, BatchOf(var));
  const Shape& shape = Desc(var).shape;
  std::vector<int64_t> sizes(shape.dims().begin(), shape.dims().end());
  if (batch) sizes[static_cast<size_t>(batch->axis)] = kBatch + batch->times;
  return sizes;
}

Status BatchedProgram::Reshape(const std::string& var, const std::vector<int64_t>& sizes,
                               const std::string& out) {
  TD_ASSIGN_OR_RETURN(const std::optional<BatchAxis> batch, BatchOf(var));
  std::vector<int64_t> dims = sizes;
  int at = -1;
  int64_t inner = 1;  // number of elements in the dimensions after `at`
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (IsBatch(sizes[i]) && at < 0) {
      at = static_cast<int>(i);
      dims[i] = -1;
      inner = 1;
    } else if (IsBatch(sizes[i])) {
      return Unimplemented(
          "dimensions %d and %d of the result depend on the batch, expected at most one [TD1214]",
          at, i);
    } else if (sizes[i] < 1) {
      return Unimplemented("dimension %d of the result has size %d, expected at least 1 [TD1214]",
                           i, sizes[i]);
    } else if (__builtin_mul_overflow(inner, sizes[i], &inner)) {
      return Unimplemented(
          "the dimensions of the result up to dimension %d have too many elements [TD1214]", i);
    }
  }
  if (batch.has_value() != (at >= 0)) {
    return Unimplemented(
        "only one of \"%s\" and its reshaped result depends on the batch, expected both or neither "
        "[TD1214]; hint: export the model with a dynamic batch",
        var);
  }
  const int64_t times = batch ? sizes[static_cast<size_t>(at)] - kBatch : 0;
  if (batch && (batch->stride % inner != 0 || times % (batch->stride / inner) != 0)) {
    return Unimplemented("the reshape would put numbers of two samples into one row [TD1214]");
  }
  TD_RETURN_IF_ERROR(Append("reshape", {{var}}, {{"shape", dims}}, out));
  if (!batch) return OkStatus();
  if (Desc(out).shape[at] != times * kBuildBatch) {
    return InvalidArgument(
        "the reshaped result \"%s\" has the shape %s, expected %d in dimension %d [TD2108]", out,
        ToString(Desc(out).shape), times * kBuildBatch, at);
  }
  pieces_[out] = batch->stride / inner;
  return OkStatus();
}

// Copies the sample layout (pieces_) of the operator's inputs to its outputs. An output gets the
// layout of an input whose batch dimension has the same number of batches.
void BatchedProgram::CarryPieces(const ops::Op& op) {
  std::map<int64_t, int64_t> pieces;  // sample layouts of the inputs, by number of batches
  graph::ForEachRead(op, [&](const std::string& var) {
    const auto it = pieces_.find(var);
    const auto batch = it == pieces_.end() ? std::nullopt : BatchOf(var).value_or(std::nullopt);
    if (batch) pieces.emplace(batch->times, it->second);
  });
  if (pieces.empty()) return;
  graph::ForEachWrite(op, [&](const std::string& var) {
    const auto batch = BatchOf(var).value_or(std::nullopt);
    const auto it = batch ? pieces.find(batch->times) : pieces.end();
    if (it != pieces.end()) pieces_[var] = it->second;
  });
}

}  // namespace tandem::onnx
