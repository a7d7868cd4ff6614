// Reads this process's rank from the environment that its launcher set.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collective/rendezvous/etcd_access.h"
#include "common/base/status.h"

namespace tandem::trainer {

enum class Role : uint8_t { kTrainer, kPserver };

struct RankInfo {
  Role role = Role::kTrainer;
  int rank = 0;        // number of this process among the processes of its role
  int size = 1;        // number of processes of this role
  int local_rank = 0;  // number of this process on its host; 0 if unknown
  int local_size = 1;
  // The last `heter_workers` ranks are heter workers (TANDEM_HETER_WORKERS). Each heter worker
  // serves an equal number of consecutive workers.
  int heter_workers = 0;
  std::vector<std::string> trainers;  // host:port of every trainer, by rank; may be empty
  std::vector<std::string> pservers;  // addresses of every pserver; may be empty
  std::string rendezvous;   // rendezvous URL (collective/rendezvous/rendezvous_url.h); may be empty
  std::string listen_host;  // TANDEM_LISTEN_HOST; may be empty
  // TANDEM_ETCD_CA, _CERT, _KEY, _USER and _PASSWORD_FILE; for a rendezvous in etcd
  collective::EtcdAccess etcd;
  bool network_allowed = false;  // WorldConfig::network_allowed; no environment variable sets it
  std::string job;               // TANDEM_JOB; may be empty
  std::string secret_file;       // TANDEM_SECRET_FILE; may be empty
  bool peers_return = false;     // TANDEM_MAX_RESTARTS: killed processes are restarted
  bool restarted = false;        // TANDEM_RESTARTED: this process was restarted
  std::string launcher;          // TANDEM_LAUNCHER: FIFO of the launcher; may be empty
  bool replaces = false;         // TANDEM_REPLACES: the launcher restarts unresponsive processes
  std::string lease_file;  // TANDEM_LAUNCHER_LEASE: common/launcher/launcher_lease.h; may be empty
  std::string world_file;  // TANDEM_WORLD_FILE: common/launcher/elastic_world.h; may be empty
  // The following fields are for an elastic job (trainer/session/elastic.h). No environment
  // variable sets them. `members`: the launcher's numbers of all ranks, by rank; empty: the job is
  // not elastic.
  std::vector<int> members;
  int64_t world_version = 0;       // version of the world file; 0: not elastic
  bool has_state = false;          // this process has state from an earlier world
  std::string source;              // family that was used, as "TANDEM_*"; "none": no family
  std::vector<std::string> notes;  // notes about variables that are set but unused, for the log

  // Returns the number of ranks that are not heter workers.
  int workers() const { return size - heter_workers; }
  // kind_size returns the number of ranks of this rank's kind (worker or heter worker). kind_rank
  // returns this rank's number among them. The ranks of one kind share the samples of a step.
  int kind_size() const { return rank < workers() ? workers() : heter_workers; }
  int kind_rank() const { return rank < workers() ? rank : rank - workers(); }
};

inline constexpr int kRanksMax = 65536;  // the largest number of workers that is accepted

// Reads one family of environment variables: the first of the following families whose rank or size
// is set. If no family is set, the job is a single process.
//
//   TANDEM_*   TANDEM_RANK, TANDEM_SIZE, TANDEM_LOCAL_RANK, TANDEM_LOCAL_SIZE (tandemrun or the
//              user), TANDEM_ROLE (trainer, pserver)
//   PADDLE_*   PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM or PADDLE_TRAINER_ENDPOINTS (Fleet); for a
//              pserver TRAINING_ROLE=PSERVER, POD_IP and PADDLE_PORT
//   RANK       RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun)
//   OMPI_*     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (mpirun)
//   SLURM_*    SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID (srun). The shell of a batch script has
//              SLURM_JOB_ID but no SLURM_STEP_ID, and counts as a single process.
//
// Further variables apply to every family. TANDEM_PSERVERS, or else PADDLE_PSERVERS_IP_PORT_LIST,
// names the pservers. tandemrun sets the other variables: TANDEM_RENDEZVOUS, TANDEM_LISTEN_HOST,
// TANDEM_JOB, TANDEM_SECRET_FILE, TANDEM_HETER_WORKERS, TANDEM_MAX_RESTARTS, TANDEM_RESTARTED,
// TANDEM_LAUNCHER, TANDEM_REPLACES and TANDEM_WORLD_FILE.
//
// mpirun and srun often start another launcher. If an earlier family is set too, the variables of
// mpirun and srun therefore only cause a note.
//
// INVALID_ARGUMENT: one of the following causes; the message names the variable.
// - A value is malformed: not a number, out of range, not host:port.
// - A value is missing: a rank without a size.
// - Values of a family contradict each other, or values of PADDLE_* contradict values of RANK.
//   Neither of these two families has precedence.
StatusOr<RankInfo> RankFromEnv(const std::map<std::string, std::string>& env);

// Checks that `endpoint` is "host:port" with a port from 1 to 65535. INVALID_ARGUMENT: `endpoint`
// has another form; the message begins with `what`.
Status CheckEndpoint(const std::string& endpoint, const std::string& what);

}  // namespace tandem::trainer
