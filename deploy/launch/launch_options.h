// The options of tandemrun, checked for contradictions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/endpoints.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

enum class LaunchMode { kLocal, kPserver, kCollective, kHybrid };
const char* ModeName(LaunchMode mode);  // the spelling in --mode: "local", ...

struct LaunchOptions {
  std::string job_file;
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  std::vector<Endpoint> servers;  // port 0: tandemrun chooses one
  // The pservers listen on Unix-domain sockets in a directory of this job. Requires that all
  // processes are on this host, and that the user requested neither addresses nor ports nor
  // certificates (which name hosts).
  bool private_sockets = false;
  std::vector<Endpoint> workers;  // at least one; heter workers last
  int heter_workers = 0;          // number of heter workers
  std::string heter_place;        // place of the heter workers: "cuda"; empty: the job's
  std::vector<std::string> gpus;  // one per local worker, or empty
  int start_port = 0;             // 0: free ports
  int status_port = 0;            // first port of the status pages; 0: none
  std::string log_dir;
  std::string secret_file;  // empty: make a secret for this job
  // TLS between trainers and pservers. tls_dir is a directory with pserver/ and trainer/
  // (TlsFilesIn). With make_tls the certificates are made for this job only. Neither is set: no
  // TLS.
  std::string tls_dir;
  bool make_tls = false;
  bool audit = false;                   // pservers log every call
  bool insecure_allow_network = false;  // network traffic may be unencrypted
  std::string rendezvous;               // rendezvous of the ranks; empty: at the address of rank 0
  std::string pserver_data_dir;
  std::string durability = "none";  // not "none": REQUIRES pserver_data_dir
  int keep_pushes_mb = 0;           // for durability replayable; 0: the pservers' default
  std::string pserver_place;        // place of dense slices: "cuda"; empty: the pserver's default
  std::string pserver_program, trainer_program;
  std::vector<std::string> trainer_args;  // passed on unchanged
  int grace_s = 10;                       // seconds between SIGTERM and SIGKILL
  int max_restarts = 0;                   // restarts of killed processes
  int ranks_least = 0;  // smallest number of ranks to continue with; 0: all are needed
  bool quiet = false;
  bool dry_run = false;

  bool has_servers() const { return mode == LaunchMode::kPserver || mode == LaunchMode::kHybrid; }
};

// The job file's own name and mode.
struct JobHeader {
  std::string name;
  LaunchMode mode = LaunchMode::kLocal;
};
// NOT_FOUND: no such file. INVALID_ARGUMENT: not a job file; the message is "file:line:col: error:
// ...".
StatusOr<JobHeader> ReadJobHeader(const std::string& path);
// The settings of a job that its servers need.
struct ServerSettings {
  // Trainers per worker from the servers' view: its replicas (cpu_num), or one if they reduce
  // before each push (use_thread_barrier).
  int trainers_per_worker = 1;
  std::vector<std::string> flags;
};
// Reads the settings of this job with these trainer arguments and this environment. Ignores errors
// in an argument; the trainer reports them.
StatusOr<ServerSettings> ReadServerSettings(const std::string& path,
                                            const std::vector<std::string>& args,
                                            const std::map<std::string, std::string>& environment);

// The table for --help.
const std::vector<FlagSpec>& LaunchFlags();

// Calls ParseArgs for a command line of tandemrun, in which fields of the job may also precede
// "--".
StatusOr<ParsedArgs> ParseLaunchArgs(const std::vector<std::string>& args);

// `program_folder`: directory of tandem-pserver and tandem-trainer, unless flags override it.
// INVALID_ARGUMENT (a usage error): the message names the contradiction. Reads the job file.
StatusOr<LaunchOptions> MakeLaunchOptions(const ParsedArgs& args,
                                          const std::string& program_folder);

}  // namespace tandem::deploy
