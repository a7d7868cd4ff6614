// Data that ranks read from each other before they trust it: the header of a collective's data, the
// handshake, the announcement of rank 0, and addresses.
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

Collective Call() {
  Collective call;
  call.op = CollectiveOp::kAllReduce;
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
  const auto header = FirstBytes<MessageHeader>(input);
  CHECK(!ToString(header).empty());
  const Status status = CheckHeader(header, MakeHeader(Call(), 7, 1), "rank 1");
  CHECK(status.ok() || !status.message().empty());
  return status.ok();
}

bool TakesHello(std::string_view input) {
  const auto hello = FirstBytes<Hello>(input);
  for (const char c : GetText(hello.host) + GetText(hello.job)) {
    CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  const Status status = CheckGreeting(hello.greeting);
  CHECK(status.ok() || !status.message().empty());
  return status.ok();
}

bool TakesAnnouncement(const std::string& input) {
  const auto any = ReadUnverified(input), own = ReadSignedText(input, "job", "secret");
  CHECK(any.ok() || !own.ok());
  if (!any.ok()) return false;
  CHECK(ReadSignedText(SignedText(*any, "secret"), any->job, "secret").ok());
  return true;
}

bool TakesUrl(const std::string& input) {
  const auto url = ParseRendezvousUrl(input);
  CHECK(url.ok() || !url.status().message().empty());
  if (url.ok()) CHECK(ParseRendezvousUrl(ToString(*url)).ok()) << ToString(*url);
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
  const Announcement announcement{"job", {"127.0.0.1", 7000}, "host", 3, "2026-01-31T12:00:00Z"};
  return {
      {BytesOf(MakeHeader(Call(), 7, 1)), BytesOf(Hello()), SignedText(announcement, "secret"),
       "tcp://127.0.0.1:7000", "file:///folder", "etcd://[::1]:2379/prefix"},
      {"TDMC", "TDMH", "etcd://", "file://", "tcp://", "[::1]", "]:2", "job ", "address ", "pid "},
      Accepts};
}

}  // namespace tandem
