// Reads this process's rank from the environment that its launcher set.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::trainer {

enum class Role : uint8_t { kTrainer, kPserver };

struct RankInfo {
  Role role = Role::kTrainer;
  int rank = 0;        // among the processes of this role
  int size = 1;        // the number of these processes
  int local_rank = 0;  // on this host; 0 of 1 if the launcher does not report it
  int local_size = 1;
  // TANDEM_HETER_WORKERS: the last `heter_workers` ranks are heter workers. Each serves the same
  // number of other ranks, in order of rank.
  int heter_workers = 0;
  std::vector<std::string> trainers;  // host:port of every trainer by rank; may be empty
  std::vector<std::string> pservers;  // host:port of every pserver; may be empty
  std::string rendezvous;             // collective/rendezvous/rendezvous_url.h; may be empty
  std::string listen_host;            // TANDEM_LISTEN_HOST; may be empty
  bool network_allowed = false;       // WorldConfig::network_allowed; not from a variable
  std::string job;                    // TANDEM_JOB; may be empty
  std::string secret_file;            // TANDEM_SECRET_FILE; may be empty
  bool peers_return = false;          // TANDEM_MAX_RESTARTS: killed processes are restarted
  bool restarted = false;             // TANDEM_RESTARTED: this process was restarted
  std::string launcher;               // TANDEM_LAUNCHER: for launcher_words.h; may be empty
  bool replaces = false;              // TANDEM_REPLACES: it restarts unresponsive processes
  std::string world_file;  // TANDEM_WORLD_FILE: common/launcher/elastic_world.h; may be empty
  // For an elastic job (trainer/session/elastic.h), not from a variable:
  std::vector<int> members;        // numbers of all ranks in the file, by rank; empty: not elastic
  int64_t world_version = 0;       // version of the world file
  bool has_state = false;          // has state from an earlier world
  std::string source;              // the variables that were used: "TANDEM_*", ..., "none"
  std::vector<std::string> notes;  // variables that are set but unused, for the log

  // The number of ranks that are not heter workers.
  int workers() const { return size - heter_workers; }
  // The number of ranks of this rank's kind, and its index among them. Each kind shares the samples
  // of a step.
  int kind_size() const { return rank < workers() ? workers() : heter_workers; }
  int kind_rank() const { return rank < workers() ? rank : rank - workers(); }
};

// Largest accepted number of workers.
inline constexpr int kRanksMax = 65536;

// Reads the first family, in this order, with its rank variable set; none: a single process.
//
//   TANDEM_*   TANDEM_RANK, TANDEM_SIZE, TANDEM_LOCAL_RANK, TANDEM_LOCAL_SIZE (tandemrun; by hand),
//              TANDEM_ROLE (trainer, pserver)
//   PADDLE_*   PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM or PADDLE_TRAINER_ENDPOINTS (Fleet); for a
//              pserver TRAINING_ROLE=PSERVER, POD_IP and PADDLE_PORT
//   RANK       RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun)
//   OMPI_*     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (mpirun)
//   SLURM_*    SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID (srun). The shell of a batch script has
//              SLURM_JOB_ID but no SLURM_STEP_ID, and counts as a single process.
//
// These variables apply to every family: TANDEM_RENDEZVOUS, TANDEM_LISTEN_HOST, TANDEM_JOB,
// TANDEM_SECRET_FILE, TANDEM_HETER_WORKERS, TANDEM_MAX_RESTARTS, TANDEM_RESTARTED, TANDEM_LAUNCHER,
// TANDEM_REPLACES and TANDEM_WORLD_FILE (set by tandemrun), and PADDLE_PSERVERS_IP_PORT_LIST
// (TANDEM_PSERVERS). mpirun and srun often start another launcher: if a family before them is set,
// their variables are only noted.
//
// INVALID_ARGUMENT, naming the variable:
// - a value is malformed: not a number, out of range, not host:port;
// - a value is missing: a rank without a size;
// - values contradict each other, inside a family, or between PADDLE_* and RANK: neither of these
//   launchers has precedence.
StatusOr<RankInfo> RankFromEnv(const std::map<std::string, std::string>& env);

// Checks for "host:port" with a port of 1..65535. INVALID_ARGUMENT: the message begins with `what`.
Status CheckEndpoint(const std::string& endpoint, const std::string& what);

}  // namespace tandem::trainer
