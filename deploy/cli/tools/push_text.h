// Texts of logged pushes, for the commands that read the logs of pservers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "pserver/history/log_replay.h"

namespace tandem::deploy {

// Returns a time in UTC, such as "2026-11-28T20:00:00Z"; "-": unknown.
std::string TimeText(int64_t time_us);
// Returns the facts of a push: entry, time ("": unknown), trainer, incarnation, sequence, step,
// learning_rate.
nlohmann::ordered_json PushJson(const pserver::PushFacts& push);

}  // namespace tandem::deploy
