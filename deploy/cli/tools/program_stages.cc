#include "deploy/cli/tools/program_stages.h"

#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/modes/make_mode.h"
#include "trainer/reader/input/sampler.h"
#include "trainer/session/plan_options.h"
#include "trainer/session/programs.h"

namespace tandem::deploy {

StatusOr<ProgramStages> HistoryOf(const std::string& job_path, int workers,
                                  const trainer::Settings& overrides, int of_rank,
                                  int heter_workers) {
  trainer::JobSources sources;
  sources.heter_workers = heter_workers;
  sources.path = job_path;
  sources.overrides = overrides;
  TD_ASSIGN_OR_RETURN(const trainer::EffectiveJob job, trainer::LoadJob(sources, workers));
  const int64_t global = trainer::GlobalBatch(*job.config, workers);
  trainer::RankInfo rank;
  rank.rank = of_rank;
  rank.size = workers + heter_workers;
  rank.heter_workers = heter_workers;
  // The modes require addresses, but this function opens no connection to these addresses.
  rank.rendezvous = "127.0.0.1:1";
  rank.pservers = {"127.0.0.1:1"};
  ProgramStages history;
  const trainer::CommonOptions common = trainer::CommonOptionsOf(*job.config, rank, {});
  history.collective = trainer::CollectiveOptionsOf(*job.config, rank, common);
  TD_ASSIGN_OR_RETURN(const trainer::TrainingMode mode,
                      trainer::MakeMode(*job.config, rank, common));
  const int each = mode.sections;
  const reader::BatchShare share =
      reader::ShareOf(static_cast<uint32_t>(global), static_cast<uint32_t>(rank.kind_rank() / each),
                      static_cast<uint32_t>(rank.kind_size() / each));
  history.job = job.config->name();
  history.batch = share.size;
  const auto keep = [&history](std::string_view point, const graph::Program& program) {
    history.points.emplace_back(point, program);
    return OkStatus();
  };
  TD_ASSIGN_OR_RETURN(trainer::JobPrograms programs,
                      trainer::BuildPrograms(*job.config, trainer::JobDir(job_path), share.size,
                                             global, mode, keep));
  history.passes = std::move(programs.passes);
  history.memory = trainer::MemoryOptionsOf(job.config->strategy());
  return history;
}

}  // namespace tandem::deploy
