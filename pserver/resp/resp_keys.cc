#include "pserver/resp/resp_keys.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

static_assert(std::endian::native == std::endian::little, "replies have little-endian values");

// Returns whether `text` is a row id, and sets `id`.
bool ParseId(std::string_view text, uint64_t& id) {
  // The maximum is that of int64_t, in which other interfaces have ids.
  constexpr size_t kDigitsMax = 19;
  if (text.empty() || text.size() > kDigitsMax) return false;
  uint64_t read = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    read = 10 * read + static_cast<uint64_t>(c - '0');
  }
  id = read;
  return true;
}

// Names in messages are at most this long.
constexpr size_t kShownMax = 200;
std::string Shown(std::string_view name) { return std::string(name.substr(0, kShownMax)); }

}  // namespace

RespCatalog RespCatalog::Of(const ShardInfo& info) {
  RespCatalog catalog;
  for (const TableSpec& table : info.config.tables) {
    catalog.tables.push_back({table.variable, table.dim()});
  }
  // The slices of each variable by their first element.
  std::map<std::string, std::map<int64_t, const SliceSpec*>> slices;
  for (const SliceSpec& slice : info.config.slices) slices[slice.variable][slice.offset] = &slice;
  for (const auto& [name, parts] : slices) {
    Variable variable;
    for (const auto& [offset, slice] : parts) {
      variable.whole = variable.whole && offset == variable.numel;
      variable.numel += slice->numel;
      variable.ranges.push_back({name, offset, slice->numel});
    }
    variable.whole = variable.whole && variable.numel == parts.begin()->second->shape.numel();
    catalog.variables.emplace(name, std::move(variable));
  }
  return catalog;
}

void RespKeys::Begin(const RespCatalog& catalog, size_t bytes_max) {
  catalog_ = &catalog;
  bytes_max_ = bytes_max;
  bytes_ = 0;
  groups_.clear();
  last_ = kNone;
  variables_.clear();
  places_.clear();
}

size_t RespKeys::GroupOf(std::string_view table) {
  TD_REQUIRE(catalog_ != nullptr);
  if (last_ != kNone && groups_[last_].table->name == table) return last_;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].table->name == table) return i;
  }
  for (const RespCatalog::Table& known : catalog_->tables) {
    if (known.name != table) continue;
    groups_.push_back({&known, {}, 0});
    return groups_.size() - 1;
  }
  return kNone;
}

Status RespKeys::CountBytes(int64_t values) {
  bytes_ += static_cast<size_t>(values) * sizeof(float) + RespOutput::kBulkExtra;
  if (bytes_ <= bytes_max_) return OkStatus();
  return InvalidArgument(
      "the reply exceeds %d bytes (reply_bytes_max) [TD4041]; hint: read fewer keys with each "
      "command",
      bytes_max_);
}

Status RespKeys::AddId(size_t group, uint64_t id) {
  TD_REQUIRE(group < groups_.size());
  Group& of = groups_[group];
  TD_REQUIRE(of.ids.size() == of.rows);
  places_.push_back({static_cast<uint32_t>(group), static_cast<uint32_t>(of.rows++)});
  of.ids.push_back(id);
  last_ = group;
  return CountBytes(groups_[group].table->dim);
}

Status RespKeys::Add(std::string_view key) {
  const size_t colon = key.rfind(':');
  if (colon == std::string_view::npos) return AddVariable(key);
  uint64_t id = 0;
  if (!ParseId(key.substr(colon + 1), id)) return AddVariable(key);
  const size_t group = GroupOf(key.substr(0, colon));
  return group == kNone ? AddVariable(key) : AddId(group, id);
}

Status RespKeys::AddRow(std::string_view table, std::string_view id) {
  const size_t group = GroupOf(table);
  if (group == kNone) {
    return NotFound("this server has no table \"%s\" [TD4034]; hint: INFO tables lists the tables",
                    Shown(table));
  }
  uint64_t number = 0;
  if (ParseId(id, number)) return AddId(group, number);
  return InvalidArgument("\"%s\" is no row id of table %s, expected a decimal number [TD4041]",
                         Shown(id), Shown(table));
}

