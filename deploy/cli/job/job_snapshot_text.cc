// Prints a JobSnapshot as text.
#include "deploy/cli/job/job_snapshot_text.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "deploy/cli/console.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string CheckpointText(const ServerRow& row) {
  if (row.checkpoint_version == 0) return "none";
  return absl::StrFormat("%d (%d behind)", row.checkpoint_version,
                         row.version - std::min(row.version, row.checkpoint_version));
}

std::string ServersText(const JobSnapshot& now) {
  std::vector<std::vector<std::string>> rows = {
      {"PSERVER", "ADDRESS", "STATE", "VERSION", "CHECKPOINT", "PARAMETERS", "ROWS"}};
  for (const ServerRow& s : now.servers) {
    if (!s.status.ok()) {
      rows.push_back({std::to_string(s.index), s.address, s.state, "-", "-", "-", "-"});
      continue;
    }
    rows.push_back({std::to_string(s.index), s.address, s.state, std::to_string(s.version),
                    CheckpointText(s), std::to_string(s.elements), std::to_string(s.rows)});
  }
  return TableText(rows);
}

// Returns the table of the primaries and their standbys; "": no server has standbys.
std::string MembersText(const JobSnapshot& now) {
  std::vector<std::vector<std::string>> rows = {
      {"PSERVER", "MEMBER", "STATE", "LAG ENTRIES", "LAG BYTES", "LAG TIME", "SILENT"}};
  const auto seconds = [](double s) { return absl::StrFormat("%.1f s", s); };
  for (const ServerRow& server : now.servers) {
    if (server.term == 0) continue;
    const std::string index = std::to_string(server.index);
    rows.push_back({index, std::to_string(server.member),
                    absl::StrFormat("primary of term %d", server.term), "-", "-", "-", "-"});
    for (const StandbyRow& s : server.standbys) {
      rows.push_back({index, std::to_string(s.member), s.state,
                      s.current ? std::to_string(s.lag_entries) : "-",
                      s.current ? std::to_string(s.lag_bytes) : "-",
                      s.current ? seconds(s.lag_seconds) : "-",
                      s.connected ? seconds(s.silent_seconds) : "-"});
    }
  }
  return rows.size() == 1 ? "" : "\n" + TableText(rows);
}

// Returns the table of the replicas; "": tandemrun has started none.
std::string ReplicasText(const JobSnapshot& now) {
  if (now.replicas.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"PSERVER", "REPLICA", "ADDRESS", "REDIS", "STATE", "VERSION", "LAG ENTRIES", "LAG TIME"}};
  for (const ReplicaRow& r : now.replicas) {
    rows.push_back({std::to_string(r.server), std::to_string(r.number), r.address, OrDash(r.redis),
                    r.state, r.answers ? std::to_string(r.version) : "-",
                    r.answers ? std::to_string(r.lag_entries) : "-",
                    r.answers ? absl::StrFormat("%.1f s", r.lag_seconds) : "-"});
  }
  return "\n" + TableText(rows);
}

std::string TrainersText(const JobSnapshot& now) {
  std::vector<std::vector<std::string>> rows = {{"TRAINER", "STATE", "STEP", "PUSHES", "SILENT",
                                                 "SAMPLES/S", "DATA WAIT", "REMAINING",
                                                 "CHECKPOINT"}};
  for (const TrainerRow& t : now.trainers) {
    const std::string step = !t.step.empty() ? t.step
                             : t.on_servers  ? std::to_string(t.last_step)
                                             : "-";
    rows.push_back({std::to_string(t.rank), t.state, step,
                    t.on_servers ? std::to_string(t.pushes) : "-",
                    t.on_servers ? absl::StrFormat("%.1f s", t.silent_seconds) : "-",
                    OrDash(t.samples_per_second), OrDash(t.data_wait), OrDash(t.remaining),
                    OrDash(t.checkpoint)});
  }
  return TableText(rows);
}

std::string Rate(const JobSnapshot& now, const JobSnapshot* before) {
  if (before == nullptr || now.servers.empty() || now.at <= before->at) return "";
  const double updates =
      static_cast<double>(now.Version()) - static_cast<double>(before->Version());
  return absl::StrFormat(", %.1f updates/s", updates / Seconds(now.at - before->at));
}

}  // namespace

std::string StatusText(const JobSnapshot& now, const JobSnapshot* before) {
  std::string text = Paint(STDOUT_FILENO, Color::kBold, "job " + OrDash(now.job));
  if (now.asked == 0) {
    return text +
           ": the job has no pservers, and its trainers have no status pages\nhint: start the job "
           "with tandemrun --status_port=8000\n";
  }
  text += ": " + Counted(now.servers.size(), "pserver") + ", " +
          Counted(now.trainers.size(), "trainer");
  if (!now.servers.empty()) text += absl::StrFormat(", version %d", now.Version());
  text += Rate(now, before) + "\n";
  if (!now.servers.empty()) text += "\n" + ServersText(now) + MembersText(now) + ReplicasText(now);
  if (!now.trainers.empty()) text += "\n" + TrainersText(now);
  if (!now.slow.empty() || !now.problems.empty()) text += "\n";
  for (const std::string& slow : now.slow) {
    text += Paint(STDOUT_FILENO, Color::kYellow, "slow: " + slow) + "\n";
  }
  for (const std::string& problem : now.problems) {
    text += Paint(STDOUT_FILENO, Color::kRed, "problem: " + problem) + "\n";
  }
  return text;
}

