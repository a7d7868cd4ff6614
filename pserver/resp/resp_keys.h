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

// Collects the keys of one or more commands, and makes pulls of them. RespValues writes the values.
// Not thread-safe.
class RespKeys {
 public:
  // Removes all keys. From now on, keys are those of `catalog`, which must outlive this object.
  // `bytes_max`: maximum size of all values with their heads.
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
  // Removes the keys that were added after the first `size`. `reply_bytes`: its value at that time.
  void RollBack(size_t size, size_t reply_bytes);
  // Returns the pull that reads `count` keys from key `first` on, as an observer of `job`.
  // REQUIRES: the keys exist.
  PullQuery Query(const std::string& job, size_t first, size_t count) const;

 private:
  friend class RespValues;
  static constexpr size_t kNone = SIZE_MAX;
  struct Group {
    const RespCatalog::Table* table;
    std::vector<uint64_t> ids;
  };
  // A key. A row: its group, and its position in the group. A dense variable: its position in
  // variables_.
  struct Place {
    uint32_t group, at;
  };
  static constexpr uint32_t kDense = UINT32_MAX;
  // Positions [begin, end) in a group or in variables_.
  struct Part {
    size_t begin = 0, end = 0;
  };
  // The parts that some keys take: of each group, and of variables_ at the end.
  std::vector<Part> PartsOf(size_t first, size_t count) const;

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

// The values of keys, from the result of a pull. Not thread-safe.
class RespValues {
 public:
  // `result`: that of keys.Query(job, first, count). Both must outlive this object.
  RespValues(const RespKeys& keys, size_t first, size_t count, const PullResult& result);
  // Appends one bulk string for each of `count` keys from key `first` on: f32 values. REQUIRES: the
  // keys are among those of the constructor.
  void Append(size_t first, size_t count, RespOutput& out) const;

 private:
  struct Rows {
    const char* values = nullptr;  // address of the row at position `begin` of the group
    size_t begin = 0;
    size_t bytes = 0;  // size of one row
    char head[RespOutput::kBulkExtra] = {};
    size_t head_bytes = 0;
  };
  void AppendVariable(size_t at, RespOutput& out) const;

  const RespKeys& keys_;
  const PullResult& result_;
  const size_t first_, count_;
  std::vector<Rows> groups_;
  size_t first_variable_ = 0;
  std::vector<size_t> slices_;  // index of the first slice of each variable from first_variable_ on
};

}  // namespace tandem::pserver
