#include "pserver/client/job/job_tables.h"

#include <algorithm>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/require.h"
#include "common/tables/row_buckets.h"
#include "common/tables/table_rules.h"

namespace tandem::ps {
namespace {

// Maximum number of elements of a slice, which is 1 GiB in one message.
constexpr int64_t kSliceElementsMax = int64_t{1} << 28;

}  // namespace

StatusOr<JobTables> JobTables::Make(const std::vector<PsVariable>& variables, PsMode mode,
                                    const std::vector<PsTable>& tables,
                                    const PartitionOptions& partition) {
  JobTables made;
  made.sync_ = mode == PsMode::kSync;
  made.variables_ = variables;
  made.tables_ = tables;
  TD_ASSIGN_OR_RETURN(made.slices_, Partition(variables, partition));
  for (const PsSlice& slice : made.slices_) {
    if (slice.numel <= kSliceElementsMax) continue;
    return InvalidArgument(
        "a slice of %s has %d elements, expected at most %d in one message; hint: use more "
        "pservers, and slice_var_up",
        variables[slice.variable].name, slice.numel, kSliceElementsMax);
  }
  for (const PsTable& table : tables) {
    const StatusOr<TableRules> rules = ParseTableRules(table.rules);
    if (!rules.ok()) return Annotate(rules.status(), "table " + table.variable);
    made.push_widths_.push_back(rules->counts() + table.dim);
    made.table_names_.push_back(table.variable);
  }
  for (size_t v = 0; v < variables.size(); ++v) {
    made.variable_index_[variables[v].name] = v;
    made.variable_names_.push_back(variables[v].name);
  }
  made.slices_of_.resize(variables.size());
  made.slices_on_.resize(static_cast<size_t>(partition.servers));
  for (size_t s = 0; s < made.slices_.size(); ++s) {
    made.slices_of_[static_cast<size_t>(made.slices_[s].variable)].push_back(s);
    made.slices_on_[static_cast<size_t>(made.slices_[s].server)].push_back(s);
  }
  return made;
}

int64_t JobTables::PushWidth(size_t table) const {
  TD_REQUIRE(table < push_widths_.size());
  return push_widths_[table];
}

const std::vector<size_t>& JobTables::SlicesOf(size_t variable) const {
  TD_REQUIRE(variable < slices_of_.size());
  return slices_of_[variable];
}

const std::vector<size_t>& JobTables::SlicesOn(size_t server) const {
  TD_REQUIRE(server < slices_on_.size());
  return slices_on_[server];
}

StatusOr<size_t> JobTables::FindTable(const std::string& name) const {
  const auto it = std::find(table_names_.begin(), table_names_.end(), name);
  if (it != table_names_.end()) return static_cast<size_t>(it - table_names_.begin());
  return NotFound("unknown table \"%s\" [TD1205]%s", name, OrDidYouMean(name, table_names_));
}

StatusOr<size_t> JobTables::FindVariable(const std::string& name, int64_t numel) const {
  const auto it = variable_index_.find(name);
  if (it == variable_index_.end()) {
    return NotFound("unknown variable \"%s\" [TD1205]%s", name,
                    OrDidYouMean(name, variable_names_));
  }
  const PsVariable& variable = variables_[it->second];
  if (numel != variable.shape.numel()) {
    return InvalidArgument("variable %s has %d elements, but its shape is %s", name, numel,
                           ToString(variable.shape));
  }
  return it->second;
}

std::optional<size_t> JobTables::VariableIndex(const std::string& name) const {
  const auto it = variable_index_.find(name);
  if (it == variable_index_.end()) return std::nullopt;
  return it->second;
}

size_t JobTables::SliceAt(const std::string& variable, int64_t offset) const {
  const std::vector<size_t>& all = SlicesOf(variable_index_.at(variable));
  const auto it = std::lower_bound(all.begin(), all.end(), offset,
                                   [this](size_t s, int64_t at) { return slices_[s].offset < at; });
  TD_REQUIRE(it != all.end() && slices_[*it].offset == offset);
  return *it;
}

OwnerMap JobTables::FirstOwners(size_t servers) const {
  const auto count = static_cast<int>(servers);
  OwnerMap first;
  for (int server = 0; server < count && !tables_.empty(); ++server) {
    const auto end = static_cast<size_t>(FirstBucket(server + 1, count));
    first.rows.resize(end, static_cast<size_t>(server));
  }
  TD_REQUIRE(first.rows.empty() || first.rows.size() == kRowBuckets);
  for (const PsSlice& slice : slices_) first.slices.push_back(static_cast<size_t>(slice.server));
  first.generations.resize(servers);
  return first;
}

}  // namespace tandem::ps
