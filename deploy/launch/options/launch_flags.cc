#include "deploy/launch/options/launch_flags.h"

#include "deploy/launch/options/host_options.h"

namespace tandem::deploy {
namespace {

// The flags of the processes, addresses and security of a job.
std::vector<FlagSpec> JobFlags() {
  return {
      {"mode", "", "MODE",
       "local, pserver, collective or hybrid (default: determined from other flags or the job)"},
      {"servers", "server_num", "N|LIST",
       "number of pservers to start, on Unix-domain sockets in a private directory (on free ports "
       "with TLS or --start_port), or a list HOST:PORT,HOST:PORT"},
      {"workers", "worker_num", "N|LIST",
       "trainers in pserver and hybrid mode: a number, or a list HOST:PORT,HOST:PORT"},
      {"heter_workers", "", "N|LIST",
       "hybrid mode: workers that run the operators under heter_worker_device_guard: a divisor of "
       "the number of trainers, or a list HOST:PORT,HOST:PORT"},
      {"heter_place", "", "PLACE", "device of heter workers: cpu, cuda, cuda:N"},
      {"nproc", "nproc_per_node", "N|MIN:MAX",
       "collective mode: ranks per host; MIN:MAX (elastic) starts MAX ranks and continues without "
       "lost ranks while at least MIN run; SIGUSR1 starts lost ranks again"},
      {"ips", "", "LIST", "collective mode: hosts of the job, HOST,HOST"},
      {"gpus", "", "LIST", "CUDA devices, one trainer on each: 0,1"},
      {"start_port", "", "PORT",
       "first port on each host (default: free ports; 6170 on several hosts)"},
      {"status_port", "", "PORT",
       "first port for status pages and metrics: trainer 0 at http://127.0.0.1:PORT/, other "
       "processes on the following ports"},
      {"metrics_listen", "", "HOST:PORT",
       "address of a page /metrics of tandemrun with the numbers of workers and pservers, for "
       "autoscalers"},
      {"log_dir", "", "DIR", "directory with one log file per process (default ./log-<job>)"},
      {"secret_file", "", "FILE",
       "file with the job's secret (default: a new secret; also TANDEM_SECRET_FILE)"},
      {"tls", "", "",
       "mutual TLS between all processes of the job, with certificates made for this job (one "
       "host, or --hosts=N)"},
      {"tls_dir", "", "DIR",
       "mutual TLS with the certificates in DIR/pserver and DIR/trainer (tandem certs issue)"},
      {"audit", "", "", "pservers write every call to LOG_DIR/audit.N.jsonl: caller, call, time"},
      {"insecure_allow_network", "", "", "allow network addresses without encryption"},
      {"rendezvous", "", "URL",
       "rendezvous of the ranks: tcp://HOST:PORT (default: of rank 0), file:///DIR that all hosts "
       "share, or etcd://HOST:PORT/PREFIX"},
  };
}

// The flags of the state of pservers.
std::vector<FlagSpec> PserverFlags() {
  return {
      {"pserver_data_dir", "", "DIR", "directory in which pservers store their state"},
      {"pserver_place", "", "PLACE",
       "device on which pservers store and update dense slices: cpu, cuda, cuda:N"},
      {"max_restarts", "", "N",
       "all modes except local: maximum number of restarts of killed trainers (default 0); with "
       "--pserver_data_dir also of pservers, which then write a log"},
      {"durability", "", "LEVEL",
       "durability of acknowledged pushes when a pserver is lost: none, replayable (trainers keep "
       "pushes until a checkpoint contains them) or logged (default with --max_restarts)"},
      {"standbys", "", "N",
       "number of standbys of each pserver: processes with a copy of its state, one of which "
       "replaces it when it is lost with its directory (default 0; needs --pserver_data_dir; sets "
       "--max_restarts=10)"},
      {"replication", "", "WHEN",
       "when pservers with standbys acknowledge a push: quorum (default; when a majority of the "
       "members has logged it) or async (when the primary has logged it; pushes that are lost with "
       "its disk are counted; not for sync training, streams and tandem rebalance)"},
      {"replicas", "", "N",
       "number of read replicas of each pserver: processes with a copy of its state that answer "
       "readers (default 0; needs --pserver_data_dir; sets --max_restarts=10)"},
      {"resp_port", "", "PORT",
       "first port at which replicas answer Redis clients: replica 0 of pserver 0 at "
       "127.0.0.1:PORT, then replica 0 of the other pservers, then replica 1"},
      {"snapshot_keep", "", "RULES",
       "snapshots that pservers keep, such as last=3,hourly=24,daily=7 (default last=2)"},
      {"log_keep_mb", "", "N",
       "MB of its log that each pserver keeps for tandem rows and tandem restore --step (default "
       "0)"},
      {"keep_pushes_mb", "", "N",
       "memory of each trainer for pushes with --durability=replayable (default 1024)"},
  };
}

// The flags of the launcher itself.
std::vector<FlagSpec> LauncherFlags() {
  return {
      {"grace_s", "", "SECONDS", "time between SIGTERM and SIGKILL (default 10)"},
      {"pserver_bin", "", "FILE", "program to run instead of tandem-pserver"},
      {"trainer_bin", "", "FILE",
       "program to run instead of tandem-trainer, or for a script instead of python3"},
      {"paddle_names", "", "",
       "a script may import paddle, paddle.fluid, paddle.distributed.fleet and fleetx: names of "
       "Fleet over the package tandem"},
      {"quiet", "", "", "do not show the output of trainer 0"},
      {"dry_run", "", "", "print processes, environment and ports; start nothing"},
      {"http_port", "", "PORT", "not implemented"},
      {"version", "", "", "print the version"},
      {"help", "", "", "print this"},
  };
}

}  // namespace

const std::vector<FlagSpec>& LaunchFlags() {
  static const std::vector<FlagSpec> kFlags = [] {
    std::vector<FlagSpec> flags = JobFlags();
    for (const std::vector<FlagSpec>& more : {HostFlags(), PserverFlags(), LauncherFlags()}) {
      flags.insert(flags.end(), more.begin(), more.end());
    }
    return flags;
  }();
  return kFlags;
}

}  // namespace tandem::deploy
