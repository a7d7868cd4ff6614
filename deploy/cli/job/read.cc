// Implements the command read, which prints rows and dense variables of a running job.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/reader_access.h"
#include "pserver/client/reader.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

// The rows that the user wants to read: the name of the table, and the ids of the rows.
struct RowQuery {
  std::string table;
  std::vector<int64_t> ids;
};

bool IsNumber(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number);
}

// Removes the table and the ids from the arguments, and returns them. The arguments are [LOG_DIR]
// TABLE ID...; the log directory, if there is one, stays. The first argument is the table if the
// second argument is a number.
StatusOr<RowQuery> TakeRows(ParsedArgs& args) {
  std::vector<std::string>& given = args.positional;
  const size_t table = given.size() > 1 && !IsNumber(given[1]) ? 1 : 0;
  if (given.size() < table + 2) {
    return InvalidArgument(
        "%s [TD1007]; hint: run tandem read [LOG_DIR] TABLE ID..., or tandem read [LOG_DIR] "
        "--dense",
        given.empty() ? "the name of a table and the ids of its rows are missing"
                      : "the ids of the rows of table " + given[table] + " are missing");
  }
  RowQuery query{.table = given[table], .ids = {}};
  for (size_t i = table + 1; i < given.size(); ++i) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(given[i], &id) || id < 0) {
      return InvalidArgument("id \"%s\" of table %s: expected a whole number of 0 or more [TD1004]",
                             given[i], query.table);
    }
    query.ids.push_back(id);
  }
  given.resize(table);
  return query;
}

// Connects to the pservers of the job, or to the replicas that the user named.
StatusOr<std::unique_ptr<ps::Reader>> Connect(const JobAccess& access, const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> servers, ReaderAddresses(access, args));
  StatusOr<std::unique_ptr<ps::Reader>> reader =
      ps::Reader::Connect(servers, ReaderOptionsOf(access));
  if (!reader.ok() && access.record) TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
  return reader;
}

// The distribution of the elements of a variable. Minimum, maximum and mean ignore elements that
// are not finite.
struct Summary {
  size_t elements = 0, not_finite = 0;
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  double sum = 0;

  explicit Summary(const std::vector<float>& values) : elements(values.size()) {
    for (const float v : values) {
      if (!std::isfinite(v)) {
        ++not_finite;
        continue;
      }
      min = std::min(min, v);
      max = std::max(max, v);
      sum += v;
    }
  }
  bool empty() const { return elements == not_finite; }
  double mean() const { return sum / static_cast<double>(elements - not_finite); }
};

std::string Text(const std::vector<float>& values, const char* separator) {
  return absl::StrJoin(values, separator,
                       [](std::string* out, float v) { out->append(FloatText(v)); });
}

std::string VersionsText(const std::vector<uint64_t>& versions) {
  return (versions.size() == 1 ? "version " : "versions ") + absl::StrJoin(versions, ", ");
}

Status ReadRows(ps::Reader& reader, const RowQuery& query, bool as_json) {
  TD_ASSIGN_OR_RETURN(const ps::Reader::Rows found, reader.ReadRows(query.table, query.ids));
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table = {{"ID", "VALUES"}};
  for (size_t i = 0; i < query.ids.size(); ++i) {
    const auto begin = found.values.begin() + static_cast<std::ptrdiff_t>(i) * found.dim;
    const std::vector<float> values(begin, begin + found.dim);
    if (as_json) {
      rows.push_back({{"id", query.ids[i]}, {"values", values}});
    } else {
      table.push_back({std::to_string(query.ids[i]), Text(values, " ")});
    }
  }
  if (as_json) {
    const Json whole = {
        {"table", query.table}, {"dim", found.dim}, {"versions", found.versions}, {"rows", rows}};
    std::puts(whole.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return OkStatus();
  }
  std::printf("table %s: %zu rows of %lld values, %s\n\n%s", query.table.c_str(), query.ids.size(),
              static_cast<long long>(found.dim), VersionsText(found.versions).c_str(),
              TableText(table).c_str());
  return OkStatus();
}

Status PrintVariable(const ps::Reader::Dense& dense, const std::string& name, bool as_json) {
  const auto found = dense.variables.find(name);
  if (found == dense.variables.end()) {
    std::vector<std::string> names;
    for (const auto& variable : dense.variables) names.push_back(variable.first);
    return NotFound("the pservers have no dense variable \"%s\" [TD4034]%s", name,
                    HintText(name, names));
  }
  if (as_json) {
    const Json whole = {{"name", name}, {"versions", dense.versions}, {"values", found->second}};
    std::puts(whole.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::puts(Text(found->second, "\n").c_str());
  }
  return OkStatus();
}

void PrintSummary(const ps::Reader::Dense& dense, bool as_json) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"VARIABLE", "ELEMENTS", "MIN", "MAX", "MEAN", "NOT FINITE"}};
  for (const auto& [name, values] : dense.variables) {
    const Summary of(values);
    Json row = {{"name", name}, {"elements", of.elements}, {"not_finite", of.not_finite}};
    if (!of.empty()) row.update(Json{{"min", of.min}, {"max", of.max}, {"mean", of.mean()}});
    all.push_back(std::move(row));
    const std::string mean = of.empty() ? "-" : absl::StrFormat("%.6g", of.mean());
    table.push_back({name, std::to_string(of.elements), of.empty() ? "-" : FloatText(of.min),
                     of.empty() ? "-" : FloatText(of.max), mean, std::to_string(of.not_finite)});
  }
  if (as_json) {
    const Json whole = {{"versions", dense.versions}, {"variables", all}};
    std::puts(whole.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  std::printf("%zu dense variables, %s\n\n%s", dense.variables.size(),
              VersionsText(dense.versions).c_str(), TableText(table).c_str());
}

Status Read(const ParsedArgs& given) {
  ParsedArgs args = given;
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  const bool dense = args.Has("dense");
  std::optional<RowQuery> query;
  if (!dense) {
    TD_ASSIGN_OR_RETURN(query, TakeRows(args));
  }
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindToRead(args));
  TD_ASSIGN_OR_RETURN(const std::unique_ptr<ps::Reader> reader, Connect(access, args));
  if (query) return ReadRows(*reader, *query, as_json);
  TD_ASSIGN_OR_RETURN(const ps::Reader::Dense found, reader->ReadDense());
  // The value of a flag without a value is "true" (ParsedArgs).
  if (args.Get("dense") != "true") return PrintVariable(found, args.Get("dense"), as_json);
  PrintSummary(found, as_json);
  return OkStatus();
}

}  // namespace

int RunRead(const Args& args) {
  return RunBody(
      "read",
      "tandem read [LOG_DIR] TABLE ID...: prints rows of a table.\ntandem read [LOG_DIR] --dense: "
      "prints a summary of the dense variables.\nLOG_DIR is the log directory of the job "
      "(--log_dir "
      "of tandemrun, by default log-JOB); without it\nthe only one in this directory is used. "
      "--pservers also accepts the addresses of read replicas,\none of each pserver. A row that "
      "has no gradient yet has its initial values.\n",
      AccessFlags({ReplicaFlag(),
                   {"dense", "", "[=NAME]",
                    "dense variables: elements, minimum, maximum and mean of each; with NAME all "
                    "values of one, a value in each line"}}),
      args, Read);
}

}  // namespace tandem::deploy
