// The header of a push: all fields of PushRequest (proto/pserver.proto) except the gradients and
// the pull. Clients, servers and the servers' WALs use this header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// The caller of a request: one incarnation of a trainer.
struct CallerId {
  std::string job;
  int trainer = 0;
  uint64_t incarnation = 0;
};

// Numbers of the push messages of one trainer (PushRequest.sent and .ended). Empty in sync mode.
// The index in each list is the server. A push has one or more messages to each of its servers.
struct SentNumbers {
  std::vector<uint64_t> sent;  // number of the newest message to each server
  // For each server: all pushes with messages up to this number have ended on all servers.
  std::vector<uint64_t> ended;
  // Replaces each number by the number of `other` if the latter is higher.
  void Raise(const SentNumbers& other);
  // Returns the number for `server`; 0: the number is unknown.
  static uint64_t At(const std::vector<uint64_t>& numbers, int server);
};

// Each field needs an entry in kFields<CodedPush> in common/codec/tensor_codec.cc.
struct PushHeader {
  CallerId caller;
  uint64_t sequence = 0, step = 0;
  float learning_rate = 0;
  // Generation of the server (ExchangeMapReply.generation) that the sender knew when the sender
  // chose the rows.
  uint64_t generation = 0;
  // Index + 1 of a lost server to which the sender sent these rows before; 0: none.
  int origin_server = 0;
  uint64_t origin_sequence = 0;  // sequence of the push to origin_server
  SentNumbers numbers = {};
  bool finite = false;  // true: the sender has checked that all gradients are finite
  bool once = false;    // true: the server accepts each step of the trainer once
  // Unix time in milliseconds of the newest sample that led to the gradients; 0: unknown.
  int64_t event_time_ms = 0;
};

}  // namespace tandem
