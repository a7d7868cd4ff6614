#include "collective/transport/schedule_runner.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/tensor/reduce.h"

namespace tandem::collective {
namespace {

// Maximum bytes of one send call. The limit lets a fast sender receive between its sends.
constexpr size_t kSendBytesMax = 256 << 10;

}  // namespace

ScheduleRunner::ScheduleRunner(Transport& transport, size_t piece_bytes_max)
    : transport_(transport), piece_(piece_bytes_max), peers_(transport.size()) {
  CHECK_GE(piece_bytes_max, size_t{8});
}

Status ScheduleRunner::Run(const Schedule& schedule, std::span<std::byte> data,
                           const MessageHeader& sent, const MessageHeader& expected,
                           Time deadline) {
  progress_ = ScheduleCursor(schedule);
  data_ = data;
  header_ = &sent;
  expected_ = &expected;
  TD_ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(sent.dtype));
  element_bytes_ = SizeOf(dtype);
  held_ = 0;
  for (Peer& peer : peers_) peer.head_sent = peer.head_got = 0;
  while (true) {
    if (progress_.done()) return OkStatus();
    TD_ASSIGN_OR_RETURN(const bool moved_out, Send());
    TD_ASSIGN_OR_RETURN(const bool moved_in, Recv());
    if (moved_out || moved_in) continue;
    const int to = SendPeer(), from = RecvPeer();
    CHECK(to >= 0 || from >= 0) << "a schedule that waits for itself";
    TD_RETURN_IF_ERROR(transport_.Wait(to, std::span(&from, from >= 0 ? 1 : 0), deadline));
  }
}

int ScheduleRunner::SendPeer() const {
  const Step* const step = progress_.sending();
  if (step == nullptr) return -1;
  const bool head = peers_[step->send_to].head_sent < sizeof(MessageHeader);
  return head || progress_.send_end() > progress_.send_at() ? step->send_to : -1;
}

int ScheduleRunner::RecvPeer() const {
  const Step* const step = progress_.receiving();
  if (step == nullptr) return -1;
  const bool head = peers_[step->recv_from].head_got < sizeof(MessageHeader);
  return head || progress_.land_end() > progress_.land_at() + held_ ? step->recv_from : -1;
}

StatusOr<bool> ScheduleRunner::Send() {
  if (progress_.sending() == nullptr) return false;
  const Step& step = *progress_.sending();
  Peer& peer = peers_[step.send_to];
  const auto head = std::as_bytes(std::span(header_, 1)).subspan(peer.head_sent);
  const size_t begin = progress_.send_at();
  const auto body = std::span<const std::byte>(data_).subspan(
      begin, std::min(progress_.send_end() - begin, kSendBytesMax));
  size_t moved = 0;
  if (!head.empty() || !body.empty()) {
    TD_ASSIGN_OR_RETURN(moved, transport_.TrySend(step.send_to, head, body));
  }
  const size_t of_head = std::min(moved, head.size());
  peer.head_sent += of_head;
  progress_.Sent(moved - of_head);
  if (peer.head_sent == sizeof(MessageHeader) && progress_.all_sent()) {
    progress_.NextSend();
    return true;
  }
  return moved > 0;
}

StatusOr<bool> ScheduleRunner::Recv() {
  if (progress_.receiving() == nullptr) return false;
  const Step& step = *progress_.receiving();
  Peer& peer = peers_[step.recv_from];
  const auto head = std::as_writable_bytes(std::span(&peer.got, 1)).subspan(peer.head_got);
  const size_t begin = progress_.land_at();
  const size_t room = progress_.land_end() - begin - held_;
  const auto body = step.land == Land::kStore
                        ? data_.subspan(begin, room)
                        : std::span(piece_).subspan(held_, std::min(room, piece_.size() - held_));
  size_t moved = 0;
  if (!head.empty() || !body.empty()) {
    TD_ASSIGN_OR_RETURN(moved, transport_.TryRecv(step.recv_from, head, body));
  }
  const size_t of_head = std::min(moved, head.size());
  peer.head_got += of_head;
  if (of_head > 0 && peer.head_got == sizeof(MessageHeader)) {
    TD_RETURN_IF_ERROR(CheckHeader(peer.got, *expected_, transport_.PeerName(step.recv_from)));
  }
  TD_RETURN_IF_ERROR(Landed(step, moved - of_head));
  if (peer.head_got == sizeof(MessageHeader) && progress_.all_landed()) {
    progress_.NextRecv();
    return true;
  }
  return moved > 0;
}

Status ScheduleRunner::Landed(const Step& step, size_t bytes) {
  if (step.land == Land::kStore) {
    progress_.Landed(bytes);
    return OkStatus();
  }
  held_ += bytes;
  const size_t whole = held_ / element_bytes_ * element_bytes_;
  if (whole == 0) return OkStatus();
  ReduceInto(static_cast<ReduceOp>(header_->reduce), static_cast<DType>(header_->dtype),
             data_.data() + progress_.land_at(), piece_.data(), whole / element_bytes_,
             step.land == Land::kReduceHereFirst);
  progress_.Landed(whole);
  held_ -= whole;
  std::memmove(piece_.data(), piece_.data() + whole, held_);
  return OkStatus();
}

}  // namespace tandem::collective
