// Implements the command follow, which prints the changes of a table or of dense variables while a
// job trains them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/os/files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/reader_access.h"
#include "pserver/client/follow/table_follower.h"
#include "pserver/client/follow/variable_follower.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kTokenBytesMax = 64 << 20;
constexpr Duration kWait = std::chrono::seconds(1);
// Time for which a server may be silent, unless the user sets another one.
constexpr Duration kPatience = std::chrono::seconds(60);
// A record of --output=binary begins with these bytes.
constexpr char kMagic[8] = {'T', 'D', 'C', 'H', 'G', '0', '0', '1'};
constexpr char kVariablesMagic[8] = {'T', 'D', 'V', 'A', 'R', '0', '0', '1'};

std::string TextOf(const ps::TableChange& change) {
  std::string text;
  if (!change.replaced.empty()) {
    absl::StrAppendFormat(&text, "version %d: all rows of %d row buckets\n", change.version,
                          change.replaced.size());
  }
  const float* value = change.values.data();
  for (const uint64_t id : change.ids) {
    absl::StrAppendFormat(&text, "version %d: row %d:", change.version, id);
    for (int64_t i = 0; i < change.dim; ++i) text += " " + FloatText(*value++);
    text += "\n";
  }
  for (const uint64_t id : change.removed) {
    absl::StrAppendFormat(&text, "version %d: row %d: removed\n", change.version, id);
  }
  return text;
}

