// The messages between the tandemruns of a job as bytes (proto/launcher.proto).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/hosts/job_messages.h"

namespace tandem::deploy {

// A host of a job, as its tandemrun describes it.
struct JobHost {
  std::string host;     // name of the machine, for messages
  std::string address;  // address at which its processes listen
  int first_port = 0;   // first of the free ports of its processes
};

// The first message of a tandemrun, which wants to join a job.
struct HostJoin {
  int protocol = 0;                   // kHostProtocol of the sender
  std::string version;                // version of Tandem of the sender
  JobHost host;                       // an empty address means the address of the connection
  std::vector<std::string> settings;  // settings that must be equal on all hosts
  // Number of the host in an earlier run of the job, whose data the host has; -1: none.
  int kept = -1;
};
inline constexpr int kHostProtocol = 2;

// A certificate of the job, its key and the authority that signs it, as PEM texts.
struct RoleCertificate {
  std::string role;  // "pserver", "trainer", "reader" or "admin"
  std::string authority, cert, key;
};

// The answer to HostJoin as soon as all hosts have joined.
struct HostLayout {
  int number = 0;         // number of the receiving host
  int leader = 0;         // number of the leading host
  bool replaces = false;  // the receiving host replaces a lost one, while the job runs
  std::vector<JobHost> hosts;
  std::vector<RoleCertificate> certificates;  // empty: tandemrun makes none
};

// The refusal of a HostJoin.
struct HostRefusal {
  StatusCode code = StatusCode::kUnknown;
  std::string text;
};

struct HostPing {};     // the sender runs
struct HostGoodbye {};  // the sender ends; it is not lost

using HostMessage =
    std::variant<HostPing, HostGoodbye, HostJoin, HostLayout, HostRefusal, JobReport, JobOrder>;

std::string Encode(const HostMessage& message);
// Parses a message that Encode made. DATA_LOSS: the bytes are no such message.
StatusOr<HostMessage> DecodeHostMessage(const std::string& bytes);

}  // namespace tandem::deploy
