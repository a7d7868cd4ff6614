#include "trainer/modes/make_mode.h"

#include "proto/job.pb.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/modes/heter_mode.h"
#include "trainer/modes/hybrid_mode.h"
#include "trainer/modes/local_mode.h"
#include "trainer/modes/pipeline_mode.h"
#include "trainer/modes/pserver_mode.h"

namespace tandem::trainer {
namespace {

Status CheckAddresses(const JobConfig& config, const RankInfo& rank, const CommonOptions& common) {
  const bool servers = config.mode() == PSERVER || config.mode() == HYBRID;
  if (servers && rank.pservers.empty()) {
    return InvalidArgument(
        "mode %s needs pservers, but none are given [TD3003]; hint: start the job with tandemrun "
        "--servers=N, or set --pservers=HOST:PORT,...",
        Mode_Name(config.mode()));
  }
  const bool meets = config.mode() == COLLECTIVE || config.mode() == HYBRID;
  if (meets && common.ranks > 1 && rank.rendezvous.empty()) {
    return InvalidArgument(
        "mode %s needs a rendezvous, but none is given [TD3003]; hint: start the job with "
        "tandemrun %s, or set --rendezvous=HOST:PORT of rank 0, file:///DIR or "
        "etcd://HOST:PORT/PREFIX",
        Mode_Name(config.mode()), servers ? "--mode=hybrid" : "--nproc=N");
  }
  if (config.mode() == LOCAL && common.ranks != 1) {
    return InvalidArgument(
        "mode LOCAL has one process, but the job has %d [TD3003]; hint: use --mode=collective or "
        "--mode=pserver",
        common.ranks);
  }
  return OkStatus();
}

}  // namespace

StatusOr<TrainingMode> MakeMode(const JobConfig& config, const RankInfo& rank,
                                const CommonOptions& common) {
  TD_RETURN_IF_ERROR(CheckAddresses(config, rank, common));
  switch (config.mode()) {
    case LOCAL:
      return MakeLocalMode(common);
    case PSERVER:
      return MakePserverMode(PserverOptionsOf(config, rank, common));
    case COLLECTIVE:
      if (config.strategy().pipeline()) {
        return MakePipelineMode(PipelineOptionsOf(config, rank, common));
      }
      return MakeCollectiveMode(CollectiveOptionsOf(config, rank, common), {});
    case HYBRID:
      TD_RETURN_IF_ERROR(CheckHybrid(config, rank));
      if (rank.heter_workers > 0) return MakeHeterMode(HeterOptionsOf(config, rank, common));
      return MakeHybridMode(HybridOptionsOf(config, rank, common));
  }
  return InvalidArgument("training mode %d is unknown", static_cast<int>(config.mode()));
}

}  // namespace tandem::trainer
