// Records which numbered messages of a sender were accepted: the highest number and a window below
// it. Messages may arrive out of order, and each counts only once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::pserver {

class SequenceWindow {
 public:
  static constexpr uint64_t kSize = 512;  // numbers below the highest that are recorded
  static constexpr size_t kWords = kSize / 64;
  enum class Seen : uint8_t { kNew, kTaken, kTooOld };

  // kTooOld: below the window, so its state is unknown. Number 0 is always too old.
  Seen Look(uint64_t sequence) const;
  // REQUIRES: Look(sequence) == kNew.
  void Take(uint64_t sequence);

  uint64_t highest() const { return highest_; }  // 0: none accepted
  // Bit i of word w: highest - 1 - (64 w + i) was accepted.
  const std::array<uint64_t, kWords>& words() const { return words_; }
  static SequenceWindow FromParts(uint64_t highest, const std::array<uint64_t, kWords>& words);

 private:
  uint64_t highest_ = 0;
  std::array<uint64_t, kWords> words_{};
};

}  // namespace tandem::pserver
