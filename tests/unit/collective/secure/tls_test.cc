// TLS between ranks: the bytes of a connection, a program between two ranks, and wrong
// certificates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>

#include "collective/rendezvous/mesh_tls.h"
#include "collective/secure/sealed_socket.h"
#include "collective/secure/tls_stream.h"
#include "common/base/check.h"
#include "tests/support/tls_test_util.h"
#include "tests/unit/collective/relay.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::HasSubstr;
using End = Moved::End;

std::string Text(const Status& status) { return std::string(status.message()); }

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::pair<Fd, Fd> SocketPair() {
  int fds[2];
  CHECK_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

class TlsBetweenRanks : public ::testing::Test {
 protected:
  TlsBetweenRanks()
      : dir_(::testing::TempDir() + "/rank-tls-" + std::to_string(getpid())),
        authority_(dir_, "ours"),
        files_(authority_.Issue("test", rpc::PeerRole::kTrainer)) {}
  ~TlsBetweenRanks() override { std::filesystem::remove_all(dir_); }

  static std::shared_ptr<const TlsContext> Load(const rpc::TlsFiles& files) {
    auto context = TlsContext::Load(files, "test");
    CHECK(context.ok()) << context.status();
    return *context;
  }
  // Joins two ranks with these certificates. Returns their statuses.
  static std::vector<Status> Join(const rpc::TlsFiles& first, const rpc::TlsFiles& second) {
    const Door door = BindLoopbackSocket();
    std::vector<Status> said(2);
    OnEveryRank(2, [&](int r) {
      WorldConfig world = TestWorld(door, r, 2);
      world.tls = r == 0 ? first : second;
      world.timeout = std::chrono::seconds(2);
      auto comm = ConnectTcp(world);
      said[static_cast<size_t>(r)] = comm.status();
    });
    return said;
  }

  const std::string dir_;
  const TestAuthority authority_;
  const rpc::TlsFiles files_;
};

// Two ends of a connection. The test carries the bytes from the first end to the second end.
class TlsPair {
 public:
  explicit TlsPair(const std::shared_ptr<const TlsContext>& context, uint64_t rekey_bytes = 0) {
    std::tie(a_, near_) = SocketPair();
    std::tie(b_, far_) = SocketPair();
    first_.emplace(context, a_.get(), TlsStream::Side::kDialler, rekey_bytes);
    second_.emplace(context, b_.get(), TlsStream::Side::kListener, rekey_bytes);
    bool first = false, second = false;
    while (!first || !second) {
      first = first || Done(*first_);
      Carry(near_, far_);
      second = second || Done(*second_);
      Carry(far_, near_);
    }
  }
  TlsStream& first() { return *first_; }
  TlsStream& second() { return *second_; }
  // Sends `text` from the first end. Returns the encrypted bytes.
  std::string Sealed(const std::string& text) {
    EXPECT_EQ(first_->TrySend(Bytes(text), {}).bytes, text.size());
    return Take(near_);
  }
  void Deliver(const std::string& bytes) {
    EXPECT_EQ(::send(far_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string TakeSent() { return Take(near_); }
  std::pair<std::string, End> Received() {
    std::string all;
    while (true) {
      char buffer[1000];
      const Moved moved =
          second_->TryRecv({}, std::as_writable_bytes(std::span(buffer, sizeof(buffer))));
      if (moved.bytes == 0) return {all, moved.end};
      all.append(buffer, moved.bytes);
    }
  }

 private:
  static bool Done(TlsStream& stream) {
    const auto progress = stream.Handshake();
    CHECK(progress.ok()) << progress.status();
    return *progress == TlsStream::Progress::kDone;
  }
  static std::string Take(const Fd& from) {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(from.get(), buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  static void Carry(const Fd& from, const Fd& to) {
    const std::string bytes = Take(from);
    CHECK_EQ(::send(to.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  Fd a_, b_, near_, far_;
  std::optional<TlsStream> first_, second_;
};

TEST_F(TlsBetweenRanks, RecordsComeInPiecesAndTogether) {
  TlsPair pair(Load(files_));
  EXPECT_EQ(pair.first().ChannelBinding(), pair.second().ChannelBinding());
  const std::string one = pair.Sealed("one"), two = pair.Sealed("the second");
  EXPECT_THAT(one + two, ::testing::Not(HasSubstr("second")));
  for (const char c : one) {
    EXPECT_EQ(pair.Received(), std::pair(std::string(), End::kOpen));
    pair.Deliver(std::string(1, c));
  }
  EXPECT_EQ(pair.Received(), std::pair(std::string("one"), End::kOpen));
  const std::string three = pair.Sealed("3"), four = pair.Sealed("4");
  pair.Deliver(two + three + four.substr(0, 7));
  EXPECT_EQ(pair.Received(), std::pair(std::string("the second3"), End::kOpen));
}

// Each case is a change on the path: alter any byte, repeat, drop, swap or insert a record.
TEST_F(TlsBetweenRanks, NothingIsTakenFromARecordThatWasTouched) {
  const auto context = Load(files_);
  const auto received = [&](const std::function<std::string(TlsPair&)>& bytes) {
    TlsPair pair(context);
    pair.Deliver(bytes(pair));
    return pair.Received();
  };
  const size_t size = TlsPair(context).Sealed("payload").size();
  for (size_t i = 0; i < size; i += 3) {
    const auto altered = received([i](TlsPair& pair) {
      std::string record = pair.Sealed("payload");
      record[i] = static_cast<char>(record[i] ^ 0x10);
      return record + std::string(1 << 15, '\0');
    });
    EXPECT_EQ(altered, std::pair(std::string(), End::kForged)) << "byte " << i;
  }
  const auto of = [&](const std::vector<int>& order) {
    return received([&](TlsPair& pair) {
      std::vector<std::string> records;
      for (const char* text : {"a", "b", "c"}) records.push_back(pair.Sealed(text));
      std::string bytes;
      for (const int r : order) bytes += records[static_cast<size_t>(r)];
      return bytes;
    });
  };
  EXPECT_EQ(of({0, 1, 2}), std::pair(std::string("abc"), End::kOpen));
  EXPECT_EQ(of({0, 0}), std::pair(std::string("a"), End::kForged));
  EXPECT_EQ(of({0, 2}), std::pair(std::string("a"), End::kForged));
  EXPECT_EQ(of({1, 0}), std::pair(std::string(), End::kForged));
  EXPECT_EQ(received([&](TlsPair&) { return TlsPair(context).Sealed("of another connection"); }),
            std::pair(std::string(), End::kForged));
}

// The sender changes its key every 64 KiB.
TEST_F(TlsBetweenRanks, MuchGoesThroughAFullSocket) {
  TlsPair pair(Load(files_), 64 << 10);
  std::string all(3 << 20, '\0');
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * i >> 7);
  std::string got;
  size_t sent = 0;
  while (got.size() < all.size()) {
    const std::string head = all.substr(0, 100);
    const Moved moved = pair.first().TrySend(Bytes(head).subspan(std::min<size_t>(sent, 100)),
                                             Bytes(all).subspan(std::max<size_t>(sent, 100)));
    ASSERT_EQ(moved.end, End::kOpen);
    sent += moved.bytes;
    const std::string bytes = pair.TakeSent();
    for (size_t at = 0; at < bytes.size(); at += 50'000) {
      pair.Deliver(bytes.substr(at, 50'000));
      const auto [text, end] = pair.Received();
      ASSERT_EQ(end, End::kOpen);
      got += text;
    }
  }
  EXPECT_EQ(sent, all.size());
  EXPECT_TRUE(got == all);
}

// A receiver with a small buffer must learn that more bytes wait in the object.
TEST_F(TlsBetweenRanks, HeldBytesAreTold) {
  TlsPair pair(Load(files_));
  const std::string first = pair.Sealed("0123456789"), second = pair.Sealed("abc");
  pair.Deliver(first + second);
  std::byte four[4];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pair.second().TryRecv(four, {}).bytes, 4u);
    EXPECT_TRUE(pair.second().holds_bytes());
  }
  EXPECT_EQ(pair.second().TryRecv(four, {}).bytes, 1u);
  EXPECT_FALSE(pair.second().holds_bytes());
}

TEST_F(TlsBetweenRanks, ARelayReadsNothing) {
  const Door door = BindLoopbackSocket();
  Relay relay(door.port, nullptr);
  for (const Status& status : SumThroughRelay(relay, door, 1 << 18, files_)) {
    EXPECT_EQ(status, OkStatus());
  }
  // A header of a message has the name of the operation, and the data are numbers 1.0.
  EXPECT_FALSE(relay.saw("the gradient"));
  EXPECT_FALSE(relay.saw(std::string("\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f", 12)));
  EXPECT_TRUE(relay.saw("test")) << "the name of the job in the handshake";
}

TEST_F(TlsBetweenRanks, WhatARelayChangesIsNamed) {
  constexpr size_t kVictim = 100'000;  // only the data connection has this many bytes
  const auto at_victim = [](const std::function<void(std::string&, size_t)>& change) {
    return [change](size_t at, std::string& bytes) {
      if (at <= kVictim && kVictim < at + bytes.size()) change(bytes, kVictim - at);
    };
  };
  const std::map<std::string, Relay::Change> changes = {
      {"flip", at_victim([](std::string& bytes, size_t i) { bytes[i] ^= 1; })},
      {"drop", at_victim([](std::string& bytes, size_t i) { bytes.erase(i, 1); })},
      {"inject", at_victim([](std::string& bytes, size_t i) { bytes.insert(i, "x"); })},
      {"replay", at_victim([](std::string& bytes, size_t) { bytes += bytes; })},
  };
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    const Door door = BindLoopbackSocket();
    Relay relay(door.port, change);
    const std::vector<Status> said = SumThroughRelay(relay, door, 1 << 18, files_);
    EXPECT_EQ(said[0].code(), StatusCode::kDataLoss) << said[0];
    EXPECT_THAT(Text(said[0]), HasSubstr("rank 1 (127.0.0.1:"));
    EXPECT_THAT(Text(said[0]), HasSubstr("[TD6025]"));
    EXPECT_THAT(Text(said[1]), HasSubstr("[TD6025]"));
  }
}

TEST_F(TlsBetweenRanks, SharedMemoryNeedsNoMore) {
  const Door door = BindLoopbackSocket();
  OnEveryRank(2, [&](int r) {
    WorldConfig world = TestWorld(door, r, 2);
    world.tls = files_;
    auto comm = Connect(world, {}, {TransportKind::kSharedMemory, size_t{64} << 20});
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ((*comm)->Barrier()->Wait(In(10)), OkStatus());
  });
}

TEST_F(TlsBetweenRanks, WrongCertificatesAreNamed) {
  EXPECT_EQ(Join(files_, files_), std::vector<Status>(2));

  const TestAuthority other(dir_ + "/other", "theirs");
  const std::vector<Status> foreign = Join(files_, other.Issue("test", rpc::PeerRole::kTrainer));
  // The dialler verifies first and tells the listener.
  EXPECT_EQ(foreign[1].code(), StatusCode::kUnauthenticated) << foreign[1];
  EXPECT_THAT(Text(foreign[1]), HasSubstr("rank 1 of 2, TLS: rank 0 at 127.0.0.1:"));
  EXPECT_THAT(Text(foreign[1]), HasSubstr("this rank rejects its certificate: "));
  EXPECT_THAT(Text(foreign[1]), HasSubstr("[TD6005]; hint: check that " + dir_ + "/other"));
  EXPECT_EQ(foreign[0].code(), StatusCode::kUnauthenticated) << foreign[0];
  EXPECT_THAT(Text(foreign[0]), HasSubstr("it rejects certificate " + files_.cert));
  EXPECT_THAT(Text(foreign[0]), HasSubstr("[TD6007]"));

  // Only rank 0 does not trust the authority of its peer.
  rpc::TlsFiles trusting = other.Issue("test", rpc::PeerRole::kTrainer);
  trusting.ca = files_.ca;
  const std::vector<Status> half = Join(files_, trusting);
  EXPECT_THAT(Text(half[0]), HasSubstr("[TD6005]"));
  EXPECT_THAT(Text(half[1]), HasSubstr("[TD6007]"));

  const std::vector<Status> job = Join(files_, authority_.Issue("b", rpc::PeerRole::kTrainer));
  EXPECT_THAT(Text(job[1]), HasSubstr("of job \"b\""));
  EXPECT_THAT(Text(job[1]), HasSubstr("[TD6010]"));
  const Status server = Join(files_, authority_.Issue("test", rpc::PeerRole::kPserver))[1];
  EXPECT_THAT(Text(server), HasSubstr("is for role pserver of job \"test\""));
  const Status expired =
      Join(files_, authority_.IssueExpired("old", "test", rpc::PeerRole::kTrainer))[1];
  EXPECT_THAT(Text(expired), HasSubstr("expired on"));
  EXPECT_EQ(TlsContext::Load({"", "", files_.ca}, "test").status().code(),
            StatusCode::kInvalidArgument);
}

// A rank checks the identity of the peer itself, even if the peer's own check lets it pass.
TEST_F(TlsBetweenRanks, APeerOfAnotherJobIsRejected) {
  const auto ours = Load(files_);
  const auto theirs = *TlsContext::Load(authority_.Issue("b", rpc::PeerRole::kTrainer), "b");
  auto [a, b] = SocketPair();
  TlsStream dialler(theirs, a.get(), TlsStream::Side::kDialler);
  TlsStream listener(ours, b.get(), TlsStream::Side::kListener);
  Status status;
  for (int i = 0; i < 4 && status.ok(); ++i) {
    (void)dialler.Handshake();
    status = listener.Handshake().status();
  }
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(Text(status), HasSubstr("its certificate is of spiffe://tandem/job/b/role/trainer, "
                                      "expected role trainer of job \"test\" [TD6006]"));
}

// A program with a certificate of the job, but without its secret, ends TLS on both sides and
// forwards what it decrypts.
TEST_F(TlsBetweenRanks, ARelayWithACertificateIsFoundOut) {
  const auto context = Load(files_);
  std::pair<Fd, Fd> left_fds = SocketPair(), right_fds = SocketPair();  // a rank, the relay
  std::atomic<bool> stop{false};
  std::thread relay([&, near = std::move(left_fds.second), far = std::move(right_fds.second)] {
    TlsStream left(context, near.get(), TlsStream::Side::kListener);
    TlsStream right(context, far.get(), TlsStream::Side::kDialler);
    const auto done = [](TlsStream& stream) {
      const auto progress = stream.Handshake();
      return progress.ok() && *progress == TlsStream::Progress::kDone;
    };
    while (!stop && !(done(left) && done(right))) std::this_thread::yield();
    std::byte proof[32];
    for (TlsStream* from : {&left, &right}) {
      size_t got = 0;
      while (!stop && got < sizeof(proof)) {
        got += from->TryRecv(std::span(proof).subspan(got), {}).bytes;
      }
      (from == &left ? right : left).TrySend(proof, {});
    }
    while (!stop) std::this_thread::yield();
  });
  SessionKeys keys;
  keys.send.fill(1);
  keys.receive.fill(2);
  const std::function<bool()> no_stop;
  OnEveryRank(2, [&](int r) {
    SealedSocket socket;
    MeshTls tls(context, In(20), no_stop);
    tls.Add({std::move(r == 0 ? left_fds.first : right_fds.first), r == 0,
             r == 0 ? keys : SessionKeys{keys.receive, keys.send}, "the peer", &socket});
    const Status status = tls.Start();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(Text(status), HasSubstr("the peer: the TLS connection ends at another program"));
    EXPECT_FALSE(socket.valid());
  });
  stop = true;
  relay.join();
}

TEST_F(TlsBetweenRanks, AllRanksUseTlsOrNone) {
  const std::vector<Status> first = Join(files_, {});
  EXPECT_EQ(first[1].code(), StatusCode::kFailedPrecondition) << first[1];
  EXPECT_THAT(Text(first[1]), HasSubstr("rank 1 does not use TLS, but rank 0 does [TD6003]"));
  const std::vector<Status> second = Join({}, files_);
  EXPECT_THAT(Text(second[1]), HasSubstr("rank 1 uses TLS, but rank 0 does not [TD6004]"));
}

}  // namespace
}  // namespace tandem::collective
