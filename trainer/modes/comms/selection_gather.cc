#include "trainer/modes/comms/selection_gather.h"

#include <cstring>

#include "kernels/ops/update/dgc.h"

namespace tandem::trainer {
namespace {

// Returns the number of words that a selection uses. `room`: capacity of the selection in words.
// INVALID_ARGUMENT: the selection uses more words than its capacity.
StatusOr<size_t> UsedWords(const int32_t* selection, size_t room, const std::string& what) {
  const int64_t k = selection[0];
  if (k >= 0 && static_cast<size_t>(ops::SelectionWords(k)) <= room) {
    return static_cast<size_t>(ops::SelectionWords(k));
  }
  return InvalidArgument("%s: %d elements were selected, expected at most %d", what, k, room / 2);
}

size_t WordsOf(const exec::CommTensor& selection) {
  return static_cast<size_t>(selection.desc.shape.numel());
}

}  // namespace

size_t SelectionGather::words_max() const {
  size_t words = 0;
  for (const exec::CommTensor& t : selections_) words += WordsOf(t);
  return words;
}

StatusOr<size_t> SelectionGather::Pack(int32_t* all) const {
  size_t words = 0;
  for (const exec::CommTensor& t : selections_) {
    TD_ASSIGN_OR_RETURN(const size_t used,
                        UsedWords(static_cast<const int32_t*>(t.data), WordsOf(t), t.var));
    words += used;
  }
  int32_t* at = all + rank_ * words;
  for (const exec::CommTensor& t : selections_) {
    const auto* from = static_cast<const int32_t*>(t.data);
    const auto used = static_cast<size_t>(ops::SelectionWords(from[0]));
    std::memcpy(at, from, used * sizeof(int32_t));
    at += used;
  }
  return words;
}

Status SelectionGather::Unpack(const int32_t* all, size_t words) const {
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const int32_t* at = all + rank * words;
    const int32_t* const end = at + words;
    for (size_t i = 0; i < selections_.size(); ++i) {
      const size_t room = WordsOf(selections_[i]);
      if (at == end) return InvalidArgument("rank %d sent too few selections", rank);
      TD_ASSIGN_OR_RETURN(const size_t used, UsedWords(at, room, gathered_[i].var));
      if (used > static_cast<size_t>(end - at)) {
        return InvalidArgument("rank %d sent an incomplete selection of \"%s\"", rank,
                               selections_[i].var);
      }
      std::memcpy(static_cast<int32_t*>(gathered_[i].data) + rank * room, at,
                  used * sizeof(int32_t));
      at += used;
    }
    if (at != end) {
      return InvalidArgument("rank %d sent %d words after its last selection", rank, end - at);
    }
  }
  return OkStatus();
}

}  // namespace tandem::trainer
