// A simulated process that runs blocking code (a trainer): a fiber that can be killed, paused and
// woken.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "pserver/client/carrier/ps_channel.h"
#include "tests/sim/fiber.h"
#include "tests/sim/world.h"

namespace tandem {

// Not thread-safe. Make it with std::make_shared.
class SimProcess : public std::enable_shared_from_this<SimProcess> {
 public:
  SimProcess(SimWorld& world, int node) : world_(world), node_(node) {}

  // Runs `body` from now on, on a stack of its own.
  void Start(std::function<void()> body);
  int node() const { return node_; }
  bool dead() const { return dead_; }
  bool paused() const { return paused_; }
  bool ended() const { return fiber_ != nullptr && fiber_->ended(); }

  // SIGKILL: nothing leaves it any more. Its code runs to its end, every wait of which fails.
  void Kill();
  // SIGSTOP and SIGCONT.
  void Pause() { paused_ = true; }
  void Continue();

  // What another thread of the process would do now: not when it is dead, later while it is paused.
  void Post(std::function<void()> what);
  // The same after a pause.
  void After(Duration pause, std::function<void()> what);

  std::unique_ptr<PsEvent> MakeEvent();
  SimWorld& world() { return world_; }

 private:
  struct Event;
  void Wake();

  SimWorld& world_;
  const int node_;
  std::unique_ptr<Fiber> fiber_;
  bool dead_ = false, paused_ = false;
  std::deque<std::function<void()>> held_;  // while it is paused
};

}  // namespace tandem
