#include "common/rpc/credentials/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/os/fd.h"
#include "common/os/files.h"
#include "common/rpc/credentials/openssl_types.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::rpc {

namespace {

constexpr int kClockSkewSeconds = 300;
constexpr int kDaySeconds = 24 * 3600;

CertPtr FirstCert(const std::string& pem) { return NextCert(ReadOnlyBio(pem).get()); }

// Reads a private key. A key with a password is rejected, because OpenSSL must not ask for the
// password on the terminal.
KeyPtr ReadKey(const std::string& pem) {
  static char none[] = "";
  KeyPtr key(PEM_read_bio_PrivateKey(ReadOnlyBio(pem).get(), nullptr, nullptr, none));
  ERR_clear_error();
  return key;
}

std::string NameText(X509_NAME* name) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  return TextOf(bio.get());
}

// Converts a certificate's date to seconds since 1970. The conversion can fail, because an
// untrusted certificate can have any bytes as its date.
StatusOr<int64_t> TimeOf(const ASN1_TIME* time, const char* name) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    ERR_clear_error();
    return InvalidArgument(
        "field %s of the certificate is not a valid date [TD6029]; hint: issue a new one with "
        "tandem certs issue",
        name);
  }
  return timegm(&parts);
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Checks a host name. It must not contain commas, because OpenSSL parses "DNS:a,IP:b" as a list.
Status CheckHost(const std::string& host) {
  const bool good = !host.empty() && host.size() <= 253 &&
                    (IsAddress(host) || std::all_of(host.begin(), host.end(), [](unsigned char c) {
                       return isalnum(c) != 0 || c == '.' || c == '-' || c == '*';
                     }));
  if (good) return OkStatus();
  return InvalidArgument("host \"%s\" is neither a DNS name nor an IP address [TD1011]", host);
}

// A certificate with the fields that are common to all certificates. `signer` null: self-signed.
struct Draft {
  CertPtr cert{X509_new()};
  KeyPtr key{EVP_EC_gen("P-256")};
  X509* signer = nullptr;

  void Begin(const std::string& name, int64_t not_before, int64_t not_after) {
    CHECK(cert != nullptr && key != nullptr);
    X509_set_version(cert.get(), 2);  // 2 is the code of X.509 version 3
    unsigned char serial[16];
    CHECK_EQ(RAND_bytes(serial, sizeof(serial)), 1);
    serial[0] &= 0x7f;  // the serial number must be positive (RFC 5280, 4.1.2.2)
    BIGNUM* number = BN_bin2bn(serial, sizeof(serial), nullptr);
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert.get()));
    BN_free(number);
    ASN1_TIME_set(X509_getm_notBefore(cert.get()), not_before);
    ASN1_TIME_set(X509_getm_notAfter(cert.get()), not_after);
    X509_set_pubkey(cert.get(), key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509* issuer = signer == nullptr ? cert.get() : signer;
    X509_set_issuer_name(cert.get(), X509_get_subject_name(issuer));
  }
  void Extend(int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, signer == nullptr ? cert.get() : signer, cert.get(), nullptr, nullptr,
                   0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    CHECK(extension != nullptr) << value << ": " << OpensslError();
    X509_add_ext(cert.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  CertifiedKey Sign(EVP_PKEY* with) {
    CHECK_GT(X509_sign(cert.get(), with, EVP_sha256()), 0) << OpensslError();
    const BioPtr cert_pem(BIO_new(BIO_s_mem())), key_pem(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(cert_pem.get(), cert.get());
    PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {TextOf(cert_pem.get()), TextOf(key_pem.get())};
  }
};

Status CheckDays(int days) {
  if (days >= 1 && days <= 36500) return OkStatus();
  return InvalidArgument("the validity of the certificate is %d days, expected 1 to 36500 [TD1004]",
                         days);
}

}  // namespace

int64_t WallSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

StatusOr<CertifiedKey> MakeAuthority(const std::string& name, int days) {
  TD_RETURN_IF_ERROR(CheckDays(days));
  if (name.empty() || name.size() > 64) {
    return InvalidArgument(
        "the name \"%s\" of the authority is invalid, expected 1 to 64 characters [TD1011]", name);
  }
  Draft draft;
  const int64_t now = WallSeconds();
  draft.Begin(name, now - kClockSkewSeconds, now + int64_t{days} * kDaySeconds);
  draft.Extend(NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  draft.Extend(NID_key_usage, "critical,keyCertSign,cRLSign");
  draft.Extend(NID_subject_key_identifier, "hash");
  return draft.Sign(draft.key.get());
}

StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const LeafRequest& request) {
  TD_RETURN_IF_ERROR(CheckDays(request.days));
  TD_RETURN_IF_ERROR(CheckJobName(request.identity.job));
  std::vector<std::string> names = {"URI:" + ToUri(request.identity)};
  for (const std::string& host : request.hosts) {
    TD_RETURN_IF_ERROR(CheckHost(host));
    names.push_back((IsAddress(host) ? "IP:" : "DNS:") + host);
  }
  TD_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(authority.cert));
  if (!facts.authority)
    return InvalidArgument(
        "certificate %s is not the certificate of an authority [TD6015]; hint: create an authority "
        "with tandem certs init DIR",
        facts.subject);
  TD_RETURN_IF_ERROR(Annotate(CheckValidity(facts, WallSeconds()), "the authority"));
  TD_RETURN_IF_ERROR(Annotate(CheckKey(authority.cert, authority.key), "the authority"));
  const CertPtr signer = FirstCert(authority.cert);
  const KeyPtr signer_key = ReadKey(authority.key);
  Draft draft;
  draft.signer = signer.get();
  const int64_t issued = request.issued == 0 ? WallSeconds() : request.issued;
  // The common name has at most 64 characters. It only describes the certificate. Peers check the
  // identity in the URI.
  const std::string name =
      std::string(RoleName(request.identity.role)) + " of " + request.identity.job;
  draft.Begin(name.substr(0, 64), issued - kClockSkewSeconds,
              std::min(issued + int64_t{request.days} * kDaySeconds, facts.not_after));
  draft.Extend(NID_basic_constraints, "critical,CA:FALSE");
  draft.Extend(NID_key_usage, "critical,digitalSignature");
  // Only a pserver's certificate can be used as a server certificate.
  draft.Extend(NID_ext_key_usage, request.identity.role == PeerRole::kPserver
                                      ? "serverAuth,clientAuth"
                                      : "clientAuth");
  draft.Extend(NID_subject_alt_name, absl::StrJoin(names, ","));
  draft.Extend(NID_authority_key_identifier, "keyid");
  return draft.Sign(signer_key.get());
}

