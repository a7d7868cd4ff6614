#include "deploy/launch/launch_plan.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "deploy/launch/pserver_members.h"
#include "deploy/launch/pserver_sockets.h"

namespace tandem::deploy {
namespace {

std::string LogPath(const LaunchPlan& plan, const char* kind, int rank) {
  return absl::StrFormat("%s/%s.%d", plan.log_dir, kind, rank);
}

// Returns the environment variables that every process of the job gets.
Environment CommonEnvironment(const LaunchOptions& options, const LaunchPlan& plan) {
  Environment env;
  env["TANDEM_JOB"] = plan.job_name;
  env["TANDEM_SECRET_FILE"] = plan.secret_file;
  // PADDLE_TRAINERS_NUM is a name of fleetrun, WORLD_SIZE one of torchrun. A trainer reads both.
  env["PADDLE_TRAINERS_NUM"] = env["WORLD_SIZE"] = std::to_string(options.workers.endpoints.size());
  if (options.mode != LaunchMode::kLocal) {
    env["PADDLE_TRAINER_ENDPOINTS"] = JoinEndpoints(options.workers.endpoints);
  }
  if (options.has_servers()) {
    env["TANDEM_PSERVERS"] = env["PADDLE_PSERVERS_IP_PORT_LIST"] =
        ServerAddresses(options.pservers);
  }
  if (options.workers.heter > 0) {
    env["TANDEM_HETER_WORKERS"] = std::to_string(options.workers.heter);
  }
  if (!plan.silent_fifo.empty()) env["TANDEM_LAUNCHER"] = plan.silent_fifo;
  if (options.has_servers() && options.supervision.max_restarts > 0) env["TANDEM_REPLACES"] = "1";
  if (options.mode == LaunchMode::kCollective || options.mode == LaunchMode::kHybrid) {
    env["TANDEM_RENDEZVOUS"] = options.workers.rendezvous.empty()
                                   ? options.workers.endpoints[0].Text()
                                   : options.workers.rendezvous;
  }
  return env;
}

void AddNetworkFlags(const LaunchOptions& options, const LaunchPlan& plan, ProcessPlan& p) {
  if (!plan.tls.dir.empty()) {
    // A replica serves and fetches with the certificate of its pserver.
    const Role role = p.role == Role::kReplica ? Role::kPserver : p.role;
    p.argv.push_back("--tls_dir=" + plan.tls.dir + "/" + RoleName(role));
  }
  if (options.security.insecure_allow_network) p.argv.push_back("--insecure_allow_network");
}

// Returns the path of the program `name`, which PATH finds. Returns `name` unchanged if it contains
// a directory or if PATH lacks the program.
std::string OnPath(const std::string& name, const Environment& env) {
  TD_REQUIRE(!name.empty());
  const auto path = env.find("PATH");
  if (path == env.end() || name.find('/') != std::string::npos) return name;
  for (const auto directory : absl::StrSplit(path->second, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(directory, "/", name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

// Finds the trainers' program on PATH, and appends the user's PYTHONPATH to python_path.
void FindProgram(const Environment& env, WorkerOptions& workers) {
  workers.program = OnPath(workers.program, env);
  const auto path = env.find("PYTHONPATH");
  if (path != env.end() && !workers.python_path.empty()) workers.python_path += ":" + path->second;
}

// Sets the command and the variables of a trainer that runs a script. The script reads its settings
// from the environment (trainer/python/tandem/fleet.py).
void AddScript(const LaunchOptions& options, const LaunchPlan& plan, ProcessPlan& p) {
  TD_REQUIRE(options.is_script && p.argv.empty() && p.role == Role::kTrainer);
  p.argv = {options.workers.program, options.job_file};
  p.env["TANDEM_MODE"] = ModeName(options.mode);
  p.env["PYTHONUNBUFFERED"] = "1";
  if (!plan.tls.dir.empty()) p.env["TANDEM_TLS_DIR"] = plan.tls.dir + "/" + RoleName(p.role);
  if (options.security.insecure_allow_network) p.env["TANDEM_INSECURE_ALLOW_NETWORK"] = "1";
  if (!options.workers.python_path.empty()) p.env["PYTHONPATH"] = options.workers.python_path;
}

// Returns the plan of a pserver. `member`: see ProcessPlan::member.
ProcessPlan Pserver(const LaunchOptions& options, const ServerSettings& settings,
                    const LaunchPlan& plan, int index, int member) {
  TD_REQUIRE(index >= 0 && static_cast<size_t>(index) < options.pservers.endpoints.size());
  ProcessPlan p;
  p.role = Role::kPserver;
  p.rank = index;
  p.member = member;
  // Member 0 has the directory, the log and the audit log of a pserver without standbys.
  const std::string number =
      member <= 0 ? std::to_string(index) : absl::StrFormat("%d.member-%d", index, member);
  p.endpoint = MemberEndpoint(options.pservers, index, std::max(member, 0));
  p.argv = {options.pservers.program, "--listen=" + p.endpoint.Text(),
            "--index=" + std::to_string(index), "--job=" + plan.job_name,
            "--trainers=" + std::to_string(plan.trainers)};
  if (!options.pservers.data_dir.empty()) {
    p.argv.push_back("--data_dir=" + options.pservers.data_dir + "/pserver-" + number);
    if (options.pservers.durability != "none")
      p.argv.push_back("--durability=" + options.pservers.durability);
    if (!options.pservers.snapshot_keep.empty()) {
      p.argv.push_back("--snapshot_keep=" + options.pservers.snapshot_keep);
    }
    if (options.pservers.log_keep_mb != 0) {
      p.argv.push_back(absl::StrFormat("--log_keep_mb=%d", options.pservers.log_keep_mb));
    }
    if (options.pservers.keep_pushes_mb != 0) {
      p.argv.push_back("--keep_pushes_mb=" + std::to_string(options.pservers.keep_pushes_mb));
    }
  }
  if (member >= 0) {
    p.argv.push_back(absl::StrFormat("--standbys=%d", options.pservers.standbys));
    p.argv.push_back(absl::StrFormat("--member=%d", member));
    if (!plan.quorum) p.argv.push_back("--replication=async");
  }
  if (!options.pservers.place.empty()) p.argv.push_back("--place=" + options.pservers.place);
  AddNetworkFlags(options, plan, p);
  p.argv.insert(p.argv.end(), settings.flags.begin(), settings.flags.end());
  if (options.security.audit) {
    p.argv.push_back(absl::StrFormat("--audit_log=%s/audit.%s.jsonl", plan.log_dir, number));
  }
  p.can_return = !options.pservers.data_dir.empty();
  p.forgets = options.pservers.durability == "none";
  p.env = CommonEnvironment(options, plan);
  p.env["TRAINING_ROLE"] = "PSERVER";
  p.env["TANDEM_SERVER_INDEX"] = std::to_string(index);
  // A primary whose tandemrun is stopped must not serve beside its successor on another host.
  if (options.hosts.several()) p.env["TANDEM_LAUNCHER_LEASE"] = LeaseFile(plan);
  // The pserver's address is always POD_IP:PADDLE_PORT, even if it is unix:/PATH.
  const std::string address = p.endpoint.Text();
  p.env["POD_IP"] = address.substr(0, address.find(':'));
  p.env["PADDLE_PORT"] = address.substr(address.find(':') + 1);
  p.log_file = absl::StrFormat("%s/%s.%s", plan.log_dir, kServerLog, number);
  return p;
}

// Adds the pservers of this host, with their standbys.
void AddPservers(const LaunchOptions& options, const ServerSettings& settings, LaunchPlan& plan) {
  for (int i = 0; i < plan.servers; ++i) {
    for (int m = 0; m <= plan.standbys; ++m) {
      if (!MemberEndpoint(options.pservers, i, m).local) continue;
      plan.processes.push_back(Pserver(options, settings, plan, i, plan.standbys == 0 ? -1 : m));
    }
  }
}

// Returns the plan of replica `number` of a pserver.
ProcessPlan Replica(const LaunchOptions& options, const ServerSettings& settings,
                    const LaunchPlan& plan, const ProcessPlan& pserver, int number,
                    const ProcessEndpoint& endpoint) {
  TD_REQUIRE(pserver.role == Role::kPserver && number >= 0);
  ProcessPlan p;
  p.role = Role::kReplica;
  p.rank = pserver.rank;
  p.replica = number;
  p.endpoint = endpoint;
  const std::string name = absl::StrFormat("%d.replica-%d", p.rank, number);
  p.argv = {options.pservers.program,
            "--replica_of=" + pserver.endpoint.Text(),
            "--listen=" + p.endpoint.Text(),
            "--index=" + std::to_string(p.rank),
            "--job=" + plan.job_name,
            "--data_dir=" + options.pservers.data_dir + "/pserver-" + name,
            "--durability=logged"};
  if (options.pservers.resp_port > 0) {
    // The first ports are those of one replica of each pserver, which are enough for a client.
    p.resp_port = options.pservers.resp_port + number * plan.servers + p.rank;
    p.argv.push_back(absl::StrFormat("--resp_listen=127.0.0.1:%d", p.resp_port));
  }
  AddNetworkFlags(options, plan, p);
  for (const std::string& flag : settings.flags) {
    // Each replica has its own rows outside memory.
    const bool own = flag.starts_with("--rocksdb_path=");
    p.argv.push_back(own ? absl::StrFormat("%s.replica-%d", flag, number) : flag);
  }
  if (options.security.audit) {
    p.argv.push_back(absl::StrFormat("--audit_log=%s/audit.%s.jsonl", plan.log_dir, name));
  }
  p.can_return = true;
  p.env = pserver.env;
  p.env.erase("TANDEM_LAUNCHER");  // trainers do not wait for a replica
  p.log_file = absl::StrFormat("%s/%s.%s", plan.log_dir, kServerLog, name);
  return p;
}

// Adds the replicas of the pservers of this host. `first_port`: 0 uses free ports.
Status AddReplicas(const LaunchOptions& options, const ServerSettings& settings, int first_port,
                   LaunchPlan& plan) {
  if (plan.replicas == 0) return OkStatus();
  std::vector<ProcessEndpoint> endpoints;
  for (int r = 0; r < plan.replicas; ++r) {
    for (int s = 0; s < plan.servers; ++s) {
      const ProcessEndpoint& of = options.pservers.endpoints[static_cast<size_t>(s)];
      ProcessEndpoint e{of.host, 0, of.local};
      if (!plan.socket_dir.empty()) {
        e = {"", 0, true, absl::StrFormat("%s/replica-%d-%d", plan.socket_dir, s, r)};
      } else if (of.is_unix()) {
        e = {"127.0.0.1", 0, true};
      }
      endpoints.push_back(std::move(e));
    }
  }
  TD_RETURN_IF_ERROR(AssignPorts("replicas", first_port, endpoints));
  if (const int last = options.pservers.resp_port + static_cast<int>(endpoints.size()) - 1;
      options.pservers.resp_port > 0 && last > 65535) {
    return InvalidArgument(
        "--resp_port=%d leaves too few ports for the replicas [TD1004]; hint: choose a smaller "
        "port",
        options.pservers.resp_port);
  }
  std::vector<ProcessPlan> replicas;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    const int server = static_cast<int>(i) % plan.servers;
    const auto of = std::ranges::find_if(
        plan.processes, [server](const ProcessPlan& p) { return p.rank == server; });
    TD_REQUIRE(of != plan.processes.end());
    replicas.push_back(
        Replica(options, settings, plan, *of, static_cast<int>(i) / plan.servers, endpoints[i]));
  }
  plan.processes.insert(plan.processes.end(), replicas.begin(), replicas.end());
  return OkStatus();
}

// Returns the plan of a trainer. `local_rank`: index among the `local_size` trainers of this host.
ProcessPlan Trainer(const LaunchOptions& options, const LaunchPlan& plan, int rank, int local_rank,
                    int local_size) {
  TD_REQUIRE(rank >= 0 && static_cast<size_t>(rank) < options.workers.endpoints.size());
  TD_REQUIRE(local_rank >= 0 && local_rank < local_size);
  TD_REQUIRE(options.workers.gpus.empty() ||
             static_cast<size_t>(local_rank) < options.workers.gpus.size());
  ProcessPlan p;
  p.role = Role::kTrainer;
  p.rank = rank;
  p.endpoint = options.workers.endpoints[static_cast<size_t>(rank)];
  p.heter = rank >= plan.workers - plan.heter_workers;
  p.can_return = options.mode != LaunchMode::kLocal;
  p.env = CommonEnvironment(options, plan);
  if (options.is_script) {
    AddScript(options, plan, p);
  } else {
    p.argv = {options.workers.program, "--job_file=" + options.job_file,
              std::string("--mode=") + ModeName(options.mode)};
    AddNetworkFlags(options, plan, p);
  }
  if (plan.ranks_return())
    p.env["TANDEM_MAX_RESTARTS"] = std::to_string(options.supervision.max_restarts);
  if (options.hosts.several()) p.env["TANDEM_LAUNCHER_LEASE"] = LeaseFile(plan);
  if (plan.elastic()) {
    p.env["TANDEM_WORLD_FILE"] = plan.world_file;
    p.argv.push_back("--elastic=true");
  }
  p.env["TRAINING_ROLE"] = "TRAINER";
  if (!options.workers.rendezvous.empty()) p.env["TANDEM_LISTEN_HOST"] = p.endpoint.host;
  p.env["PADDLE_TRAINER_ID"] = p.env["RANK"] = std::to_string(rank);
  p.env["LOCAL_RANK"] = std::to_string(local_rank);
  p.env["LOCAL_WORLD_SIZE"] = std::to_string(local_size);
  if (options.mode != LaunchMode::kLocal) p.env["PADDLE_CURRENT_ENDPOINT"] = p.endpoint.Text();
  if (!options.workers.gpus.empty()) {
    const std::string& card = options.workers.gpus[static_cast<size_t>(local_rank)];
    p.env["FLAGS_selected_gpus"] = card;
    if (!options.is_script) p.argv.push_back("--place=cuda:" + card);
  }
  if (p.heter && !options.workers.heter_place.empty())
    p.argv.push_back("--place=" + options.workers.heter_place);
  p.argv.insert(p.argv.end(), options.workers.args.begin(), options.workers.args.end());
  p.log_file = LogPath(plan, p.heter ? kHeterLog : kTrainerLog, rank);
  return p;
}

// Adds the trainers of this host. Returns their number.
int AddTrainers(const LaunchOptions& options, LaunchPlan& plan) {
  int local_size = 0, local_rank = 0;
  for (const ProcessEndpoint& e : options.workers.endpoints) local_size += e.local ? 1 : 0;
  plan.hosts.remote_workers = local_size < plan.workers;
  for (int i = 0; i < plan.workers; ++i) {
    if (!options.workers.endpoints[static_cast<size_t>(i)].local) continue;
    plan.processes.push_back(Trainer(options, plan, i, local_rank++, local_size));
  }
  return local_size;
}

// Assigns the ports of status pages. Trainers get the first ports, because the user usually looks
// at a trainer's page. Pservers get the next ports, then replicas.
Status AddStatusPages(int first_port, LaunchPlan& plan) {
  TD_REQUIRE(first_port > 0);
  int port = first_port;
  for (const Role role : {Role::kTrainer, Role::kPserver, Role::kReplica}) {
    for (ProcessPlan& p : plan.processes) {
      if (p.role != role) continue;
      if (port > 65535) {
        return InvalidArgument(
            "--status_port=%d leaves too few ports for the processes [TD1004]; hint: choose a "
            "smaller port",
            first_port);
      }
      p.status_port = port++;
      const std::string address = absl::StrFormat("127.0.0.1:%d", p.status_port);
      p.argv.push_back("--status_listen=" + address);
      p.status_page = "http://" + address + "/";
    }
  }
  return OkStatus();
}

bool HasRemote(const LaunchOptions& options) {
  const auto remote = [](const ProcessEndpoint& e) { return !e.local; };
  return std::any_of(options.pservers.endpoints.begin(), options.pservers.endpoints.end(),
                     remote) ||
         std::any_of(options.workers.endpoints.begin(), options.workers.endpoints.end(), remote);
}

std::vector<int> HostNumbers(const std::vector<ProcessEndpoint>& processes) {
  std::vector<int> numbers;
  for (const ProcessEndpoint& e : processes) numbers.push_back(e.host_number);
  return numbers;
}

Status ChooseTls(const LaunchOptions& options, LaunchPlan& plan) {
  plan.tls.dir = options.security.tls_dir;
  plan.tls.make = options.security.make_tls;
  for (const ProcessEndpoint& e : options.pservers.endpoints) {
    if (!e.is_unix() || (!plan.tls.make && plan.tls.dir.empty())) continue;
    return InvalidArgument(
        "--servers=%s is a Unix-domain socket, which does not support TLS [TD1005]; hint: use "
        "--servers=127.0.0.1:PORT with TLS, or no TLS",
        e.Text());
  }
  if (!plan.tls.make) return OkStatus();
  if (HasRemote(options) && !options.hosts.several() && plan.tls.certificates.empty()) {
    return InvalidArgument(
        "--tls supports only a single host, or several hosts with --hosts=N [TD1005]; hint: run "
        "tandem certs init DIR and tandem "
        "certs issue DIR --job=%s --role=pserver --host=... (and --role=trainer), then use "
        "--tls_dir=DIR/%s on each host",
        options.job_name, options.job_name);
  }
  plan.tls.dir = plan.log_dir + "/tls";
  for (const ProcessEndpoint& e : options.pservers.endpoints) {
    if (std::count(plan.tls.hosts.begin(), plan.tls.hosts.end(), e.host) == 0) {
      plan.tls.hosts.push_back(e.host);
    }
  }
  return OkStatus();
}

Status ChooseSecret(const LaunchOptions& options, const Environment& env, LaunchPlan& plan) {
  plan.secret_file = options.security.secret_file;
  const auto given = env.find("TANDEM_SECRET_FILE");
  if (plan.secret_file.empty() && given != env.end()) plan.secret_file = given->second;
  plan.make_secret = plan.secret_file.empty();
  if (!plan.make_secret) return OkStatus();
  plan.secret_file = plan.log_dir + "/job.secret";
  if (!HasRemote(options)) return OkStatus();
  return InvalidArgument(
      "a job on several hosts needs a secret, but neither --secret_file nor TANDEM_SECRET_FILE is "
      "set [TD6013]; hint: create a secret with openssl rand -hex 32 > job.secret and chmod 600 "
      "job.secret, and set --secret_file to a copy of the file on each host");
}

// Sets how long OpenMP threads spin. By default they spin for milliseconds, which makes processes
// that share cores several times slower. A trainer that is alone on its host spins for 30 us, the
// duration of a sleep and a wake-up, because a step has dozens of such waits. libgomp does not spin
// if a process has more threads than processors. The trainer still chooses the number of threads.
void SetWaiting(const Environment& env, bool alone, LaunchPlan& plan) {
  for (ProcessPlan& p : plan.processes) {
    p.env["OMP_WAIT_POLICY"] = "passive";
    if (p.role != Role::kTrainer || !alone || env.count("GOMP_SPINCOUNT") != 0) continue;
    p.env["GOMP_SPINCOUNT"] = "3000";
  }
}

// Returns LaunchPlan::joins_again. The state of the job is in its pservers' standbys or in a
// checkpoint.
StatusOr<bool> JoinsAgain(const LaunchOptions& options, const Environment& env,
                          const LaunchPlan& plan) {
  if (!plan.hosts.several || options.supervision.max_restarts == 0) return false;
  if (!plan.hosts.members.empty()) return true;
  // If the tandemruns of an elastic job meet in a store, it could get a second leading host while
  // the first one goes on with its ranks.
  if (plan.elastic() && !options.hosts.names_leader) return false;
  if (plan.mode != LaunchMode::kCollective || options.is_script) return false;
  return WritesCheckpoints(options.job_file, options.workers.args, env);
}

}  // namespace

std::string LeaseFile(const LaunchPlan& plan) { return plan.log_dir + "/lease"; }

std::string ProcessPlan::Name() const {
  if (role == Role::kReplica) return absl::StrFormat("replica %d of pserver %d", replica, rank);
  const std::string name = std::string(Kind()) + " " + std::to_string(rank);
  return member < 0 ? name : absl::StrFormat("%s (member %d)", name, member);
}

const char* RoleName(Role role) {
  switch (role) {
    case Role::kPserver:
      return "pserver";
    case Role::kTrainer:
      return "trainer";
    case Role::kReplica:
      return "replica";
  }
  return "";
}

Environment WithoutRanks(Environment env) {
  for (const char* name : {"TANDEM_RANK",
                           "TANDEM_SIZE",
                           "TANDEM_LOCAL_RANK",
                           "TANDEM_LOCAL_SIZE",
                           "TANDEM_ROLE",
                           "TANDEM_PSERVERS",
                           "TANDEM_RENDEZVOUS",
                           "TANDEM_LISTEN_HOST",
                           "TANDEM_HETER_WORKERS",
                           "TANDEM_JOB",
                           "TANDEM_SERVER_INDEX",
                           "TANDEM_MAX_RESTARTS",
                           "TANDEM_RESTARTED",
                           "TANDEM_LAUNCHER",
                           "TANDEM_REPLACES",
                           "TANDEM_WORLD_FILE",
                           "TANDEM_LAUNCHER_LEASE",
                           "TANDEM_MODE",
                           "TANDEM_TLS_DIR",
                           "TANDEM_INSECURE_ALLOW_NETWORK",
                           "TRAINING_ROLE",
                           "PADDLE_TRAINER_ID",
                           "PADDLE_TRAINERS_NUM",
                           "PADDLE_TRAINER_ENDPOINTS",
                           "PADDLE_CURRENT_ENDPOINT",
                           "PADDLE_PSERVERS_IP_PORT_LIST",
                           "PADDLE_PORT",
                           "POD_IP",
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "MASTER_ADDR",
                           "MASTER_PORT"}) {
    env.erase(name);
  }
  return env;
}

StatusOr<LaunchPlan> MakeLaunchPlan(LaunchOptions options, const Environment& env,
                                    std::vector<RoleCertificate> certificates) {
  TD_REQUIRE(!options.workers.endpoints.empty());
  TD_REQUIRE(static_cast<size_t>(options.workers.heter) < options.workers.endpoints.size());
  std::string socket_dir;
  if (options.pservers.private_sockets) {
    socket_dir = NewSocketDir(env);
    int index = 0;
    for (ProcessEndpoint& e : options.pservers.endpoints) {
      e = {"", 0, true, absl::StrFormat("%s/pserver-%d", socket_dir, index++)};
    }
  }
  TD_RETURN_IF_ERROR(AssignPorts("servers", options.start_port, options.pservers.endpoints));
  // Trainers get the ports after those of the pservers, because pservers and trainers may run on
  // one host, where both count from the same first port. Replicas get the next ports.
  const auto after = [&options](size_t processes) {
    return options.start_port == 0 ? 0 : options.start_port + static_cast<int>(processes);
  };
  const size_t servers = options.pservers.endpoints.size();
  if (options.mode != LaunchMode::kLocal) {
    TD_RETURN_IF_ERROR(AssignPorts("workers", after(servers), options.workers.endpoints));
  }
  FindProgram(env, options.workers);
  LaunchPlan plan;
  plan.job_name = options.job_name;
  plan.mode = options.mode;
  plan.log_dir = options.log_dir;
  plan.insecure_allow_network = options.security.insecure_allow_network;
  plan.socket_dir = socket_dir;
  plan.servers = static_cast<int>(options.pservers.endpoints.size());
  plan.standbys = options.pservers.standbys;
  plan.quorum = options.pservers.replication != "async";
  plan.replicas = options.pservers.replicas;
  plan.pserver_data_dir = options.pservers.data_dir;
  plan.pservers = ServerAddresses(options.pservers);
  plan.hosts = {HostNumbers(options.workers.endpoints), HostNumbers(options.pservers.endpoints),
                Members(options.pservers)};
  plan.hosts.several = options.hosts.several();
  plan.workers = static_cast<int>(options.workers.endpoints.size());
  plan.heter_workers = options.workers.heter;
  plan.trainers = plan.workers - plan.heter_workers;
  const bool ranks = plan.mode == LaunchMode::kCollective || plan.mode == LaunchMode::kHybrid;
  plan.ranks_least = options.workers.ranks_least;
  if (plan.elastic()) plan.world_file = plan.log_dir + "/world";
  plan.ranks_meet_again = ranks && (options.supervision.max_restarts > 0 || plan.elastic());
  if (plan.ranks_meet_again || plan.servers > 0) plan.silent_fifo = plan.log_dir + "/silent";
  TD_ASSIGN_OR_RETURN(plan.joins_again, JoinsAgain(options, env, plan));
  ServerSettings settings;
  if (plan.servers > 0) {
    if (!options.is_script) {
      TD_ASSIGN_OR_RETURN(settings,
                          ReadServerSettings(options.job_file, options.workers.args, env));
    }
    plan.trainers *= settings.trainers_per_worker;
  }
  TD_RETURN_IF_ERROR(ChooseSecret(options, env, plan));
  plan.tls.certificates = std::move(certificates);
  TD_RETURN_IF_ERROR(ChooseTls(options, plan));

  AddPservers(options, settings, plan);
  TD_RETURN_IF_ERROR(
      AddReplicas(options, settings, after(servers + options.workers.endpoints.size()), plan));
  const int local_size = AddTrainers(options, plan);
  if (options.status_port > 0) {
    TD_RETURN_IF_ERROR(AddStatusPages(options.status_port, plan));
  }
  if (env.count("OMP_WAIT_POLICY") == 0) SetWaiting(env, /*alone=*/local_size == 1, plan);
  return plan;
}

std::string LaunchPlan::Counts(const char* between) const {
  std::vector<std::string> kinds;
  const auto add = [&kinds](int count, const char* kind) {
    if (count > 0) kinds.push_back(Counted(static_cast<size_t>(count), kind));
  };
  add(servers, "pserver");
  add(servers * standbys, "standby");
  add(servers * replicas, "replica");
  add(workers - heter_workers, "trainer");
  add(heter_workers, "heter worker");
  return absl::StrJoin(kinds, between);
}

std::string Counted(size_t count, const char* thing) {
  return absl::StrFormat("%d %s%s", count, thing, count == 1 ? "" : "s");
}

std::string Describe(const LaunchPlan& plan) {
  std::string text = absl::StrFormat("job %s, mode %s: %s; logs in %s\n", plan.job_name,
                                     ModeName(plan.mode), plan.Counts(", "), plan.log_dir);
  for (const ProcessPlan& p : plan.processes) {
    text += "\n" + p.Name();
    if (p.endpoint.port != 0 || p.endpoint.is_unix()) text += "  " + p.endpoint.Text();
    text += "\n  command " + absl::StrJoin(p.argv, " ") + "\n  log     " + p.log_file + "\n";
    if (!p.status_page.empty()) text += "  status  " + p.status_page + "\n";
    for (const auto& [name, value] : p.env) {
      absl::StrAppend(&text, "  env     ", name, "=", value, "\n");
    }
  }
  return text;
}

}  // namespace tandem::deploy
