// The networks with which `tandem bench knobs` measures, and the selection of knobs by name.
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/strategy/knobs.h"
#include "deploy/cli/knob_bench/knob_bench.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

const std::vector<BenchNetwork>& BenchNetworks() {
  static const std::vector<BenchNetwork> kNetworks = {
      {"lenet", "LeNet-5 on 1x28x28, batch 64", 400, R"(
model { zoo: "lenet" }
data { format: "synthetic" synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 4096 } }
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 64
)"},
      {"mlp", "five fully connected layers on 1x28x28, batch 64", 400, R"(
model { zoo: "mlp" arg { name: "hidden" value: "256,256,256,256" } }
data { format: "synthetic" synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 4096 } }
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 64
)"},
      {"residual_cnn", "residual network without batch_norm on 1x28x28, batch 8", 60, R"(
model { zoo: "residual_cnn" arg { name: "channels" value: "32,64" } }
data { format: "synthetic" synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 1024 } }
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 8
)"},
      {"mobilenet", "MobileNet v1, a quarter of its width, on 3x32x32, batch 8", 50, R"(
model {
  zoo: "mobilenet_v1"
  arg { name: "image" value: "3,32,32" }
  arg { name: "width" value: "25" }
  arg { name: "stem" value: "1" }
}
data { format: "synthetic" synthetic { image: 3 image: 32 image: 32 classes: 10 samples: 1024 } }
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 8
)"},
      {"resnet18", "ResNet-18 on 3x16x16, batch 8", 12, R"(
model {
  zoo: "resnet18"
  arg { name: "image" value: "3,16,16" }
  arg { name: "stem" value: "3" }
}
data { format: "synthetic" synthetic { image: 3 image: 16 image: 16 classes: 10 samples: 1024 } }
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 8
)"},
  };
  return kNetworks;
}

StatusOr<const BenchNetwork*> FindBenchNetwork(std::string_view name) {
  std::vector<std::string> names;
  for (const BenchNetwork& network : BenchNetworks()) {
    if (network.name == name) return &network;
    names.push_back(network.name);
  }
  return InvalidArgument(
      "there is no network \"%s\" to measure, expected one of %s [TD1006]; hint: use --job=FILE to "
      "measure any job",
      name, absl::StrJoin(names, ", "));
}

namespace {

// Returns whether `name` is `path`, the path of a knob, or the end of `path`.
bool Names(std::string_view name, std::string_view path) {
  return path == name || (path.size() > name.size() && path.ends_with(name) &&
                          path[path.size() - name.size() - 1] == '.');
}

Status NotMeasured(const std::string& name) {
  for (const UnbenchedKnob& knob : UnbenchedKnobs()) {
    if (Names(name, knob.knob)) {
      return InvalidArgument("--only: knob %s cannot be measured: %s [TD1006]", knob.knob,
                             knob.why);
    }
  }
  std::vector<std::string> names;
  for (const strategy::KnobInfo& info : strategy::ListKnobs()) {
    if (Names(name, info.path))
      return InvalidArgument("--only: knob %s is not implemented [TD1109]", info.path);
    names.push_back(info.path.substr(info.path.rfind('.') + 1));
  }
  return InvalidArgument("--only: there is no knob \"%s\" [TD1101]%s", name, HintText(name, names));
}

}  // namespace

StatusOr<std::vector<const KnobBench*>> ChooseKnobs(const std::string& names) {
  std::vector<const KnobBench*> chosen;
  const std::vector<std::string> words = absl::StrSplit(names, ',', absl::SkipEmpty());
  for (const std::string& name : words) {
    const size_t before = chosen.size();
    for (const KnobBench& row : KnobBenches()) {
      if (Names(name, row.knob)) chosen.push_back(&row);
    }
    if (chosen.size() == before) return NotMeasured(name);
  }
  if (!chosen.empty()) return chosen;
  if (!names.empty())
    return InvalidArgument(
        "--only names no knob [TD1007]; hint: name knobs as in --only=nccl_comm_num");
  for (const KnobBench& row : KnobBenches()) chosen.push_back(&row);
  return chosen;
}

}  // namespace tandem::deploy
