// Fuzz target: data that a rank reads from a peer before it trusts the peer. The data are the
// header of a collective's data, the handshake, the announcement of rank 0, and addresses.
#include <algorithm>
#include <cstring>

#include "collective/rendezvous/announcement.h"
#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "collective/transport/message.h"
#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

collective::Collective Call() {
  collective::Collective call;
  call.op = collective::CollectiveOp::kAllReduce;
  call.count = 10;
  call.what = "fc_0.w@GRAD";
  return call;
}

template <typename T>
T FirstBytes(std::string_view input) {
  T value{};
  std::memcpy(static_cast<void*>(&value), input.data(), std::min(input.size(), sizeof(T)));
  return value;
}

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

bool TakesHeader(std::string_view input) {
  const auto header = FirstBytes<collective::MessageHeader>(input);
  CHECK(!ToString(header).empty());
  const Status status =
      collective::CheckHeader(header, collective::MakeHeader(Call(), 7, 1), "rank 1");
  CHECK(status.ok() || !status.message().empty());
  return status.ok();
}

bool TakesHello(std::string_view input) {
  const auto hello = FirstBytes<collective::Hello>(input);
  for (const char c : collective::GetText(hello.host) + collective::GetText(hello.job)) {
    CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  const Status status = collective::CheckGreeting(hello.greeting);
  CHECK(status.ok() || !status.message().empty());
  return status.ok();
}

bool TakesAnnouncement(const std::string& input) {
  const auto any = collective::ReadUnverified(input),
             own = collective::ReadSignedText(input, "job", "secret");
  CHECK(any.ok() || !own.ok());
  if (!any.ok()) return false;
  CHECK(
      collective::ReadSignedText(collective::SignedText(*any, "secret"), any->job, "secret").ok());
  return true;
}

bool TakesUrl(const std::string& input) {
  const auto url = collective::ParseRendezvousUrl(input);
  CHECK(url.ok() || !url.status().message().empty());
  if (url.ok()) CHECK(collective::ParseRendezvousUrl(ToString(*url)).ok()) << ToString(*url);
  return url.ok();
}

bool Accepts(std::string_view input) {
  const std::string text(input);
  const bool any[] = {TakesHeader(input), TakesHello(input), TakesAnnouncement(text),
                      TakesUrl(text)};
  return std::ranges::count(any, true) > 0;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  const collective::Announcement announcement{
      "job", {"127.0.0.1", 7000}, "host", 3, "2026-01-31T12:00:00Z"};
  return {
      {BytesOf(collective::MakeHeader(Call(), 7, 1)), BytesOf(collective::Hello()),
       collective::SignedText(announcement, "secret"), "tcp://127.0.0.1:7000", "file:///folder",
       "etcd://[::1]:2379/prefix"},
      {"TDMC", "TDMH", "etcd://", "file://", "tcp://", "[::1]", "]:2", "job ", "address ", "pid "},
      Accepts};
}

}  // namespace tandem
