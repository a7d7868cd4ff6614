// Which numbered messages of a sender were taken: the highest number and a window below it, so that
// retries may overtake one another and still each message counts once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {

class SequenceWindow {
 public:
  static constexpr uint64_t kSize = 512;  // numbers below the highest that are remembered
  static constexpr size_t kWords = kSize / 64;
  enum class Seen : uint8_t { kNew, kTaken, kTooOld };

  // kTooOld: so far below the highest that nobody knows. Number 0 is always too old.
  Seen Look(uint64_t sequence) const;
  // REQUIRES: Look(sequence) == kNew.
  void Take(uint64_t sequence);

  uint64_t highest() const { return highest_; }  // 0: none taken
  // Bit i of word w: highest - 1 - (64 w + i) was taken.
  const std::array<uint64_t, kWords>& words() const { return words_; }
  static SequenceWindow FromParts(uint64_t highest, const std::array<uint64_t, kWords>& words);

 private:
  uint64_t highest_ = 0;
  std::array<uint64_t, kWords> words_{};
};

}  // namespace tandem
