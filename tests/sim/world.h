// A simulated world on one thread. The world has virtual time, scheduled events, random numbers
// from one seed, and a hash of all past events.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace tandem::pserver {

// Time, events and random numbers of a simulation. Not thread-safe.
class SimWorld {
 public:
  explicit SimWorld(uint64_t seed) : random_(seed) {}

  const Clock& clock() const { return clock_; }
  Time Now() const { return clock_.Now(); }

  // ---- Future events ----------------------------------------------------------------------------
  // Events run in the order of their times. Events with equal times run in the order in which they
  // were scheduled.
  void At(Time when, std::function<void()> what);
  void After(Duration pause, std::function<void()> what) { At(Now() + pause, std::move(what)); }
  void Forget() { events_.clear(); }  // drops all scheduled events
  // Runs events until `done` returns true. Returns false if no event is left, or if the time `end`
  // is reached.
  bool RunUntil(const std::function<bool()>& done, Time end);

  // ---- Random numbers ---------------------------------------------------------------------------
  // Returns a uniform random number in 0 .. n - 1.
  uint64_t Below(uint64_t n) { return random_() % n; }
  bool Chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }
  Duration Between(Duration least, Duration most) {
    return least +
           Duration(static_cast<int64_t>(Below(static_cast<uint64_t>((most - least).count()) + 1)));
  }

  // ---- Past events ------------------------------------------------------------------------------
  // Note adds an event to the hash. Two runs with the same seed have the same hash.
  void Note(std::string_view what, uint64_t who = 0, uint64_t details = 0);
  uint64_t trace_hash() const { return hash_; }
  void KeepTrace() { keep_ = true; }
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  void Mix(const void* bytes, size_t count);

  FakeClock clock_;
  // C++ specifies the numbers of this generator, but not those of distributions.
  std::mt19937_64 random_;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> events_;
  uint64_t events_made_ = 0;
  // Hash of all events; starts with the offset basis of FNV-1a.
  uint64_t hash_ = 0xcbf29ce484222325;
  bool keep_ = false;
  std::vector<std::string> trace_;
};

// The clock of a process, which can jump ahead of the time of the world. Not thread-safe.
class SimClock final : public Clock {
 public:
  explicit SimClock(const Clock& world) : world_(world) {}
  Time Now() const override { return world_.Now() + ahead_; }
  void Jump(Duration by) { ahead_ += by; }

 private:
  const Clock& world_;
  Duration ahead_{};
};

}  // namespace tandem::pserver
