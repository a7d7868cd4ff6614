#include "deploy/launch/options/launch_options.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/keep_rules.h"
#include "common/base/nearest.h"
#include "common/strategy/setting_names.h"
#include "proto/job.pb.h"

namespace tandem::deploy {
namespace {

// Maximum number of processes on one machine, far above any useful number.
constexpr int kProcessesMax = 1024;
constexpr int kStandbysMax = 16;      // maximum number of standbys of a pserver
constexpr int kReplicasMax = 16;      // maximum number of read replicas of a pserver
constexpr int kStandbyRestarts = 10;  // default of --max_restarts with --standbys or --replicas

// Returns the name of a flag as the user wrote it.
std::string Spelled(const ParsedArgs& args, const std::string& name) {
  return args.flags.at(name).spelled;
}

StatusOr<std::optional<LaunchMode>> ModeFlag(const ParsedArgs& args) {
  if (!args.Has("mode")) return std::optional<LaunchMode>();
  const std::string text = args.Get("mode");
  if (text == "local") return std::optional(LaunchMode::kLocal);
  if (text == "pserver" || text == "ps") return std::optional(LaunchMode::kPserver);
  if (text == "collective") return std::optional(LaunchMode::kCollective);
  if (text == "hybrid") return std::optional(LaunchMode::kHybrid);
  return InvalidArgument(
      "--mode: expected local, pserver, collective or hybrid, got \"%s\" [TD1006]%s", text,
      HintText(text, {"local", "pserver", "collective", "hybrid"}));
}

// Returns the mode that --mode names. Without --mode, flags of servers or ranks (--servers,
// --nproc) determine the mode. Without such flags, the mode is `of_file`, the mode in the job file.
StatusOr<LaunchMode> ChooseMode(const ParsedArgs& args, LaunchMode of_file) {
  std::string about_servers, about_ranks;
  for (const char* name : {"servers", "workers", "heter_workers", "heter_place", "pserver_data_dir",
                           "durability", "pserver_place", "standbys", "replication", "replicas"}) {
    if (args.Has(name)) about_servers = Spelled(args, name);
  }
  if (args.Has("hosts") && !HostsAreCounted(args)) about_ranks = Spelled(args, "hosts");
  for (const char* name : {"nproc", "ips"}) {
    if (args.Has(name)) about_ranks = Spelled(args, name);
  }
  if (!about_servers.empty() && !about_ranks.empty()) {
    return InvalidArgument(
        "%s needs pserver mode, but %s needs collective mode [TD1005]; hint: use --servers=2 "
        "--workers=2 for pserver mode, or --nproc=2 for collective mode",
        about_servers, about_ranks);
  }
  TD_ASSIGN_OR_RETURN(const std::optional<LaunchMode> flag, ModeFlag(args));
  const bool hybrid = of_file == LaunchMode::kHybrid || args.Has("heter_workers");
  const LaunchMode with_servers = hybrid ? LaunchMode::kHybrid : LaunchMode::kPserver;
  if (flag && *flag != LaunchMode::kPserver && *flag != LaunchMode::kHybrid &&
      !about_servers.empty()) {
    return InvalidArgument("%s needs pserver mode, which contradicts --mode=%s [TD1005]",
                           about_servers, ModeName(*flag));
  }
  if (flag && *flag != LaunchMode::kCollective && !about_ranks.empty()) {
    return InvalidArgument("%s needs collective mode, which contradicts --mode=%s [TD1005]",
                           about_ranks, ModeName(*flag));
  }
  if (flag) return *flag;
  if (!about_servers.empty()) return with_servers;
  if (!about_ranks.empty()) return LaunchMode::kCollective;
  return of_file;
}

// Parses "2" (2 processes on this machine) or "host:port,..." (the addresses of all processes of
// the job).
StatusOr<std::vector<ProcessEndpoint>> CountOrList(const ParsedArgs& args,
                                                   const std::string& name) {
  const std::string text = args.Get(name);
  if (text.find_first_not_of("0123456789") != std::string::npos) return ParseEndpoints(name, text);
  TD_ASSIGN_OR_RETURN(const int count, args.GetInt(name, 0, 1, kProcessesMax));
  return std::vector<ProcessEndpoint>(static_cast<size_t>(count),
                                      ProcessEndpoint{"127.0.0.1", 0, true});
}

// Adds the heter workers to the list of trainers, at its end.
Status FillHeterWorkers(const ParsedArgs& args, LaunchOptions& options) {
  if (!args.Has("heter_workers")) {
    if (!args.Has("heter_place")) return OkStatus();
    return InvalidArgument("%s has no effect without --heter_workers [TD1005]",
                           Spelled(args, "heter_place"));
  }
  const std::string flag = Spelled(args, "heter_workers");
  if (options.mode != LaunchMode::kHybrid) {
    return InvalidArgument("%s needs hybrid mode, which contradicts --mode=%s [TD1005]", flag,
                           ModeName(options.mode));
  }
  TD_ASSIGN_OR_RETURN(const std::vector<ProcessEndpoint> added, CountOrList(args, "heter_workers"));
  if (options.workers.endpoints.size() % added.size() != 0) {
    return InvalidArgument(
        "%s: %d trainers cannot be divided equally among %d heter workers [TD1004]; hint: use a "
        "number of heter workers that divides the number of trainers",
        flag, options.workers.endpoints.size(), added.size());
  }
  for (const char* name : {"max_restarts", "gpus", "standbys", "replicas"}) {
    if (!args.Has(name)) continue;
    return InvalidArgument("%s together with %s is not implemented [TD1109]", flag,
                           Spelled(args, name));
  }
  options.workers.heter_place = args.Get("heter_place");
  options.workers.heter = static_cast<int>(added.size());
  options.workers.endpoints.insert(options.workers.endpoints.end(), added.begin(), added.end());
  return OkStatus();
}

Status FillPserver(const ParsedArgs& args, LaunchOptions& options) {
  if (options.hosts.least < options.hosts.count) {
    return InvalidArgument(
        "--hosts=%s (elastic) needs collective mode, which contradicts mode %s [TD1005]; hint: use "
        "--hosts=%d",
        args.Get("hosts"), ModeName(options.mode), options.hosts.count);
  }
  for (const char* name : {"servers", "workers"}) {
    if (!args.Has(name)) {
      return InvalidArgument(
          "%s mode needs --%s [TD1007]; hint: run tandemrun --servers=2 --workers=2 %s",
          ModeName(options.mode), name, options.job_file);
    }
  }
  TD_ASSIGN_OR_RETURN(options.pservers.endpoints, CountOrList(args, "servers"));
  TD_ASSIGN_OR_RETURN(options.workers.endpoints, CountOrList(args, "workers"));
  TD_RETURN_IF_ERROR(FillHeterWorkers(args, options));
  Spread(options.hosts.count, options.pservers.endpoints);
  Spread(options.hosts.count, options.workers.endpoints);
  if (options.hosts.several() && options.pservers.standbys > 0) {
    TD_ASSIGN_OR_RETURN(
        options.pservers.standby_endpoints,
        SpreadStandbys(options.hosts.count, options.pservers.standbys, options.pservers.endpoints));
  }
  const bool counted = args.Get("servers").find_first_not_of("0123456789") == std::string::npos;
  options.pservers.private_sockets =
      counted && !options.hosts.several() && options.start_port == 0 &&
      !options.security.make_tls && options.security.tls_dir.empty() &&
      std::all_of(options.workers.endpoints.begin(), options.workers.endpoints.end(),
                  [](auto& e) { return e.local; });
  return OkStatus();
}

// Parses the value of --nproc: "4", or "2:4" for four ranks, of which two are sufficient to
// continue the job. Returns the number of ranks, or `otherwise` if --nproc is absent.
StatusOr<int> RanksOfHost(const ParsedArgs& args, int otherwise, LaunchOptions& options) {
  const std::string text = args.Get("nproc");
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return args.GetInt("nproc", otherwise, 1, kProcessesMax);
  int most = 0;
  if (!absl::SimpleAtoi(text.substr(0, colon), &options.workers.ranks_least) ||
      !absl::SimpleAtoi(text.substr(colon + 1), &most) || options.workers.ranks_least < 1 ||
      most < options.workers.ranks_least || most > kProcessesMax) {
    return InvalidArgument(
        "%s: expected N or MIN:MAX with 1 <= MIN <= MAX <= %d, got \"%s\" [TD1004]",
        Spelled(args, "nproc"), kProcessesMax, text);
  }
  return most;
}

// Returns the names of the hosts in --ips or --hosts.
std::string HostList(const ParsedArgs& args) {
  if (args.Has("hosts") && !HostsAreCounted(args)) return args.Get("hosts");
  return args.Get("ips", "127.0.0.1");
}

Status FillCollective(const ParsedArgs& args, LaunchOptions& options) {
  const int cards = static_cast<int>(options.workers.gpus.size());
  TD_ASSIGN_OR_RETURN(const int nproc, RanksOfHost(args, std::max(cards, 1), options));
  TD_ASSIGN_OR_RETURN(const std::vector<ProcessEndpoint> hosts,
                      ParseEndpoints("ips", HostList(args)));
  if (options.hosts.several()) {
    // One rank of the minimum on each host that must stay.
    if (options.hosts.least < options.hosts.count && options.workers.ranks_least == 0) {
      options.workers.ranks_least = nproc;
    }
    options.workers.ranks_least *= options.hosts.least;
    options.workers.endpoints.resize(
        static_cast<size_t>(options.hosts.count) * static_cast<size_t>(nproc), hosts[0]);
    Spread(options.hosts.count, options.workers.endpoints);
    return OkStatus();
  }
  if (options.workers.ranks_least > 0 && (hosts.size() > 1 || cards > 0)) {
    return InvalidArgument("%s=%s needs CPU ranks on a single host [TD1005]; hint: use --nproc=%d",
                           Spelled(args, "nproc"), args.Get("nproc"), nproc);
  }
  for (const ProcessEndpoint& host : hosts) {
    if (host.port != 0) {
      return InvalidArgument(
          "--ips expects hosts without ports, got \"%s\" [TD1011]; hint: set --start_port=%d",
          host.Text(), host.port);
    }
    options.workers.endpoints.insert(options.workers.endpoints.end(), static_cast<size_t>(nproc),
                                     host);
  }
  if (!args.Has("nproc") && HostList(args) == "127.0.0.1" && !args.Has("ips") && cards == 0) {
    return InvalidArgument(
        "collective mode needs --nproc [TD1007]; hint: run tandemrun --nproc=2 %s",
        options.job_file);
  }
  return OkStatus();
}

// Sets the options for states and log entries that pservers keep beside their newest checkpoint.
Status FillKept(const ParsedArgs& args, LaunchOptions& options) {
  for (const char* name : {"snapshot_keep", "log_keep_mb"}) {
    if (!args.Has(name) || !options.pservers.data_dir.empty()) continue;
    return InvalidArgument("%s needs a directory [TD4012]; hint: set --pserver_data_dir=DIR",
                           Spelled(args, name));
  }
  options.pservers.snapshot_keep = args.Get("snapshot_keep");
  if (args.Has("snapshot_keep")) {
    const Status parsed = ParseKeepRules(options.pservers.snapshot_keep).status();
    TD_RETURN_IF_ERROR(Annotate(parsed, Spelled(args, "snapshot_keep")));
  }
  TD_ASSIGN_OR_RETURN(options.pservers.log_keep_mb, args.GetInt("log_keep_mb", 0, 0, 1 << 30));
  if (options.pservers.log_keep_mb == 0 || options.pservers.durability == "logged") {
    return OkStatus();
  }
  return InvalidArgument("%s has no effect without --durability=logged [TD1005]",
                         Spelled(args, "log_keep_mb"));
}

Status FillDurability(const ParsedArgs& args, LaunchOptions& options) {
  options.pservers.data_dir = args.Get("pserver_data_dir");
  const bool returns = options.supervision.max_restarts > 0 && !options.pservers.data_dir.empty();
  options.pservers.durability = args.Get("durability", returns ? "logged" : "none");
  const std::vector<std::string> known = {"none", "replayable", "logged"};
  if (std::find(known.begin(), known.end(), options.pservers.durability) == known.end()) {
    return InvalidArgument(
        "--durability: expected none, replayable or logged, got \"%s\" [TD1006]%s",
        options.pservers.durability, HintText(options.pservers.durability, known));
  }
  if (options.pservers.durability != "none" && options.pservers.data_dir.empty()) {
    return InvalidArgument(
        "--durability=%s needs a directory [TD4012]; hint: set --pserver_data_dir=DIR",
        options.pservers.durability);
  }
  TD_RETURN_IF_ERROR(FillKept(args, options));
  if (!args.Has("keep_pushes_mb")) return OkStatus();
  if (options.pservers.durability != "replayable") {
    return InvalidArgument("%s has no effect without --durability=replayable [TD1005]",
                           Spelled(args, "keep_pushes_mb"));
  }
  TD_ASSIGN_OR_RETURN(options.pservers.keep_pushes_mb,
                      args.GetInt("keep_pushes_mb", 0, 1, 1 << 30));
  return OkStatus();
}

// Sets the options that `flag` (--standbys or --replicas) needs. Its processes receive the
// write-ahead log.
Status NeedLog(const ParsedArgs& args, const std::string& flag, LaunchOptions& options) {
  const std::string spelled = Spelled(args, flag);
  if (options.pservers.data_dir.empty()) {
    return InvalidArgument(
        "%s needs a directory for the logs of the servers [TD4012]; hint: set "
        "--pserver_data_dir=DIR",
        spelled);
  }
  options.pservers.durability = args.Get("durability", "logged");
  if (options.pservers.durability != "logged") {
    return InvalidArgument(
        "%s contradicts --durability=%s, because %s receive the write-ahead log with all "
        "pushes [TD1005]; hint: use --durability=logged",
        spelled, options.pservers.durability, flag);
  }
  if (!args.Has("max_restarts")) options.supervision.max_restarts = kStandbyRestarts;
  return OkStatus();
}

Status FillStandbys(const ParsedArgs& args, LaunchOptions& options) {
  TD_ASSIGN_OR_RETURN(options.pservers.standbys, args.GetInt("standbys", 0, 0, kStandbysMax));
  options.pservers.replication = args.Get("replication", "quorum");
  if (options.pservers.replication != "quorum" && options.pservers.replication != "async") {
    return InvalidArgument("%s: expected quorum or async [TD1006]%s", Spelled(args, "replication"),
                           OrDidYouMean(options.pservers.replication, {"quorum", "async"}));
  }
  if (options.pservers.standbys == 0) {
    if (!args.Has("replication")) return OkStatus();
    return InvalidArgument("%s has no effect without --standbys [TD1005]; hint: set --standbys=1",
                           Spelled(args, "replication"));
  }
  const std::string flag = Spelled(args, "standbys");
  TD_RETURN_IF_ERROR(NeedLog(args, "standbys", options));
  // A lost server continues only with a new standby, so the job needs restarts.
  if (options.supervision.max_restarts == 0) {
    return InvalidArgument(
        "%s contradicts %s, because a lost process is restarted as a standby "
        "[TD1005]; hint: omit the second flag",
        flag, Spelled(args, "max_restarts"));
  }
  // A primary on a lost host may still run. It must not be able to acknowledge pushes alone.
  if (options.hosts.several() && options.pservers.replication == "async") {
    return Unimplemented("--hosts=%s together with --replication=async is not implemented [TD1109]",
                         args.Get("hosts"));
  }
  return OkStatus();
}

Status FillReplicas(const ParsedArgs& args, LaunchOptions& options) {
  TD_ASSIGN_OR_RETURN(options.pservers.replicas, args.GetInt("replicas", 0, 0, kReplicasMax));
  TD_ASSIGN_OR_RETURN(options.pservers.resp_port, args.GetInt("resp_port", 0, 1, 65535));
  if (options.pservers.replicas > 0) return NeedLog(args, "replicas", options);
  if (!args.Has("resp_port")) return OkStatus();
  return InvalidArgument("%s has no effect without --replicas [TD1005]; hint: set --replicas=1",
                         Spelled(args, "resp_port"));
}

// Rejects standbys and replicas of pservers on other hosts.
Status CheckFollowers(const ParsedArgs& args, const LaunchOptions& options) {
  const auto local = [](const ProcessEndpoint& e) { return e.local; };
  if (std::ranges::all_of(options.pservers.endpoints, local)) return OkStatus();
  for (const auto& [name, count] : {std::pair{"standbys", options.pservers.standbys},
                                    {"replicas", options.pservers.replicas}}) {
    if (count == 0) continue;
    return Unimplemented(
        "%s with pservers that do not run on this host is not implemented [TD1109]; hint: use "
        "pservers of this host",
        Spelled(args, name));
  }
  return OkStatus();
}

Status CheckHosts(const ParsedArgs& args, const LaunchOptions& options) {
  int local = 0, local_workers = 0;
  std::set<std::string> hosts;
  for (const ProcessEndpoint& e : options.pservers.endpoints) {
    local += e.local ? 1 : 0;
    hosts.insert(e.host);
  }
  for (const ProcessEndpoint& e : options.workers.endpoints) {
    local += e.local ? 1 : 0;
    hosts.insert(e.host);
    local_workers += e.local ? 1 : 0;
  }
  if (local == 0) {
    return InvalidArgument(
        "this machine (%s) is not one of the given hosts (%s) [TD1011]; hint: run this command on "
        "each of the given hosts",
        HostName(), absl::StrJoin(hosts, ", "));
  }
  const int cards = static_cast<int>(options.workers.gpus.size());
  if (cards != 0 && cards != local_workers) {
    return InvalidArgument(
        "%s names %d cards for %d workers on this machine [TD1005]; hint: name one card for each "
        "worker",
        Spelled(args, "gpus"), cards, local_workers);
  }
  return OkStatus();
}

Status FillRendezvous(const ParsedArgs& args, LaunchOptions& options) {
  if (!args.Has("rendezvous")) return OkStatus();
  const bool ranks_meet =
      options.mode == LaunchMode::kCollective || options.mode == LaunchMode::kHybrid;
  if (!ranks_meet && options.hosts.several()) return OkStatus();  // the hosts meet there
  if (!ranks_meet) {
    return InvalidArgument(
        "%s has no effect in %s mode, because this mode has no rendezvous of ranks [TD1005]",
        Spelled(args, "rendezvous"), ModeName(options.mode));
  }
  options.workers.rendezvous = args.Get("rendezvous");
  return Annotate(collective::ParseRendezvousUrl(options.workers.rendezvous).status(),
                  "--rendezvous");
}

Status CheckRest(const ParsedArgs& args) {
  if (args.Has("paddle_names") && !args.positional.empty() && !IsScript(args.positional[0])) {
    return InvalidArgument("%s has no effect without a script in Python [TD1005]",
                           Spelled(args, "paddle_names"));
  }
  if (args.Has("http_port")) {
    return InvalidArgument("%s is not implemented [TD1109]", Spelled(args, "http_port"));
  }
  if (args.positional.size() == 1) return OkStatus();
  if (args.positional.empty()) {
    return InvalidArgument(
        "no job file or script given [TD1007]; hint: run tandemrun --servers=2 --workers=2 "
        "job.pbtxt");
  }
  return InvalidArgument(
      "expected one job file, got \"%s\" and \"%s\" [TD1010]; hint: write arguments of the trainer "
      "after --",
      args.positional[0], args.positional[1]);
}

// Rejects flags that require a job file instead of a script.
Status CheckScript(const ParsedArgs& args) {
  for (const char* name :
       {"max_restarts", "heter_workers", "status_port", "standbys", "replicas"}) {
    if (!args.Has(name)) continue;
    return Unimplemented("%s with a script is not implemented [TD1109]; hint: use a job file",
                         Spelled(args, name));
  }
  for (const char* name : {"nproc", "hosts"}) {
    if (args.Get(name).find(':') == std::string::npos) continue;
    return Unimplemented(
        "%s=%s (elastic) with a script is not implemented [TD1109]; hint: use a job file",
        Spelled(args, name), args.Get(name));
  }
  if (args.handed_on > 0) {
    return InvalidArgument(
        "%s is a field of a job, but %s is a script [TD1005]; hint: set the field in the script, "
        "by fleet.DistributedStrategy()",
        args.after_dashes[0], args.positional[0]);
  }
  return OkStatus();
}

// Returns the directories of Python packages for a script: the directory of the package `tandem` if
// it is beside the programs, and with `paddle_names` the packages with the names of Paddle.
std::string PythonPath(bool is_script, bool paddle_names, const std::string& program_dir) {
  if (!is_script) return "";
  std::string package = "/usr/lib/python3/dist-packages", path;  // the package python3-tandem
  std::error_code error;
  // The programs are in build/bin beside build/python, or in tandem/bin of a wheel.
  for (const char* beside : {"/../python", "/../.."}) {
    if (!std::filesystem::is_regular_file(program_dir + beside + "/tandem/__init__.py", error)) {
      continue;
    }
    package = path = std::filesystem::weakly_canonical(program_dir + beside, error).string();
    break;
  }
  if (!paddle_names) return path;
  return package + "/tandem/paddle_names" + (path.empty() ? "" : ":") + path;
}

Status FillTls(const ParsedArgs& args, LaunchOptions& options) {
  options.security.tls_dir = args.Get("tls_dir");
  options.security.make_tls = args.Has("tls");
  options.security.audit = args.Has("audit");
  options.security.insecure_allow_network = args.Has("insecure_allow_network");
  if (!options.security.make_tls && options.security.tls_dir.empty()) return OkStatus();
  const std::string flag = Spelled(args, options.security.make_tls ? "tls" : "tls_dir");
  if (options.security.make_tls && !options.security.tls_dir.empty()) {
    return InvalidArgument(
        "--tls and --tls_dir exclude each other: --tls creates certificates, --tls_dir uses "
        "existing ones [TD1005]; hint: use one of them");
  }
  if (options.mode == LaunchMode::kLocal) {
    return InvalidArgument(
        "%s: mode local has no connections that TLS could encrypt [TD1005]; hint: remove the flag",
        flag);
  }
  return OkStatus();
}

}  // namespace

StatusOr<ParsedArgs> ParseLaunchArgs(const std::vector<std::string>& args) {
  const auto& job = *JobConfig::descriptor();
  const HandedOn to_trainer{
      .takes = [&job](const std::string& name) { return strategy::IsSetting(job, name); },
      .names = strategy::SettingNames(job),
      .otherwise =
          "write flags of tandem-trainer after --: tandemrun ... job.pbtxt -- --FLAG=VALUE",
      .takes_rest_after = IsScript};
  return ParseArgs(LaunchFlags(), args, &to_trainer);
}

StatusOr<LaunchOptions> MakeLaunchOptions(const ParsedArgs& args, const std::string& program_dir) {
  TD_RETURN_IF_ERROR(CheckRest(args));
  LaunchOptions options;
  options.job_file = args.positional[0];
  options.is_script = IsScript(options.job_file);
  if (options.is_script) TD_RETURN_IF_ERROR(CheckScript(args));
  TD_ASSIGN_OR_RETURN(JobHeader job, options.is_script ? ReadScriptHeader(options.job_file)
                                                       : ReadJobHeader(options.job_file));
  options.job_name = job.name;
  // A script has no mode. A script with a list of cards runs in collective mode, as with fleetrun.
  if (options.is_script && args.Has("gpus")) job.mode = LaunchMode::kCollective;
  TD_ASSIGN_OR_RETURN(options.mode, ChooseMode(args, job.mode));
  if (args.Has("gpus")) options.workers.gpus = absl::StrSplit(args.Get("gpus"), ',');
  TD_ASSIGN_OR_RETURN(options.start_port, args.GetInt("start_port", 0, 1, 65535));
  TD_ASSIGN_OR_RETURN(options.status_port, args.GetInt("status_port", 0, 1, 65535));
  TD_ASSIGN_OR_RETURN(options.supervision.grace_s, args.GetInt("grace_s", 10, 0, 3600));
  TD_ASSIGN_OR_RETURN(options.supervision.max_restarts, args.GetInt("max_restarts", 0, 0, 1000000));
  TD_ASSIGN_OR_RETURN(options.hosts, MakeHostOptions(args));
  options.security.secret_file = args.Get("secret_file");
  TD_RETURN_IF_ERROR(FillTls(args, options));
  TD_RETURN_IF_ERROR(FillDurability(args, options));
  TD_RETURN_IF_ERROR(FillStandbys(args, options));
  TD_RETURN_IF_ERROR(FillReplicas(args, options));
  options.pservers.place = args.Get("pserver_place");
  options.log_dir = args.Get("log_dir", "./log-" + job.name);
  options.pservers.program = args.Get("pserver_bin", program_dir + "/tandem-pserver");
  options.workers.program =
      args.Get("trainer_bin", options.is_script ? "python3" : program_dir + "/tandem-trainer");
  options.workers.python_path =
      PythonPath(options.is_script, args.Has("paddle_names"), program_dir);
  options.workers.args = args.after_dashes;
  options.supervision.quiet = args.Has("quiet");
  options.supervision.metrics_listen = args.Get("metrics_listen");
  options.dry_run = args.Has("dry_run");
  switch (options.mode) {
    case LaunchMode::kLocal:
      if (options.hosts.several()) {
        return InvalidArgument("--hosts=%s has no effect in local mode [TD1005]",
                               args.Get("hosts"));
      }
      if (args.Has("max_restarts")) {
        return InvalidArgument("%s has no effect in local mode [TD1005]",
                               Spelled(args, "max_restarts"));
      }
      options.workers.endpoints = {ProcessEndpoint{"127.0.0.1", 0, true}};
      break;
    case LaunchMode::kPserver:
    case LaunchMode::kHybrid:
      TD_RETURN_IF_ERROR(FillPserver(args, options));
      break;
    case LaunchMode::kCollective:
      TD_RETURN_IF_ERROR(FillCollective(args, options));
      break;
  }
  TD_RETURN_IF_ERROR(CheckHosts(args, options));
  TD_RETURN_IF_ERROR(CheckFollowers(args, options));
  TD_RETURN_IF_ERROR(FillRendezvous(args, options));
  return options;
}

}  // namespace tandem::deploy
