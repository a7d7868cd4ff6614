#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/rpc/credentials/certificates.h"
#include "common/rpc/credentials/tls_files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/launch/options/endpoints.h"

namespace tandem::deploy {
namespace {

constexpr char kCertsUsage[] =
    "tandem certs init DIR                            creates an authority: DIR/ca.crt and "
    "DIR/ca.key\ntandem certs issue DIR --job=NAME --role=ROLE    signs a certificate into "
    "DIR/NAME/ROLE\ntandem certs show DIR|FILE ...                   shows the use of certificates "
    "and their errors\nRoles: trainer, pserver, observer (reads the status), reader (reads status "
    "and parameters), admin\n(saves, restores, reads everything).\nUse DIR/NAME/ROLE as --tls_dir "
    "of tandem-pserver, "
    "tandem-trainer and tandem, or DIR/NAME as\n--tls_dir of tandemrun. Issue a new certificate "
    "before the old one expires: running programs\nload it. A user with ca.key can take any role: "
    "store it on a machine that runs no job.\n";

const std::vector<FlagSpec>& Flags() {
  static const std::vector<FlagSpec> kFlags = {
      {"job", "", "NAME", "issue: the job of the certificate"},
      {"role", "", "ROLE", "issue: trainer, pserver, observer, reader or admin"},
      {"host", "hosts", "LIST",
       "issue: names and addresses of a pserver (default: of this machine)"},
      {"days", "", "N", "days of validity (default 30; init: 365)"},
      {"out", "", "FOLDER", "issue: directory to write to (default DIR/NAME/ROLE)"},
      {"name", "", "NAME", "init: name of the authority (default: Tandem authority)"},
      kOutputFlag,
  };
  return kFlags;
}

Status Init(const ParsedArgs& args, const std::string& dir) {
  TD_ASSIGN_OR_RETURN(const int days, args.GetInt("days", 365, 1, 36500));
  TD_ASSIGN_OR_RETURN(const rpc::CertifiedKey authority,
                      rpc::MakeAuthority(args.Get("name", "Tandem authority"), days));
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_RETURN_IF_ERROR(rpc::WriteAuthority(dir, authority));
  if (as_json) {
    TD_ASSIGN_OR_RETURN(const rpc::CertificateFacts facts, rpc::ReadCertificate(authority.cert));
    const nlohmann::ordered_json json = {{"folder", dir}, {"not_after", facts.not_after}};
    std::puts(json.dump(2).c_str());
    return OkStatus();
  }
  std::printf(
      "authority in %s, valid for %d days; keep its private key, ca.key, secret\nnext:  tandem "
      "certs issue %s --job=NAME --role=pserver --host=...\n",
      dir.c_str(), days, dir.c_str());
  return OkStatus();
}

std::vector<std::string> Hosts(const ParsedArgs& args, rpc::PeerRole role) {
  if (args.Has("host")) return absl::StrSplit(args.Get("host"), ',');
  if (role != rpc::PeerRole::kPserver) return {};
  return {"localhost", "127.0.0.1", "::1", HostName()};
}

Status Issue(const ParsedArgs& args, const std::string& dir) {
  for (const char* name : {"job", "role"}) {
    if (!args.Has(name)) {
      return InvalidArgument(
          "--%s is missing [TD1007]; hint: run tandem certs issue %s --job=NAME --role=pserver",
          name, dir);
    }
  }
  rpc::LeafRequest request;
  request.identity.job = args.Get("job");
  TD_ASSIGN_OR_RETURN(request.identity.role, rpc::ParsePeerRole(args.Get("role")));
  request.hosts = Hosts(args, request.identity.role);
  TD_ASSIGN_OR_RETURN(request.days, args.GetInt("days", 30, 1, 36500));
  const StatusOr<rpc::CertifiedKey> authority = rpc::ReadAuthority(dir);
  if (!authority.ok()) {
    return Annotate(authority.status(),
                    dir + " contains no authority (hint: run tandem certs init)");
  }
  TD_ASSIGN_OR_RETURN(const rpc::CertifiedKey leaf, rpc::IssueCertificate(*authority, request));
  const std::string out = args.Get(
      "out", dir + "/" + request.identity.job + "/" + tandem::rpc::RoleName(request.identity.role));
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_RETURN_IF_ERROR(rpc::WriteTlsDir(out, leaf, authority->cert));
  TD_ASSIGN_OR_RETURN(const rpc::CertificateFacts facts, rpc::ReadCertificate(leaf.cert));
  if (as_json) {
    const nlohmann::ordered_json json = {{"folder", out},
                                         {"uri", rpc::ToUri(request.identity)},
                                         {"hosts", facts.hosts},
                                         {"not_after", facts.not_after}};
    std::puts(json.dump(2).c_str());
    return OkStatus();
  }
  std::printf("%s: %s, valid until %s\n", out.c_str(), rpc::ToUri(request.identity).c_str(),
              rpc::DateText(facts.not_after).c_str());
  return OkStatus();
}

// ---- show ---------------------------------------------------------------------------------------

struct ShownCertificate {
  std::string path;
  rpc::CertificateFacts facts;
  Status verdict;
};

// Checks a certificate. For a directory, makes the same checks as a program that uses the
// directory. For a file, checks only the dates.
StatusOr<ShownCertificate> Look(const std::string& path) {
  std::error_code error;
  const bool dir = std::filesystem::is_directory(path, error);
  const bool authority = dir && !std::filesystem::exists(rpc::TlsFilesIn(path).cert, error);
  const std::string file = !dir ? path : authority ? path + "/ca.crt" : rpc::TlsFilesIn(path).cert;
  TD_ASSIGN_OR_RETURN(const std::string pem, rpc::ReadPem(file));
  auto facts = rpc::ReadCertificate(pem);
  if (!facts.ok()) return Annotate(facts.status(), file);
  ShownCertificate shown{file, *std::move(facts), OkStatus()};
  if (!dir || authority) {
    shown.verdict = rpc::CheckValidity(shown.facts, rpc::WallSeconds());
    return shown;
  }
  shown.verdict = rpc::CheckTlsFiles(rpc::TlsFilesIn(path)).status();
  if (shown.verdict.ok()) {
    TD_ASSIGN_OR_RETURN(const std::string ca, rpc::ReadPem(rpc::TlsFilesIn(path).ca));
    // CheckIssuer may reject a valid directory, because ca.crt may be an authority that signs only
    // certificates of the other side. But most jobs have only one authority. In such a job, a
    // certificate of another authority is a mistake.
    shown.verdict = rpc::CheckIssuer(pem, ca);
  }
  return shown;
}

std::string UseOf(const rpc::CertificateFacts& facts) {
  if (facts.authority) return "authority: signs certificates";
  if (!facts.identity) return "no role in a job";
  return absl::StrFormat("role %s of job %s", tandem::rpc::RoleName(facts.identity->role),
                         facts.identity->job);
}

// Escapes text from an untrusted certificate, so that it cannot control the terminal.
std::string Escaped(const std::string& text) { return absl::Utf8SafeCEscape(text); }

void PrintText(const ShownCertificate& shown) {
  const rpc::CertificateFacts& facts = shown.facts;
  std::printf("%s\n  use      %s\n", shown.path.c_str(), UseOf(facts).c_str());
  for (const std::string& uri : facts.uris) std::printf("  uri      %s\n", Escaped(uri).c_str());
  if (!facts.hosts.empty())
    std::printf("  hosts    %s\n", Escaped(absl::StrJoin(facts.hosts, ", ")).c_str());
  std::printf(
      "  issuer   %s\n  valid    %s to %s\n  sha256   %s\n  verdict  %s\n", facts.issuer.c_str(),
      rpc::DateText(facts.not_before).c_str(), rpc::DateText(facts.not_after).c_str(),
      facts.sha256.c_str(),
      shown.verdict.ok()
          ? Paint(fileno(stdout), Color::kGreen, "good").c_str()
          : Paint(fileno(stdout), Color::kRed, std::string(shown.verdict.message())).c_str());
}

nlohmann::ordered_json CertificateJson(const ShownCertificate& shown) {
  const rpc::CertificateFacts& facts = shown.facts;
  nlohmann::ordered_json json = {{"file", shown.path},
                                 {"authority", facts.authority},
                                 {"uris", facts.uris},
                                 {"hosts", facts.hosts},
                                 {"subject", facts.subject},
                                 {"issuer", facts.issuer},
                                 {"not_before", facts.not_before},
                                 {"not_after", facts.not_after},
                                 {"sha256", facts.sha256},
                                 {"good", shown.verdict.ok()},
                                 {"verdict", std::string(shown.verdict.message())}};
  if (facts.identity) {
    json["job"] = facts.identity->job;
    json["role"] = tandem::rpc::RoleName(facts.identity->role);
  }
  return json;
}

Status Show(const ParsedArgs& args, const std::vector<std::string>& paths) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  Status first;
  auto all = nlohmann::ordered_json::array();
  for (const std::string& path : paths) {
    TD_ASSIGN_OR_RETURN(const ShownCertificate shown, Look(path));
    if (as_json) {
      all.push_back(CertificateJson(shown));
    } else {
      PrintText(shown);
    }
    if (first.ok()) first = Annotate(shown.verdict, shown.path);
  }
  // Bytes that are not UTF-8 in a certificate are replaced in the JSON output.
  using nlohmann::json;
  const auto replace = json::error_handler_t::replace;
  if (as_json) std::puts(all.dump(2, ' ', false, replace).c_str());
  return first;
}

Status Certs(const ParsedArgs& args) {
  const std::vector<std::string>& words = args.positional;
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "show" && words.size() > 1) return Show(args, {words.begin() + 1, words.end()});
  if ((verb == "init" || verb == "issue") && words.size() == 2) {
    return verb == "init" ? Init(args, words[1]) : Issue(args, words[1]);
  }
  if (verb == "init" || verb == "issue" || verb == "show") {
    return InvalidArgument(
        "tandem certs %s needs a directory [TD1007]; hint: run tandem certs --help", verb);
  }
  return InvalidArgument("the subcommand is \"%s\", expected init, issue or show [TD1006]%s", verb,
                         HintText(verb, {"init", "issue", "show"}));
}

}  // namespace

int RunCerts(const Args& args) { return RunBody("certs", kCertsUsage, Flags(), args, Certs); }

}  // namespace tandem::deploy
