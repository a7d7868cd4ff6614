// The options of tandemrun. MakeLaunchOptions has checked them for contradictions.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/options/endpoints.h"
#include "deploy/launch/options/flag_table.h"
#include "deploy/launch/options/host_options.h"
#include "deploy/launch/options/job_header.h"
#include "deploy/launch/options/launch_flags.h"

namespace tandem::deploy {

// The options for the pservers of a job.
struct PserverOptions {
  std::vector<ProcessEndpoint> endpoints;  // addresses; port 0: tandemrun chooses a port
  // true: the pservers listen on Unix-domain sockets in a directory of this job. All processes must
  // be on this host. The user must have requested neither addresses, ports nor certificates;
  // certificates name hosts.
  bool private_sockets = false;
  std::string program;
  std::string data_dir;
  std::string durability = "none";  // any value other than "none" requires a data_dir
  // With durability "replayable": MB of buffered pushes at which a trainer requests a checkpoint
  // and waits for the checkpoint. 0: the default of pservers.
  int keep_pushes_mb = 0;
  int standbys = 0;  // number of standbys of each pserver; needs durability "logged"
  // On several hosts: the standbys of the first pserver, then those of the next one. Empty: the
  // standbys have the addresses of their pservers.
  std::vector<ProcessEndpoint> standby_endpoints;
  std::string replication = "quorum";  // to standbys: quorum or async
  int replicas = 0;   // number of read replicas of each pserver; needs durability "logged"
  int resp_port = 0;  // first port of the replicas for Redis clients; 0: no Redis clients
  std::string place;  // place of dense slices, such as "cuda"; empty: the default of pservers
  std::string snapshot_keep;  // rules for kept snapshots (ParseKeepRules); empty: the default
  int log_keep_mb = 0;        // MB of the log that stay after a checkpoint; 0: none
};

// The options for the trainers of a job, including its heter workers.
struct WorkerOptions {
  std::vector<ProcessEndpoint> endpoints;  // at least one address; the heter workers come last
  int heter = 0;                           // number of heter workers
  // Place of the heter workers, such as "cuda"; empty: the place in the job file.
  std::string heter_place;
  std::vector<std::string> gpus;  // one GPU list per worker of this host, or empty
  std::string program;            // for a script: the interpreter
  std::vector<std::string> args;  // arguments that are passed to the trainers unchanged
  // Directories with Python packages for a script, separated by colons. Empty: the script uses the
  // installed packages.
  std::string python_path;
  std::string rendezvous;  // address of the rendezvous; empty: the address of rank 0
  // Minimum number of ranks with which the job continues; 0: all ranks are needed.
  int ranks_least = 0;
};

// The options for secrets, certificates and the audit log.
struct SecurityOptions {
  std::string secret_file;  // file of the job's secret; empty: make a secret for this job
  // TLS between all processes. tls_dir is a directory that contains trainer/, and with pservers
  // also pserver/ (TlsFilesIn). If make_tls is true, tandemrun makes certificates for this job
  // only. If tls_dir is empty and make_tls is false, the job has no TLS.
  std::string tls_dir;
  bool make_tls = false;
  bool audit = false;                   // true: pservers log every call
  bool insecure_allow_network = false;  // true: network traffic without encryption is allowed
};

// The options for how the launcher supervises running processes.
struct SupervisionOptions {
  int grace_s = 10;            // seconds between SIGTERM and SIGKILL
  int max_restarts = 0;        // maximum number of restarts of processes that can return
  bool quiet = false;          // true: do not show the output of trainer 0
  std::string metrics_listen;  // HOST:PORT of the page of metrics; empty: no page
};

struct LaunchOptions {
  std::string job_file;  // a job file, or a script in Python (is_script)
  bool is_script = false;
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  int start_port = 0;   // first port of the job; 0: use free ports
  int status_port = 0;  // first port of the status pages; 0: no status pages
  std::string log_dir;
  bool dry_run = false;
  HostOptions hosts;
  PserverOptions pservers;
  WorkerOptions workers;
  SecurityOptions security;
  SupervisionOptions supervision;

  bool has_servers() const { return mode == LaunchMode::kPserver || mode == LaunchMode::kHybrid; }
};

// Parses a command line of tandemrun with ParseArgs. Fields of the job may also be before "--". If
// the job is a script, all arguments after the script are for the script.
StatusOr<ParsedArgs> ParseLaunchArgs(const std::vector<std::string>& args);

// Makes the options from parsed arguments and the job file. `program_dir` is the directory that
// contains tandem-pserver and tandem-trainer; flags may name other program files. INVALID_ARGUMENT:
// a flag is wrong, or two flags contradict each other; the message names the flags.
StatusOr<LaunchOptions> MakeLaunchOptions(const ParsedArgs& args, const std::string& program_dir);

}  // namespace tandem::deploy
