// The processes of a job on this machine: programs, arguments, environment, logs. Made before
// anything is started, so that --dry_run shows exactly what would be.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/held_secrets.h"
#include "deploy/launch/launch_options.h"
#include "deploy/launch/process.h"

namespace tandem::deploy {

enum class Role { kPserver, kTrainer };
const char* RoleName(Role role);  // "pserver", "trainer"
// "1 pserver", "2 pservers".
std::string Counted(size_t count, const char* thing);

struct ProcessPlan {
  Role role = Role::kTrainer;
  int rank = 0;        // in its role, over the whole job
  bool heter = false;  // a trainer that is a heter worker
  Endpoint endpoint;
  std::vector<std::string> argv;
  Environment env;  // what is added to the launcher's own environment
  std::string log_file;
  std::string status_page;  // "http://127.0.0.1:8080/"; empty: none
  int status_port = 0;      // of status_page
  bool can_return = false;  // started again, it takes up where it was killed
  bool forgets = false;     // ... but for what came after its last checkpoint (--durability=none)

  const char* Kind() const { return heter ? "heter worker" : RoleName(role); }
  std::string Name() const { return std::string(Kind()) + " " + std::to_string(rank); }
};

struct LaunchPlan {
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  std::string log_dir;
  std::string socket_dir;  // for Unix-domain sockets of pservers; empty: none is made
  std::string secret_file;
  bool make_secret = false;            // secret_file does not exist yet
  std::string tls_dir;                 // with pserver/ and trainer/; empty: no TLS
  bool make_tls = false;               // ... which do not exist yet
  std::vector<std::string> tls_hosts;  // that the pservers' certificate is for
  std::vector<ProcessPlan> processes;  // of this machine: pservers first, then trainers, by rank
  int servers = 0, workers = 0;        // of the whole job
  int heter_workers = 0;               // the last of the workers
  std::string pservers;                // all of them: "a:1,b:2"
  int trainers = 0;                    // that the pservers wait for
  bool remote_workers = false;
  bool insecure_allow_network = false;  // what goes over the network may go in the clear
  // Where processes say for whom they wait (rank_reports.h); empty: nowhere.
  std::string silent_fifo;
  bool ranks_meet_again = false;  // ranks_return
  std::string world_file;         // who takes part (collective/rendezvous/world_file.h); empty: all
  int ranks_least = 0;            // of them; with it
  // "2 pservers, 4 trainers", for people: what there is of each kind.
  std::string Counts(const char* between) const;
  // Ranks that are killed come again, and the others wait for them.
  bool ranks_return() const { return ranks_meet_again; }
  // Ranks that are lost are done without.
  bool elastic() const { return ranks_least > 0; }
};

// The launcher's environment without what another launcher said about ranks and addresses: a child
// must hear that from this one alone.
Environment WithoutRanks(Environment env);

// Chooses ports. `env`: the launcher's environment (OMP_WAIT_POLICY, GOMP_SPINCOUNT and
// TANDEM_SECRET_FILE of the user win).
StatusOr<LaunchPlan> MakeLaunchPlan(LaunchOptions options, const Environment& env);

// For --dry_run.
std::string Describe(const LaunchPlan& plan);

// Makes the log folder (mode 0700) with job.json (job_record.h), and removes logs that earlier runs
// left for ranks of this plan, and for ranks that the job has on no host. Makes the secret, where
// the plan has none, and the certificates (a pserver, a trainer, and an admin for `tandem`; the
// authority's key is kept nowhere), and socket_dir. These last as long as the value.
// PERMISSION_DENIED where the folder is another user's.
StatusOr<HeldSecrets> PrepareFiles(const LaunchPlan& plan);

}  // namespace tandem::deploy
