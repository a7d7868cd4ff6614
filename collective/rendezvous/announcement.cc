#include "collective/rendezvous/announcement.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tandem::collective {
namespace {

constexpr std::string_view kName = "tandem-rendezvous ";
constexpr std::string_view kHead = "tandem-rendezvous 2";
constexpr size_t kTextMax = 1024;

// Returns `text` as one line, with '?' instead of each character that is not printable.
std::string Plain(std::string text) {
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

std::string HostName() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

std::string NowText() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::array<char, 32> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

template <size_t kBytes>
std::string Hex(const std::array<uint8_t, kBytes>& bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool ParseNonce(const std::string& hex, Nonce& nonce) {
  const auto is_digit = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
  if (hex.size() != 2 * nonce.size() || !std::all_of(hex.begin(), hex.end(), is_digit)) {
    return false;
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return true;
}

std::string Body(const Announcement& a) {
  return absl::StrFormat("%s\njob %s\naddress %s\nhost %s\npid %d\nstarted %s\nmeeting %s\n", kHead,
                         a.job, ToString(a.address), a.host, a.pid, a.started, Hex(a.meeting));
}

Mac SignatureOf(const std::string& text, const std::string& secret) {
  return MacOf(secret, std::as_bytes(std::span(text)));
}

}  // namespace

std::string Announcement::Who() const {
  return absl::StrFormat("process %d of %s, since %s", pid, host, started);
}

Announcement MakeAnnouncement(const std::string& job, const HostPort& address,
                              const Nonce& meeting) {
  return {Plain(job), address, Plain(HostName()), static_cast<int>(::getpid()), NowText(), meeting};
}

std::string SignedText(const Announcement& announcement, const std::string& secret) {
  const std::string body = Body(announcement);
  return body + "signature " + Hex(SignatureOf(body, secret)) + "\n";
}

StatusOr<Announcement> ReadUnverified(const std::string& text) {
  const auto broken = [] {
    return DataLoss("the rendezvous announcement of rank 0 is incomplete");
  };
  if (text.size() > kTextMax) return broken();
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines[0] != kHead && lines[0].starts_with(kName)) {
    return FailedPrecondition(
        "the rendezvous announcement of rank 0 is from another version of Tandem: its first line "
        "is \"%s\", expected \"%s\" [TD3013]; hint: install the same version of Tandem on all "
        "hosts",
        Plain(lines[0]), kHead);
  }
  if (lines.size() != 9 || lines[0] != kHead || !lines[8].empty()) return broken();
  std::vector<std::string> values;
  for (const char* key :
       {"job ", "address ", "host ", "pid ", "started ", "meeting ", "signature "}) {
    const std::string& line = lines[values.size() + 1];
    if (!line.starts_with(key)) return broken();
    values.push_back(Plain(line.substr(std::string_view(key).size())));
  }
  Announcement a{values[0], {}, values[2], 0, values[4]};
  const StatusOr<HostPort> address = ParseHostPort(values[1]);
  if (!address.ok() || !absl::SimpleAtoi(values[3], &a.pid)) return broken();
  if (!ParseNonce(values[5], a.meeting)) return broken();
  a.address = *address;
  return a;
}

StatusOr<Announcement> ReadSignedText(const std::string& text, const std::string& job,
                                      const std::string& secret) {
  TD_ASSIGN_OR_RETURN(Announcement a, ReadUnverified(text));
  // The comparison of MACs takes constant time. So the duration does not reveal where two texts
  // differ.
  if (!SameMac(SignatureOf(text, secret), SignatureOf(SignedText(a, secret), secret))) {
    return PermissionDenied(
        "the announcement by %s is signed with another secret [TD6014]; hint: copy one secret file "
        "to all hosts",
        a.Who());
  }
  if (a.job != Plain(job))
    return PermissionDenied(
        "the announcement is for job \"%s\", expected job \"%s\" [TD3007]; hint: use a separate "
        "rendezvous for each job",
        a.job, job);
  return a;
}

}  // namespace tandem::collective
