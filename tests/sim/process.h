// A simulated process that runs blocking code, for example a trainer. The process is a fiber that
// tests can kill, pause and continue.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "pserver/client/carrier/ps_channel.h"
#include "tests/sim/fiber.h"
#include "tests/sim/world.h"

namespace tandem::pserver {

// Not thread-safe. Owned by std::shared_ptr: create it with std::make_shared.
class SimProcess : public std::enable_shared_from_this<SimProcess> {
 public:
  SimProcess(SimWorld& world, int node) : world_(world), node_(node) {}

  // Starts the process: runs `body` on a separate stack.
  void Start(std::function<void()> body);
  int node() const { return node_; }
  bool dead() const { return dead_; }
  bool paused() const { return paused_; }
  bool running() const { return fiber_ != nullptr && fiber_->running(); }
  bool ended() const { return fiber_ != nullptr && fiber_->ended(); }

  // Simulates SIGKILL. After the call no message leaves the process. The call runs the body to its
  // end; each wait of the body fails.
  void Kill();
  // Pause simulates SIGSTOP, and Continue simulates SIGCONT.
  void Pause() { paused_ = true; }
  void Continue();

  // Runs `what` now, as another thread of the process would. If the process is paused, runs `what`
  // after Continue. If the process is dead, does nothing.
  void Post(std::function<void()> what);
  // Calls Post(what) after the time `pause`.
  void After(Duration pause, std::function<void()> what);

  std::unique_ptr<ps::PsEvent> MakeEvent();
  SimWorld& world() { return world_; }

 private:
  struct Event;
  void Wake();

  SimWorld& world_;
  const int node_;
  std::unique_ptr<Fiber> fiber_;
  bool dead_ = false, paused_ = false;
  // Functions that were posted while the process was paused.
  std::deque<std::function<void()>> held_;
};

}  // namespace tandem::pserver
