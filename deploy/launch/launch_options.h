// The options of tandemrun, checked for contradictions.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/endpoints.h"
#include "deploy/launch/flag_table.h"
#include "deploy/launch/job_header.h"

namespace tandem::deploy {

// The pservers of a job.
struct PserverOptions {
  std::vector<ProcessEndpoint> endpoints;  // port 0: tandemrun chooses one
  // The pservers listen on Unix-domain sockets in a directory of this job. Requires that all
  // processes are on this host, and that the user requested neither addresses nor ports nor
  // certificates (which name hosts).
  bool private_sockets = false;
  std::string program;
  std::string data_dir;
  std::string durability = "none";  // not "none": only with a data_dir
  int keep_pushes_mb = 0;           // for durability replayable; 0: the pservers' default
  std::string place;                // place of dense slices: "cuda"; empty: the pserver's default
};

// The trainers of a job, and its heter workers.
struct WorkerOptions {
  std::vector<ProcessEndpoint> endpoints;  // at least one; heter workers last
  int heter = 0;                           // number of heter workers
  std::string heter_place;                 // place of the heter workers: "cuda"; empty: the job's
  std::vector<std::string> gpus;           // one per local worker, or empty
  std::string program;
  std::vector<std::string> args;  // passed on unchanged
  std::string rendezvous;         // rendezvous of the ranks; empty: at the address of rank 0
  int ranks_least = 0;            // smallest number of ranks to continue with; 0: all are needed
};

// Secrets, certificates and traces of access.
struct SecurityOptions {
  std::string secret_file;  // empty: make a secret for this job
  // TLS between trainers and pservers. tls_dir is a directory with pserver/ and trainer/
  // (TlsFilesIn). With make_tls the certificates are made for this job only. Neither is set: no
  // TLS.
  std::string tls_dir;
  bool make_tls = false;
  bool audit = false;                   // pservers log every call
  bool insecure_allow_network = false;  // network traffic may be unencrypted
};

// How the launcher treats the processes while they run.
struct SupervisionOptions {
  int grace_s = 10;      // seconds between SIGTERM and SIGKILL
  int max_restarts = 0;  // restarts of killed processes that can return
  bool quiet = false;    // do not show the output of trainer 0
};

struct LaunchOptions {
  std::string job_file;
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  int start_port = 0;   // 0: free ports
  int status_port = 0;  // first port of the status pages; 0: none
  std::string log_dir;
  bool dry_run = false;
  PserverOptions pservers;
  WorkerOptions workers;
  SecurityOptions security;
  SupervisionOptions supervision;

  bool has_servers() const { return mode == LaunchMode::kPserver || mode == LaunchMode::kHybrid; }
};

// The table for --help.
const std::vector<FlagSpec>& LaunchFlags();

// Calls ParseArgs for a command line of tandemrun, in which fields of the job may also precede
// "--".
StatusOr<ParsedArgs> ParseLaunchArgs(const std::vector<std::string>& args);

// `program_dir`: directory of tandem-pserver and tandem-trainer, unless flags override it.
// INVALID_ARGUMENT (a usage error): the message names the contradiction. Reads the job file.
StatusOr<LaunchOptions> MakeLaunchOptions(const ParsedArgs& args, const std::string& program_dir);

}  // namespace tandem::deploy
