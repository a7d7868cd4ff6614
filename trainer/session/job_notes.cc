#include "trainer/session/job_notes.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"

namespace tandem::trainer {

std::string IdleCoresNote(const JobConfig& config, const RankInfo& rank, int cores) {
  const DistributedStrategy& strategy = config.strategy();
  if (!strategy.deterministic() || config.threads() > 0 || PlacesOf(config) > 1) return "";
  const int own = cores / std::max(1, rank.local_size);
  int places = 1;  // number of replicas: a power of two, like the number of parts
  while (places * 2 <= std::min(own, strategy.batch_merge_repeats())) places *= 2;
  if (places == 1) return "";
  return absl::StrFormat(
      "deterministic: kernels use one of %d cores; --cpu_num=%d uses %d cores with the same bits\n",
      own, places, places);
}

std::string ShareNote(const JobConfig& config, int workers) {
  if (config.strategy().pipeline() || workers * PlacesOf(config) == 1) return "";
  return "loss and metrics of a step are of the first rank's part of the batch; those of an "
         "evaluation are of all test data\n";
}

}  // namespace tandem::trainer
