// The variables and tables of a job, with the slices of the variables and their initial servers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "pserver/client/job/owner_map.h"
#include "pserver/client/job/ps_types.h"
#include "pserver/client/placement/partition.h"

namespace tandem::ps {

// The variables, tables and slices of a job. Immutable. Variables and tables have the indices of
// the lists that Configure received. Slices have the indices of the result of Partition.
class JobTables {
 public:
  JobTables() = default;  // makes an object without variables and tables
  // INVALID_ARGUMENT: a variable cannot be partitioned, or the rules of a table are invalid.
  static StatusOr<JobTables> Make(const std::vector<PsVariable>& variables, PsMode mode,
                                  const std::vector<PsTable>& tables,
                                  const PartitionOptions& partition);

  bool empty() const { return slices_.empty() && tables_.empty(); }
  bool sync() const { return sync_; }
  const std::vector<PsVariable>& variables() const { return variables_; }
  const std::vector<PsSlice>& slices() const { return slices_; }
  const std::vector<PsTable>& tables() const { return tables_; }
  // Returns the number of values of a row in a push to this table.
  int64_t PushWidth(size_t table) const;
  // Returns the indices of the slices of a variable, in the order of their offsets.
  const std::vector<size_t>& SlicesOf(size_t variable) const;
  // Returns the indices of the slices that Configure assigns to this server.
  const std::vector<size_t>& SlicesOn(size_t server) const;

  // Returns the index of a table. NOT_FOUND: no table has this name (the message suggests the
  // nearest name).
  StatusOr<size_t> FindTable(const std::string& name) const;
  // Returns the index of a variable. INVALID_ARGUMENT: the variable is unknown, or `numel` is not
  // its number of elements.
  StatusOr<size_t> FindVariable(const std::string& name, int64_t numel) const;
  std::optional<size_t> VariableIndex(const std::string& name) const;
  // Returns the index of the slice of `variable` that begins at `offset`. REQUIRES: such a slice
  // exists.
  size_t SliceAt(const std::string& variable, int64_t offset) const;

  // Returns the owners of rows and slices before buckets move, in a job with `servers` servers.
  OwnerMap FirstOwners(size_t servers) const;

 private:
  bool sync_ = true;
  std::vector<PsVariable> variables_;
  std::unordered_map<std::string, size_t> variable_index_;
  std::vector<std::string> variable_names_, table_names_;
  std::vector<PsSlice> slices_;
  std::vector<std::vector<size_t>> slices_of_;  // by variable: indices of the slices
  std::vector<std::vector<size_t>> slices_on_;  // by server: indices of the slices
  std::vector<PsTable> tables_;
  std::vector<int64_t> push_widths_;  // by table: number of values of a row in a push
};

}  // namespace tandem::ps
