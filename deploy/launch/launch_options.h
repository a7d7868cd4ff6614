// What the user asked of tandemrun, checked for contradictions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/endpoints.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

enum class LaunchMode { kLocal, kPserver, kCollective, kHybrid };
const char* ModeName(LaunchMode mode);  // "local", ...: the spelling of --mode

struct LaunchOptions {
  std::string job_file;
  std::string job_name;
  LaunchMode mode = LaunchMode::kLocal;
  std::vector<Endpoint> servers;  // port 0: to be chosen
  // The pservers listen on Unix-domain sockets in a folder of this job: all processes are here, and
  // neither addresses nor ports nor certificates (which name hosts) were asked for.
  bool private_sockets = false;
  std::vector<Endpoint> workers;  // at least one; heter workers last
  int heter_workers = 0;          // so many of them
  std::string heter_place;        // of those: "cuda"; empty: the job's
  std::vector<std::string> gpus;  // one a local worker, or empty
  int start_port = 0;             // 0: free ports
  int status_port = 0;            // first port of the status pages; 0: none are served
  std::string log_dir;
  std::string secret_file;  // empty: make one for this job
  // TLS between trainers and pservers: a folder with pserver/ and trainer/ (TlsFilesIn), or
  // certificates made for this job alone; else none.
  std::string tls_dir;
  bool make_tls = false;
  bool audit = false;                   // pservers note every call
  bool insecure_allow_network = false;  // what goes over the network may go in the clear
  std::string rendezvous;               // where ranks meet; empty: where rank 0 listens
  std::string pserver_data_dir;
  std::string durability = "none";  // of pservers; another one: REQUIRES pserver_data_dir
  int keep_pushes_mb = 0;           // with durability replayable; 0: as pservers see fit
  std::string pserver_place;        // of dense slices: "cuda"; empty: the pserver's default
  std::string pserver_program, trainer_program;
  std::vector<std::string> trainer_args;  // handed on as they are
  int grace_s = 10;                       // from SIGTERM to SIGKILL
  int max_restarts = 0;                   // of processes that were killed
  int ranks_least = 0;                    // that the job goes on with; 0: it needs all
  bool quiet = false;
  bool dry_run = false;

  bool has_servers() const { return mode == LaunchMode::kPserver || mode == LaunchMode::kHybrid; }
};

// What a job file says about itself.
struct JobHeader {
  std::string name;
  LaunchMode mode = LaunchMode::kLocal;
};
// NOT_FOUND when there is no such file; INVALID_ARGUMENT "file:line:col: error: ..." when it is no
// job file.
StatusOr<JobHeader> ReadJobHeader(const std::string& path);
// What the servers of a job are told of its settings.
struct ServerSettings {
  // Trainers that a worker is to them: its places (cpu_num), or one where they meet before each
  // push (use_thread_barrier).
  int trainers_per_worker = 1;
  std::vector<std::string> flags;
};
// Of this job with these arguments of trainers and this environment. What is wrong with an argument
// is for the trainer to say.
StatusOr<ServerSettings> ReadServerSettings(const std::string& path,
                                            const std::vector<std::string>& args,
                                            const std::map<std::string, std::string>& environment);

// The table of --help.
const std::vector<FlagSpec>& LaunchFlags();

// ParseArgs of a command line of tandemrun: fields of the job may stand before "--", too.
StatusOr<ParsedArgs> ParseLaunchArgs(const std::vector<std::string>& args);

// `program_folder`: where tandem-pserver and tandem-trainer are, unless flags say otherwise.
// INVALID_ARGUMENT (a usage error) names what contradicts what. Reads the job file.
StatusOr<LaunchOptions> MakeLaunchOptions(const ParsedArgs& args,
                                          const std::string& program_folder);

}  // namespace tandem::deploy
