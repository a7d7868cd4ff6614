#include "trainer/job/pipeline_config.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"
#include "common/strategy/origins.h"
#include "common/strategy/text_file.h"
#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/models/job_model.h"

namespace tandem::trainer {

namespace {

// The error and a suggestion; both are empty if there is no error.
std::pair<std::string, std::string> Mismatch(int sections, int ranks) {
  TD_REQUIRE(sections > 0 && ranks > 0);
  if (ranks % sections == 0) return {};
  const int below = ranks / sections * sections;
  return {absl::StrFormat("pipeline: %d ranks are no multiple of the %d sections of the program",
                          ranks, sections),
          below > 0 ? absl::StrFormat("%d or %d ranks", below, below + sections)
                    : absl::StrFormat("%d ranks", sections)};
}

}  // namespace

Status CheckSections(int sections, int ranks) {
  const auto [wrong, fits] = Mismatch(sections, ranks);
  return wrong.empty() ? OkStatus() : InvalidArgument("%s; hint: %s", wrong, fits);
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
    return diagnostics->Error(
        origins.Of("model.sections").place,
        absl::StrFormat("model.sections is %d, but the program's operators name %d (op_device)",
                        model->sections(), *named),
        "leave model.sections out");
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
                     absl::StrFormat("pipeline: a batch of %d samples does not divide into %d "
                                     "replicas with %d micro batches each",
                                     batch, ranks / sections, micro),
                     absl::StrFormat("%d or %d samples", below, below + pieces));
}

}  // namespace tandem::trainer