Status RespKeys::AddVariable(std::string_view name) {
  TD_REQUIRE(catalog_ != nullptr);
  const auto found = catalog_->variables.find(name);
  if (found == catalog_->variables.end()) {
    return NotFound(
        "\"%s\" is no row (table:id) of a table and no dense variable of this server [TD4034]; "
        "hint: INFO tables lists the tables, tandem vars LOG_DIR the variables",
        Shown(name));
  }
  const RespCatalog::Variable& variable = found->second;
  if (!variable.whole) {
    return FailedPrecondition(
        "this server has only %d elements of variable %s, because other servers have the rest "
        "[TD4035]; hint: use tandem.ps.Reader, which reads from all servers",
        variable.numel, Shown(name));
  }
  places_.push_back({kDense, static_cast<uint32_t>(variables_.size())});
  variables_.push_back(&variable);
  return CountBytes(variable.numel);
}

PullQuery RespKeys::TakeQuery(const std::string& job) {
  TD_REQUIRE(catalog_ != nullptr);
  PullQuery query;
  query.caller.job = job;
  query.observer = true;
  for (const RespCatalog::Variable* variable : variables_) {
    query.ranges.insert(query.ranges.end(), variable->ranges.begin(), variable->ranges.end());
  }
  for (Group& group : groups_) query.rows.push_back({group.table->name, std::move(group.ids)});
  return query;
}

void RespKeys::AppendValues(const PullResult& result, RespOutput& out) const {
  // The result has the ranges of all variables, then the rows of all groups.
  const auto bytes_of = [](const PulledSlice& slice) {
    return reinterpret_cast<const char*>(reinterpret_cast<const float*>(slice.values.get()) +
                                         slice.first);
  };
  std::vector<size_t> first_slices;  // index of the first slice of each variable
  size_t slices = 0;
  for (const RespCatalog::Variable* variable : variables_) {
    first_slices.push_back(slices);
    slices += variable->ranges.size();
  }
  TD_REQUIRE(result.slices.size() == slices + groups_.size());
  struct Rows {
    const char* values;
    size_t bytes;  // size of one row
    char head[RespOutput::kBulkExtra];
    size_t head_bytes;
  };
  std::vector<Rows> groups;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto dim = static_cast<size_t>(groups_[i].table->dim), bytes = dim * sizeof(float);
    TD_REQUIRE(static_cast<size_t>(result.slices[slices + i].numel) == groups_[i].rows * dim);
    Rows& rows = groups.emplace_back(Rows{bytes_of(result.slices[slices + i]), bytes, "$", 0});
    char* const end = std::to_chars(rows.head + 1, rows.head + sizeof(rows.head) - 2, bytes).ptr;
    end[0] = '\r';
    end[1] = '\n';
    rows.head_bytes = static_cast<size_t>(end + 2 - rows.head);
  }
  for (const Place& place : places_) {
    if (place.group == kDense) {
      const RespCatalog::Variable& variable = *variables_[place.at];
      const auto bytes = static_cast<size_t>(variable.numel) * sizeof(float);
      out.BulkHead(bytes);
      for (size_t i = 0; i < variable.ranges.size(); ++i) {
        const PulledSlice& slice = result.slices[first_slices[place.at] + i];
        TD_REQUIRE(slice.numel == variable.ranges[i].numel);
        out.Append({bytes_of(slice), static_cast<size_t>(slice.numel) * sizeof(float)});
      }
      out.Append("\r\n");
      continue;
    }
    const Rows& rows = groups[place.group];
    char* to = out.Extend(rows.head_bytes + rows.bytes + 2);
    std::memcpy(to, rows.head, rows.head_bytes);
    std::memcpy(to + rows.head_bytes, rows.values + place.at * rows.bytes, rows.bytes);
    std::memcpy(to + rows.head_bytes + rows.bytes, "\r\n", 2);
  }
}

}  // namespace tandem::pserver
