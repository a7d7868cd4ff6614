#include "trainer/session/first_values.h"

#include "absl/strings/str_format.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/files/safetensors.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {

Status SetFirstValues(const JobConfig& config, const SessionOptions& options,
                      const graph::Program& program, exec::Scope& scope, Device& host,
                      std::string* notes) {
  TD_RETURN_IF_ERROR(exec::Initialize(program, config.seed(), scope));
  if (config.model().init_size() != 0 && config.mode() != PSERVER && config.mode() != HYBRID) {
    return InvalidArgument(
        "model.init needs mode pserver or hybrid, but the mode is %s [TD1005]; hint: use "
        "model.parameters, which sets whole tables",
        Mode_Name(config.mode()));
  }
  if (config.model().parameters().empty()) return OkStatus();
  const std::string path = InJobDir(options.job_dir, config.model().parameters());
  TD_ASSIGN_OR_RETURN(const Safetensors file, ReadSafetensors(path, host));
  TD_RETURN_IF_ERROR(PutInto(file.tensors, path, scope));
  for (const ops::Op& op : program.ops) {
    if (op.type != "push_rows" || !file.tensors.contains(op.inputs[0][0])) continue;
    return Unimplemented(
        "%s: cannot initialise table \"%s\" from a file, because pservers create the rows of this "
        "table on first use [TD2105]; hint: name the file in model { init { table: ... file: ... "
        "} }, or use a dense table (model argument sparse=0)",
        path, op.inputs[0][0]);
  }
  size_t taken = 0;
  for (const auto& [name, tensor] : file.tensors) taken += program.FindVar(name) != nullptr ? 1 : 0;
  if (taken == 0) {
    return NotFound("%s: no tensor of the file is a variable of the model [TD2105]", path);
  }
  std::string others;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    if (!file.tensors.contains(var->name)) others += (others.empty() ? "" : ", ") + var->name;
  }
  *notes += absl::StrFormat("parameters: %d of %d tensors of %s are loaded%s\n", taken,
                            file.tensors.size(), path,
                            others.empty() ? "" : "; initialised by the program: " + others);
  return OkStatus();
}

}  // namespace tandem::trainer
