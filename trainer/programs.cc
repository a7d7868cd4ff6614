#include "trainer/programs.h"

#include "common/strategy/text_file.h"
#include "kernels/graph/program_io.h"
#include "proto/job.pb.h"
#include "proto/program.pb.h"
#include "trainer/job.h"
#include "trainer/models/models.h"

namespace tandem {
namespace {

StatusOr<Program> ForwardProgram(const ModelConfig& model, const std::string& job_dir,
                                 int64_t batch) {
  if (model.has_program()) {
    const bool absolute = model.program().starts_with("/");
    const std::string path = absolute ? model.program() : job_dir + model.program();
    pb::ProgramDef def;
    Diagnostics diagnostics;
    TD_RETURN_IF_ERROR(LoadTextProto(path, &def, nullptr, &diagnostics));
    return FromProto(def, batch, path);
  }
  std::map<std::string, std::string> args;
  for (const ModelArg& arg : model.arg()) {
    if (!args.emplace(arg.name(), arg.value()).second) {
      return InvalidArgument("model argument \"%s\" is given twice", arg.name());
    }
  }
  return BuildModel(model.zoo(), args, batch);
}

// What the gradient of the loss begins with, so that the sum over all ranks is what the strategy
// asks for: the mean (CoeffNumDevice) or the sum (One).
StatusOr<float> LossScale(const DistributedStrategy& strategy, int ranks) {
  switch (strategy.build_strategy().gradient_scale_strategy()) {
    case BuildStrategy::CoeffNumDevice:
      return 1.0f / static_cast<float>(ranks);
    case BuildStrategy::One:
      return 1.0f;
    default:
      return Unimplemented("gradient_scale_strategy Customized is not built yet");
  }
}

}  // namespace

StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int ranks, ModeDriver& mode) {
  JobPrograms programs;
  TD_ASSIGN_OR_RETURN(programs.forward, ForwardProgram(config.model(), job_dir, batch));
  programs.train = programs.forward;
  TD_ASSIGN_OR_RETURN(const float loss_scale, LossScale(config.strategy(), ranks));
  TD_ASSIGN_OR_RETURN(const auto grads, AppendBackward(programs.train, loss_scale));
  TD_RETURN_IF_ERROR(mode.Distribute(programs.train, grads));
  return programs;
}

Status CheckPrograms(const JobConfig& config, const std::string& job_dir) {
  TD_ASSIGN_OR_RETURN(const int64_t batch, BatchPerRank(config, 1));
  TD_ASSIGN_OR_RETURN(const ModeOptions options, ModeOptionsOf(config, RankInfo{}, ""));
  const auto mode = MakeLocalMode(options);
  return BuildPrograms(config, job_dir, batch, 1, *mode).status();
}

}  // namespace tandem
