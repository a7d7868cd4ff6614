#include "pserver/state/sequence_window.h"

#include "common/base/check.h"

namespace tandem::pserver {

static_assert(SequenceWindow::kWords * 64 == SequenceWindow::kSize);

SequenceWindow::Seen SequenceWindow::Look(uint64_t sequence) const {
  if (sequence == 0) return Seen::kTooOld;
  if (sequence > highest_) return Seen::kNew;
  if (sequence == highest_) return Seen::kTaken;
  const uint64_t back = highest_ - 1 - sequence;
  if (back >= kSize) return Seen::kTooOld;
  return (words_[back / 64] >> (back % 64)) & 1 ? Seen::kTaken : Seen::kNew;
}

void SequenceWindow::Take(uint64_t sequence) {
  CHECK(Look(sequence) == Seen::kNew) << sequence;
  if (sequence < highest_) {
    const uint64_t back = highest_ - 1 - sequence;
    words_[back / 64] |= uint64_t{1} << (back % 64);
    return;
  }
  const uint64_t shift = sequence - highest_;
  const uint64_t by_words = shift / 64, by_bits = shift % 64;
  std::array<uint64_t, kWords> moved{};
  for (uint64_t w = by_words; w < kWords; ++w) {
    const uint64_t from = w - by_words;
    moved[w] = words_[from] << by_bits;
    if (by_bits != 0 && from > 0) moved[w] |= words_[from - 1] >> (64 - by_bits);
  }
  // Sets the bit of the number that was the highest before, whose index is now shift - 1.
  if (highest_ != 0 && shift - 1 < kSize) {
    moved[(shift - 1) / 64] |= uint64_t{1} << ((shift - 1) % 64);
  }
  words_ = moved;
  highest_ = sequence;
}

SequenceWindow SequenceWindow::FromParts(uint64_t highest,
                                         const std::array<uint64_t, kWords>& words) {
  SequenceWindow window;
  window.highest_ = highest;
  window.words_ = words;
  return window;
}

}  // namespace tandem::pserver
