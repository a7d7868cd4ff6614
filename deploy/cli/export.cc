#include <cstdio>
#include <filesystem>

#include "common/tensor/device.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "trainer/checkpoint.h"
#include "trainer/npz.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "tandem export CHECKPOINT FILE.npz|FILE.safetensors: a checkpoint's parameters as one file, "
    "for\n"
    "NumPy (numpy.load) or for whatever reads safetensors\n"
    "CHECKPOINT: a job's checkpoint.dir, of which the newest whole one is taken, or one of its\n"
    "step-NNNNNNNN folders.\n";

const std::vector<FlagSpec>& Flags() {
  static const std::vector<FlagSpec> kFlags = {
      {"what", "", "PART", "model (default), state (optimizer slots and the like) or all"},
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

Status Write(const std::string& out, const Checkpoint& checkpoint, const TensorMap& tensors) {
  const std::string draft = out + ".new";
  const Status written =
      out.ends_with(".npz")
          ? WriteNpz(draft, tensors)
          : WriteSafetensors(draft, tensors,
                             {{"job", checkpoint.job}, {"step", std::to_string(checkpoint.step)}});
  std::error_code error;
  if (written.ok()) std::filesystem::rename(draft, out, error);
  if (written.ok() && !error) return OkStatus();
  const std::string why = error.message();
  std::filesystem::remove(draft, error);
  return written.ok() ? PermissionDenied("cannot write %s: %s", out, why) : written;
}

Status Export(const ParsedArgs& args) {
  if (args.positional.size() != 2) {
    return InvalidArgument("expected a checkpoint and a file; hint: tandem export DIR model.npz");
  }
  const std::string& out = args.positional[1];
  if (!out.ends_with(".npz") && !out.ends_with(".safetensors")) {
    return InvalidArgument("%s: expected a name that ends with .npz or .safetensors", out);
  }
  const std::string what = args.Get("what", "model");
  if (what != "model" && what != "state" && what != "all") {
    return InvalidArgument("--what=%s: expected model, state or all%s", what,
                           HintText(what, {"model", "state", "all"}));
  }
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Load(args.positional[0], device));
  TensorMap tensors;
  if (what != "state") tensors.insert(checkpoint.params.begin(), checkpoint.params.end());
  if (what != "model") tensors.insert(checkpoint.state.begin(), checkpoint.state.end());
  TD_RETURN_IF_ERROR(Write(out, checkpoint, tensors));
  int64_t elements = 0;
  for (const auto& [name, tensor] : tensors) elements += tensor.numel();
  std::printf("%s: step %llu of job %s, %zu tensors, %lld elements\n", out.c_str(),
              static_cast<unsigned long long>(checkpoint.step), checkpoint.job.c_str(),
              tensors.size(), static_cast<long long>(elements));
  if (!checkpoint.tables.empty() && what != "state") {
    std::fprintf(stderr, "tandem export: tables that pservers keep alone (%s) are not part of it\n",
                 checkpoint.tables.c_str());
  }
  return OkStatus();
}

}  // namespace

int RunExport(const Args& args) { return RunBody("export", kUsage, Flags(), args, Export); }

}  // namespace tandem::deploy
