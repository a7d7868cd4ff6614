#include "deploy/cli/plan/plan_job.h"

#include "deploy/cli/tools/program_stages.h"
#include "trainer/modes/collective_mode.h"

namespace tandem::deploy {
namespace {

PlanBucket BucketOf(const graph::Program& program, const ops::Op& op, bool half) {
  PlanBucket bucket;
  const auto& names = op.outputs[0];
  for (const std::string& name : names) {
    const TensorDesc& desc = program.FindVar(name)->desc;
    bucket.count += static_cast<size_t>(desc.shape.numel());
    bucket.element_bytes = SizeOf(desc.dtype);
  }
  if (half && bucket.element_bytes == 4 && op.role == ops::OpRole::kComm) bucket.element_bytes = 2;
  bucket.name = names[0];
  if (names.size() > 1) bucket.name += absl::StrFormat(" and %d more", names.size() - 1);
  return bucket;
}

}  // namespace

StatusOr<PlanJob> PlanJobOf(const std::string& job_path, int workers) {
  TD_ASSIGN_OR_RETURN(const ProgramStages history,
                      HistoryOf(job_path, workers, {{"mode", "collective"}}));
  const graph::Program& program = history.points.back().second;
  PlanJob job;
  job.name = history.job;
  const trainer::CollectiveOptions& options = history.collective;
  job.carrier = options.world.transport;
  job.by_model = options.choose_by_model;
  job.rule.tree_order = options.tree_order;
  job.rule.group = options.group;
  job.rule.form = options.form;
  size_t computing = 0;
  for (const ops::Op& op : program.ops) {
    if (op.type == "c_allreduce_sum" || op.type == "c_allreduce_begin") {
      job.buckets.push_back(BucketOf(program, op, options.common.half_communication));
      job.buckets.back().ready = static_cast<double>(computing);
    } else if (op.role != ops::OpRole::kOptimize) {
      ++computing;
    }
  }
  if (job.buckets.empty()) {
    return FailedPrecondition(
        "%s: the program has no allreduce to plan, because the strategy sends gradients in another "
        "way [TD7008]; hint: run tandem graph JOB to see the operators",
        job_path);
  }
  for (PlanBucket& bucket : job.buckets) bucket.ready /= static_cast<double>(computing);
  return job;
}

}  // namespace tandem::deploy