namespace {

void ReadNames(X509* cert, CertificateFacts& facts) {
  auto* names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(cert, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    const auto text = [](const ASN1_STRING* s) {
      return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(s)),
                         static_cast<size_t>(ASN1_STRING_length(s)));
    };
    if (name->type == GEN_URI) facts.uris.push_back(text(name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) facts.hosts.push_back(text(name->d.dNSName));
    if (name->type == GEN_IPADD) {
      const std::string bytes = text(name->d.iPAddress);
      char shown[INET6_ADDRSTRLEN] = "";
      if (bytes.size() == 4) inet_ntop(AF_INET, bytes.data(), shown, sizeof(shown));
      if (bytes.size() == 16) inet_ntop(AF_INET6, bytes.data(), shown, sizeof(shown));
      facts.hosts.emplace_back(shown);
    }
  }
  GENERAL_NAMES_free(names);
}

Status NoCertificate(const std::string& pem) {
  return InvalidArgument(
      "the PEM text of %d bytes contains no certificate, expected at least one [TD6015]",
      pem.size());
}

}  // namespace

StatusOr<CertificateFacts> ReadCertificate(const std::string& pem) {
  const CertPtr cert = FirstCert(pem);
  if (cert == nullptr) return NoCertificate(pem);
  CertificateFacts facts;
  facts.subject = NameText(X509_get_subject_name(cert.get()));
  facts.issuer = NameText(X509_get_issuer_name(cert.get()));
  TD_ASSIGN_OR_RETURN(facts.not_before, TimeOf(X509_get0_notBefore(cert.get()), "notBefore"));
  TD_ASSIGN_OR_RETURN(facts.not_after, TimeOf(X509_get0_notAfter(cert.get()), "notAfter"));
  facts.authority = X509_check_ca(cert.get()) == 1;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CHECK_EQ(X509_digest(cert.get(), EVP_sha256(), digest, &size), 1);
  facts.sha256 = std::string(
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size)));
  ReadNames(cert.get(), facts);
  if (facts.uris.size() == 1) {
    if (auto identity = ParseIdentity(facts.uris[0]); identity.ok()) facts.identity = *identity;
  }
  return facts;
}

