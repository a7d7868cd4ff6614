#include "trainer/config/rank_env.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/endpoint.h"

namespace tandem::trainer {
namespace {

// The names of the environment variables of one launcher; "": the launcher has no such variable.
struct Family {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr Family kTandem = {"TANDEM_*", "TANDEM_RANK", "TANDEM_SIZE", "TANDEM_LOCAL_RANK",
                            "TANDEM_LOCAL_SIZE"};
constexpr Family kPaddle = {"PADDLE_*", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "", ""};
constexpr Family kTorch = {"RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Family kOmpi = {"OMPI_*", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Family kSlurm = {"SLURM_*", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""};

class Reader {
 public:
  explicit Reader(const std::map<std::string, std::string>& env) : env_(env) {}

  StatusOr<RankInfo> Read();

 private:
  // Returns the value of a variable. nullopt: the variable is absent or empty, because launchers
  // set an empty value for "not set".
  std::optional<std::string> Get(const std::string& name) const {
    const auto it = env_.find(name);
    if (it == env_.end() || it->second.empty()) return {};
    return it->second;
  }
  bool Has(const std::string& name) const { return Get(name).has_value(); }

  // Returns the value of a variable as a whole number in [min, max]; `fallback` if the variable is
  // absent.
  StatusOr<int> Number(const std::string& name, int min, int max, int fallback) const;
  StatusOr<std::vector<std::string>> Endpoints(const std::string& name) const;
  StatusOr<Role> ReadRole() const;
  Status ReadFamily(const Family& family, RankInfo& info) const;
  Status ReadPaddle(RankInfo& info) const;
  Status ReadPaddlePserver(RankInfo& info) const;
  Status ReadMaster(RankInfo& info) const;
  Status ReadCommon(RankInfo& info) const;
  Status ReadHeterWorkers(RankInfo& info) const;
  Status CompareWithTorch(const RankInfo& info) const;
  bool IsSlurmBatchShell() const { return Has("SLURM_JOB_ID") && !Has("SLURM_STEP_ID"); }
  void NoteUnused(RankInfo& info) const;

  const std::map<std::string, std::string>& env_;
};

StatusOr<int> Reader::Number(const std::string& name, int min, int max, int fallback) const {
  const auto text = Get(name);
  if (!text.has_value()) return fallback;
  int value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < min || value > max) {
    return InvalidArgument("environment: %s=\"%s\", expected a whole number from %d to %d [TD1013]",
                           name, *text, min, max);
  }
  return value;
}

// Accepts "host:port", "unix:/PATH", a Unix-domain socket, and "a:1|b:1", a server with several
// addresses.
Status CheckAddress(const std::string& address, const std::string& what) {
  const bool special = address.starts_with("unix:/") || address.find('|') != address.npos;
  if (!special) return CheckEndpoint(address, what);
  return Annotate(ParseServerAddress(address).status(), what);
}

StatusOr<std::vector<std::string>> Reader::Endpoints(const std::string& name) const {
  std::vector<std::string> out;
  const auto text = Get(name);
  if (!text.has_value()) return out;
  for (const auto part : absl::StrSplit(*text, ',')) {
    out.emplace_back(part);
    TD_RETURN_IF_ERROR(CheckAddress(out.back(), "environment: " + name));
    if (std::count(out.begin(), out.end(), out.back()) > 1) {
      return InvalidArgument("environment: %s names %s twice [TD1013]", name, out.back());
    }
  }
  return out;
}

StatusOr<Role> Reader::ReadRole() const {
  const bool own = Has("TANDEM_ROLE");
  const std::string name = own ? "TANDEM_ROLE" : "TRAINING_ROLE";
  const std::string role = Get(name).value_or("TRAINER");
  if (role == "TRAINER" || role == "trainer") return Role::kTrainer;
  if (role == "PSERVER" || role == "pserver") return Role::kPserver;
  return InvalidArgument("environment: %s=\"%s\", expected TRAINER or PSERVER [TD1013]", name,
                         role);
}

// Reads the rank and size of this process in the job and on its host.
Status Reader::ReadFamily(const Family& family, RankInfo& info) const {
  info.source = family.source;
  if (!Has(family.rank)) {
    return InvalidArgument(
        "environment: %s is set, but %s is not [TD1013]; hint: set both or neither", family.size,
        family.rank);
  }
  if (!Has(family.size)) {
    return InvalidArgument(
        "environment: %s is set, but %s is not [TD1013]; hint: set both or neither", family.rank,
        family.size);
  }
  TD_ASSIGN_OR_RETURN(info.size, Number(family.size, 1, kRanksMax, 1));
  TD_ASSIGN_OR_RETURN(info.rank, Number(family.rank, 0, kRanksMax - 1, 0));
  if (info.rank >= info.size) {
    return InvalidArgument(
        "environment: %s=%d and %s=%d contradict each other: ranks count from 0 to %d [TD1013]",
        family.rank, info.rank, family.size, info.size, info.size - 1);
  }
  TD_ASSIGN_OR_RETURN(info.local_rank, Number(family.local_rank, 0, info.size - 1, 0));
  TD_ASSIGN_OR_RETURN(info.local_size,
                      Number(family.local_size, 1, info.size, info.local_rank + 1));
  if (info.local_rank >= info.local_size || info.local_rank > info.rank) {
    return InvalidArgument(
        "environment: %s=%d, expected at most %s=%d and less than the local size %d [TD1013]",
        family.local_rank, info.local_rank, family.rank, info.rank, info.local_size);
  }
  return OkStatus();
}

// Reads the variables of Fleet's trainers. If the size or the local rank is not set, the list of
// endpoints determines it.
Status Reader::ReadPaddle(RankInfo& info) const {
  info.source = kPaddle.source;
  const std::string list = "PADDLE_TRAINER_ENDPOINTS";
  TD_ASSIGN_OR_RETURN(info.trainers, Endpoints(list));
  if (Has(kPaddle.size) || info.trainers.empty()) {
    TD_RETURN_IF_ERROR(ReadFamily(kPaddle, info));
  } else {
    info.size = static_cast<int>(info.trainers.size());
    TD_ASSIGN_OR_RETURN(info.rank, Number(kPaddle.rank, 0, info.size - 1, 0));
  }
  if (info.trainers.empty()) return OkStatus();
  if (info.trainers.size() != static_cast<size_t>(info.size)) {
    return InvalidArgument("environment: %s names %d trainers, but %s=%d [TD1013]", list,
                           info.trainers.size(), kPaddle.size, info.size);
  }
  const std::string& self = info.trainers[static_cast<size_t>(info.rank)];
  const auto current = Get("PADDLE_CURRENT_ENDPOINT");
  if (current.has_value() && *current != self) {
    return InvalidArgument(
        "environment: PADDLE_CURRENT_ENDPOINT=%s, but %s has %s for rank %d [TD1013]", *current,
        list, self, info.rank);
  }
  const auto host = [](const std::string& endpoint) {
    return endpoint.substr(0, endpoint.rfind(':'));
  };
  info.local_size = 0;
  for (int r = 0; r < info.size; ++r) {
    if (host(info.trainers[static_cast<size_t>(r)]) != host(self)) continue;
    if (r == info.rank) info.local_rank = info.local_size;
    ++info.local_size;
  }
  info.rendezvous = info.trainers[0];
  return OkStatus();
}

// Reads the variables of Fleet's pservers. The rank is the index of this pserver in the list of
// pservers.
Status Reader::ReadPaddlePserver(RankInfo& info) const {
  info.source = kPaddle.source;
  const auto ip = Get("POD_IP"), port = Get("PADDLE_PORT");
  if (!ip.has_value() || !port.has_value()) {
    return InvalidArgument(
        "environment: TRAINING_ROLE=PSERVER needs POD_IP and PADDLE_PORT, but %s is not set "
        "[TD1013]",
        ip.has_value() ? "PADDLE_PORT" : "POD_IP");
  }
  const std::string self = *ip + ":" + *port;
  TD_RETURN_IF_ERROR(CheckAddress(self, "environment: POD_IP:PADDLE_PORT"));
  const auto it = std::find(info.pservers.begin(), info.pservers.end(), self);
  if (it == info.pservers.end()) {
    return InvalidArgument(
        "environment: POD_IP and PADDLE_PORT name %s, which is missing in "
        "PADDLE_PSERVERS_IP_PORT_LIST [TD1013]",
        self);
  }
  info.rank = static_cast<int>(it - info.pservers.begin());
  info.size = static_cast<int>(info.pservers.size());
  return OkStatus();
}

Status Reader::ReadMaster(RankInfo& info) const {
  const auto host = Get("MASTER_ADDR"), port = Get("MASTER_PORT");
  if (!host.has_value() && !port.has_value()) return OkStatus();
  if (!host.has_value() || !port.has_value()) {
    return InvalidArgument(
        "environment: %s is set, but %s is not [TD1013]; hint: set both or neither",
        host.has_value() ? "MASTER_ADDR" : "MASTER_PORT",
        host.has_value() ? "MASTER_PORT" : "MASTER_ADDR");
  }
  info.rendezvous = *host + ":" + *port;
  return CheckEndpoint(info.rendezvous, "environment: MASTER_ADDR:MASTER_PORT");
}

// Reads the variables that apply to every launcher.
Status Reader::ReadCommon(RankInfo& info) const {
  TD_ASSIGN_OR_RETURN(info.role, ReadRole());
  TD_ASSIGN_OR_RETURN(const auto fleet, Endpoints("PADDLE_PSERVERS_IP_PORT_LIST"));
  TD_ASSIGN_OR_RETURN(info.pservers, Endpoints("TANDEM_PSERVERS"));
  if (info.pservers.empty()) info.pservers = fleet;
  info.job = Get("TANDEM_JOB").value_or("");
  info.secret_file = Get("TANDEM_SECRET_FILE").value_or("");
  TD_ASSIGN_OR_RETURN(const int restarts, Number("TANDEM_MAX_RESTARTS", 0, 1000000, 0));
  info.peers_return = restarts > 0;
  TD_ASSIGN_OR_RETURN(const int restarted, Number("TANDEM_RESTARTED", 0, 1, 0));
  info.restarted = restarted == 1;
  info.launcher = Get("TANDEM_LAUNCHER").value_or("");
  TD_ASSIGN_OR_RETURN(const int replaces, Number("TANDEM_REPLACES", 0, 1, 0));
  info.replaces = replaces == 1;
  info.lease_file = Get("TANDEM_LAUNCHER_LEASE").value_or("");
  info.world_file = Get("TANDEM_WORLD_FILE").value_or("");
  info.listen_host = Get("TANDEM_LISTEN_HOST").value_or("");
  info.etcd =
      collective::EtcdAccessFrom([this](const char* name) { return Get(name).value_or(""); });
  return OkStatus();
}

Status Reader::ReadHeterWorkers(RankInfo& info) const {
  TD_ASSIGN_OR_RETURN(info.heter_workers, Number("TANDEM_HETER_WORKERS", 0, kRanksMax, 0));
  if (info.heter_workers == 0 || info.role == Role::kPserver) return OkStatus();
  if (info.workers() > 0 && info.workers() % info.heter_workers == 0) return OkStatus();
  return InvalidArgument(
      "environment: TANDEM_HETER_WORKERS=%d of %d ranks: the number of trainers is %d, expected a "
      "positive multiple of %d [TD1004]",
      info.heter_workers, info.size, std::max(info.workers(), 0), info.heter_workers);
}

Status Reader::CompareWithTorch(const RankInfo& info) const {
  if (!Has(kTorch.rank) && !Has(kTorch.size)) return OkStatus();
  TD_ASSIGN_OR_RETURN(const int rank, Number(kTorch.rank, 0, kRanksMax - 1, info.rank));
  TD_ASSIGN_OR_RETURN(const int size, Number(kTorch.size, 1, kRanksMax, info.size));
  if (rank == info.rank && size == info.size) return OkStatus();
  return InvalidArgument(
      "environment: PADDLE_TRAINER_ID names rank %d of %d, but RANK and WORLD_SIZE name rank %d of "
      "%d [TD1013]; hint: unset PADDLE_TRAINER_ID, or unset RANK and WORLD_SIZE, or set "
      "TANDEM_RANK and TANDEM_SIZE",
      info.rank, info.size, rank, size);
}

void Reader::NoteUnused(RankInfo& info) const {
  for (const Family& family : {kTandem, kPaddle, kTorch, kOmpi, kSlurm}) {
    if (info.source == family.source || !Has(family.rank)) continue;
    std::string note = absl::StrFormat("%s=%s is not used: ", family.rank, *Get(family.rank));
    if (info.source == "none") {
      note += "this is the shell of a batch script, not a task of srun";
    } else {
      note += absl::StrFormat("%s has precedence", info.source);
    }
    info.notes.push_back(std::move(note));
  }
}

StatusOr<RankInfo> Reader::Read() {
  RankInfo info;
  info.source = "none";
  TD_RETURN_IF_ERROR(ReadCommon(info));
  const auto is_set = [this](const Family& f) { return Has(f.rank) || Has(f.size); };
  if (is_set(kTandem)) {
    TD_RETURN_IF_ERROR(ReadFamily(kTandem, info));
  } else if (info.role == Role::kPserver && Has("TRAINING_ROLE")) {
    TD_RETURN_IF_ERROR(ReadPaddlePserver(info));
  } else if (is_set(kPaddle)) {
    TD_RETURN_IF_ERROR(ReadPaddle(info));
    TD_RETURN_IF_ERROR(CompareWithTorch(info));
  } else if (is_set(kTorch)) {
    TD_RETURN_IF_ERROR(ReadFamily(kTorch, info));
    TD_RETURN_IF_ERROR(ReadMaster(info));
  } else if (is_set(kOmpi)) {
    TD_RETURN_IF_ERROR(ReadFamily(kOmpi, info));
  } else if (Has(kSlurm.rank) && !IsSlurmBatchShell()) {
    TD_RETURN_IF_ERROR(ReadFamily(kSlurm, info));
  }
  NoteUnused(info);
  TD_RETURN_IF_ERROR(ReadHeterWorkers(info));
  if (const auto rendezvous = Get("TANDEM_RENDEZVOUS")) {
    const Status status = collective::ParseRendezvousUrl(*rendezvous).status();
    TD_RETURN_IF_ERROR(Annotate(status, "environment: TANDEM_RENDEZVOUS"));
    info.rendezvous = *rendezvous;
  }
  return info;
}

}  // namespace

Status CheckEndpoint(const std::string& endpoint, const std::string& what) {
  const size_t colon = endpoint.rfind(':');
  int port = 0;
  const bool good =
      colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(endpoint.substr(colon + 1), &port) && port >= 1 && port <= 65535 &&
      // An IPv6 address must be in brackets. Without brackets its last group would be read as the
      // port.
      (endpoint.find(':') == colon || (endpoint.front() == '[' && endpoint[colon - 1] == ']')) &&
      endpoint.find_first_of(" \t\r\n/,") == std::string::npos;
  if (good) return OkStatus();
  return InvalidArgument(
      "%s: \"%s\" is not an address, expected HOST:PORT with a port from 1 to 65535 [TD1009]", what,
      endpoint);
}

StatusOr<RankInfo> RankFromEnv(const std::map<std::string, std::string>& env) {
  return Reader(env).Read();
}

}  // namespace tandem::trainer
