// The processes of a job on this machine: programs, arguments, environment, logs. The plan is
// complete before any process starts, so --dry_run shows exactly what would run.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/launch_options.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

// File names in the log directory, each followed by ".RANK".
inline constexpr char kServerLog[] = "serverlog", kTrainerLog[] = "workerlog",
                      kHeterLog[] = "heterlog";

enum class Role { kPserver, kTrainer };
const char* RoleName(Role role);  // "pserver", "trainer"
// "1 pserver", "2 pservers".
std::string Counted(size_t count, const char* thing);

struct ProcessPlan {
  Role role = Role::kTrainer;
  int rank = 0;        // among the processes of its role in the whole job
  bool heter = false;  // a trainer that is a heter worker
  ProcessEndpoint endpoint;
  std::vector<std::string> argv;
  Environment env;  // additions to the launcher's environment
  std::string log_file;
  std::string status_page;  // "http://127.0.0.1:8080/"; empty: none
  int status_port = 0;      // port of status_page
  bool can_return = false;  // after a restart it can continue from where it was killed
  bool forgets = false;  // it then loses everything after its last checkpoint (--durability=none)

  const char* Kind() const { return heter ? "heter worker" : RoleName(role); }
  std::string Name() const { return std::string(Kind()) + " " + std::to_string(rank); }
};

struct LaunchPlan {
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  std::string log_dir;
  std::string socket_dir;  // for Unix-domain sockets of pservers; empty: none
  std::string secret_file;
  bool make_secret = false;            // secret_file does not exist yet
  std::string tls_dir;                 // has pserver/ and trainer/; empty: no TLS
  bool make_tls = false;               // tls_dir does not exist yet
  std::vector<std::string> tls_hosts;  // hosts in the pservers' certificate
  std::vector<ProcessPlan> processes;  // on this machine: pservers first, then trainers, by rank
  int servers = 0, workers = 0;        // in the whole job
  int heter_workers = 0;               // the last ones of the workers
  std::string pservers;                // all addresses: "a:1,b:2"
  int trainers = 0;                    // number of trainers that the pservers wait for
  bool remote_workers = false;
  bool insecure_allow_network = false;  // network traffic may be unencrypted
  // FIFO for the processes' reports about waits (rank_reports.h); empty: none.
  std::string silent_fifo;
  bool ranks_meet_again = false;  // see ranks_return()
  std::string world_file;         // the members (common/launcher/elastic_world.h); empty: all ranks
  int ranks_least = 0;            // smallest number of members; used with world_file
  // The number of processes of each kind, for the user: "2 pservers, 4 trainers".
  std::string Counts(const char* between) const;
  // Whether killed ranks are restarted while the others wait for them.
  bool ranks_return() const { return ranks_meet_again; }
  // Whether the job continues without lost ranks.
  bool elastic() const { return ranks_least > 0; }
};

// The launcher's environment without another launcher's variables for ranks and addresses: a child
// must get these only from this launcher.
Environment WithoutRanks(Environment env);

// Chooses ports. `env`: the launcher's environment. The user's OMP_WAIT_POLICY, GOMP_SPINCOUNT and
// TANDEM_SECRET_FILE take precedence.
StatusOr<LaunchPlan> MakeLaunchPlan(LaunchOptions options, const Environment& env);

// The text for --dry_run.
std::string Describe(const LaunchPlan& plan);

}  // namespace tandem::deploy
