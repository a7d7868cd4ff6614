#include "deploy/launch/job_files.h"

#include <sys/random.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "common/os/ports.h"
#include "deploy/launch/job_certificates.h"
#include "deploy/launch/job_record.h"
#include "deploy/launch/pserver_sockets.h"

namespace tandem::deploy {
namespace {

constexpr size_t kSecretBytes = 32;

StatusOr<std::string> MakeSecret() {
  unsigned char random[kSecretBytes];
  if (getrandom(random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) {
    return Internal("cannot get random bytes: %s", ErrnoText(errno));
  }
  std::string hex;
  for (const unsigned char byte : random) hex += absl::StrFormat("%02x", byte);
  return hex + "\n";
}

struct MemberName {
  int rank = 0, member = 0;
};

// Parses the name of a member or of a replica, such as "0.member-1" (launch_plan.cc).
std::optional<MemberName> ParseMember(const std::string& text,
                                      const std::string& kind = ".member-") {
  MemberName name;
  const std::vector<std::string> parts = absl::StrSplit(text, kind);
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &name.rank) ||
      !absl::SimpleAtoi(parts[1], &name.member)) {
    return std::nullopt;
  }
  return name;
}

// FAILED_PRECONDITION: the directory of the pservers has the state of a standby that this job would
// not use. That standby may have been the last primary, with pushes that the others lack.
Status CheckMemberDirs(const LaunchPlan& plan) {
  constexpr std::string_view kPrefix = "pserver-";
  if (plan.pserver_data_dir.empty()) return OkStatus();
  const StatusOr<std::vector<std::string>> names = ListDir(plan.pserver_data_dir);
  if (names.status().code() == StatusCode::kNotFound) return OkStatus();
  TD_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (!name.starts_with(kPrefix)) continue;
    const std::optional<MemberName> member = ParseMember(name.substr(kPrefix.size()));
    if (!member || member->rank >= plan.servers || member->member <= plan.standbys) continue;
    return FailedPrecondition(
        "%s is the state of a standby, and this job has %d standbys for each pserver [TD4031]; "
        "hint: use --standbys=%d or more as before, or remove this directory if it has no newer "
        "state than the others",
        plan.pserver_data_dir + "/" + name, plan.standbys, member->member);
  }
  return OkStatus();
}

// Returns whether the file is a log of an earlier job: this job has no process with the file's kind
// and rank on any host.
bool IsStaleLog(const LaunchPlan& plan, const std::string& name) {
  const size_t dot = name.find('.');
  int rank = 0;
  if (dot == std::string::npos) return false;
  const std::string kind = name.substr(0, dot);
  if (const auto member = ParseMember(name.substr(dot + 1)); kind == kServerLog && member) {
    return member->rank >= plan.servers || member->member > plan.standbys;
  }
  if (const auto replica = ParseMember(name.substr(dot + 1), ".replica-");
      kind == kServerLog && replica) {
    return replica->rank >= plan.servers || replica->member >= plan.replicas;
  }
  if (!absl::SimpleAtoi(name.substr(dot + 1), &rank)) return false;
  const int first_heter = plan.workers - plan.heter_workers;
  if (kind == kServerLog) return rank >= plan.servers;
  if (kind == kTrainerLog) return rank >= first_heter;
  return kind == kHeterLog && (rank < first_heter || rank >= plan.workers);
}

void RemoveStaleLogs(const LaunchPlan& plan) {
  std::error_code error;
  for (const std::string& name : ListDir(plan.log_dir).value_or(std::vector<std::string>())) {
    if (IsStaleLog(plan, name)) std::filesystem::remove(plan.log_dir + "/" + name, error);
  }
}

Status CheckPorts(const LaunchPlan& plan) {
  for (const ProcessPlan& p : plan.processes) {
    if (p.resp_port != 0 && !BindPort("127.0.0.1", p.resp_port).ok()) {
      return Unavailable(
          "--resp_port: 127.0.0.1:%d, the port of %s for Redis clients, is in use [TD1012]; hint: "
          "choose another --resp_port",
          p.resp_port, p.Name());
    }
    if (p.status_page.empty() || BindPort("127.0.0.1", p.status_port).ok()) continue;
    return Unavailable(
        "--status_port: 127.0.0.1:%d, the port of the status page of %s, is in use [TD1012]; hint: "
        "choose another --status_port",
        p.status_port, p.Name());
  }
  return OkStatus();
}

}  // namespace

StatusOr<HeldSecrets> PrepareFiles(const LaunchPlan& plan) {
  TD_REQUIRE(!plan.log_dir.empty());
  TD_REQUIRE(!plan.secret_file.empty());
  TD_RETURN_IF_ERROR(CheckDirFree(plan.log_dir));
  TD_RETURN_IF_ERROR(CheckPorts(plan));
  TD_RETURN_IF_ERROR(CheckMemberDirs(plan));
  TD_RETURN_IF_ERROR(MakeOwnDir(plan.log_dir, OwnRule::kUser).status());
  std::error_code error;
  std::filesystem::remove(plan.log_dir + "/error.json", error);
  for (const ProcessPlan& p : plan.processes) std::filesystem::remove(p.log_file, error);
  RemoveStaleLogs(plan);
  TD_RETURN_IF_ERROR(WriteJobRecord(plan));
  HeldSecrets secrets;
  if (!plan.socket_dir.empty()) {
    RemoveDeadSocketDirs(plan.socket_dir);
    TD_ASSIGN_OR_RETURN(Fd lock, MakePrivateDir(plan.socket_dir));
    secrets.AddDir(plan.socket_dir, std::move(lock));
  }
  if (plan.tls.make) {
    std::vector<RoleCertificate> certificates = plan.tls.certificates;
    if (certificates.empty()) {
      TD_ASSIGN_OR_RETURN(certificates, MakeJobCertificates(plan.job_name, plan.tls.hosts));
    }
    TD_RETURN_IF_ERROR(WriteJobCertificates(plan.tls.dir, certificates, secrets));
  }
  if (plan.make_secret) {
    TD_ASSIGN_OR_RETURN(const std::string secret, MakeSecret());
    TD_RETURN_IF_ERROR(secrets.Hold(plan.secret_file, secret));
  }
  return secrets;
}

}  // namespace tandem::deploy
