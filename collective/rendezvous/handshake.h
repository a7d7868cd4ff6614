// The words with which two ranks meet: fixed-size messages, and the proof that both know the job's
// secret, which itself never travels.
//
//   dialler -> listener   Hello      who I am, whom I mean, a nonce
//   listener -> dialler   Challenge  a nonce
//   dialler -> listener   Proof      HMAC-SHA256(secret, "dialler", Hello, Challenge)
//   listener -> dialler   Welcome    yes or why not, HMAC-SHA256(secret, "listener", ...) for yes
//
// The dialler proves itself first, so that a stranger at the door is given nothing to guess the
// secret from. Fresh nonces on both sides make a recorded handshake worthless. Hello says whom the
// dialler means, so a program that passes a connection on to another rank is found out. Once the
// ranks are connected, what follows is sealed with keys of the connection (sealed_socket.h).
// Nothing is encrypted.
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

namespace tandem {

static_assert(std::endian::native == std::endian::little, "messages travel as they lie in memory");

using Mac = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 16>;

enum class Channel : uint8_t {
  kControl = 1,  // aborts and goodbyes; to rank 0 also the way to join
  kData = 2,
};

// In front of Hello and Challenge, so that garbage is known for what it is after eight bytes.
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
  uint32_t port = 0;        // where this rank listens
  char host[64] = {};       // the same; text, ends with 0
  uint64_t generation = 0;  // of the world, as rank 0 told; 0: asks rank 0 to be let in
  char job[64] = {};        // text, ends with 0
  Nonce nonce = {};
  // Who is meant: this rank; where it said that it listens (empty: where all were told); and, of
  // rank 0, its announcement (0: there is none).
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
  uint32_t code = 0;    // StatusCode; 0 is yes
  char text[252] = {};  // why not; ends with 0
  Mac mac = {};         // only with yes
};
static_assert(sizeof(Welcome) == 288);

// Rank 0's answer once all are there: where rank i listens is entry i.
struct RankTableHeader {
  uint32_t code = 0;   // StatusCode
  uint32_t count = 0;  // of entries that follow
  // A random number by which connections and messages of an earlier world of this job are known.
  uint64_t generation = 0;
  char text[240] = {};  // why not; ends with 0
  Mac mac = {};         // over generation and entries, "map"
};
static_assert(sizeof(RankTableHeader) == 288);
struct RankTableEntry {
  char host[64] = {};
  uint32_t port = 0;
};
static_assert(sizeof(RankTableEntry) == 68);

// OK, or INVALID_ARGUMENT (no Tandem) or FAILED_PRECONDITION (another version).
Status CheckGreeting(const Greeting& greeting);

Nonce FreshNonce();
// HMAC-SHA256.
Mac MacOf(const std::string& secret, std::span<const std::byte> text);
// `role` keeps one side's proof from being played back as the other's.
Mac MacOf(const std::string& secret, std::string_view role, const Hello& hello,
          const Challenge& challenge, std::span<const std::byte> more = {});
// The keys of the connection with this handshake, of the side that dialled or the other one.
SessionKeys KeysOf(const std::string& secret, const Hello& hello, const Challenge& challenge,
                   bool dialled);
// Takes the same time wherever they differ.
bool SameMac(const Mac& a, const Mac& b);

// Into a fixed field, cut so that it ends with 0; and out of one that a peer filled, as text fit
// for log lines and terminals.
void PutText(std::string_view text, std::span<char> field);
std::string GetText(std::span<const char> field);

}  // namespace tandem
