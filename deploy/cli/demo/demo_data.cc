#include "deploy/cli/demo/demo_data.h"

#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"

namespace tandem::deploy {

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