std::string VariablesText(const JobSnapshot& now) {
  std::vector<std::vector<std::string>> rows = {
      {"VARIABLE", "KIND", "ELEMENTS", "ROWS", "EXTENDED", "MB", "PSERVERS"}};
  for (const auto& [name, v] : now.variables) {
    const double bytes = static_cast<double>(v.row_bytes) + 4.0 * static_cast<double>(v.elements);
    rows.push_back({name, v.table ? "table" : "dense", v.table ? "-" : std::to_string(v.elements),
                    v.table ? std::to_string(v.rows) : "-",
                    v.table ? std::to_string(v.rows_extended) : "-",
                    absl::StrFormat("%.2f", bytes / 1e6), absl::StrJoin(v.servers, ",")});
  }
  const bool tables = std::any_of(now.variables.begin(), now.variables.end(),
                                  [](const auto& row) { return row.second.table; });
  return TableText(rows) + (tables ? "EXTENDED: rows with all values; with accessor=ctr other rows "
                                     "have only their first value\n"
                                   : "");
}

namespace {

Json ToJson(const StandbyRow& s) {
  Json row = {{"member", s.member}, {"state", s.state}};
  if (s.connected) row["silent_seconds"] = s.silent_seconds;
  if (!s.current) return row;
  row["lag_entries"] = s.lag_entries;
  row["lag_bytes"] = s.lag_bytes;
  row["lag_seconds"] = s.lag_seconds;
  return row;
}

Json ToJson(const ReplicaRow& r) {
  Json row = {{"pserver", r.server}, {"replica", r.number}, {"address", r.address}};
  if (!r.redis.empty()) row["redis"] = r.redis;
  row["state"] = r.state;
  if (!r.answers) return row;
  row["version"] = r.version;
  row["lag_entries"] = r.lag_entries;
  row["lag_seconds"] = r.lag_seconds;
  return row;
}

// Adds the members of a server with standbys.
void AddMembers(const ServerRow& server, Json* row) {
  if (server.term == 0) return;
  (*row)["member"] = server.member;
  (*row)["term"] = server.term;
  (*row)["standbys"] = Json::array();
  for (const StandbyRow& s : server.standbys) (*row)["standbys"].push_back(ToJson(s));
}

}  // namespace

std::string StatusJson(const JobSnapshot& now) {
  Json servers = Json::array(), trainers = Json::array();
  for (const ServerRow& s : now.servers) {
    servers.push_back({{"index", s.index},
                       {"address", s.address},
                       {"answers", s.status.ok()},
                       {"state", s.state},
                       {"version", s.version},
                       {"checkpoint_version", s.checkpoint_version},
                       {"slices", s.slices},
                       {"parameters", s.elements},
                       {"rows", s.rows},
                       {"rows_extended", s.rows_extended},
                       {"row_bytes", s.row_bytes}});
    AddMembers(s, &servers.back());
  }
  for (const TrainerRow& t : now.trainers) {
    Json row = {{"rank", t.rank}, {"state", t.state}};
    if (t.on_servers) {
      row["last_step"] = t.last_step;
      row["pushes"] = t.pushes;
      row["silent_seconds"] = t.silent_seconds;
      row["waited_seconds"] = t.waited_seconds;
    }
    const std::pair<const char*, const std::string*> of_page[] = {
        {"step", &t.step},
        {"samples_per_second", &t.samples_per_second},
        {"data_wait", &t.data_wait},
        {"remaining", &t.remaining},
        {"checkpoint", &t.checkpoint}};
    for (const auto& [name, value] : of_page) {
      if (!value->empty()) row[name] = *value;
    }
    trainers.push_back(std::move(row));
  }
  Json replicas = Json::array();
  for (const ReplicaRow& r : now.replicas) replicas.push_back(ToJson(r));
  const Json whole = {{"job", now.job},          {"version", now.Version()}, {"servers", servers},
                      {"replicas", replicas},    {"trainers", trainers},     {"slow", now.slow},
                      {"problems", now.problems}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string VariablesJson(const JobSnapshot& now) {
  Json all = Json::array();
  for (const auto& [name, v] : now.variables) {
    Json row = {{"name", name}, {"kind", v.table ? "table" : "dense"}, {"pservers", v.servers}};
    if (v.table) {
      row["rows"] = v.rows;
      row["rows_extended"] = v.rows_extended;
      row["row_bytes"] = v.row_bytes;
    } else {
      row["elements"] = v.elements;
    }
    all.push_back(std::move(row));
  }
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem::deploy
