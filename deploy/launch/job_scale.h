// The numbers of workers and pservers of a running job: the present ones, those that the user
// requests (`tandem scale`), and their limits. The file scale.json in the log directory has them.
#pragma once

#include <map>
#include <set>
#include <string>

#include "common/base/status.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

// Why the number of workers or pservers of a job cannot change.
enum class ScaleObstacle {
  kNone,
  kNotElastic,    // workers: the job was started without --nproc=MIN:MAX
  kNoPservers,    // the job has no pservers
  kSeveralHosts,  // processes of the job run on several hosts
  kStandbys,      // pservers have standbys or replicas
  kNotDurable     // pservers without data directory or durability, whose rows cannot move
};

struct ScaleSide {
  int now = 0;      // running workers that are in the world; running pservers
  int desired = 0;  // the requested number
  int least = 0, most = 0;
  ScaleObstacle obstacle = ScaleObstacle::kNone;  // with an obstacle, least == most

  bool Accepts(int number) const {
    return obstacle == ScaleObstacle::kNone && number >= least && number <= most;
  }
  bool operator==(const ScaleSide&) const = default;
};

struct ScaleState {
  ScaleSide workers, pservers;
  int changing = 0;  // running workers that are not in the world: they start or end
  // Addresses of running pservers that `tandem scale` has added, by number.
  std::map<int, std::string> added;

  bool operator==(const ScaleState&) const = default;
};

// Reads scale.json. NOT_FOUND: the job has no such file. DATA_LOSS: it has another format.
StatusOr<ScaleState> ReadScaleState(const std::string& log_dir);

// Keeps the numbers of a job for its supervisor, and the plans of added pservers. Not thread-safe.
class JobScale {
 public:
  explicit JobScale(const LaunchPlan& plan);

  const ScaleState& state() const { return state_; }
  void SetDesiredWorkers(int number) { state_.workers.desired = number; }
  void SetDesiredPservers(int number) { state_.pservers.desired = number; }
  // Returns the plan of added pserver `rank`, which stays valid as long as this object. Its
  // settings are those of pserver 0. UNAVAILABLE: there is no free port.
  StatusOr<const ProcessPlan*> PlanOf(int rank);
  // tandemrun ends this added pserver.
  void EndPserver(int rank) { ending_.insert(rank); }
  void StartPserver(int rank) { ending_.erase(rank); }
  bool IsEnding(int rank) const { return ending_.contains(rank); }
  // Counts the processes, and writes scale.json if a number has changed.
  Status Update(const JobProcesses& processes);

 private:
  const LaunchPlan& plan_;
  std::map<int, ProcessPlan> added_;  // plans of added pservers, by rank
  std::set<int> ending_;
  ScaleState state_;
  bool written_ = false;
};

}  // namespace tandem::deploy
