// Time as the product sees it: a steady clock behind an interface, so that state machines can be
// driven by a test's or a simulator's clock. Wall-clock time is used for log stamps only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace tandem {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline Time SteadyNow() { return std::chrono::steady_clock::now(); }
inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline int64_t Millis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  Time Now() const override { return SteadyNow(); }
};

// Moves only when told to. For tests and the simulator.
class FakeClock final : public Clock {
 public:
  Time Now() const override;
  void Advance(Duration by);

 private:
  std::atomic<int64_t> nanos_{1'000'000'000};
};

// "1.2s", "350ms", "12us": for messages.
std::string FormatDuration(Duration d);

}  // namespace tandem
