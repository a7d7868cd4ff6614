// Steady clocks. Clock is an interface, so that tests and the simulator can control the time.
// Wall-clock time is used only for the time stamps of the log.
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

// The interface of a clock, which returns the current time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  Time Now() const override { return SteadyNow(); }
};

// A clock whose time changes only by calls of Advance. For tests and the simulator. Thread-safe.
class FakeClock final : public Clock {
 public:
  Time Now() const override;
  void Advance(Duration by);

 private:
  std::atomic<int64_t> nanos_{1'000'000'000};
};

// Returns a duration as text, for messages. Examples: "1.2s", "350ms", "12us".
std::string FormatDuration(Duration d);

}  // namespace tandem
