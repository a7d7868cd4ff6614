// The header of a push: all fields of PushRequest (proto/pserver.proto) besides the gradients.
// Clients, servers and their logs share it.
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

// By server, message numbers of one trainer.
struct SentNumbers {
  std::vector<uint64_t> sent;   // the newest ones
  std::vector<uint64_t> ended;  // all pushes up to these have ended with all their messages
  // Raises each number to that of `other` if that is higher.
  void Raise(const SentNumbers& other);
  static uint64_t At(const std::vector<uint64_t>& numbers, int server);  // 0: not known
};

// A new field needs its row in common/codec/tensor_codec.cc too.
struct PushHeader {
  CallerId caller;
  uint64_t sequence = 0, step = 0;
  float learning_rate = 0;
  uint64_t generation = 0;  // the server's, by which the sender chose the rows
  // The server to which the sender sent the gradients before (index + 1; 0: none).
  int origin_server = 0;
  uint64_t origin_sequence = 0;
  SentNumbers numbers = {};
  bool finite = false;  // the sender has checked the gradients
};

}  // namespace tandem
