// N ranks in one test process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/communicator.h"
#include "collective/inproc.h"

namespace tandem {

using World = std::vector<std::unique_ptr<Communicator>>;

inline Time In(double seconds) {
  return SteadyNow() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// `body(rank)` on a thread per rank; returns when all have.
inline void OnEveryRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) threads.emplace_back([&body, r] { body(r); });
  for (std::thread& t : threads) t.join();
}

}  // namespace tandem
