// The settings of a client of parameter servers, and what it tells of its calls.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "pserver/client/placement/partition.h"

namespace tandem {

// What servers do with a push that holds NaN or infinity.
enum class PsNonfinite : uint8_t {
  kReject,  // INVALID_ARGUMENT naming the first
  kSkip,    // it counts, and changes nothing: in sync mode its gradients are zeros
  kApply    // nobody looks
};

// What carries pushes and pulls; all else goes by gRPC. The bits do not depend on it.
enum class PsTransport : uint8_t {
  kAuto,  // shared memory towards servers on this host, gRPC towards others
  kGrpc,
  kShm  // shared memory; Configure fails, naming the server, where there is none
};

// A call to one server, with its repetitions.
struct PsCall {
  int server = 0;
  const char* method = "";  // "Push", a literal
  Time begin, end;
  size_t sent = 0, received = 0;  // bytes of the messages
  bool ok = true;
  // Of answers to pushes and pulls: the version that they tell, and times by the server's clock:
  // when the call came, when it was answered, and the newest update. 0: there is none.
  struct Server {
    uint64_t version = 0;
    bool values = false;  // parameters came with it
    int64_t received_us = 0, answered_us = 0, update_begin_us = 0, update_end_us = 0;
  };
  Server at_server = {};
};

struct PsOptions {
  std::string job = "job";
  int trainer = 0, trainers = 1;  // rank and number of trainers
  // Grows each time this trainer is started; 0: Configure chooses one above those that the servers
  // know of this trainer.
  uint64_t incarnation = 0;
  std::string secret;  // the job's secret; empty: none is proved
  TlsFiles tls;
  // Without TLS servers at addresses of a network may be spoken to: anybody on the way reads and
  // changes what is sent. Else Connect fails with PERMISSION_DENIED.
  bool insecure_allow_network = false;
  Duration start_timeout = std::chrono::seconds(60);  // for servers and first values
  Duration step_timeout = std::chrono::seconds(60);   // for pushes, pulls and barriers
  // Pushes, pulls and barriers wait for so much longer: a process that does not answer is killed
  // and started again meanwhile, for on_silent tells of it.
  Duration replace_timeout = Duration::zero();
  bool wait_for_servers = true;  // Connect returns when all answer; false: at once
  int retries = 3;               // times that a call is repeated when its connection breaks
  PsTransport transport = PsTransport::kAuto;
  bool crc32c = false;         // checksums over all tensors, both ways
  PartitionOptions partition;  // `servers` is set by Connect
  // Each slice goes as a message of its own; else one to each server.
  bool split_messages = false;
  // Memory for rows of tables that were pulled, to be used again while they are new enough
  // (row_cache.h); 0: none. A row is new enough that is at most `row_cache_versions` behind the
  // version asked for (PullCondition::exactly), or else behind what the last pull of rows heard of;
  // 0: one of that very version, and without `exactly` none.
  size_t row_cache_bytes = 0;
  uint64_t row_cache_versions = 0;
  // The following are the same for all trainers of a job.
  Agreement settings;  // that nothing else compares, ascending; servers refuse who has others
  PsNonfinite nonfinite = PsNonfinite::kReject;
  // A trainer silent for so long is lost; kASync: others go on without it until it calls again.
  Duration lost_after = std::chrono::seconds(900);
  // kASync: gradients g of slices become g + this * g * g * (w - what their trainer pulled last).
  double delay_compensation = 0;
  // Called about once a second while Connect waits: "waiting for pserver 1 (127.0.0.1:1234)
  // (12 s of 60 s)". May be empty.
  std::function<void(const std::string&)> on_wait;
  // Asked some times a second while Connect waits: true ends it (CANCELLED). Empty: never.
  std::function<bool()> stop;
  // Told about once a second of a server that has answered nothing for step_timeout, while a call
  // waits for it, and for how long: on a gRPC thread, must not block. May be empty.
  std::function<void(int server, Duration silent)> on_silent;
  // Told each call when it has ended, before whoever made it: on a gRPC thread, must not block.
  // May be empty.
  std::function<void(const PsCall&)> on_call;
};

}  // namespace tandem
