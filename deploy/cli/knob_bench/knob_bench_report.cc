#include "deploy/cli/knob_bench/knob_bench_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/require.h"
#include "common/os/cpu_model.h"
#include "deploy/cli/console.h"

namespace tandem::deploy {
namespace {

const char* LaunchText(BenchLaunch launch) {
  switch (launch) {
    case BenchLaunch::kLocal:
      return "local";
    case BenchLaunch::kTwoRanks:
      return "collective, 2 ranks";
    case BenchLaunch::kFourRanks:
      return "collective, 4 ranks";
    case BenchLaunch::kPserver:
      return "2 pservers, 2 trainers";
  }
  return "";
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Least(const std::vector<double>& v) {
  return v.empty() ? 0 : *std::min_element(v.begin(), v.end());
}
double Most(const std::vector<double>& v) {
  return v.empty() ? 0 : *std::max_element(v.begin(), v.end());
}

// Returns a number as text, such as "1234567" or "12.5". A whole number has no fraction.
std::string Number(double v) {
  return v == std::floor(v) ? absl::StrFormat("%.0f", v) : absl::StrFormat("%.3g", v);
}

std::string LossText(const KnobResult& r) {
  const double difference = r.LossDifference();
  if (r.SameLosses()) return "same bits";
  if (r.row->tolerance < 0) return absl::StrFormat("not comparable (%.2g)", difference);
  if (difference > r.row->tolerance || r.row->tolerance == kSameBits) {
    return absl::StrFormat("differ (%.2g)", difference);
  }
  return absl::StrFormat("within %.2g (%.2g)", r.row->tolerance, difference);
}

// Returns the cells of a row for the text table and the page.
std::vector<std::string> Cells(const KnobResult& r) {
  std::string change = r.default_value + " -> " + r.row->changed;
  for (const char* setting : r.row->also) change += std::string(", ") + setting;
  if (!r.status.ok()) return {r.row->knob, r.network, change, "failed", "", "", ""};
  const std::string counter = r.row->counter;
  std::string moved = "-";
  if (!counter.empty()) {
    moved = counter + " " + Number(r.at_default.Count(counter));
    moved += r.CounterMoved() ? " -> " + Number(r.changed.Count(counter)) : " (did not change)";
  }
  constexpr double kMega = 1e6;
  return {r.row->knob,
          r.network,
          change,
          moved,
          absl::StrFormat("%.2f (%.2f-%.2f)", Median(r.ratios), Least(r.ratios), Most(r.ratios)),
          absl::StrFormat("%.1f -> %.1f", r.at_default.peak_bytes / kMega,
                          r.changed.peak_bytes / kMega),
          LossText(r)};
}

const std::vector<std::string>& Titles() {
  static const std::vector<std::string> kTitles = {"KNOB", "NETWORK", "CHANGE", "COUNTER",
                                                   "TIME", "PEAK MB", "LOSSES"};
  return kTitles;
}

nlohmann::ordered_json Pair(double at_default, double changed) {
  return {{"default", at_default}, {"changed", changed}};
}

nlohmann::ordered_json RowJson(const KnobResult& r) {
  nlohmann::ordered_json json = {
      {"knob", r.row->knob},       {"network", r.network},  {"launch", LaunchText(r.row->launch)},
      {"with", r.row->with},       {"also", r.row->also},   {"default", r.default_value},
      {"changed", r.row->changed}, {"problem", r.Problem()}};
  if (!r.status.ok()) return json;
  const std::string counter = r.row->counter;
  if (!counter.empty()) {
    json["counter"] = Pair(r.at_default.Count(counter), r.changed.Count(counter));
    json["counter"]["name"] = counter;
  }
  json["time_ratio"] = {
      {"median", Median(r.ratios)}, {"min", Least(r.ratios)}, {"max", Most(r.ratios)}};
  json["step_seconds"] = Pair(r.at_default.step_seconds, r.changed.step_seconds);
  json["peak_bytes"] = Pair(r.at_default.peak_bytes, r.changed.peak_bytes);
  json["losses"] = {
      {"same_bits", r.SameLosses()}, {"difference", r.LossDifference()}, {"tolerance", nullptr}};
  if (r.row->tolerance >= 0) json["losses"]["tolerance"] = r.row->tolerance;
  return json;
}

// Returns `text` escaped for a cell of a Markdown table.
std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"->", "→"}});
}

