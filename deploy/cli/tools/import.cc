#include <algorithm>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "common/os/files.h"
#include "common/strategy/strategy.h"
#include "common/tensor/device.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"
#include "trainer/onnx/import.h"

namespace tandem::deploy {
namespace {

constexpr char kImportUsage[] =
    "tandem import MODEL.onnx DIR: converts an ONNX model into a program to train, with its "
    "parameters\nThe command writes model.pbtxt and model.safetensors into DIR; a job file in DIR "
    "trains them with\n  model { program: \"model.pbtxt\" parameters: \"model.safetensors\" }\n";

const std::vector<FlagSpec>& ImportFlags() {
  static const std::vector<FlagSpec> kFlags = {
      {"loss", "", "NAME",
       "softmax (default): cross entropy of the output with \"label\"; sigmoid; none: the program "
       "has no loss"},
      {"loss_of", "", "NAME", "output of the model that the loss uses, if the model has several"},
      {"rename", "", "A=B,C=D",
       "fields of the data for the inputs of the model; default: a single input that is an image "
       "is \"img\""},
      kOutputFlag,
  };
  return kFlags;
}

StatusOr<onnx::ImportOptions> OptionsOf(const ParsedArgs& args) {
  onnx::ImportOptions options;
  options.output = args.Get("loss_of");
  const std::vector<std::string> losses(std::begin(onnx::ImportOptions::kLossNames),
                                        std::end(onnx::ImportOptions::kLossNames));
  const std::string loss = args.Get("loss", losses[0]);
  const auto it = std::find(losses.begin(), losses.end(), loss);
  if (it == losses.end()) {
    return InvalidArgument("--loss=%s: expected softmax, sigmoid or none [TD1006]%s", loss,
                           HintText(loss, losses));
  }
  options.loss = static_cast<onnx::ImportOptions::Loss>(it - losses.begin());
  for (const std::string& pair :
       std::vector<std::string>(absl::StrSplit(args.Get("rename"), ',', absl::SkipEmpty()))) {
    const std::pair<std::string, std::string> names = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (names.first.empty() || names.second.empty()) {
      return InvalidArgument("--rename: \"%s\" is not of the form INPUT=FIELD [TD1011]", pair);
    }
    options.rename[names.first] = names.second;
  }
  return options;
}

std::string DirOf(const std::string& path) {
  const std::string dir = std::filesystem::path(path).parent_path().string();
  return dir.empty() ? "." : dir;
}

// Returns type and shape of a data variable. A first dimension that is the batch is written as
// "batch", as in "f32[batch,1,28]".
std::string TextOf(const graph::Var& var) {
  if (!var.batch_leading) return ToString(var.desc);
  std::string text = absl::StrFormat("%s[batch", Name(var.desc.dtype));
  for (const int64_t size : var.desc.shape.dims().subspan(1)) absl::StrAppend(&text, ",", size);
  return text + "]";
}

Status Import(const ParsedArgs& args) {
  if (args.positional.size() != 2) {
    return InvalidArgument(
        "expected two arguments, a model file and a directory [TD1007]; hint: run tandem import "
        "model.onnx mine");
  }
  const std::string &path = args.positional[0], &dir = args.positional[1];
  TD_ASSIGN_OR_RETURN(onnx::ImportOptions options, OptionsOf(args));
  options.dir = DirOf(path);
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const std::string bytes, ReadSmallFile(path, INT_MAX));
  CpuDevice device;
  TD_ASSIGN_OR_RETURN(const onnx::ImportedModel model,
                      onnx::ImportModel(bytes, path, options, device));
  for (const std::string& note : model.notes) {
    std::fprintf(stderr, "tandem import: %s\n", note.c_str());
  }
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return FileError(dir, "cannot be created", error.value());
  pb::ProgramDef def;
  graph::ToProto(model.program, &def);
  const auto write_tensors = [&](const std::string& to) {
    return trainer::WriteSafetensors(to, model.tensors, {});
  };
  const auto write_program = [&](const std::string& to) {
    return WriteTextFile(to, strategy::SaveText(def));
  };
  TD_RETURN_IF_ERROR(PublishFiles(
      {{dir + "/model.safetensors", write_tensors}, {dir + "/model.pbtxt", write_program}}));
  int64_t elements = 0;
  for (const auto& [name, tensor] : model.tensors) elements += tensor.numel();
  std::string text =
      absl::StrFormat("%s: %d operators, %d tensors, %d elements\n", dir + "/model.pbtxt",
                      model.program.ops.size(), model.tensors.size(), elements);
  nlohmann::ordered_json json = {{"program", dir + "/model.pbtxt"},
                                 {"parameters", dir + "/model.safetensors"},
                                 {"operators", model.program.ops.size()},
                                 {"tensors", model.tensors.size()},
                                 {"elements", elements},
                                 {"data", nlohmann::ordered_json::object()}};
  for (const graph::Var* var : model.program.VarsOf(graph::VarKind::kData)) {
    text += absl::StrFormat("  data \"%s\": %s\n", var->name, TextOf(*var));
    json["data"][var->name] = TextOf(*var);
  }
  std::fputs((as_json ? json.dump(2) + "\n" : text).c_str(), stdout);
  return OkStatus();
}

}  // namespace

int RunImport(const Args& args) {
  return RunBody("import", kImportUsage, ImportFlags(), args, Import);
}

}  // namespace tandem::deploy
