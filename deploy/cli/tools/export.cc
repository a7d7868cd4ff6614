#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/os/files.h"
#include "common/tensor/device.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/tools/export_rows.h"
#include "deploy/cli/tools/program_stages.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/npz.h"
#include "trainer/onnx/export/export.h"

namespace tandem::deploy {
namespace {

constexpr char kExportUsage[] =
    "tandem export CHECKPOINT FILE: writes a checkpoint as one file. FILE ends with\n  .npz        "
    "    the parameters for NumPy (numpy.load)\n  .safetensors    the parameters in safetensors "
    "format\n  .onnx           the network with its parameters, for inference; needs "
    "--job\nCHECKPOINT: a job's checkpoint.dir (its newest complete checkpoint is used), or one of "
    "its\nstep-NNNNNNNN directories.\n";

const std::vector<FlagSpec>& ExportFlags() {
  static const std::vector<FlagSpec> kFlags = {
      {"what", "", "PART", ".npz, .safetensors: model (default), state (optimizer slots) or all"},
      {"job", "job_file", "FILE", ".onnx: the job file of the checkpoint"},
      {"outputs", "", "A,B", ".onnx: the variables to compute (default: the inputs of the loss)"},
      {"rows", "", "WHICH",
       ".npz, .safetensors: rows of tables that only pservers store: full (all), base (rows worth "
       "serving) or delta (base rows that changed since --since); default: none"},
      {"since", "", "CHECKPOINT", "--rows=delta: the checkpoint of the last export"},
      {"base_threshold", "", "SCORE", "--rows=base and delta: minimum score (default 1.5)"},
      {"delta_threshold", "", "SCORE", "--rows=delta: minimum growth of the score (default 0.25)"},
      {"delta_keep", "", "VERSIONS",
       "--rows=base and delta: maximum number of days without a gradient (default: any)"},
      kOutputFlag,
  };
  return kFlags;
}

StatusOr<trainer::Checkpoint> Load(const std::string& path, Device& device) {
  std::error_code error;
  if (std::filesystem::exists(path + "/manifest.pbtxt", error))
    return trainer::LoadCheckpoint(path, device);
  std::vector<std::string> warnings;
  auto newest = trainer::CheckpointStore(path, 1).LoadNewest(device, &warnings);
  for (const std::string& w : warnings) std::fprintf(stderr, "tandem export: %s\n", w.c_str());
  return newest;
}

trainer::StringMap Origin(const trainer::Checkpoint& checkpoint) {
  return {{"job", checkpoint.job}, {"step", std::to_string(checkpoint.step)}};
}

std::string StepOf(const trainer::Checkpoint& checkpoint) {
  return absl::StrFormat("step %d of job %s", checkpoint.step, checkpoint.job);
}

StatusOr<double> ThresholdOf(const ParsedArgs& args, const char* name, double otherwise) {
  double value = otherwise;
  if (!args.Has(name)) return value;
  if (absl::SimpleAtod(args.Get(name), &value) && value >= 0) return value;
  return InvalidArgument("--%s=%s: expected a number of 0 or more [TD1004]", name, args.Get(name));
}

StatusOr<RowChoice> ChoiceOf(const ParsedArgs& args, Device& device) {
  RowChoice choice;
  const std::string rows = args.Get("rows");
  const std::vector<std::string> modes = {"full", "base", "delta"};
  const auto mode = std::find(modes.begin(), modes.end(), rows);
  if (mode == modes.end()) {
    return InvalidArgument("--rows=%s: expected full, base or delta [TD1006]%s", rows,
                           HintText(rows, modes));
  }
  // The elements of `modes` are in the order of RowChoice::Mode.
  choice.mode = static_cast<RowChoice::Mode>(mode - modes.begin());
  TD_ASSIGN_OR_RETURN(choice.base_threshold,
                      ThresholdOf(args, "base_threshold", choice.base_threshold));
  TD_ASSIGN_OR_RETURN(choice.delta_threshold,
                      ThresholdOf(args, "delta_threshold", choice.delta_threshold));
  TD_ASSIGN_OR_RETURN(choice.delta_keep, args.GetInt("delta_keep", 0, 0, INT32_MAX));
  if (args.Has("since") != (choice.mode == RowChoice::Mode::kDelta)) {
    return InvalidArgument(
        "only one of --since and --rows=delta is set, expected both or neither [TD1005]; hint: set "
        "--since to the checkpoint of the last export");
  }
  if (args.Has("since")) {
    TD_ASSIGN_OR_RETURN(const trainer::Checkpoint before, Load(args.Get("since"), device));
    choice.since = before.tables;
    if (choice.since.empty())
      return NotFound(
          "%s contains no table rows [TD7008]; hint: set --since to a checkpoint of the servers",
          args.Get("since"));
  }
  return choice;
}

// Prints the result as text or, with --output=json, as JSON.
void Say(const ParsedArgs& args, const std::string& text, const nlohmann::ordered_json& json) {
  std::fputs((args.Get("output") == "json" ? json.dump(2) + "\n" : text).c_str(), stdout);
}

Status ExportTensors(const std::string& out, const std::string& what, const ParsedArgs& args,
                     const trainer::Checkpoint& checkpoint, Device& device) {
  trainer::TensorMap tensors;
  if (what != "state") tensors.insert(checkpoint.params.begin(), checkpoint.params.end());
  if (what != "model") tensors.insert(checkpoint.state.begin(), checkpoint.state.end());
  if (args.Has("rows")) {
    TD_ASSIGN_OR_RETURN(const RowChoice choice, ChoiceOf(args, device));
    if (checkpoint.tables.empty())
      return NotFound(
          "the checkpoint contains no table rows [TD7008]; hint: use --rows only with a checkpoint "
          "of the servers");
    TD_ASSIGN_OR_RETURN(trainer::TensorMap rows, ChooseRows(checkpoint.tables, choice, device));
    tensors.merge(rows);
  }
  const auto write = [&](const std::string& path) {
    return out.ends_with(".npz") ? trainer::WriteNpz(path, tensors)
                                 : trainer::WriteSafetensors(path, tensors, Origin(checkpoint));
  };
  TD_RETURN_IF_ERROR(PublishFiles({{out, write}}));
  int64_t elements = 0;
  for (const auto& [name, tensor] : tensors) elements += tensor.numel();
  Say(args,
      absl::StrFormat("%s: %s, %d tensors, %d elements\n", out, StepOf(checkpoint), tensors.size(),
                      elements),
      {{"file", out},
       {"job", checkpoint.job},
       {"step", checkpoint.step},
       {"tensors", tensors.size()},
       {"elements", elements}});
  if (!checkpoint.tables.empty() && what != "state" && !args.Has("rows")) {
    std::fprintf(stderr,
                 "tandem export: the file does not contain tables that only pservers store (%s); "
                 "hint: choose --rows=full, base or delta\n",
                 checkpoint.tables.c_str());
  }
  return OkStatus();
}

// Exports the network. Its program comes from the job file, because a checkpoint has only
// variables.
Status ExportNetwork(const std::string& out, const ParsedArgs& args,
                     const trainer::Checkpoint& checkpoint) {
  if (!args.Has("job")) {
    return InvalidArgument(
        "%s needs the program of the model, which a checkpoint does not contain [TD1007]; hint: "
        "set --job to the job file with which the checkpoint was written",
        out);
  }
  TD_ASSIGN_OR_RETURN(const ProgramStages history,
                      HistoryOf(args.Get("job"), 1, {{"mode", "local"}}));
  // The program of the model, before all passes.
  const graph::Program& program = history.points.front().second;
  std::vector<std::string> outputs = absl::StrSplit(args.Get("outputs"), ',', absl::SkipEmpty());
  trainer::TensorMap tensors = checkpoint.params;
  tensors.insert(checkpoint.state.begin(), checkpoint.state.end());
  TD_ASSIGN_OR_RETURN(const onnx::ExportedModel model,
                      onnx::ExportModel(program, tensors, std::move(outputs), Origin(checkpoint)));
  const auto write = [&model](const std::string& path) { return WriteTextFile(path, model.bytes); };
  TD_RETURN_IF_ERROR(PublishFiles({{out, write}}));
  Say(args,
      absl::StrFormat("%s: %s, ONNX opset %d, %s -> %s\n", out, StepOf(checkpoint), onnx::kOpset,
                      absl::StrJoin(model.inputs, ", "), absl::StrJoin(model.outputs, ", ")),
      {{"file", out},
       {"job", checkpoint.job},
       {"step", checkpoint.step},
       {"opset", onnx::kOpset},
       {"inputs", model.inputs},
       {"outputs", model.outputs}});
  return OkStatus();
}

Status Export(const ParsedArgs& args) {
  if (args.positional.size() != 2) {
    return InvalidArgument(
        "expected two arguments, a checkpoint and an output file [TD1007]; hint: run tandem export "
        "DIR model.npz");
  }
  TD_RETURN_IF_ERROR(WantsJson(args).status());
  const std::string& out = args.positional[1];
  const bool network = out.ends_with(".onnx");
  if (!network && !out.ends_with(".npz") && !out.ends_with(".safetensors")) {
    return InvalidArgument(
        "%s: expected a name that ends with .npz, .safetensors or .onnx [TD1011]", out);
  }
  const std::string what = args.Get("what", "model");
  if (what != "model" && what != "state" && what != "all") {
    return InvalidArgument("--what=%s: expected model, state or all [TD1006]%s", what,
                           HintText(what, {"model", "state", "all"}));
  }
  if (network && args.Has("what")) {
    return InvalidArgument(
        "--what has no effect with .onnx, which always contains the whole network [TD1005]; hint: "
        "export to .npz or .safetensors");
  }
  if (network && args.Has("rows")) {
    return InvalidArgument(
        "rows of a table cannot be exported to %s, expected a file .npz or .safetensors [TD1005]; "
        "hint: run tandem export DIR rows.npz --rows=...",
        out);
  }
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const trainer::Checkpoint checkpoint, Load(args.positional[0], device));
  return network ? ExportNetwork(out, args, checkpoint)
                 : ExportTensors(out, what, args, checkpoint, device);
}

}  // namespace

int RunExport(const Args& args) {
  return RunBody("export", kExportUsage, ExportFlags(), args, Export);
}

}  // namespace tandem::deploy
