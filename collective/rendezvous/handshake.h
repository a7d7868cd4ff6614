// The handshake between two ranks: fixed-size messages, and a proof that both ranks know the job's
// secret. The secret itself is never sent.
//
// The messages of the handshake:
//   dialler -> listener   Hello      its rank, the intended rank, a nonce
//   listener -> dialler   Challenge  a nonce
//   dialler -> listener   Proof      HMAC-SHA256(secret, "dialler", Hello, Challenge)
//   listener -> dialler   Welcome    HMAC-SHA256(secret, "listener", ...), or a rejection
//
// The dialler sends its proof first. So a dialler without the secret receives no MAC with which it
// could test guesses of the secret. New nonces on both sides make a recorded handshake useless.
// Hello names the intended rank, so the listener detects a program that forwards the connection to
// another rank. After the handshake, the ranks start TLS on the connection (mesh_tls.h), or
// messages are sealed with keys of the connection (sealed_socket.h). The handshake is not
// encrypted.
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
  kControl = 1,  // the channel for aborts and goodbyes, and for the request to rank 0 to join
  kData = 2,
};

// The first eight bytes of Hello and Challenge. A rank uses them to detect other protocols and
// versions.
struct Greeting {
  static constexpr uint32_t kMagic = 0x484d4454;  // the characters "TDMH"
  static constexpr uint32_t kVersion = 5;
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
};

struct Hello {
  Greeting greeting;
  uint32_t channel = 0;  // channel of the connection, a value of Channel
  int32_t rank = 0;
  int32_t size = 0;
  uint32_t port = 0;   // port on which the sender listens
  char host[64] = {};  // host on which the sender listens; zero-terminated text
  // Number of the rendezvous round, drawn by rank 0; 0: a request to rank 0 to join.
  uint64_t generation = 0;
  char job[64] = {};  // name of the job; zero-terminated text
  Nonce nonce = {};
  // The intended peer: its rank, and the address that the peer announced. An empty host means that
  // the address is from the configuration. `meeting` is the nonce of the announcement of rank 0.
  // `meeting` is 0 if the intended peer is not rank 0, or if there is no announcement.
  int32_t to_rank = 0;
  uint32_t to_port = 0;
  char to_host[64] = {};
  Nonce meeting = {};
  uint32_t tls = 0;  // 1: the sender starts TLS after the handshake; 0: it does not
  uint32_t unused = 0;
};
static_assert(sizeof(Hello) == 272);

struct Challenge {
  Greeting greeting;
  Nonce nonce = {};
};
static_assert(sizeof(Challenge) == 24);

struct Proof {
  Mac mac = {};
};

struct Welcome {
  uint32_t code = 0;    // a StatusCode; 0: the listener accepted the connection
  char text[252] = {};  // why the listener rejected the connection; zero-terminated text
  Mac mac = {};         // the listener's proof; set only if it accepted the connection
};
static_assert(sizeof(Welcome) == 288);

// The message that rank 0 sends to all ranks after they have joined. After the header, entry i (a
// RankTableEntry) is the address on which rank i listens. If the rendezvous has failed, there are
// no entries.
struct RankTableHeader {
  uint32_t code = 0;   // result of the rendezvous, a StatusCode
  uint32_t count = 0;  // number of entries that follow
  // Random number of this rendezvous round. With it, ranks detect connections and messages of
  // earlier rounds.
  uint64_t generation = 0;
  char text[240] = {};  // the reason if the rendezvous failed; zero-terminated text
  Mac mac = {};         // MAC of `generation` and all entries, with the role "map"
};
static_assert(sizeof(RankTableHeader) == 288);
struct RankTableEntry {
  char host[64] = {};
  uint32_t port = 0;
};
static_assert(sizeof(RankTableEntry) == 68);

// Checks the first bytes of a message. INVALID_ARGUMENT: the peer is not a rank of Tandem.
// FAILED_PRECONDITION: the peer has another version of the handshake.
Status CheckGreeting(const Greeting& greeting);

Nonce FreshNonce();
// Returns the HMAC-SHA256 of `text`.
Mac MacOf(const std::string& secret, std::span<const std::byte> text);
// Returns the proof of one side of the handshake. Because of `role`, the proof of one side is no
// valid proof of the other side.
Mac MacOf(const std::string& secret, std::string_view role, const Hello& hello,
          const Challenge& challenge, std::span<const std::byte> more = {});
// Returns the keys of the connection that made this handshake. `dialled`: true on the side that
// connected, false on the side that listened.
SessionKeys KeysOf(const std::string& secret, const Hello& hello, const Challenge& challenge,
                   bool dialled);
// Returns whether `a` and `b` are equal. The duration does not depend on the position of a
// difference.
bool SameMac(const Mac& a, const Mac& b);

// PutText copies `text` into a field of fixed size, truncates it if necessary, and fills the rest
// with zeros. GetText reads a field that a peer filled, and replaces control characters, so that
// the text is safe for log lines and terminals.
void PutText(std::string_view text, std::span<char> field);
std::string GetText(std::span<const char> field);

}  // namespace tandem::collective
