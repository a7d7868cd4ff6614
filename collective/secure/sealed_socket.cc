#include "collective/secure/sealed_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/require.h"

namespace tandem::collective {
namespace {

RecordHead HeadOf(const std::vector<std::byte>& bytes) {
  RecordHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  return head;
}

}  // namespace

SealedSocket::SealedSocket(Fd fd, const SessionKeys& keys) : fd_(std::move(fd)) {
  TD_REQUIRE((::fcntl(fd_.get(), F_GETFL) & O_NONBLOCK) != 0);
  out_.emplace(keys.send);
  in_.emplace(keys.receive);
}

SealedSocket::SealedSocket(Fd fd, std::unique_ptr<TlsStream> tls)
    : fd_(std::move(fd)), tls_(std::move(tls)) {
  TD_REQUIRE(tls_ != nullptr);
}

Moved SealedSocket::TrySend(std::span<const std::byte> head, std::span<const std::byte> body) {
  if (tls_ != nullptr) return tls_->TrySend(head, body);
  if (out_->left == 0) {
    const auto first = head.first(std::min(head.size(), kRecordBytesMax));
    const auto then = body.first(std::min(body.size(), kRecordBytesMax - first.size()));
    out_->left = first.size() + then.size();
    if (out_->left == 0) return {};
    out_->head = out_->seal.Seal(first, then);
    out_->head_sent = 0;
  }
  const size_t of_head = std::min(head.size(), out_->left);
  const size_t of_body = std::min(body.size(), out_->left - of_head);
  iovec parts[3] = {
      {reinterpret_cast<std::byte*>(&out_->head) + out_->head_sent,
       sizeof(RecordHead) - out_->head_sent},
      {const_cast<std::byte*>(head.data()), of_head},
      {const_cast<std::byte*>(body.data()), of_body},
  };
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 3;
  const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) return FailedMove(errno);
  const size_t sent = static_cast<size_t>(n);
  const size_t of_record_head = std::min(sent, sizeof(RecordHead) - out_->head_sent);
  out_->head_sent += of_record_head;
  out_->left -= sent - of_record_head;
  return {.bytes = sent - of_record_head};
}

size_t SealedSocket::record_end() const { return sizeof(RecordHead) + HeadOf(in_->bytes).bytes; }

Moved SealedSocket::TryRecv(std::span<std::byte> head, std::span<std::byte> body) {
  if (tls_ != nullptr) return tls_->TryRecv(head, body);
  if (head.empty() && body.empty()) return {};
  if (!in_->whole) {
    const Moved received = Receive();
    if (!in_->whole) return received;
  }
  const size_t end = record_end();
  size_t moved = 0;
  for (const auto& to : {head, body}) {
    const size_t n = std::min(to.size(), end - in_->at);
    if (n == 0) continue;
    std::memcpy(to.data(), in_->bytes.data() + in_->at, n);
    in_->at += n;
    moved += n;
  }
  if (in_->at < end) return {.bytes = moved};
  in_->got -= end;
  std::memmove(in_->bytes.data(), in_->bytes.data() + end, in_->got);
  in_->whole = false;
  return {.bytes = moved};
}

Moved SealedSocket::Receive() {
  in_->bytes.resize(sizeof(RecordHead) + kRecordBytesMax);
  while (true) {
    if (in_->got >= sizeof(RecordHead)) {
      const RecordHead head = HeadOf(in_->bytes);
      if (head.bytes == 0 || head.bytes > kRecordBytesMax) return {.end = Moved::End::kForged};
      if (in_->got >= record_end()) {
        const auto record = std::span(in_->bytes).subspan(sizeof(RecordHead), head.bytes);
        if (!in_->seal.Opens(head, record)) return {.end = Moved::End::kForged};
        in_->at = sizeof(RecordHead);
        in_->whole = true;
        return {.bytes = head.bytes};
      }
    }
    const ssize_t n =
        ::recv(fd_.get(), in_->bytes.data() + in_->got, in_->bytes.size() - in_->got, MSG_DONTWAIT);
    if (n == 0) return {.end = Moved::End::kClosed};
    if (n < 0) return FailedMove(errno);
    in_->got += static_cast<size_t>(n);
  }
}

}  // namespace tandem::collective
