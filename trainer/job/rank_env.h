// Which worker this process is, from the environment that a launcher gave it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

enum class Role : uint8_t { kTrainer, kPserver };

struct RankInfo {
  Role role = Role::kTrainer;
  int rank = 0;        // among the processes of this role
  int size = 1;        // how many there are
  int local_rank = 0;  // among those of this host; 0 of 1 where the launcher does not say
  int local_size = 1;
  // TANDEM_HETER_WORKERS: the last so many ranks are heter workers, each for equally many of the
  // others, in their order.
  int heter_workers = 0;
  std::vector<std::string> trainers;  // host:port of every trainer by rank; may be empty
  std::vector<std::string> pservers;  // host:port of every pserver; may be empty
  std::string rendezvous;             // collective/rendezvous/rendezvous_url.h; may be empty
  std::string listen_host;            // TANDEM_LISTEN_HOST; may be empty
  bool network_allowed = false;       // WorldConfig::network_allowed; no variable says so
  std::string job;                    // TANDEM_JOB; may be empty
  std::string secret_file;            // TANDEM_SECRET_FILE; may be empty
  bool peers_return = false;          // TANDEM_MAX_RESTARTS: who is killed is started again,
  bool restarted = false;             // TANDEM_RESTARTED: and this process was
  std::string launcher;               // TANDEM_LAUNCHER: for launcher_words.h; may be empty
  bool replaces = false;              // TANDEM_REPLACES: it starts again who does not answer
  std::string world_file;  // TANDEM_WORLD_FILE: collective/rendezvous/world_file.h; may be empty
  // Of a job whose ranks change (trainer/session/elastic.h), and in no variable:
  std::vector<int> members;        // numbers of all ranks in the file, by rank; empty: no such job
  int64_t world_version = 0;       // of the file
  bool has_state = false;          // of an earlier world
  std::string source;              // which variables said so: "TANDEM_*", ..., "none"
  std::vector<std::string> notes;  // what was set too and is not used, for the log

  // Ranks that are no heter workers.
  int workers() const { return size - heter_workers; }
  // Those of this one's kind, and its number among them. Each kind shares a step's samples.
  int kind_size() const { return rank < workers() ? workers() : heter_workers; }
  int kind_rank() const { return rank < workers() ? rank : rank - workers(); }
};

// Largest number of workers that is believed.
inline constexpr int kRanksMax = 65536;

// Reads, in this order, the first family whose rank is set:
//   TANDEM_*   TANDEM_RANK, TANDEM_SIZE, TANDEM_LOCAL_RANK, TANDEM_LOCAL_SIZE (tandemrun; by hand),
//              TANDEM_ROLE (trainer, pserver)
//   PADDLE_*   PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM or PADDLE_TRAINER_ENDPOINTS (Fleet); for a
//              pserver TRAINING_ROLE=PSERVER, POD_IP and PADDLE_PORT
//   RANK       RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun)
//   OMPI_*     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (mpirun)
//   SLURM_*    SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID (srun; a batch script's own shell, which
//   has
//              SLURM_JOB_ID without SLURM_STEP_ID, is one process)
// else one process. TANDEM_RENDEZVOUS, TANDEM_LISTEN_HOST, TANDEM_JOB, TANDEM_SECRET_FILE,
// TANDEM_HETER_WORKERS, TANDEM_MAX_RESTARTS, TANDEM_RESTARTED, TANDEM_LAUNCHER,
// TANDEM_REPLACES and TANDEM_WORLD_FILE (by tandemrun) and PADDLE_PSERVERS_IP_PORT_LIST
// (TANDEM_PSERVERS) hold with every family. INVALID_ARGUMENT naming the variable for what is
// malformed (not a number, out of range, no host:port), half given (a rank without a size) or
// contradictory: inside a family, and between PADDLE_* and RANK, which two launchers of equal
// standing have set. mpirun and srun often start another launcher; what they say is then noted and
// not used.
StatusOr<RankInfo> RankFromEnv(const std::map<std::string, std::string>& env);

// "host:port" with a port of 1..65535; INVALID_ARGUMENT that begins with `what`.
Status CheckEndpoint(const std::string& endpoint, const std::string& what);

}  // namespace tandem
