// The rows and dense variables that one command of a Redis client reads.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "pserver/resp/resp_output.h"
#include "pserver/state/pull.h"
#include "pserver/state/shard_info.h"

namespace tandem::pserver {

// The names on a server at one time.
struct RespCatalog {
  struct Table {
    std::string name;
    int64_t dim = 0;
  };
  struct Variable {
    std::vector<PullRange> ranges;  // by ascending offsets
    int64_t numel = 0;              // elements on this server
    bool whole = true;              // false: other servers have some of the elements
  };
  static RespCatalog Of(const ShardInfo& info);

  std::vector<Table> tables;
  std::map<std::string, Variable, std::less<>> variables;
};

// Collects keys, makes one pull of them, and writes the values in the order of the keys. Not
// thread-safe.
class RespKeys {
 public:
  // Removes all keys. From now on, keys are those of `catalog`, which must outlive this object.
  // `bytes_max`: maximum size of the reply.
  void Begin(const RespCatalog& catalog, size_t bytes_max);

  // Adds "table:id", a row, or the name of a dense variable. NOT_FOUND: the server has no such name
  // in the catalog. INVALID_ARGUMENT: the reply exceeds its limit. FAILED_PRECONDITION: the server
  // has only a part of the variable.
  Status Add(std::string_view key);
  // Adds a row of `table`. The errors of Add; INVALID_ARGUMENT: `id` is no number.
  Status AddRow(std::string_view table, std::string_view id);

  size_t size() const { return places_.size(); }
  size_t variables() const { return variables_.size(); }  // number of keys of dense variables
  size_t reply_bytes() const { return bytes_; }           // upper bound
  // Returns the pull that reads all keys as an observer of `job`. Call once.
  PullQuery TakeQuery(const std::string& job);
  // Appends one bulk string for each key: f32 values. `result`: that of TakeQuery.
  void AppendValues(const PullResult& result, RespOutput& out) const;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Group {
    const RespCatalog::Table* table;
    std::vector<uint64_t> ids;
    size_t rows = 0;  // number of ids that were added
  };
  // A key. A row: its group, and its position in the group. A dense variable: its position in
  // variables_.
  struct Place {
    uint32_t group, at;
  };
  static constexpr uint32_t kDense = UINT32_MAX;

  size_t GroupOf(std::string_view table);  // kNone: the catalog has no such table
  Status AddId(size_t group, uint64_t id);
  Status AddVariable(std::string_view name);
  Status CountBytes(int64_t values);

  const RespCatalog* catalog_ = nullptr;
  size_t bytes_max_ = 0, bytes_ = 0;
  std::vector<Group> groups_;
  size_t last_ = kNone;  // group of the last row
  std::vector<const RespCatalog::Variable*> variables_;
  std::vector<Place> places_;
};

}  // namespace tandem::pserver
