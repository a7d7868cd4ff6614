#include "trainer/models/job_model.h"

#include <map>

#include "common/strategy/text_file.h"
#include "kernels/graph/distribute/sections.h"
#include "kernels/graph/program_io.h"
#include "proto/job.pb.h"
#include "proto/program.pb.h"
#include "trainer/models/models.h"

namespace tandem::trainer {

StatusOr<graph::Program> ForwardProgram(const ModelConfig& model, const std::string& job_dir,
                                        int64_t batch) {
  if (model.has_program()) {
    const bool absolute = model.program().starts_with("/");
    const std::string path = absolute ? model.program() : job_dir + model.program();
    pb::ProgramDef def;
    strategy::Diagnostics diagnostics;
    TD_RETURN_IF_ERROR(strategy::LoadTextProto(path, &def, nullptr, &diagnostics));
    return graph::FromProto(def, batch, path);
  }
  std::map<std::string, std::string> args;
  for (const ModelArg& arg : model.arg()) {
    if (!args.emplace(arg.name(), arg.value()).second) {
      return InvalidArgument("model argument \"%s\" is given twice [TD1102]", arg.name());
    }
  }
  return BuildModel(model.zoo(), args, batch);
}

StatusOr<int> NamedSectionsOf(const JobConfig& config, const std::string& job_dir) {
  TD_ASSIGN_OR_RETURN(const graph::Program forward, ForwardProgram(config.model(), job_dir, 1));
  return graph::NamedSections(forward);
}

}  // namespace tandem::trainer