// The text that explains the columns of the page.
constexpr char kLegend[] =
    R"(Written by `tandem bench knobs --markdown=FILE`. Each knob's job is run at the default and
with the changed value in turns. Time: a step with the changed value to one at the default, median
and range over the rounds; below 1 the change is faster. Peak: largest resident memory of trainer 0.
Losses, of trainer 0: the same bits at every step, or within the tolerance over the first 30 steps,
relative to the largest loss (in brackets: what it was); not comparable where the knob changes the
method, or whose loss it is.

| Knob | Job | Change | Counter | Time | Peak MB | Losses |
|--|--|--|--|--|--|--|
)";

std::string ProblemList(const std::vector<KnobResult>& results) {
  std::string text;
  for (const KnobResult& r : results) {
    const std::string problem = r.Problem();
    if (!problem.empty()) text += absl::StrFormat("- `%s`: %s\n", r.row->knob, problem);
  }
  return text.empty() ? "Problems: none.\n" : "Problems:\n\n" + text;
}

}  // namespace

std::string DescribeMachine() {
  std::ifstream memory("/proc/meminfo");
  std::string name;
  double kib = 0;
  memory >> name >> kib;
  return absl::StrFormat("%d cores, %s, %.0f GB of memory", std::thread::hardware_concurrency(),
                         CpuModel(), kib * 1024 / 1e9);
}

std::string KnobBenchText(const KnobReport& report, int color_fd) {
  std::vector<std::vector<std::string>> rows = {Titles()};
  for (const KnobResult& r : report.results) rows.push_back(Cells(r));
  std::vector<size_t> widths(Titles().size());
  for (const auto& row : rows) {
    TD_REQUIRE(row.size() == widths.size());
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const KnobResult& r : report.results) {
    const std::string problem = r.Problem();
    if (problem.empty()) continue;
    text += Paint(color_fd, Color::kRed, absl::StrFormat("%s: %s\n", r.row->knob, problem));
  }
  return text + "TIME: a step with the changed value to one at the default, median (range)\n";
}

std::string KnobBenchJson(const KnobReport& report) {
  nlohmann::ordered_json json = {{"date", report.date},
                                 {"machine", report.machine},
                                 {"version", report.version},
                                 {"commit", report.commit},
                                 {"rounds", report.rounds}};
  json["knobs"] = nlohmann::json::array();
  for (const KnobResult& r : report.results) json["knobs"].push_back(RowJson(r));
  return json.dump() + "\n";
}

std::string KnobBenchMarkdown(const KnobReport& report) {
  std::string text = "# Knobs on CPU\n\n";
  text += absl::StrFormat("%s UTC, %s. tandem %s%s. Rounds: %d.\n\n", report.date, report.machine,
                          report.version, report.commit.empty() ? "" : ", commit " + report.commit,
                          report.rounds);
  text += kLegend;
  for (const KnobResult& r : report.results) {
    std::vector<std::string> cells = Cells(r);
    cells[0] = "`" + cells[0] + "`";
    cells[1] += std::string(", ") + LaunchText(r.row->launch);
    for (const char* setting : r.row->with) cells[1] += absl::StrFormat(", `%s`", setting);
    for (std::string& cell : cells) cell = Escaped(cell);
    text += "| " + absl::StrJoin(cells, " | ") + " |\n";
  }
  text += "\n" + ProblemList(report.results) + "\nNetworks:\n\n";
  for (const BenchNetwork& network : BenchNetworks()) {
    text += absl::StrFormat("- %s: %s, momentum\n", network.name, network.doc);
  }
  text += "\nNot measured:\n\n";
  for (const UnbenchedKnob& knob : UnbenchedKnobs()) {
    text += absl::StrFormat("- `%s`: %s\n", knob.knob, knob.why);
  }
  return text;
}

}  // namespace tandem::deploy