std::string DateText(int64_t seconds) {
  const auto time = static_cast<time_t>(seconds);
  tm parts{};
  gmtime_r(&time, &parts);
  return absl::StrFormat("%d-%02d-%02d %02d:%02d UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                         parts.tm_mday, parts.tm_hour, parts.tm_min);
}

Status CheckValidity(const CertificateFacts& facts, int64_t now) {
  if (now > facts.not_after) {
    return Unauthenticated(
        "certificate \"%s\" expired on %s [TD6008]; hint: issue a new certificate with tandem "
        "certs issue",
        facts.subject, DateText(facts.not_after));
  }
  if (now < facts.not_before) {
    return Unauthenticated(
        "certificate \"%s\" is valid from %s on, but the clock of this machine says %s [TD6008]; "
        "hint: check the clock",
        facts.subject, DateText(facts.not_before), DateText(now));
  }
  return OkStatus();
}

Status CheckKey(const std::string& cert_pem, const std::string& key_pem) {
  const CertPtr cert = FirstCert(cert_pem);
  if (cert == nullptr) return NoCertificate(cert_pem);
  const KeyPtr key = ReadKey(key_pem);
  if (key == nullptr)
    return InvalidArgument(
        "the private key is missing or protected by a password, expected a key without a password "
        "[TD6015]");
  const bool fits = X509_check_private_key(cert.get(), key.get()) == 1;
  ERR_clear_error();
  return fits ? OkStatus()
              : InvalidArgument("the private key does not belong to certificate \"%s\" [TD6015]",
                                NameText(X509_get_subject_name(cert.get())));
}

Status CheckIssuer(const std::string& cert_pem, const std::string& ca_pem) {
  const CertPtr cert = FirstCert(cert_pem);
  if (cert == nullptr) return NoCertificate(cert_pem);
  const BioPtr text = ReadOnlyBio(ca_pem);
  while (const CertPtr ca = NextCert(text.get())) {
    const bool signed_by = X509_verify(cert.get(), X509_get0_pubkey(ca.get())) == 1;
    ERR_clear_error();
    if (signed_by) return OkStatus();
  }
  return Unauthenticated(
      "certificate \"%s\" is signed by \"%s\", which is not one of the trusted authorities "
      "[TD6015]",
      NameText(X509_get_subject_name(cert.get())), NameText(X509_get_issuer_name(cert.get())));
}

namespace {

struct Pem {
  std::string path, text;
  unsigned mode;
};

// Writes a new file. An old file is removed first, so that this process sets the mode and does not
// follow another user's link.
Status WriteNew(const Pem& pem, const std::string& path) {
  unlink(path.c_str());
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, pem.mode));
  const bool written =
      fd.valid() && fchmod(fd.get(), pem.mode) == 0 &&
      write(fd.get(), pem.text.data(), pem.text.size()) == static_cast<ssize_t>(pem.text.size()) &&
      fsync(fd.get()) == 0;
  if (written) return OkStatus();
  return PermissionDenied("cannot write %s: %s [TD2106]", path, ErrnoText(errno));
}

// Writes files that belong together. A program that reads the files at the same time may see
// inconsistent files for microseconds. The program reads the files again one second later.
Status WriteTogether(const std::vector<Pem>& pems) {
  std::vector<FileToWrite> files;
  for (const Pem& pem : pems) {
    files.push_back({pem.path, [&pem](const std::string& draft) { return WriteNew(pem, draft); }});
  }
  return PublishFiles(files);
}

Status MakeDir(const std::string& dir) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(dir).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST) return OkStatus();
  return PermissionDenied("cannot create %s: %s [TD2106]", dir, ErrnoText(errno));
}

}  // namespace

Status WriteTlsDir(const std::string& dir, const CertifiedKey& leaf, const std::string& ca_pem) {
  TD_RETURN_IF_ERROR(MakeDir(dir));
  const TlsFiles files = TlsFilesIn(dir);
  return WriteTogether(
      {{files.key, leaf.key, 0600}, {files.ca, ca_pem, 0644}, {files.cert, leaf.cert, 0644}});
}

Status WriteAuthority(const std::string& dir, const CertifiedKey& authority) {
  TD_RETURN_IF_ERROR(MakeDir(dir));
  const std::string cert = dir + "/ca.crt", key = dir + "/ca.key";
  for (const std::string& path : {cert, key}) {
    if (access(path.c_str(), F_OK) == 0) {
      return AlreadyExists(
          "%s already exists [TD2109], and a new authority would invalidate all certificates of "
          "the existing one; hint: choose another directory",
          path);
    }
  }
  return WriteTogether({{key, authority.key, 0600}, {cert, authority.cert, 0644}});
}

StatusOr<CertifiedKey> ReadAuthority(const std::string& dir) {
  CertifiedKey authority;
  TD_ASSIGN_OR_RETURN(authority.cert, ReadPem(dir + "/ca.crt"));
  TD_ASSIGN_OR_RETURN(authority.key, ReadPem(dir + "/ca.key"));
  return authority;
}

}  // namespace tandem::rpc
