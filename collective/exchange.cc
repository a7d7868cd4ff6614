#include "collective/exchange.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/tensor/reduce.h"

namespace tandem {
namespace {

// Most bytes in one send, so that a fast sender still looks after what arrives.
constexpr size_t kSendBytesMax = 256 << 10;

bool Overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

Exchange::Exchange(Transport& transport, size_t piece_bytes_max)
    : transport_(transport), piece_(piece_bytes_max), peers_(transport.size()) {
  CHECK_GE(piece_bytes_max, size_t{8});
}

Status Exchange::Run(const Schedule& schedule, std::span<std::byte> data,
                     const MessageHeader& header, Time deadline) {
  schedule_ = &schedule;
  data_ = data;
  header_ = &header;
  TD_ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(header.dtype));
  element_bytes_ = SizeOf(dtype);
  send_step_ = sent_ = recv_step_ = landed_ = held_ = 0;
  for (Peer& peer : peers_) peer.head_sent = peer.head_got = 0;
  while (true) {
    SkipIdle();
    if (send_step_ == schedule.size() && recv_step_ == schedule.size()) return OkStatus();
    TD_ASSIGN_OR_RETURN(const bool sent, Send());
    TD_ASSIGN_OR_RETURN(const bool received, Recv());
    if (sent || received) continue;
    const int to = SendPeer(), from = RecvPeer();
    CHECK(to >= 0 || from >= 0) << "a schedule that waits for itself";
    TD_RETURN_IF_ERROR(transport_.Wait(to, from, deadline));
  }
}

void Exchange::SkipIdle() {
  while (send_step_ < schedule_->size() && (*schedule_)[send_step_].send_to < 0) ++send_step_;
  while (recv_step_ < schedule_->size() && (*schedule_)[recv_step_].recv_from < 0) ++recv_step_;
}

size_t Exchange::SendLimit(const Step& step) const {
  size_t limit = step.send.end;
  for (size_t r = recv_step_; r < send_step_; ++r) {
    const Step& other = (*schedule_)[r];
    if (other.recv_from < 0 || !Overlap(step.send, other.recv)) continue;
    limit = std::min(limit, other.recv.begin + (r == recv_step_ ? landed_ : 0));
  }
  return std::max(limit, step.send.begin);
}

size_t Exchange::RecvLimit(const Step& step) const {
  size_t limit = step.recv.end;
  for (size_t s = send_step_; s <= recv_step_; ++s) {
    const Step& other = (*schedule_)[s];
    if (other.send_to < 0 || !Overlap(step.recv, other.send)) continue;
    limit = std::min(limit, other.send.begin + (s == send_step_ ? sent_ : 0));
  }
  return std::max(limit, step.recv.begin);
}

int Exchange::SendPeer() const {
  if (send_step_ == schedule_->size()) return -1;
  const Step& step = (*schedule_)[send_step_];
  const bool head = peers_[step.send_to].head_sent < sizeof(MessageHeader);
  return head || SendLimit(step) > step.send.begin + sent_ ? step.send_to : -1;
}

int Exchange::RecvPeer() const {
  if (recv_step_ == schedule_->size()) return -1;
  const Step& step = (*schedule_)[recv_step_];
  const bool head = peers_[step.recv_from].head_got < sizeof(MessageHeader);
  return head || RecvLimit(step) > step.recv.begin + landed_ + held_ ? step.recv_from : -1;
}

StatusOr<bool> Exchange::Send() {
  if (send_step_ == schedule_->size()) return false;
  const Step& step = (*schedule_)[send_step_];
  Peer& peer = peers_[step.send_to];
  const auto head = std::as_bytes(std::span(header_, 1)).subspan(peer.head_sent);
  const size_t begin = step.send.begin + sent_;
  const auto body = std::span<const std::byte>(data_).subspan(
      begin, std::min(SendLimit(step) - begin, kSendBytesMax));
  size_t moved = 0;
  if (!head.empty() || !body.empty()) {
    TD_ASSIGN_OR_RETURN(moved, transport_.TrySend(step.send_to, head, body));
  }
  const size_t of_head = std::min(moved, head.size());
  peer.head_sent += of_head;
  sent_ += moved - of_head;
  if (peer.head_sent == sizeof(MessageHeader) && sent_ == step.send.size()) {
    ++send_step_;
    sent_ = 0;
    return true;
  }
  return moved > 0;
}

StatusOr<bool> Exchange::Recv() {
  if (recv_step_ == schedule_->size()) return false;
  const Step& step = (*schedule_)[recv_step_];
  Peer& peer = peers_[step.recv_from];
  const auto head = std::as_writable_bytes(std::span(&peer.got, 1)).subspan(peer.head_got);
  const size_t begin = step.recv.begin + landed_;
  const size_t room = RecvLimit(step) - begin - held_;
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
    TD_RETURN_IF_ERROR(CheckHeader(peer.got, *header_, transport_.PeerName(step.recv_from)));
  }
  TD_RETURN_IF_ERROR(Landed(step, moved - of_head));
  if (peer.head_got == sizeof(MessageHeader) && landed_ == step.recv.size()) {
    ++recv_step_;
    landed_ = 0;
    return true;
  }
  return moved > 0;
}

Status Exchange::Landed(const Step& step, size_t bytes) {
  if (step.land == Land::kStore) {
    landed_ += bytes;
    return OkStatus();
  }
  held_ += bytes;
  const size_t whole = held_ / element_bytes_ * element_bytes_;
  if (whole == 0) return OkStatus();
  ReduceInto(static_cast<ReduceOp>(header_->reduce), static_cast<DType>(header_->dtype),
             data_.data() + step.recv.begin + landed_, piece_.data(), whole / element_bytes_,
             step.land == Land::kReduceHereFirst);
  landed_ += whole;
  held_ -= whole;
  std::memmove(piece_.data(), piece_.data() + whole, held_);
  return OkStatus();
}

}  // namespace tandem
