#include "deploy/cli/demo/demo_data.h"

#include <filesystem>

#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"

namespace tandem::deploy {

Status CheckIdxDir(const std::string& dir) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string path = dir + "/" + name;
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !std::filesystem::exists(path + ".gz", error)) {
      return NotFound(
          "directory %s contains neither file %s nor this file compressed as .gz [TD2001]", dir,
          name);
    }
  }
  return OkStatus();
}

StatusOr<std::string> DemoJob(const std::string& data_dir, const std::string& checkpoint_dir,
                              int epochs) {
  JobConfig job;
  strategy::Diagnostics diagnostics;
  strategy::ParseTextProto({"lenet.pbtxt", ExampleJob()}, &job, nullptr, &diagnostics);
  TD_RETURN_IF_ERROR(diagnostics.status());
  job.mutable_data()->set_dir(data_dir);
  job.mutable_checkpoint()->set_dir(checkpoint_dir);
  if (epochs > 0) job.set_epochs(epochs);
  return strategy::SaveText(job);
}

}  // namespace tandem::deploy
