#include "deploy/cli/job/job_access.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/http/http_get.h"
#include "common/os/files.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials/exposure.h"
#include "common/rpc/credentials/tls_probe.h"
#include "common/rpc/credentials/token.h"
#include "deploy/cli/console.h"
#include "deploy/launch/process/process.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/blocking_call.h"

namespace tandem::deploy {
namespace {

StatusOr<std::vector<Endpoint>> ParseList(const std::string& flag, const std::string& list) {
  std::vector<Endpoint> all;
  for (const auto part : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    auto endpoint = ParseServerAddress(std::string(part));
    if (!endpoint.ok()) return Annotate(endpoint.status(), flag);
    all.push_back(*std::move(endpoint));
  }
  return all;
}

// Returns the only directory log-* of a job in the working directory. INVALID_ARGUMENT: there is no
// such directory, or several. The default log directory of tandemrun is log-JOB.
StatusOr<std::string> OnlyDirHere() {
  std::vector<std::string> found;
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir("."));
  for (const std::string& name : names) {
    std::error_code error;
    if (name.starts_with("log-") && std::filesystem::exists(JobDirOf(name) + "/job.json", error)) {
      found.push_back(name);
    }
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return InvalidArgument(
        "the command needs a job [TD1007]; hint: name the log directory of the job (--log_dir of "
        "tandemrun, by default log-JOB), or use --pservers=HOST:PORT,...");
  }
  std::sort(found.begin(), found.end());
  return InvalidArgument(
      "there are %d log directories of jobs: %s [TD1007]; hint: name one of these directories",
      found.size(), absl::StrJoin(found, ", "));
}

Status TakeRecord(const JobRecord& record, JobAccess& access) {
  access.job = record.job;
  TD_ASSIGN_OR_RETURN(access.pservers, ParseList("job.json", record.pservers));
  for (const ProcessRecord& p : record.processes) {
    if (p.status_page.empty()) continue;
    std::string address = p.status_page.substr(p.status_page.find("//") + 2);
    while (address.ends_with('/')) address.pop_back();
    TD_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
    access.pages.push_back({p.role, p.rank, endpoint});
  }
  for (size_t number = 0; number < record.replicas.size(); ++number) {
    TD_ASSIGN_OR_RETURN(const std::vector<Endpoint> replicas,
                        ParseList("job.json", record.replicas[number]));
    std::vector<std::string> redis;
    if (number < record.redis.size()) redis = absl::StrSplit(record.redis[number], ',');
    redis.resize(replicas.size());
    for (size_t server = 0; server < replicas.size(); ++server) {
      access.replicas.push_back(
          {static_cast<int>(server), static_cast<int>(number), replicas[server], redis[server]});
    }
  }
  PserverChanges changes = ReadPserverChanges(access.dir);
  for (const auto& [index, address] : changes.added) {
    // Skips the addition of a server that was undone later.
    if (index != static_cast<int>(access.pservers.size())) continue;
    TD_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
    access.pservers.push_back(endpoint);
  }
  access.drained = std::move(changes.drained);
  return OkStatus();
}

Status TakeSecret(std::string file, JobAccess& access) {
  // If the user names the servers directly, the path of the secret file comes from
  // TANDEM_SECRET_FILE, because the servers also read this variable.
  const Environment env = CurrentEnvironment();
  const auto given = env.find("TANDEM_SECRET_FILE");
  if (file.empty() && !access.record && !access.job.empty() && given != env.end()) {
    file = given->second;
  }
  if (file.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(access.secret, rpc::ReadSecretFile(file));
  if (access.job.empty())
    return InvalidArgument(
        "the secret of a job is set, but the name of the job is missing [TD1007]; hint: set "
        "--job=NAME");
  return OkStatus();
}

Status TakeKeys(const ParsedArgs& args, const std::vector<rpc::PeerRole>& roles,
                JobAccess& access) {
  std::error_code error;
  std::string secret_file = args.Get("secret_file"), tls_dir = args.Get("tls_dir");
  if (access.record) {
    const JobRecord& record = *access.record;
    // If the job has ended, the files of its secret and certificates may not exist any more.
    const bool there = std::filesystem::exists(record.secret_file, error);
    if (secret_file.empty() && there) secret_file = record.secret_file;
    for (const rpc::PeerRole role : roles) {
      if (!tls_dir.empty() || record.tls_dir.empty()) break;
      const std::string dir = record.tls_dir + "/" + tandem::rpc::RoleName(role);
      if (std::filesystem::exists(dir, error) || role == roles.back()) tls_dir = dir;
    }
  }
  if (!tls_dir.empty()) {
    if (access.record && !args.Has("tls_dir") && !LauncherRuns(*access.record) &&
        !std::filesystem::exists(rpc::TlsFilesIn(tls_dir).key, error)) {
      TD_RETURN_IF_ERROR(CheckNotOver(access.dir, *access.record));
      return FailedPrecondition(
          "cannot contact job %s of %s: the job has ended, and its certificates no longer exist "
          "[TD7003]; hint: run tandem events %s",
          access.job, access.dir, access.dir);
    }
    access.tls = rpc::TlsFilesIn(tls_dir);
    if (access.job.empty()) {
      TD_ASSIGN_OR_RETURN(const auto identity, rpc::CheckTlsFiles(access.tls));
      if (identity) access.job = identity->job;
    }
  }
  TD_RETURN_IF_ERROR(TakeSecret(secret_file, access));
  const std::string uri =
      access.tls.enabled() ? rpc::ToUri({access.job, rpc::PeerRole::kPserver}) : std::string();
  const auto credentials = rpc::MakeCredentials(access.tls, uri);
  if (!credentials.ok()) {
    return Annotate(credentials.status(),
                    absl::StrFormat("TLS (this needs role %s: tandem certs issue)",
                                    tandem::rpc::RoleName(roles.back())));
  }
  access.credentials = *credentials;
  return OkStatus();
}

}  // namespace

std::vector<int> MembersOf(const JobAccess& job, int server) {
  // On several hosts the record of this host has only its processes, and each member has an
  // address.
  const auto index = static_cast<size_t>(server);
  if (index < job.pservers.size() && !job.pservers[index].others.empty()) {
    std::vector<int> all(job.pservers[index].others.size() + 1);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int> members;
  if (!job.record) return members;
  for (const ProcessRecord& p : job.record->processes) {
    if (p.role == "pserver" && p.rank == server && p.member >= 0) members.push_back(p.member);
  }
  std::ranges::sort(members);
  return members;
}

Status CheckRunsHere(const std::string& log_dir, const JobRecord& record) {
  if (LauncherRuns(record)) return OkStatus();
  TD_RETURN_IF_ERROR(CheckNotOver(log_dir, record));
  return FailedPrecondition(
      "job %s of log directory %s has ended, or runs on another host [TD7003]; hint: run tandem "
      "events %s",
      record.job, log_dir, log_dir);
}

std::vector<FlagSpec> AccessFlags(std::vector<FlagSpec> more) {
  std::vector<FlagSpec> flags = {
      {"pservers", "", "LIST", "HOST:PORT of each pserver, instead of a log directory"},
      {"status_pages", "pages", "LIST",
       "HOST:PORT of the trainers' status pages, in the order of their ranks"},
      {"job", "", "NAME", "name of the job, needed if the servers have a secret"},
      {"secret_file", "", "FILE",
       "file with the job's secret (default: the file in the log directory; with --pservers also "
       "TANDEM_SECRET_FILE)"},
      {"tls_dir", "", "DIR",
       "directory with tls.crt, tls.key and ca.crt of role observer, reader or admin"},
      {"insecure_allow_network", "", "",
       "connect to servers at network addresses without TLS (default: as for tandemrun)"},
      {"timeout_s", "", "N", "time limit for the reply of one process (default 5)"},
  };
  flags.insert(flags.end(), more.begin(), more.end());
  flags.push_back(kOutputFlag);
  return flags;
}

StatusOr<JobAccess> FindJob(const ParsedArgs& args, const std::vector<rpc::PeerRole>& roles) {
  JobAccess access;
  TD_RETURN_IF_ERROR(TakesAtMost(1, args));
  TD_ASSIGN_OR_RETURN(const int timeout, args.GetInt("timeout_s", 5, 1, 3600));
  access.timeout = std::chrono::seconds(timeout);
  if (args.Has("pservers") || args.Has("status_pages")) {
    if (!args.positional.empty()) {
      return InvalidArgument(
          "a log directory and --pservers or --status_pages exclude each other [TD1005]; hint: "
          "name the log directory alone, or set the flags alone");
    }
    TD_ASSIGN_OR_RETURN(access.pservers, ParseList("--pservers", args.Get("pservers")));
    TD_ASSIGN_OR_RETURN(const auto pages, ParseList("--status_pages", args.Get("status_pages")));
    for (const auto& page : pages) {
      access.pages.push_back({"trainer", static_cast<int>(access.pages.size()), page});
    }
  } else {
    access.dir = args.positional.empty() ? "" : args.positional[0];
    if (access.dir.empty()) {
      TD_ASSIGN_OR_RETURN(access.dir, OnlyDirHere());
    }
    access.dir = JobDirOf(access.dir);
    TD_ASSIGN_OR_RETURN(access.record, ReadJobRecord(access.dir));
    TD_RETURN_IF_ERROR(TakeRecord(*access.record, access));
  }
  if (args.Has("job")) access.job = args.Get("job");
  access.insecure_allow_network = args.Has("insecure_allow_network") ||
                                  (access.record && access.record->insecure_allow_network);
  TD_RETURN_IF_ERROR(TakeKeys(args, roles, access));
  return access;
}

bool IsGone(const JobAccess& job, size_t server, const Status& answer) {
  const bool silent =
      answer.code() == StatusCode::kUnavailable || answer.code() == StatusCode::kDeadlineExceeded;
  return silent && job.drained.contains(static_cast<int>(server));
}

StatusOr<JobAccess> FindPservers(const ParsedArgs& args, const std::vector<rpc::PeerRole>& roles) {
  TD_ASSIGN_OR_RETURN(JobAccess access, FindJob(args, roles));
  if (access.pservers.empty()) {
    return FailedPrecondition(
        "the job has no pservers: the trainers store all state [TD7004]; hint: let the trainers "
        "write checkpoints (checkpoint.dir)");
  }
  if (access.job.empty())
    return InvalidArgument("the name of the job is missing [TD1007]; hint: set --job=NAME");
  return access;
}

void NoteEvent(const JobAccess& job, const JobEvent& event) {
  if (job.dir.empty()) return;
  const Status added = AddEvent(job.dir, event);
  if (added.ok()) return;
  std::fprintf(stderr, "warning: event \"%s\" is not in %s/events.jsonl: %s\n", event.event.c_str(),
               job.dir.c_str(), ToString(added).c_str());
}

// Minimum time limit of a restore, which reads a checkpoint and waits for standbys.
constexpr Duration kRestoreTimeout = std::chrono::seconds(320);

struct ServerAccess::Impl {
  Endpoint endpoint;
  std::string name, job, uri;
  rpc::TlsFiles tls;
  bool insecure_allow_network = false;
  Duration timeout;
  std::unique_ptr<ps::BlockingCalls> calls;

  Status Call(rpc::PserverCall call, const google::protobuf::MessageLite& request,
              google::protobuf::MessageLite* reply, Duration timeout_min = {}) const {
    TD_RETURN_IF_ERROR(
        Annotate(rpc::CheckSendsInTheClear(endpoint, tls, insecure_allow_network), name));
    // Probes the server before the gRPC call. The probe is fast and reports the cause of a failure.
    TD_RETURN_IF_ERROR(Annotate(rpc::ProbeConnection(endpoint, tls, uri, timeout), name));
    return Annotate(calls->Call(call, request, reply, SteadyNow() + std::max(timeout, timeout_min)),
                    name);
  }
};

ServerAccess::ServerAccess(const JobAccess& job, size_t server)
    : ServerAccess(job, job.pservers[server],
                   absl::StrFormat("pserver %d (%s)", server, ToString(job.pservers[server]))) {}

ServerAccess::ServerAccess(const JobAccess& job, const ReplicaAddress& replica)
    : ServerAccess(job, replica.endpoint,
                   absl::StrFormat("replica %d of pserver %d (%s)", replica.number, replica.server,
                                   ToString(replica.endpoint))) {}

ServerAccess::ServerAccess(const JobAccess& job, const Endpoint& endpoint, std::string name)
    : impl_(std::make_unique<Impl>()) {
  impl_->endpoint = endpoint;
  impl_->name = std::move(name);
  impl_->job = job.job;
  impl_->tls = job.tls;
  impl_->insecure_allow_network = job.insecure_allow_network;
  if (job.tls.enabled()) impl_->uri = rpc::ToUri({job.job, rpc::PeerRole::kPserver});
  impl_->timeout = job.timeout;
  impl_->calls = std::make_unique<ps::BlockingCalls>(
      ps::MakeRawServer(impl_->endpoint, job.tls, job.credentials, job.secret, job.job));
}
ServerAccess::~ServerAccess() = default;
ServerAccess::ServerAccess(ServerAccess&&) noexcept = default;

Status ServerAccess::GetStatus(StatusReply* reply) {
  return impl_->Call(rpc::PserverCall::kGetStatus, StatusRequest(), reply);
}

StatusOr<std::pair<uint64_t, uint64_t>> ServerAccess::Save(bool delta) {
  SaveCheckpointRequest request;
  SaveCheckpointReply reply;
  request.set_mode(delta ? SAVE_DELTA : SAVE_WHOLE);
  request.set_job(impl_->job);
  TD_RETURN_IF_ERROR(impl_->Call(rpc::PserverCall::kSaveCheckpoint, request, &reply));
  return std::make_pair(reply.version(), reply.bytes());
}

StatusOr<uint64_t> ServerAccess::Restore() {
  RestoreCheckpointRequest request;
  RestoreCheckpointReply reply;
  request.set_job(impl_->job);
  TD_RETURN_IF_ERROR(
      impl_->Call(rpc::PserverCall::kRestoreCheckpoint, request, &reply, kRestoreTimeout));
  return reply.version();
}

std::string Page::Fact(const std::string& name) const {
  const auto it = facts.find(name);
  return it == facts.end() ? "" : it->second;
}

StatusOr<Page> ReadPage(const Endpoint& address, Duration timeout) {
  using nlohmann::json;
  TD_ASSIGN_OR_RETURN(const std::string body, http::HttpGet(address, "/status.json", timeout));
  const json whole = json::parse(body, nullptr, /*allow_exceptions=*/false);
  Page page;
  try {
    page.ready = whole.at("ready").get<bool>();
    page.progress = whole.at("progress").get<double>();
    for (const json& fact : whole.at("facts")) {
      page.facts[fact.at(0).get<std::string>()] = fact.at(1).get<std::string>();
    }
    for (const json& series : whole.at("series")) {
      auto& points = page.series[series.at("name").get<std::string>()];
      for (const json& point : series.at("points")) {
        points.emplace_back(point.at(0).get<double>(),
                            point.at(1).is_null() ? std::nan("") : point.at(1).get<double>());
      }
    }
  } catch (const json::exception& error) {
    return DataLoss(
        "%s is not a status page of Tandem: %s [TD7010]; hint: set --status_pages to the addresses "
        "that tandemrun --status_port printed",
        ToString(address), error.what());
  }
  return page;
}

}  // namespace tandem::deploy