std::string JsonOf(const ps::TableChange& change, const std::string& token) {
  Json rows = Json::array();
  for (size_t i = 0; i < change.ids.size(); ++i) {
    const auto begin = change.values.begin() + static_cast<ptrdiff_t>(i) * change.dim;
    rows.push_back(
        {{"id", change.ids[i]}, {"values", std::vector<float>(begin, begin + change.dim)}});
  }
  const Json line = {{"server", change.server},           {"version", change.version},
                     {"replaced", change.replaced},       {"rows", std::move(rows)},
                     {"removed", change.removed},         {"current", change.current},
                     {"token", absl::Base64Escape(token)}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns the change as a record (docs/internals/change-stream.md), little-endian.
std::string BinaryOf(const ps::TableChange& change, const std::string& token) {
  std::string bytes(kMagic, sizeof(kMagic));
  const auto add = [&bytes](const auto* values, size_t n) {
    bytes.append(reinterpret_cast<const char*>(values), n * sizeof(*values));
  };
  const uint64_t counts[] = {change.version,           change.server,
                             change.current ? 1u : 0u, static_cast<uint64_t>(change.dim),
                             change.replaced.size(),   change.ids.size(),
                             change.removed.size(),    token.size()};
  add(counts, std::size(counts));
  const std::vector<uint64_t> replaced(change.replaced.begin(), change.replaced.end());
  add(replaced.data(), replaced.size());
  add(change.ids.data(), change.ids.size());
  add(change.removed.data(), change.removed.size());
  add(change.values.data(), change.values.size());
  return bytes + token;
}

std::string TextOf(const ps::VariableChange& change, const ps::VariableFollower& follower) {
  std::string text;
  for (const std::string& name : change.changed) {
    const std::vector<float>& values = follower.variables().at(name);
    const auto [least, most] = std::ranges::minmax(values);
    absl::StrAppendFormat(&text, "versions %s: variable %s: %d elements, minimum %s, maximum %s\n",
                          absl::StrJoin(change.versions, ","), name, values.size(),
                          FloatText(least), FloatText(most));
  }
  return text;
}

std::string JsonOf(const ps::VariableChange& change, const ps::VariableFollower& follower) {
  Json values = Json::object();
  for (const std::string& name : change.changed) values[name] = follower.variables().at(name);
  const Json line = {{"versions", change.versions}, {"variables", std::move(values)}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns the change as a record (docs/internals/change-stream.md), little-endian.
std::string BinaryOf(const ps::VariableChange& change, const ps::VariableFollower& follower) {
  std::string bytes(kVariablesMagic, sizeof(kVariablesMagic));
  const auto add = [&bytes](const auto* values, size_t n) {
    bytes.append(reinterpret_cast<const char*>(values), n * sizeof(*values));
  };
  const uint64_t counts[] = {change.versions.size(), change.changed.size()};
  add(counts, std::size(counts));
  add(change.versions.data(), change.versions.size());
  for (const std::string& name : change.changed) {
    const std::vector<float>& values = follower.variables().at(name);
    const uint64_t sizes[] = {name.size(), values.size()};
    add(sizes, std::size(sizes));
    bytes += name;
    add(values.data(), values.size());
  }
  return bytes;
}

enum class Format : uint8_t { kText, kJson, kBinary };

StatusOr<Format> FormatOf(const ParsedArgs& args) {
  const std::string name = args.Get("output", "text");
  if (name == "text") return Format::kText;
  if (name == "json" || name == "jsonl") return Format::kJson;
  if (name == "binary") return Format::kBinary;
  return InvalidArgument("--output=%s: expected text, json or binary [TD1006]%s", name,
                         HintText(name, {"text", "json", "binary"}));
}

Status Print(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() ||
      std::fflush(stdout) != 0) {
    return FileError("the standard output", "cannot be written", errno);
  }
  return OkStatus();
}

// Sets the filters and the format of the values.
Status SetFilters(const ParsedArgs& args, ps::FollowOptions& follow) {
  if (args.Has("buckets")) {
    const std::vector<std::string> parts = absl::StrSplit(args.Get("buckets"), ':');
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &follow.bucket_begin) ||
        !absl::SimpleAtoi(parts[1], &follow.bucket_end)) {
      return InvalidArgument("--buckets=%s: expected BEGIN:END, such as 0:512 [TD1004]",
                             args.Get("buckets"));
    }
  }
  if (args.Has("min_score")) {
    float score = 0;
    if (!absl::SimpleAtof(args.Get("min_score"), &score)) {
      return InvalidArgument("--min_score=%s: expected a number [TD1004]", args.Get("min_score"));
    }
    follow.score_min = score;
  }
  const auto format = codec::ParseRowFormat(args.Get("values", "f32"));
  if (!format.ok()) return Annotate(format.status(), "--values");
  follow.format = *format;
  return OkStatus();
}

// Returns the position at which the follower begins; "": none.
StatusOr<std::string> TokenOf(const ParsedArgs& args) {
  const std::string file = args.Get("token_file"), text = args.Get("token");
  if (!file.empty() && !text.empty()) {
    return InvalidArgument("--token and --token_file exclude each other [TD1005]");
  }
  std::string token;
  if (!text.empty() && !absl::Base64Unescape(text, &token)) {
    return InvalidArgument("--token is not the \"token\" of a record [TD4037]");
  }
  if (file.empty() || !std::filesystem::exists(file)) return token;
  return ReadSmallFile(file, kTokenBytesMax);
}

// The servers, and how they are read.
struct Source {
  JobAccess access;
  std::vector<std::string> servers;
  ps::ReaderOptions options;

  // Returns `status`, or an error that says that the job has ended. A follower would wait for the
  // servers of such a job.
  Status Explain(const Status& status) const {
    if (access.record) TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
    return status;
  }
};

StatusOr<Source> SourceOf(const ParsedArgs& args) {
  Source source;
  TD_ASSIGN_OR_RETURN(source.access, FindToRead(args));
  TD_ASSIGN_OR_RETURN(source.servers, ReaderAddresses(source.access, args));
  source.options = ReaderOptionsOf(source.access);
  if (!args.Has("timeout_s")) source.options.timeout = kPatience;
  return source;
}

Status FollowVariables(const ParsedArgs& args, Format format) {
  for (const char* flag : {"table", "token", "token_file", "buckets", "min_score", "values"}) {
    if (!args.Has(flag)) continue;
    return InvalidArgument("--%s and --variables exclude each other [TD1005]", flag);
  }
  ps::VariableFollowOptions follow;
  // The value of a flag without a value is "true" (ParsedArgs).
  if (const std::string names = args.Get("variables"); names != "true") {
    follow.variables = absl::StrSplit(names, ',', absl::SkipEmpty());
  }
  TD_ASSIGN_OR_RETURN(const int every, args.GetInt("every", 1, 1, 1 << 30));
  follow.every = static_cast<uint64_t>(every);
  TD_ASSIGN_OR_RETURN(const Source source, SourceOf(args));
  auto follower = ps::VariableFollower::Connect(source.servers, source.options, follow);
  if (!follower.ok()) return source.Explain(follower.status());
  while (true) {
    auto next = (*follower)->Next(kWait);
    if (!next.ok() || !*next) {
      TD_RETURN_IF_ERROR(source.Explain(next.status()));
      continue;
    }
    TD_RETURN_IF_ERROR(Print(format == Format::kText   ? TextOf(**next, **follower)
                             : format == Format::kJson ? JsonOf(**next, **follower)
                                                       : BinaryOf(**next, **follower)));
    if (args.Has("until_current")) return OkStatus();
  }
}

Status Follow(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const Format format, FormatOf(args));
  if (args.Has("variables")) return FollowVariables(args, format);
  if (args.Has("every")) {
    return InvalidArgument("--every has no effect without --variables [TD1005]");
  }
  ps::FollowOptions follow;
  follow.table = args.Get("table");
  if (follow.table.empty()) {
    return InvalidArgument(
        "the name of the table is missing [TD1007]; hint: run tandem follow [LOG_DIR] "
        "--table=NAME or --variables; tandem vars lists the tables and variables");
  }
  TD_ASSIGN_OR_RETURN(follow.token, TokenOf(args));
  TD_RETURN_IF_ERROR(SetFilters(args, follow));
  const std::string token_file = args.Get("token_file");
  TD_ASSIGN_OR_RETURN(const Source source, SourceOf(args));
  auto follower = ps::TableFollower::Connect(source.servers, source.options, follow);
  if (!follower.ok()) return source.Explain(follower.status());
  const bool until_current = args.Has("until_current");
  bool told = false;
  while (true) {
    auto next = (*follower)->Next(kWait);
    if (!next.ok() || !*next) {
      TD_RETURN_IF_ERROR(source.Explain(next.status()));
      continue;
    }
    const ps::TableChange& change = **next;
    const std::string token = (*follower)->token();
    TD_RETURN_IF_ERROR(Print(format == Format::kText   ? TextOf(change)
                             : format == Format::kJson ? JsonOf(change, token)
                                                       : BinaryOf(change, token)));
    if (!token_file.empty()) {
      TD_RETURN_IF_ERROR(PublishFiles(
          {{token_file, [&](const std::string& path) { return WriteTextFile(path, token); }}}));
    }
    if (change.current && until_current) return OkStatus();
    if (change.current && !told) {
      std::fprintf(stderr, "follow: all rows of table %s are printed; changes follow\n",
                   follow.table.c_str());
      told = true;
    }
  }
}

}  // namespace

