#include "trainer/session/run_counts.h"

#include <cstddef>
#include <iterator>

namespace tandem::trainer {
namespace {

template <class T>
struct NamedCount {
  const char* name;
  Count T::*field;
};

constexpr NamedCount<ProgramCounts> kProgramCounts[] = {
    {"ops", &ProgramCounts::ops},
    {"ops.16bit", &ProgramCounts::ops_16bit},
    {"ops.conditional", &ProgramCounts::ops_conditional},
    {"plan.threads", &ProgramCounts::plan_threads},
    {"plan.inplace", &ProgramCounts::plan_inplace},
    {"held_bytes", &ProgramCounts::held_bytes},
    {"passing_bytes", &ProgramCounts::passing_bytes},
    {"arena_bytes", &ProgramCounts::arena_bytes},
    {"arena_bytes_min", &ProgramCounts::arena_bytes_min},
};

constexpr NamedCount<DeviceCounts> kDeviceCounts[] = {
    {"device.launches", &DeviceCounts::launches},
    {"device.limit_ms", &DeviceCounts::limit_ms},
    {"device.driver_calls", &DeviceCounts::driver_calls},
    {"device.driver_bytes", &DeviceCounts::driver_bytes},
    {"device.used_bytes", &DeviceCounts::used_bytes},
};

constexpr NamedCount<PsCounts> kPsCounts[] = {
    {"ps.pushes", &PsCounts::pushes},
    {"ps.pulls", &PsCounts::pulls},
    {"ps.calls", &PsCounts::calls},
    {"ps.sent_bytes", &PsCounts::sent_bytes},
    {"ps.received_bytes", &PsCounts::received_bytes},
    {"ps.lane_calls", &PsCounts::shm_calls},
    {"ps.rows_ahead", &PsCounts::rows_ahead},
    {"ps.row_cache_hits", &PsCounts::row_cache_hits},
    {"ps.row_cache_misses", &PsCounts::row_cache_misses},
    {"ps.slices", &PsCounts::slices},
    {"ps.largest_share", &PsCounts::largest_share},
    {"ps.rows", &PsCounts::rows},
    {"ps.rows_extended", &PsCounts::rows_extended},
    {"ps.row_bytes", &PsCounts::row_bytes},
};

constexpr NamedCount<ModeCounts> kModeCounts[] = {
    {"comm_bytes", &ModeCounts::comm_bytes},
    {"comm_flat_bytes", &ModeCounts::comm_flat_bytes},
    {"comm_at_once", &ModeCounts::comm_at_once},
    {"communicators", &ModeCounts::communicators},
    {"recoveries", &ModeCounts::recoveries},
    {"localsgd.k_steps", &ModeCounts::localsgd_k_steps},
    {"pipeline.sections", &ModeCounts::pipeline_sections},
    {"pipeline.micro_batches", &ModeCounts::pipeline_micro_batches},
    {"pipeline.bubble", &ModeCounts::pipeline_bubble},
    {"heter_workers", &ModeCounts::heter_workers},
};

constexpr NamedCount<RunCounts> kRunCounts[] = {
    {"runs", &RunCounts::runs},
    {"drops", &RunCounts::drops},
    {"repeated_steps", &RunCounts::repeated_steps},
    {"feed_bytes", &RunCounts::feed_bytes},
    {"loss_scaling", &RunCounts::loss_scaling},
    {"peak_bytes", &RunCounts::peak_bytes},
};

// The assertions check that each counter has a name in its table.
using Names = std::map<std::string, double>;
static_assert(sizeof(ProgramCounts) ==
              std::size(kProgramCounts) * sizeof(Count) + 3 * sizeof(Names));
static_assert(sizeof(DeviceCounts) == std::size(kDeviceCounts) * sizeof(Count));
static_assert(sizeof(PsCounts) == std::size(kPsCounts) * sizeof(Count));
static_assert(sizeof(ModeCounts) == std::size(kModeCounts) * sizeof(Count) + sizeof(PsCounts));
static_assert(sizeof(RunCounts) == std::size(kRunCounts) * sizeof(Count) + sizeof(ProgramCounts) +
                                       sizeof(ModeCounts) + sizeof(DeviceCounts) +
                                       sizeof(std::map<std::string, CommTypeCounts>));

template <class T, size_t kCount>
void AddNamed(const T& counts, const NamedCount<T> (&table)[kCount], Names* all) {
  for (const NamedCount<T>& row : table) {
    if (const Count& value = counts.*row.field) (*all)[row.name] = *value;
  }
}

void AddPrefixed(const char* prefix, const Names& counts, Names* all) {
  for (const auto& [name, value] : counts) (*all)[prefix + name] = value;
}

}  // namespace

std::map<std::string, double> CountsByName(const RunCounts& counts) {
  Names all;
  AddPrefixed("ops.", counts.program.ops_by_type, &all);
  AddPrefixed("passes.", counts.program.passes, &all);
  AddPrefixed("plan.", counts.program.by_impl, &all);
  for (const auto& [type, of_type] : counts.comm) {
    all["comm"] += of_type.started;
    all["comm." + type] = of_type.started;
    all["comm_out_bytes." + type] = of_type.out_bytes;
  }
  AddNamed(counts.program, kProgramCounts, &all);
  AddNamed(counts.device, kDeviceCounts, &all);
  AddNamed(counts.mode, kModeCounts, &all);
  AddNamed(counts.mode.ps, kPsCounts, &all);
  AddNamed(counts, kRunCounts, &all);
  return all;
}

}  // namespace tandem::trainer
