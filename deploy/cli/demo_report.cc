#include "deploy/cli/demo_report.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "deploy/cli/console.h"

namespace tandem::deploy {

StatusOr<DemoRun> ReadDemoRun(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("the trainer wrote no %s", path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto is_number = [&json](const char* key) {
    return json.contains(key) && json[key].is_number();
  };
  if (!json.is_object() || !is_number("accuracy") || !is_number("images_per_s") ||
      !is_number("seconds") || !json.contains("params_sha256") ||
      !json["params_sha256"].is_string()) {
    return DataLoss(
        "%s: expected a JSON object with accuracy, images_per_s, seconds and "
        "params_sha256",
        path);
  }
  return DemoRun{json["accuracy"], json["images_per_s"], json["seconds"], json["params_sha256"]};
}

std::string DemoText(const DemoResult& result, int color_fd) {
  const auto row = [](const char* what, const std::string& left, const std::string& right) {
    return absl::StrFormat("  %-22s %-20s %s\n", what, left, right);
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
  text += result.SameBits() ? Paint(color_fd, Color::kGreen, "same parameters, bit for bit: yes\n")
                            : Paint(color_fd, Color::kRed, "same parameters, bit for bit: NO\n");
  return text + absl::StrFormat("done in %.1f s\n", result.seconds);
}

std::string DemoJson(const DemoResult& result) {
  const nlohmann::ordered_json json = {
      {"accuracy_pserver", result.pserver.accuracy},
      {"accuracy_collective", result.collective.accuracy},
      {"same_bits", result.SameBits()},
      {"images_per_s",
       {{"pserver", result.pserver.images_per_s}, {"collective", result.collective.images_per_s}}},
      {"seconds", result.seconds},
      {"params_sha256",
       {{"pserver", result.pserver.params_sha256},
        {"collective", result.collective.params_sha256}}}};
  return json.dump() + "\n";
}

}  // namespace tandem::deploy
