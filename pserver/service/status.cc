#include "pserver/service/status.h"

#include "absl/strings/str_format.h"

namespace tandem::pserver {
namespace {

http::StatusTable Trainers(const ShardInfo& info) {
  http::StatusTable table{
      "trainers",
      {"trainer", "state", "pushes", "skipped", "last step", "waited for others", "silent for"},
      {}};
  for (const TrainerInfo& t : info.trainers) {
    const char* state = t.completed ? "completed"
                        : t.lost    ? "lost"
                        : t.seen    ? "at work"
                                    : "not connected yet";
    table.rows.push_back({std::to_string(t.trainer), state, std::to_string(t.pushes),
                          std::to_string(t.skipped), std::to_string(t.last_step),
                          absl::StrFormat("%.1f s", t.waited_seconds),
                          t.seen ? absl::StrFormat("%.1f s", t.silent_seconds) : "-"});
  }
  return table;
}

// Returns text about the trainer that waited least. In sync mode, all other trainers wait for this
// trainer.
std::string Slowest(const ShardInfo& info) {
  std::vector<std::pair<int, double>> waited;
  for (const TrainerInfo& t : info.trainers) {
    if (t.seen && !t.completed && !t.lost) waited.emplace_back(t.trainer, t.waited_recently);
  }
  return http::SlowestText("trainer", waited, "in the last minute");
}

http::StatusTable Slices(const ShardInfo& info) {
  http::StatusTable table{"slices", {"variable", "shape", "first element", "elements"}, {}};
  for (const SliceSpec& s : info.config.slices) {
    table.rows.push_back(
        {s.variable, ToString(s.shape), std::to_string(s.offset), std::to_string(s.numel)});
  }
  return table;
}

http::StatusTable Tables(const ShardInfo& info) {
  http::StatusTable table{"tables",
                          {"variable", "shape", "rules", "rows", "extended", "MB", "outside memory",
                           "came back", "waiting", "dropped", "removed"},
                          {}};
  for (size_t i = 0; i < info.tables.size(); ++i) {
    const TableSpec& spec = info.config.tables[i];
    const TableInfo& t = info.tables[i];
    table.rows.push_back(
        {t.variable, ToString(spec.shape), ToString(spec.rules), std::to_string(t.rows),
         std::to_string(t.extended), absl::StrFormat("%.1f", static_cast<double>(t.bytes) / 1e6),
         std::to_string(t.cold_rows), absl::StrFormat("%d in %.1f s", t.fetched, t.read_seconds),
         std::to_string(t.waiting), std::to_string(t.dropped), std::to_string(t.removed)});
  }
  return table;
}

}  // namespace

http::StatusDocument StatusOf(const ShardInfo& info, int index, const Status& storage) {
  http::StatusDocument document;
  document.ready = info.initialised && storage.ok();
  const auto say_storage = [&] {
    if (!storage.ok()) document.facts.emplace_back("storage", ToString(storage));
  };
  if (!info.configured) {
    document.title = absl::StrFormat("tandem-pserver %d", index);
    document.facts = {{"state", "waiting for the first trainer"}};
    say_storage();
    return document;
  }
  document.title = absl::StrFormat("tandem-pserver %d of job %s", index, info.config.job);
  int64_t elements = 0;
  for (const SliceSpec& s : info.config.slices) elements += s.numel;
  document.facts = {
      {"state", info.initialised ? "serving" : "waiting for the initial parameters"},
      {"mode", Name(info.config.mode)},
      {"optimizer", info.config.optimizer.type},
      {"version", std::to_string(info.version)},
      {"trainers", std::to_string(info.config.trainers)},
      {"slices", std::to_string(info.config.slices.size())},
      {"parameters", std::to_string(elements)},
  };
  say_storage();
  if (info.config.mode == UpdatePolicy::kSync && info.config.trainers > 1) {
    document.facts.emplace_back("slowest", Slowest(info));
  }
  document.tables = {Trainers(info), Slices(info)};
  if (!info.tables.empty()) document.tables.push_back(Tables(info));
  return document;
}

}  // namespace tandem::pserver
