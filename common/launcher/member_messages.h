// The messages between tandemrun and the members of a server, which are its primary and its
// standbys. Each member inherits one end of a Unix-domain socket pair (SOCK_SEQPACKET), and each
// packet is one message, a line of text. tandemrun decides which member is the primary
// (docs/internals/replication.md).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

// A command of tandemrun to a member. A member follows no primary until the first kFollow. It
// answers kReport and kHold with a MemberReport. After kBegin or kPromote, the member sends a
// report with the number 0 as soon as it serves. It ignores a repetition of the same command.
struct MemberCommand {
  enum class Kind : uint8_t {
    kReport,   // the member sends a MemberReport with the number `number`
    kHold,     // like kReport, but a standby first stops following its primary, so that it
               // acknowledges no further log entries of this primary
    kFollow,   // a standby follows the primary at the address `text`. `number` is higher than in
               // all earlier commands of this run of the job; the standby identifies itself with it
    kBegin,    // the member becomes the first primary of the server, which has no state yet
    kPromote,  // the member becomes the primary; `number` is the number of its term
    kHandOver,  // the primary accepts no further push, waits until a majority of the members has
                // all its log entries, and ends
    kRefuse     // the process of the member ends with the error `text`
  };
  Kind kind = Kind::kReport;
  uint64_t number = 0;
  std::string text;

  bool operator==(const MemberCommand&) const = default;
};

// A report of a member about its state.
struct MemberReport {
  uint64_t number = 0;   // number of the answered kReport command; 0: the report answers no command
  bool primary = false;  // true: the member serves as the primary
  bool has_state = false;
  // True: the member's state has all log entries that the member has ever acknowledged. While a
  // member replaces its state by a checkpoint of the primary, it is incomplete until it has fetched
  // the log entries after the checkpoint.
  bool complete = false;
  // The fields of the LogTerm (pserver/storage/checkpoint_files.h) to which the member's state
  // belongs.
  uint64_t history = 0, term = 0, start = 0;
  uint64_t last = 0;       // number of the last stored log entry
  uint64_t following = 0;  // number of the kFollow that the member obeys; 0: it follows no primary

  bool operator==(const MemberReport&) const = default;
};

std::string Encode(const MemberCommand& command);
std::string Encode(const MemberReport& report);
// Parse a message that Encode made. INVALID_ARGUMENT: `text` is no such message.
StatusOr<MemberCommand> DecodeMemberCommand(const std::string& text);
StatusOr<MemberReport> DecodeMemberReport(const std::string& text);

// Sends one message without blocking. UNAVAILABLE: the peer has ended, or it does not read.
Status SendMemberMessage(int socket, const std::string& text);
// Receives one message without blocking. NOT_FOUND: there is no message now. UNAVAILABLE: the peer
// has ended. INVALID_ARGUMENT: the message is longer than kMemberMessageMax.
StatusOr<std::string> ReceiveMemberMessage(int socket);

inline constexpr size_t kMemberMessageMax = 4096;  // bytes

}  // namespace tandem
