#include "trainer/config/pipeline_config.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"
#include "common/strategy/origins.h"
#include "common/strategy/text_file.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/models/job_model.h"

namespace tandem::trainer {

namespace {

// Returns an error and a suggestion if `ranks` is not a multiple of `sections`. Returns two empty
// strings if it is.
std::pair<std::string, std::string> Mismatch(int sections, int ranks) {
  TD_REQUIRE(sections > 0 && ranks > 0);
  if (ranks % sections == 0) return {};
  const int below = ranks / sections * sections;
  return {absl::StrFormat("pipeline: the number of ranks, %d, is not a multiple of the number of "
                          "sections, %d [TD1104]",
                          ranks, sections),
          below > 0 ? absl::StrFormat("use %d or %d ranks", below, below + sections)
                    : absl::StrFormat("use %d ranks", sections)};
}

}  // namespace

Status CheckSections(int sections, int ranks) {
  const auto [wrong, fits] = Mismatch(sections, ranks);
  if (wrong.empty()) return OkStatus();
  return Status(StatusCode::kInvalidArgument, wrong + "; hint: " + fits);
}

void SetSections(int ranks, const std::string& job_dir, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics, JobConfig* config) {
  const DistributedStrategy& strategy = config->strategy();
  if (!strategy.pipeline() || !diagnostics->ok()) return;
  const strategy::SourcePlace place = origins.Of("strategy.pipeline").place;
  const StatusOr<int> named = NamedSectionsOf(*config, job_dir);
  if (!named.ok()) return diagnostics->Error(place, std::string(named.status().message()));
  ModelConfig* model = config->mutable_model();
  if (*named > 0 && model->sections() > 0 && model->sections() != *named) {
    return diagnostics->Error(origins.Of("model.sections").place,
                              absl::StrFormat("model.sections is %d, but op_device of the "
                                              "program's operators names %d sections [TD1108]",
                                              model->sections(), *named),
                              "remove model.sections");
  }
  if (model->sections() == 0) model->set_sections(*named > 0 ? *named : ranks);
  const int sections = model->sections();
  if (ranks == 1) return;
  const auto [wrong, fits] = Mismatch(sections, ranks);
  if (!wrong.empty()) return diagnostics->Error(place, wrong, fits);
  const int micro = strategy.pipeline_configs().micro_batch();
  const int64_t pieces = int64_t{ranks / sections} * micro, batch = GlobalBatch(*config, ranks);
  if (batch % pieces == 0) return;
  const int64_t below = std::max<int64_t>(1, batch / pieces) * pieces;
  diagnostics->Error(place,
                     absl::StrFormat("pipeline: a batch of %d samples cannot be divided equally "
                                     "into %d replicas with %d micro batches each [TD1104]",
                                     batch, ranks / sections, micro),
                     absl::StrFormat("use %d or %d samples", below, below + pieces));
}

}  // namespace tandem::trainer
