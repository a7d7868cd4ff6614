#include <cstdio>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/tensor/device.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job_history.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_files.h"
#include "trainer/npz.h"
#include "trainer/onnx/export.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem export CHECKPOINT FILE: a checkpoint as one file. FILE ends with\n"
    "  .npz            the parameters for NumPy (numpy.load)\n"
    "  .safetensors    the same for whatever reads safetensors\n"
    "  .onnx           the network with its parameters, for inference; needs --job\n"
    "CHECKPOINT: a job's checkpoint.dir, of which the newest whole one is taken, or one of its\n"
    "step-NNNNNNNN folders.\n";

const std::vector<FlagSpec>& Flags() {
  static const std::vector<FlagSpec> kFlags = {
      {"what", "", "PART", ".npz, .safetensors: model (default), state (optimizer slots) or all"},
      {"job", "job_file", "FILE", ".onnx: the job file that the checkpoint is of"},
      {"outputs", "", "A,B", ".onnx: the variables to compute; what the loss takes unless given"},
  };
  return kFlags;
}

StatusOr<Checkpoint> Load(const std::string& path, Device& device) {
  std::error_code error;
  if (std::filesystem::exists(path + "/manifest.pbtxt", error)) return LoadCheckpoint(path, device);
  std::vector<std::string> warnings;
  auto newest = CheckpointStore(path, 1).LoadNewest(device, &warnings);
  for (const std::string& w : warnings) std::fprintf(stderr, "tandem export: %s\n", w.c_str());
  return newest;
}

StringMap Origin(const Checkpoint& checkpoint) {
  return {{"job", checkpoint.job}, {"step", std::to_string(checkpoint.step)}};
}

std::string StepOf(const Checkpoint& checkpoint) {
  return absl::StrFormat("step %d of job %s", checkpoint.step, checkpoint.job);
}

Status ExportTensors(const std::string& out, const std::string& what,
                     const Checkpoint& checkpoint) {
  TensorMap tensors;
  if (what != "state") tensors.insert(checkpoint.params.begin(), checkpoint.params.end());
  if (what != "model") tensors.insert(checkpoint.state.begin(), checkpoint.state.end());
  const auto write = [&](const std::string& path) {
    return out.ends_with(".npz") ? WriteNpz(path, tensors)
                                 : WriteSafetensors(path, tensors, Origin(checkpoint));
  };
  TD_RETURN_IF_ERROR(PublishFiles({{out, write}}));
  int64_t elements = 0;
  for (const auto& [name, tensor] : tensors) elements += tensor.numel();
  std::printf("%s: %s, %zu tensors, %lld elements\n", out.c_str(), StepOf(checkpoint).c_str(),
              tensors.size(), static_cast<long long>(elements));
  if (!checkpoint.tables.empty() && what != "state") {
    std::fprintf(stderr, "tandem export: tables that pservers keep alone (%s) are not part of it\n",
                 checkpoint.tables.c_str());
  }
  return OkStatus();
}

// The program is that of the job file: a checkpoint has its variables alone.
Status ExportNetwork(const std::string& out, const ParsedArgs& args, const Checkpoint& checkpoint) {
  if (!args.Has("job")) {
    return InvalidArgument("%s needs the network; hint: --job=JOB_FILE of the checkpoint", out);
  }
  TD_ASSIGN_OR_RETURN(const JobHistory history, HistoryOf(args.Get("job"), 1, {{"mode", "local"}}));
  const Program& program = history.points.front().second;  // before all passes
  std::vector<std::string> outputs = absl::StrSplit(args.Get("outputs"), ',', absl::SkipEmpty());
  TensorMap tensors = checkpoint.params;
  tensors.insert(checkpoint.state.begin(), checkpoint.state.end());
  TD_ASSIGN_OR_RETURN(const OnnxModel model,
                      ExportOnnx(program, tensors, std::move(outputs), Origin(checkpoint)));
  const auto write = [&model](const std::string& path) { return WriteTextFile(path, model.bytes); };
  TD_RETURN_IF_ERROR(PublishFiles({{out, write}}));
  std::printf("%s: %s, ONNX opset %d, %s -> %s\n", out.c_str(), StepOf(checkpoint).c_str(),
              kOnnxOpset, absl::StrJoin(model.inputs, ", ").c_str(),
              absl::StrJoin(model.outputs, ", ").c_str());
  return OkStatus();
}

Status Export(const ParsedArgs& args) {
  if (args.positional.size() != 2) {
    return InvalidArgument("expected a checkpoint and a file; hint: tandem export DIR model.npz");
  }
  const std::string& out = args.positional[1];
  const bool network = out.ends_with(".onnx");
  if (!network && !out.ends_with(".npz") && !out.ends_with(".safetensors")) {
    return InvalidArgument("%s: expected a name that ends with .npz, .safetensors or .onnx", out);
  }
  const std::string what = args.Get("what", "model");
  if (what != "model" && what != "state" && what != "all") {
    return InvalidArgument("--what=%s: expected model, state or all%s", what,
                           HintText(what, {"model", "state", "all"}));
  }
  if (network && args.Has("what")) {
    return InvalidArgument("--what is for .npz and .safetensors: a network is whole");
  }
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Load(args.positional[0], device));
  return network ? ExportNetwork(out, args, checkpoint) : ExportTensors(out, what, checkpoint);
}

}  // namespace

int RunExport(const Args& args) { return RunBody("export", kUsage, Flags(), args, Export); }

}  // namespace tandem::deploy
