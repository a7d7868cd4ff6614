#include "deploy/cli/demo/demo_report.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "deploy/cli/console.h"

namespace tandem::deploy {

StatusOr<DemoRun> ReadDemoRun(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("the trainer wrote no result file %s", path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto is_number = [&json](const char* key) {
    return json.contains(key) && json[key].is_number();
  };
  if (!json.is_object() || !is_number("accuracy") || !is_number("images_per_s") ||
      !is_number("seconds") || !is_number("steps") || !json.contains("params_sha256") ||
      !json["params_sha256"].is_string()) {
    return DataLoss(
        "%s is not a JSON object with accuracy, images_per_s, seconds, steps and params_sha256",
        path);
  }
  return DemoRun{.accuracy = json["accuracy"],
                 .images_per_s = json["images_per_s"],
                 .seconds = json["seconds"],
                 .steps = json["steps"],
                 .params_sha256 = json["params_sha256"]};
}

int64_t DemoResult::Lost() const {
  if (!kill) return 0;
  return std::max(updates.lost, kill->version_before - kill->version_back);
}

std::string DemoText(const DemoResult& result, int color_fd) {
  const auto row = [](const char* what, const std::string& left, const std::string& right) {
    std::string line = absl::StrFormat("  %-22s %-20s %s", what, left, right);
    return line.erase(line.find_last_not_of(' ') + 1) + "\n";
  };
  const DemoRun& p = result.pserver;
  const DemoRun& c = result.collective;
  std::string text = "\n" + row("", "pserver (sync)", "collective (ring)");
  text += row("test accuracy", absl::StrFormat("%.2f %%", 100 * p.accuracy),
              absl::StrFormat("%.2f %%", 100 * c.accuracy));
  text += row("images/s", absl::StrFormat("%.0f", p.images_per_s),
              absl::StrFormat("%.0f", c.images_per_s));
  text += row("seconds", absl::StrFormat("%.1f", p.seconds), absl::StrFormat("%.1f", c.seconds));
  text += row("parameters (SHA-256)", p.params_sha256.substr(0, 16) + "...",
              c.params_sha256.substr(0, 16) + "...");
  if (result.kill) {
    const KillReport& kill = *result.kill;
    text += row("killed (kill -9)", absl::StrFormat("pserver %d", kill.server), "none");
    text += row("  version, recovery",
                absl::StrFormat("%d, %.1f s", kill.version_before, kill.back_s), "");
    text += row("  updates lost", absl::StrFormat("%d of %d", result.Lost(), p.steps), "");
    const UpdateCount& u = result.updates;
    text += row("  applied twice",
                absl::StrFormat("%d (%d were sent twice)", u.doubled, u.repeated), "");
  }
  text += result.SameBits() ? Paint(color_fd, Color::kGreen, "same parameters, bit for bit: yes\n")
                            : Paint(color_fd, Color::kRed, "same parameters, bit for bit: NO\n");
  if (result.kill) {
    text += "same result as without the kill: ";
    text += result.SameBits() ? Paint(color_fd, Color::kGreen, "yes")
                              : Paint(color_fd, Color::kRed, "NO");
    text += " (sha256 " + p.params_sha256.substr(0, 16) + "...)\n";
  }
  return text + absl::StrFormat("done in %.1f s\n", result.seconds);
}

std::string DemoJson(const DemoResult& result) {
  nlohmann::ordered_json json = {
      {"accuracy_pserver", result.pserver.accuracy},
      {"accuracy_collective", result.collective.accuracy},
      {"same_bits", result.SameBits()},
      {"images_per_s",
       {{"pserver", result.pserver.images_per_s}, {"collective", result.collective.images_per_s}}},
      {"seconds", result.seconds},
      {"params_sha256",
       {{"pserver", result.pserver.params_sha256},
        {"collective", result.collective.params_sha256}}},
      {"kill", nullptr}};
  if (result.kill) {
    json["kill"] = {{"pserver", result.kill->server},
                    {"version", result.kill->version_before},
                    {"back_seconds", result.kill->back_s},
                    {"updates", result.updates.wanted},
                    {"lost", result.Lost()},
                    {"doubled", result.updates.doubled},
                    {"repeated", result.updates.repeated}};
  }
  return json.dump() + "\n";
}

}  // namespace tandem::deploy
