#include "pserver/resp/resp_keys.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>

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
  return read <= static_cast<uint64_t>(INT64_MAX);
}

// Capacity of lists of keys that is kept for the next command.
constexpr size_t kKeptPlaces = 4096;

// Names in messages are at most this long.
constexpr size_t kShownMax = 200;
std::string Shown(std::string_view name) { return std::string(name.substr(0, kShownMax)); }

const char* BytesOf(const PulledSlice& slice) {
  return reinterpret_cast<const char*>(reinterpret_cast<const float*>(slice.values.get()) +
                                       slice.first);
}

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
  // A large command must not keep its memory.
  if (places_.capacity() > kKeptPlaces) places_ = {};
  if (variables_.capacity() > kKeptPlaces) variables_ = {};
}

size_t RespKeys::GroupOf(std::string_view table) {
  TD_REQUIRE(catalog_ != nullptr);
  if (last_ != kNone && groups_[last_].table->name == table) return last_;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].table->name == table) return i;
  }
  for (const RespCatalog::Table& known : catalog_->tables) {
    if (known.name != table) continue;
    groups_.push_back({&known, {}});
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
  std::vector<uint64_t>& ids = groups_[group].ids;
  places_.push_back({static_cast<uint32_t>(group), static_cast<uint32_t>(ids.size())});
  ids.push_back(id);
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

void RespKeys::RollBack(size_t size, size_t reply_bytes) {
  TD_REQUIRE(size <= places_.size() && reply_bytes <= bytes_);
  for (; places_.size() > size; places_.pop_back()) {
    const Place place = places_.back();
    if (place.group == kDense) {
      variables_.pop_back();
    } else {
      groups_[place.group].ids.pop_back();
    }
  }
  bytes_ = reply_bytes;
}

std::vector<RespKeys::Part> RespKeys::PartsOf(size_t first, size_t count) const {
  TD_REQUIRE(first + count <= places_.size());
  std::vector<Part> parts(groups_.size() + 1);
  if (count == places_.size()) {
    for (size_t g = 0; g < groups_.size(); ++g) parts[g].end = groups_[g].ids.size();
    parts.back().end = variables_.size();
    return parts;
  }
  // The positions of later keys are higher, so the keys take consecutive positions.
  for (size_t i = first; i < first + count; ++i) {
    Part& part = places_[i].group == kDense ? parts.back() : parts[places_[i].group];
    if (part.begin == part.end) part.begin = places_[i].at;
    part.end = places_[i].at + 1;
  }
  return parts;
}

PullQuery RespKeys::Query(const std::string& job, size_t first, size_t count) const {
  TD_REQUIRE(first + count <= places_.size());
  PullQuery query;
  query.caller.job = job;
  query.observer = true;
  const std::vector<Part> parts = PartsOf(first, count);
  for (size_t v = parts.back().begin; v < parts.back().end; ++v) {
    const std::vector<PullRange>& ranges = variables_[v]->ranges;
    query.ranges.insert(query.ranges.end(), ranges.begin(), ranges.end());
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto [begin, end] = parts[g];
    if (begin == end) continue;
    const uint64_t* const ids = groups_[g].ids.data();
    query.rows.push_back({groups_[g].table->name, {ids + begin, ids + end}});
  }
  return query;
}

RespValues::RespValues(const RespKeys& keys, size_t first, size_t count, const PullResult& result)
    : keys_(keys), result_(result), first_(first), count_(count), groups_(keys.groups_.size()) {
  // The result has the ranges of all variables, then the rows of all groups.
  const std::vector<RespKeys::Part> parts = keys.PartsOf(first, count);
  first_variable_ = parts.back().begin;
  size_t slices = 0;
  for (size_t v = first_variable_; v < parts.back().end; ++v) {
    slices_.push_back(slices);
    slices += keys.variables_[v]->ranges.size();
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto [begin, end] = parts[g];
    if (begin == end) continue;
    TD_REQUIRE(slices < result.slices.size());
    const PulledSlice& slice = result.slices[slices++];
    const auto dim = static_cast<size_t>(keys.groups_[g].table->dim);
    TD_REQUIRE(static_cast<size_t>(slice.numel) == (end - begin) * dim);
    Rows& rows = groups_[g];
    rows.values = BytesOf(slice);
    rows.begin = begin;
    rows.bytes = dim * sizeof(float);
    rows.head[0] = '$';
    char* const text = std::to_chars(rows.head + 1, std::end(rows.head) - 2, rows.bytes).ptr;
    text[0] = '\r';
    text[1] = '\n';
    rows.head_bytes = static_cast<size_t>(text + 2 - rows.head);
  }
  TD_REQUIRE(slices == result.slices.size());
}

void RespValues::Append(size_t first, size_t count, RespOutput& out) const {
  TD_REQUIRE(first >= first_ && first + count <= first_ + count_);
  for (size_t i = first; i < first + count; ++i) {
    const RespKeys::Place place = keys_.places_[i];
    if (place.group == RespKeys::kDense) {
      AppendVariable(place.at, out);
      continue;
    }
    const Rows& rows = groups_[place.group];
    char* const to = out.Extend(rows.head_bytes + rows.bytes + 2);
    std::memcpy(to, rows.head, rows.head_bytes);
    std::memcpy(to + rows.head_bytes, rows.values + (place.at - rows.begin) * rows.bytes,
                rows.bytes);
    to[rows.head_bytes + rows.bytes] = '\r';
    to[rows.head_bytes + rows.bytes + 1] = '\n';
  }
}

void RespValues::AppendVariable(size_t at, RespOutput& out) const {
  const RespCatalog::Variable& variable = *keys_.variables_[at];
  out.BulkHead(static_cast<size_t>(variable.numel) * sizeof(float));
  for (size_t i = 0; i < variable.ranges.size(); ++i) {
    const PulledSlice& slice = result_.slices[slices_[at - first_variable_] + i];
    TD_REQUIRE(slice.numel == variable.ranges[i].numel);
    out.Append({BytesOf(slice), static_cast<size_t>(slice.numel) * sizeof(float)});
  }
  out.Append("\r\n");
}

}  // namespace tandem::pserver