int RunFollow(const Args& args) {
  std::vector<FlagSpec> flags = AccessFlags(
      {{"table", "", "NAME", "name of the table"},
       {"variables", "", "[=LIST]",
        "follow dense variables instead of a table: NAME,NAME; without names all"},
       {"every", "", "K",
        "with --variables: updates of a server from one of its changes to the next (default 1)"},
       ReplicaFlag(),
       {"buckets", "", "B:E", "only rows of the row buckets B to E - 1 of 1024"},
       {"min_score", "", "X",
        "only rows whose score, by the show and click counts of the table's rules, is at least X"},
       {"values", "", "TYPE",
        "how the values of rows travel: f32 (default), bf16 or int8, which are less exact"},
       {"token", "", "TOKEN", "continue after the record that has this token (--output=json)"},
       {"token_file", "", "FILE",
        "continue at the position in this file, if it exists, and write the new position to it "
        "after each change; for an output that is a file"},
       {"until_current", "", "", "end as soon as all rows or variables are printed"}});
  flags.back() = {"output", "o", "FORMAT",
                  "text (default), json (an object in each line) or binary"};
  return RunBody(
      "follow",
      "tandem follow [LOG_DIR] --table=NAME: prints all rows of a table, then each change while "
      "the job\ntrains it.\ntandem follow [LOG_DIR] --variables: prints the dense variables, then "
      "their new versions.\nLOG_DIR is the log directory of the job (--log_dir of tandemrun, by "
      "default log-JOB);\nwithout it the only one in this directory is used. --pservers also "
      "accepts the addresses of read\nreplicas, one of each pserver. A table needs pservers "
      "with\n--durability=logged.\n",
      flags, args, Follow);
}

}  // namespace tandem::deploy
