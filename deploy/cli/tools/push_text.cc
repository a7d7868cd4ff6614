#include "deploy/cli/tools/push_text.h"

#include <ctime>

namespace tandem::deploy {

std::string TimeText(int64_t time_us) {
  if (time_us <= 0) return "-";
  const time_t seconds = time_us / 1000000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

nlohmann::ordered_json PushJson(const pserver::PushFacts& push) {
  return {{"entry", push.entry},
          {"time", push.time_us == 0 ? "" : TimeText(push.time_us)},
          {"trainer", push.trainer},
          {"incarnation", push.incarnation},
          {"sequence", push.sequence},
          {"step", push.step},
          {"learning_rate", push.learning_rate}};
}

}  // namespace tandem::deploy
