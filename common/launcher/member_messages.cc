#include "common/launcher/member_messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem {
namespace {

constexpr char kReport[] = "report", kHold[] = "hold", kFollow[] = "follow", kBegin[] = "begin",
               kPromote[] = "promote", kHandOver[] = "hand_over", kRefuse[] = "refuse",
               kState[] = "state";

Status BadMessage(const std::string& text) {
  return InvalidArgument("\"%s\" is not a message between tandemrun and a pserver", text);
}

// Returns whether `words` has no further word.
bool AtEnd(std::istringstream& words) {
  std::string word;
  return !(words >> word);
}

}  // namespace

std::string Encode(const MemberCommand& command) {
  switch (command.kind) {
    case MemberCommand::Kind::kReport:
      return absl::StrFormat("%s %d", kReport, command.number);
    case MemberCommand::Kind::kHold:
      return absl::StrFormat("%s %d", kHold, command.number);
    case MemberCommand::Kind::kFollow:
      return absl::StrFormat("%s %d %s", kFollow, command.number, command.text);
    case MemberCommand::Kind::kBegin:
      return kBegin;
    case MemberCommand::Kind::kPromote:
      return absl::StrFormat("%s %d", kPromote, command.number);
    case MemberCommand::Kind::kHandOver:
      return absl::StrFormat("%s %d", kHandOver, command.number);
    case MemberCommand::Kind::kRefuse:
      break;
  }
  return absl::StrFormat("%s %s", kRefuse, command.text);
}

std::string Encode(const MemberReport& report) {
  return absl::StrFormat("%s %d %d %d %d %d %d %d %d %d", kState, report.number, report.primary,
                         report.has_state, report.complete, report.history, report.term,
                         report.start, report.last, report.following);
}

StatusOr<MemberCommand> DecodeMemberCommand(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  MemberCommand command;
  if (word == kRefuse) {
    command.kind = MemberCommand::Kind::kRefuse;
    command.text = text.substr(std::min(text.size(), sizeof(kRefuse)));
    return command;
  }
  using Kind = MemberCommand::Kind;
  const std::pair<const char*, Kind> kinds[] = {
      {kReport, Kind::kReport}, {kHold, Kind::kHold},       {kFollow, Kind::kFollow},
      {kBegin, Kind::kBegin},   {kPromote, Kind::kPromote}, {kHandOver, Kind::kHandOver}};
  const auto* const found =
      std::ranges::find_if(kinds, [&word](const auto& kind) { return word == kind.first; });
  if (found == std::end(kinds)) return BadMessage(text);
  command.kind = found->second;
  if (command.kind != Kind::kBegin && !(words >> command.number)) return BadMessage(text);
  if (command.kind == Kind::kFollow) {
    words >> std::ws;
    std::getline(words, command.text);
    if (command.text.empty()) return BadMessage(text);
  }
  if (!AtEnd(words)) return BadMessage(text);
  return command;
}

StatusOr<MemberReport> DecodeMemberReport(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  MemberReport r;
  if (!(words >> word >> r.number >> r.primary >> r.has_state >> r.complete >> r.history >>
        r.term >> r.start >> r.last >> r.following) ||
      word != kState || !AtEnd(words)) {
    return BadMessage(text);
  }
  return r;
}

Status SendMemberMessage(int socket, const std::string& text) {
  TD_REQUIRE(text.size() <= kMemberMessageMax && !text.empty());
  const ssize_t n = send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n == static_cast<ssize_t>(text.size())) return OkStatus();
  return Unavailable("cannot send a message between tandemrun and a pserver: %s", ErrnoText(errno));
}

StatusOr<std::string> ReceiveMemberMessage(int socket) {
  std::string text(kMemberMessageMax + 1, '\0');
  const ssize_t n = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return NotFound("there is no message");
  if (n <= 0) return Unavailable("the other process has ended");
  text.resize(static_cast<size_t>(n));
  if (text.size() > kMemberMessageMax) return InvalidArgument("a message is too long");
  return text;
}

}  // namespace tandem
