#include "trainer/config/effective_job.h"

#include "proto/job.pb.h"

namespace tandem::trainer {

EffectiveJob::EffectiveJob() : config(std::make_unique<JobConfig>()) {}
EffectiveJob::EffectiveJob(EffectiveJob&&) noexcept = default;
EffectiveJob& EffectiveJob::operator=(EffectiveJob&&) noexcept = default;
EffectiveJob::~EffectiveJob() = default;

std::string JobDir(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string InJobDir(const std::string& job_dir, const std::string& path) {
  return path.empty() || path[0] == '/' ? path : job_dir + path;
}

int64_t GlobalBatch(const JobConfig& config, int workers) {
  return config.has_batch_size() ? config.batch_size() * workers : config.global_batch_size();
}

int PlacesOf(const JobConfig& config) { return config.strategy().execution_strategy().cpu_num(); }

bool SamplesInStep(const JobConfig& config) { return config.strategy().runtime_flags().use_dali(); }

}  // namespace tandem::trainer
