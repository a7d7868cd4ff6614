// Records which numbered messages of a sender were accepted: the highest number, and a window of
// the numbers below the highest. Messages may arrive in any order. Each message is accepted only
// once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::pserver {

class SequenceWindow {
 public:
  static constexpr uint64_t kSize = 512;  // size of the window below the highest accepted number
  static constexpr size_t kWords = kSize / 64;
  enum class Seen : uint8_t { kNew, kTaken, kTooOld };

  // Returns whether message `sequence` was accepted. kTooOld: the number is below the window, so
  // the state of the message is unknown. Number 0 is always too old.
  Seen Look(uint64_t sequence) const;
  // Records that message `sequence` was accepted. REQUIRES: Look(sequence) == kNew.
  void Take(uint64_t sequence);

  // Highest accepted number; 0: no message was accepted.
  uint64_t highest() const { return highest_; }
  // Bit i of word w is set if message highest - 1 - (64 w + i) was accepted.
  const std::array<uint64_t, kWords>& words() const { return words_; }
  static SequenceWindow FromParts(uint64_t highest, const std::array<uint64_t, kWords>& words);

 private:
  uint64_t highest_ = 0;
  std::array<uint64_t, kWords> words_{};
};

}  // namespace tandem::pserver
