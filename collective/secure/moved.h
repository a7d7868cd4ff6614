// The result of a send or receive on a connection between two ranks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::collective {

struct Moved {
  enum class End : uint8_t { kOpen, kClosed, kBroken, kForged };
  size_t bytes = 0;  // sent or received bytes; 0 with kOpen: none is possible now
  End end = End::kOpen;
  int error = 0;  // errno of a kBroken connection
};

// The text of an error for End::kForged.
inline constexpr char kForgedText[] =
    "the received data differ from the data that the peer sent: they were altered, repeated or "
    "removed on the network [TD6025]; hint: look for a program that relays connections between "
    "these hosts";

// Returns the result of a system call on a non-blocking socket that failed with `error`.
Moved FailedMove(int error);

}  // namespace tandem::collective
