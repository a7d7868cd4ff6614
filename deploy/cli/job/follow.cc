// Implements the command follow, which prints the changes of a table while a job trains it.
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
#include "common/os/files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/reader_access.h"
#include "pserver/client/follow/table_follower.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kTokenBytesMax = 64 << 20;
constexpr Duration kWait = std::chrono::seconds(1);
// Time for which a server may be silent, unless the user sets another one.
constexpr Duration kPatience = std::chrono::seconds(60);
// A record of --output=binary begins with these bytes.
constexpr char kMagic[8] = {'T', 'D', 'C', 'H', 'G', '0', '0', '1'};

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

enum class Format : uint8_t { kText, kJson, kBinary };

StatusOr<Format> FormatOf(const ParsedArgs& args) {
  const std::string name = args.Get("output", "text");
  if (name == "text") return Format::kText;
  if (name == "json" || name == "jsonl") return Format::kJson;
  if (name == "binary") return Format::kBinary;
  return InvalidArgument("--output=%s: expected text, json or binary [TD1006]%s", name,
                         HintText(name, {"text", "json", "binary"}));
}

Status Print(const ps::TableChange& change, const std::string& token, Format format) {
  const std::string bytes = format == Format::kText   ? TextOf(change)
                            : format == Format::kJson ? JsonOf(change, token)
                                                      : BinaryOf(change, token);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() ||
      std::fflush(stdout) != 0) {
    return FileError("the standard output", "cannot be written", errno);
  }
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

Status Follow(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const Format format, FormatOf(args));
  ps::FollowOptions follow;
  follow.table = args.Get("table");
  if (follow.table.empty()) {
    return InvalidArgument(
        "the name of the table is missing [TD1007]; hint: run tandem follow [LOG_DIR] "
        "--table=NAME; tandem vars lists the tables");
  }
  TD_ASSIGN_OR_RETURN(follow.token, TokenOf(args));
  const std::string token_file = args.Get("token_file");
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  ps::ReaderOptions options = ReaderOptionsOf(access);
  if (!args.Has("timeout_s")) options.timeout = kPatience;
  auto follower = ps::TableFollower::Connect(ReaderAddresses(access), options, follow);
  if (!follower.ok()) {
    if (access.record) TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
    return follower.status();
  }
  const bool until_current = args.Has("until_current");
  bool told = false;
  while (true) {
    auto next = (*follower)->Next(kWait);
    if (!next.ok()) {
      if (access.record) TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
      return next.status();
    }
    if (!*next) {
      // The follower would wait for the servers of a job that has ended.
      if (access.record) TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
      continue;
    }
    const ps::TableChange& change = **next;
    const std::string token = (*follower)->token();
    TD_RETURN_IF_ERROR(Print(change, token, format));
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
       {"token", "", "TOKEN", "continue after the record that has this token (--output=json)"},
       {"token_file", "", "FILE",
        "continue at the position in this file, if it exists, and write the new position to it "
        "after each change; for an output that is a file"},
       {"until_current", "", "", "end as soon as all rows are printed"}});
  flags.back() = {"output", "o", "FORMAT",
                  "text (default), json (an object in each line) or binary"};
  return RunBody(
      "follow",
      "tandem follow [LOG_DIR] --table=NAME: prints all rows of a table, then each change while "
      "the job\ntrains it. LOG_DIR is the log directory of the job (--log_dir of tandemrun, by "
      "default log-JOB);\nwithout it the only one in this directory is used. --pservers also "
      "accepts the addresses of read\nreplicas, one of each pserver. The pservers need "
      "--durability=logged.\n",
      flags, args, Follow);
}

}  // namespace tandem::deploy
