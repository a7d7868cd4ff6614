// Fuzz target: manifests of checkpoints, and the files that they name.
#include "trainer/files/checkpoint.h"
#include "tests/fuzz/file_target.h"

namespace tandem {

FuzzTarget MakeFuzzTarget() {
  const auto dir = std::make_shared<TempDir>();
  std::vector<std::string> warnings;
  CHECK(trainer::CheckpointStore(dir->path(), 1).Save({.job = "job", .step = 7}, &warnings).ok());
  const std::string step = *dir / "step-00000007", manifest = step + "/manifest.pbtxt";
  return {{trainer::ReadFile(manifest)},
          {"file {", "name: \"model.safetensors\"", "bytes:", "sha256:", "format: 1", "../", "\\0"},
          [dir, step, manifest](std::string_view input) {
            trainer::WriteFile(manifest, input);
            CpuDevice device;
            const auto checkpoint = trainer::LoadCheckpoint(step, device);
            CHECK(checkpoint.ok() || !checkpoint.status().message().empty());
            return checkpoint.ok();
          }};
}

}  // namespace tandem
