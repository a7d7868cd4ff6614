// Connections between ranks with a program in between (a relay). The ranks must detect bytes that
// the program alters, repeats, drops or reorders, and a connection that the program redirects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "collective/rendezvous/file_store.h"
#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/rendezvous_store.h"
#include "collective/secure/sealed_socket.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "tests/unit/collective/relay.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::HasSubstr;
using End = SealedSocket::Moved::End;

std::string Text(const Status& status) { return std::string(status.message()); }

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// A fixture with two ends of a sealed connection. The test delivers the records of the first end to
// the second end.
class SealedSocketTest : public ::testing::Test {
 protected:
  SealedSocketTest() {
    keys_.send.fill(1);
    keys_.receive.fill(2);
    std::tie(a_, near_) = Pair();
    std::tie(b_, far_) = Pair();
    first_ = SealedSocket(std::move(a_), keys_);
    second_ = SealedSocket(std::move(b_), {keys_.receive, keys_.send});
  }
  static std::pair<Fd, Fd> Pair() {
    int fds[2];
    CHECK_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    return {Fd(fds[0]), Fd(fds[1])};
  }
  // Sends `text` from the first end. Returns the bytes of the sealed record.
  std::string Sealed(const std::string& text) {
    EXPECT_EQ(first_.TrySend(Bytes(text), {}).bytes, text.size());
    std::string record(sizeof(RecordHead) + text.size(), '\0');
    EXPECT_EQ(::recv(near_.get(), record.data(), record.size(), 0),
              static_cast<ssize_t>(record.size()));
    return record;
  }
  void Deliver(const std::string& bytes) {
    EXPECT_EQ(::send(far_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // Receives at the second end until no more data arrive or the receive fails. Returns the received
  // text and the reason for the end.
  std::pair<std::string, End> Received() {
    std::string all;
    while (true) {
      char buffer[1000];
      const auto moved =
          second_.TryRecv({}, std::as_writable_bytes(std::span(buffer, sizeof(buffer))));
      if (moved.bytes == 0) return {all, moved.end};
      all.append(buffer, moved.bytes);
    }
  }

  SessionKeys keys_;
  Fd a_, b_, near_, far_;
  SealedSocket first_, second_;
};

TEST_F(SealedSocketTest, RecordsComeInPiecesAndTogether) {
  const std::string one = Sealed("one"), two = Sealed("the second");
  for (const char c : one) {
    EXPECT_EQ(Received(), std::pair(std::string(), End::kOpen));
    Deliver(std::string(1, c));
  }
  EXPECT_EQ(Received(), std::pair(std::string("one"), End::kOpen));
  const std::string three = Sealed("3"), four = Sealed("4");
  Deliver(two + three + four.substr(0, 7));
  EXPECT_EQ(Received(), std::pair(std::string("the second3"), End::kOpen));
}

TEST_F(SealedSocketTest, NothingIsGivenOutOfARecordThatWasTouched) {
  const std::string record = Sealed("payload");
  for (size_t i = 0; i < record.size(); ++i) {
    std::tie(b_, far_) = Pair();
    second_ = SealedSocket(std::move(b_), {keys_.receive, keys_.send});
    std::string other = record;
    other[i] = static_cast<char>(other[i] ^ 0x10);
    Deliver(other + std::string(1 << 12, '\0'));
    EXPECT_EQ(Received(), std::pair(std::string(), End::kForged)) << "byte " << i;
  }
}

TEST_F(SealedSocketTest, OrderAndDirectionCount) {
  const std::string one = Sealed("one"), two = Sealed("two"), three = Sealed("three");
  const auto fails = [&](const std::string& bytes, const std::string& first) {
    std::tie(b_, far_) = Pair();
    second_ = SealedSocket(std::move(b_), {keys_.receive, keys_.send});
    Deliver(bytes);
    EXPECT_EQ(Received(), std::pair(first, End::kForged));
  };
  fails(one + one, "one");    // repeats the first record
  fails(one + three, "one");  // drops the second record
  fails(two + one, "");       // swaps the first two records
  fails(one + two + two, "onetwo");
  std::tie(b_, far_) = Pair();
  // The receiver has the keys of the sender, as if the relay sent the records back to the sender.
  second_ = SealedSocket(std::move(b_), keys_);
  Deliver(one);
  EXPECT_EQ(Received(), std::pair(std::string(), End::kForged));
}

TEST_F(SealedSocketTest, MuchGoesThroughAFullSocket) {
  std::string all(3 << 20, '\0');
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * i >> 7);
  std::string got;
  const std::string head = all.substr(0, 100);
  size_t sent = 0;
  while (got.size() < all.size()) {
    const auto moved = first_.TrySend(Bytes(head).subspan(std::min<size_t>(sent, 100)),
                                      Bytes(all).subspan(std::max<size_t>(sent, 100)));
    ASSERT_EQ(moved.end, End::kOpen);
    sent += moved.bytes;
    char buffer[5000];
    const ssize_t n = ::recv(near_.get(), buffer, sizeof(buffer), 0);
    if (n > 0) Deliver({buffer, static_cast<size_t>(n)});
    const auto [text, end] = Received();
    ASSERT_EQ(end, End::kOpen);
    got += text;
  }
  EXPECT_EQ(sent, all.size());
  EXPECT_TRUE(got == all);
}

TEST(SessionKeysTest, AreThoseOfOneHandshake) {
  Hello hello;
  hello.nonce = FreshNonce();
  Challenge challenge;
  challenge.nonce = FreshNonce();
  const SessionKeys dialler = KeysOf("secret", hello, challenge, true);
  const SessionKeys listener = KeysOf("secret", hello, challenge, false);
  EXPECT_EQ(dialler.send, listener.receive);
  EXPECT_EQ(dialler.receive, listener.send);
  EXPECT_NE(dialler.send, dialler.receive);
  EXPECT_NE(KeysOf("another secret", hello, challenge, true).send, dialler.send);
  challenge.nonce = FreshNonce();
  EXPECT_NE(KeysOf("secret", hello, challenge, true).send, dialler.send);
}

// ---- A program between two ranks ----------------------------------------------------------------

// The relay can read all data, because the ranks sign them but do not encrypt them.
TEST(RelayTest, WhoOnlyPassesBytesOnReadsThem) {
  const Door door = BindLoopbackSocket();
  auto relay = std::make_unique<Relay>(door.port, nullptr);
  for (const Status& status : SumThroughRelay(*relay, door, 1 << 16)) EXPECT_EQ(status, OkStatus());
  EXPECT_TRUE(relay->saw("the gradient"));
}

TEST(RelayTest, WhoChangesAByteIsFoundOut) {
  const Door door = BindLoopbackSocket();
  // The position of the changed byte in its connection. Only the data connection has this many
  // bytes, so the byte comes long after the handshake.
  const size_t victim = 100'000;
  Relay relay(door.port, [](size_t at, std::string& bytes) {
    if (at <= victim && victim < at + bytes.size()) bytes[victim - at] ^= 1;
  });
  const std::vector<Status> said = SumThroughRelay(relay, door, 1 << 18);
  EXPECT_EQ(said[0].code(), StatusCode::kDataLoss) << said[0];
  EXPECT_THAT(Text(said[0]), HasSubstr("rank 1 (127.0.0.1:"));
  EXPECT_THAT(Text(said[0]), HasSubstr("they were altered, repeated or removed on the network"));
  EXPECT_THAT(Text(said[0]), HasSubstr("[TD6025]"));
  EXPECT_THAT(Text(said[1]), HasSubstr("[TD6025]")) << "a code goes from rank to rank";
}

// An attacker replays an old announcement, whose address now belongs to a relay. The relay forwards
// to the real rank 0.
TEST(RelayTest, AnOldAnnouncementLeadsNowhere) {
  const std::string folder = ::testing::TempDir() + "/old-announcement-" + std::to_string(getpid());
  std::filesystem::create_directories(folder + "/real");
  std::filesystem::create_directories(folder + "/replayed");
  const std::string secret = TestWorld({}, 1, 2).secret;
  const auto real = MakeFileStore(folder + "/real", "test", secret);
  const auto replayed = MakeFileStore(folder + "/replayed", "test", secret);
  std::atomic<bool> done{false};
  OnEveryRank(2, [&](int r) {
    WorldConfig world = TestWorld({}, r, 2);
    world.listen_fd = -1;
    world.listen_host = "127.0.0.1";
    world.timeout = std::chrono::seconds(60);
    if (r == 0) {
      world.stop = [&done] { return done.load(); };
      world.rendezvous = "file://" + folder + "/real";
      EXPECT_EQ(JoinWorld(world).status().code(), StatusCode::kCancelled);
      return;
    }
    StatusOr<Meeting> meeting = NotFound("not yet");
    while (!meeting.ok()) meeting = real->Find(In(10));
    const Relay relay(meeting->address.port, nullptr);
    const HostPort at{"127.0.0.1", static_cast<uint16_t>(relay.port())};
    ASSERT_EQ(replayed->Announce(Meeting(at, FreshNonce()), In(10)), OkStatus());
    world.rendezvous = "file://" + folder + "/replayed";
    world.timeout = std::chrono::seconds(2);
    const Status status = JoinWorld(world).status();
    done = true;
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(
        Text(status),
        HasSubstr("the rendezvous announcement of another process, not of this rank 0 [TD3014]"));
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem::collective
