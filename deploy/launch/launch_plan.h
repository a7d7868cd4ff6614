// The plan of a job's processes on this machine: programs, arguments, environment, logs. The plan
// is complete before any process starts, so --dry_run shows exactly which processes would run.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/hosts/host_messages.h"
#include "deploy/launch/hosts/server_groups.h"
#include "deploy/launch/options/launch_options.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

// Names of log files in the log directory. Each name is followed by ".RANK".
inline constexpr char kServerLog[] = "serverlog", kTrainerLog[] = "workerlog",
                      kHeterLog[] = "heterlog";

// A kReplica is a read replica of a pserver.
enum class Role { kPserver, kTrainer, kReplica };
const char* RoleName(Role role);  // returns "pserver", "trainer" or "replica"
// Returns a number with a noun, such as "1 pserver" or "2 pservers".
std::string Counted(size_t count, const char* thing);

struct ProcessPlan {
  Role role = Role::kTrainer;
  // Index among the processes of its role in the whole job. Of a replica: the index of its pserver.
  int rank = 0;
  // Number among the members of a pserver, which are its primary and its standbys; -1: the pserver
  // has no standbys.
  int member = -1;
  int replica = -1;    // number among the replicas of a pserver, from 0; -1: it is no replica
  bool heter = false;  // true: a trainer that is a heter worker
  ProcessEndpoint endpoint;
  std::vector<std::string> argv;
  Environment env;  // variables that are added to the launcher's environment
  std::string log_file;
  std::string status_page;  // URL such as "http://127.0.0.1:8080/"; empty: no status page
  int status_port = 0;      // port of status_page
  int resp_port = 0;        // port on 127.0.0.1 for Redis clients; 0: none
  // true: a restarted process can continue from the state that the killed process had.
  bool can_return = false;
  // true: a restart loses all changes after the last checkpoint (--durability=none).
  bool forgets = false;

  const char* Kind() const { return heter ? "heter worker" : RoleName(role); }
  // Returns the name for the user, such as "trainer 1", "pserver 0 (member 1)" or "replica 0 of
  // pserver 1".
  std::string Name() const;
};

// The number of the host of each trainer and of each pserver, by rank, and the members of each
// pserver with standbys (deploy/launch/hosts).
struct HostsOfRanks {
  std::vector<int> workers, pservers;
  std::vector<ServerPlace> members;
  bool remote_workers = false;  // true: some trainers are not on this host
  bool several = false;         // true: one tandemrun runs on each of several hosts
};

// The certificates of a job.
struct TlsPlan {
  std::string dir;                 // directory with pserver/ and trainer/; empty: no TLS
  bool make = false;               // true: `dir` does not exist yet and must be made
  std::vector<std::string> hosts;  // host names in the pservers' certificate, if it must be made
  // The certificates to write to `dir`, from the leading host; empty: they must be made.
  std::vector<RoleCertificate> certificates;
};

struct LaunchPlan {
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  std::string log_dir;
  std::string socket_dir;  // directory for Unix-domain sockets of pservers; empty: no sockets
  std::string secret_file;
  bool make_secret = false;  // true: secret_file does not exist yet and must be made
  TlsPlan tls;
  std::vector<ProcessPlan> processes;  // processes of this host: pservers, then trainers, by rank
  // Numbers of pservers (without standbys) and of trainers in the whole job.
  int servers = 0, workers = 0;
  int standbys = 0;              // number of standbys of each pserver
  bool quorum = true;            // whether a push waits for a majority of the members
  int replicas = 0;              // number of read replicas of each pserver
  std::string pserver_data_dir;  // directory of the pservers' state; empty: none
  int heter_workers = 0;         // number of heter workers, which have the highest worker numbers
  // Addresses of all pservers, such as "a:1,b:2", or "a:1|b:1" for a pserver with a standby.
  std::string pservers;
  int trainers = 0;                     // number of trainers for which the pservers wait
  HostsOfRanks hosts;                   // the hosts of trainers and pservers
  bool insecure_allow_network = false;  // true: network traffic without encryption is allowed
  // Path of the FIFO to which processes report their waits (rank_reports.h). Empty: no FIFO.
  std::string silent_fifo;
  bool ranks_meet_again = false;  // true: killed ranks are restarted (ranks_return())
  // File that lists the members of the world (common/launcher/elastic_world.h); empty: all ranks
  // are members.
  std::string world_file;
  int ranks_least = 0;  // minimum number of members; used if there is a world_file
  // true: another run of the job on several hosts may continue it if the leading host is lost.
  bool joins_again = false;
  // Returns the numbers of processes of each kind as text, such as "2 pservers, 4 trainers".
  std::string Counts(const char* between) const;
  // Returns whether killed ranks are restarted while the other ranks wait for them.
  bool ranks_return() const { return ranks_meet_again; }
  // Returns whether the job is elastic: it continues without lost ranks.
  bool elastic() const { return ranks_least > 0; }
};

// Returns the path of the lease of this tandemrun (common/launcher/launcher_lease.h), which a job
// on several hosts has.
std::string LeaseFile(const LaunchPlan& plan);

// Returns `env` without the variables for ranks and addresses that another launcher has set. Child
// processes must get these variables only from this launcher.
Environment WithoutRanks(Environment env);

// Makes the plan and chooses ports. `env` is the launcher's environment. If `env` contains
// OMP_WAIT_POLICY, GOMP_SPINCOUNT or TANDEM_SECRET_FILE, the plan keeps this value. `certificates`:
// those of the job, if the leading host of several hosts has made them.
StatusOr<LaunchPlan> MakeLaunchPlan(LaunchOptions options, const Environment& env,
                                    std::vector<RoleCertificate> certificates = {});

// Returns the text that --dry_run prints.
std::string Describe(const LaunchPlan& plan);

}  // namespace tandem::deploy
