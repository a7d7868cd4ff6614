// The messages between tandemrun and the members of a server, which are its primary and its
// standbys. Each member inherits one end of a Unix-domain socket pair (SOCK_SEQPACKET), and each
// packet is one message, a line of text. tandemrun decides which member is the primary
// (docs/internals/replication.md).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

// A command of tandemrun to a member. A member answers kReport, and sends a report with the number
// 0 when it serves after kBegin or kPromote.
struct MemberCommand {
  enum class Kind : uint8_t {
    kReport,   // send a MemberReport with this number
    kBegin,    // be the first primary of the server, without a state
    kPromote,  // be the primary of the term `number`
    kRefuse    // end with the error `text`
  };
  Kind kind = Kind::kReport;
  uint64_t number = 0;
  std::string text;
};

// The state of a member.
struct MemberReport {
  uint64_t number = 0;   // number of the command to which this is the answer; 0: not asked for
  bool primary = false;  // the member serves as the primary
  bool has_state = false;
  // The state has all entries that this member has ever acknowledged. A member that has fetched a
  // checkpoint is incomplete until it has reached its primary.
  bool complete = false;
  // The term of the state (LogTerm in pserver/storage/checkpoint_files.h).
  uint64_t history = 0, term = 0, start = 0;
  uint64_t last = 0;  // number of the last stored log entry

  bool operator==(const MemberReport&) const = default;
};

std::string Encode(const MemberCommand& command);
std::string Encode(const MemberReport& report);
// INVALID_ARGUMENT: `text` is not a message of this kind.
StatusOr<MemberCommand> DecodeMemberCommand(const std::string& text);
StatusOr<MemberReport> DecodeMemberReport(const std::string& text);

// Sends one message without blocking. UNAVAILABLE: the peer has ended, or it does not read.
Status SendMemberMessage(int socket, const std::string& text);
// Receives one message without blocking. NOT_FOUND: there is no message now. UNAVAILABLE: the peer
// has ended. INVALID_ARGUMENT: the message is longer than kMemberMessageMax.
StatusOr<std::string> ReceiveMemberMessage(int socket);

inline constexpr size_t kMemberMessageMax = 4096;  // bytes

}  // namespace tandem
