// The handshake between two ranks: fixed-size messages, and a proof that both know the job's
// secret. The secret itself is never sent.
//
//   dialler -> listener   Hello      its rank, the intended rank, a nonce
//   listener -> dialler   Challenge  a nonce
//   dialler -> listener   Proof      HMAC-SHA256(secret, "dialler", Hello, Challenge)
//   listener -> dialler   Welcome    yes, HMAC-SHA256(secret, "listener", ...); or why not
//
// The dialler proves itself first, so a stranger that connects receives no data to guess the secret
// from. New nonces on both sides make a recorded handshake useless. Hello names the intended rank,
// so a program that forwards a connection to another rank is detected. After the handshake,
// messages are sealed with keys of the connection (sealed_socket.h). Nothing is encrypted.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collective/secure/record_seal.h"
#include "common/base/status.h"

namespace tandem::collective {

static_assert(std::endian::native == std::endian::little, "messages travel as they lie in memory");

using Mac = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 16>;

enum class Channel : uint8_t {
  kControl = 1,  // aborts and goodbyes; to rank 0 also the request to join
  kData = 2,
};

// Precedes Hello and Challenge. Lets a rank detect other protocols after eight bytes.
struct Greeting {
  static constexpr uint32_t kMagic = 0x484d4454;  // "TDMH"
  static constexpr uint32_t kVersion = 4;
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
};

struct Hello {
  Greeting greeting;
  uint32_t channel = 0;  // Channel
  int32_t rank = 0;
  int32_t size = 0;
  uint32_t port = 0;        // port on which this rank listens
  char host[64] = {};       // host on which this rank listens; zero-terminated text
  uint64_t generation = 0;  // rendezvous round, from rank 0; 0: a request to rank 0 to join
  char job[64] = {};        // zero-terminated text
  Nonce nonce = {};
  // The intended peer: its rank and the address on which it said that it listens (empty: the
  // address was in the configuration). For rank 0 also the nonce of its announcement (0: no
  // announcement).
  int32_t to_rank = 0;
  uint32_t to_port = 0;
  char to_host[64] = {};
  Nonce meeting = {};
};
static_assert(sizeof(Hello) == 264);

struct Challenge {
  Greeting greeting;
  Nonce nonce = {};
};
static_assert(sizeof(Challenge) == 24);

struct Proof {
  Mac mac = {};
};

struct Welcome {
  uint32_t code = 0;    // StatusCode; 0: accepted
  char text[252] = {};  // the reason of a rejection; zero-terminated
  Mac mac = {};         // only if accepted
};
static_assert(sizeof(Welcome) == 288);

// Rank 0's message when all ranks have joined. Entry i is the address on which rank i listens.
struct RankTableHeader {
  uint32_t code = 0;   // StatusCode
  uint32_t count = 0;  // entries that follow
  // A random number. It detects connections and messages of an earlier rendezvous round of this
  // job.
  uint64_t generation = 0;
  char text[240] = {};  // the reason of a failure; zero-terminated
  Mac mac = {};         // over generation and entries, with the role "map"
};
static_assert(sizeof(RankTableHeader) == 288);
struct RankTableEntry {
  char host[64] = {};
  uint32_t port = 0;
};
static_assert(sizeof(RankTableEntry) == 68);

// INVALID_ARGUMENT: the peer is not Tandem. FAILED_PRECONDITION: another version.
Status CheckGreeting(const Greeting& greeting);

Nonce FreshNonce();
// HMAC-SHA256.
Mac MacOf(const std::string& secret, std::span<const std::byte> text);
// `role` prevents that one side's proof is replayed as the other side's.
Mac MacOf(const std::string& secret, std::string_view role, const Hello& hello,
          const Challenge& challenge, std::span<const std::byte> more = {});
// Returns the keys of the connection with this handshake. `dialled`: for the side that connected;
// else for the listening side.
SessionKeys KeysOf(const std::string& secret, const Hello& hello, const Challenge& challenge,
                   bool dialled);
// Takes the same time for all differences.
bool SameMac(const Mac& a, const Mac& b);

// PutText copies `text` into a fixed-size field, truncates it and adds a terminating zero. GetText
// reads a field that a peer filled and makes it safe for log lines and terminals.
void PutText(std::string_view text, std::span<char> field);
std::string GetText(std::span<const char> field);

}  // namespace tandem::collective
