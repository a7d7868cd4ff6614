#include "common/rpc/admissions.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>

#include "common/os/fd.h"
#include "common/rpc/hello.h"
#include "gtest/gtest.h"

namespace tandem::rpc {
namespace {

// A fixture with one socket pair per caller. The near end stands for the socket that gRPC owns on a
// real server.
class AdmissionsTest : public testing::Test {
 protected:
  void Limit(const AdmissionLimits& limits) { admissions_ = std::make_shared<Admissions>(limits); }

  std::shared_ptr<Connection> Arrive(const std::string& peer, const std::string& source) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    far_[peer] = Fd(ends[0]);
    near_[peer] = Fd(ends[1]);
    return admissions_->Admit(ends[1], peer, source, now_);
  }
  // Returns whether the server has shut down the connection of `peer`.
  bool Ended(const std::string& peer) {
    char byte;
    return recv(far_[peer].get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  std::shared_ptr<Admissions> admissions_;
  std::map<std::string, Fd> near_, far_;
  Time now_ = Time(std::chrono::hours(1));
};

TEST_F(AdmissionsTest, TheOldestStrangerOfASourceGivesWay) {
  Limit({.strangers_per_source_max = 2, .callers_prove = true});
  ASSERT_NE(Arrive("other", "10.0.0.9"), nullptr);
  ASSERT_NE(Arrive("a", "10.0.0.1"), nullptr);
  ASSERT_NE(Arrive("b", "10.0.0.1"), nullptr);
  admissions_->Prove("a", Standing::kTrusted);
  ASSERT_NE(Arrive("c", "10.0.0.1"), nullptr);
  ASSERT_NE(Arrive("d", "10.0.0.1"), nullptr);
  EXPECT_TRUE(Ended("b"));
  EXPECT_FALSE(Ended("a") || Ended("c") || Ended("d") || Ended("other"));
  EXPECT_EQ(admissions_->strangers(), 3u);
  EXPECT_EQ(admissions_->turned_away(), 1u);
}

TEST_F(AdmissionsTest, AFullServerEndsStrangersAndNeverTheTrusted) {
  Limit({.connections_max = 3, .callers_prove = true});
  for (const char* peer : {"a", "b"}) {
    ASSERT_NE(Arrive(peer, peer), nullptr);
    admissions_->Prove(peer, Standing::kTrusted);
  }
  ASSERT_NE(Arrive("c", "c"), nullptr);
  near_.erase("c");  // closes the connection of c
  ASSERT_NE(Arrive("d", "d"), nullptr);
  admissions_->Prove("d", Standing::kTrusted);
  EXPECT_EQ(admissions_->connections(), 3u);
  EXPECT_EQ(Arrive("e", "e"), nullptr);
  EXPECT_EQ(admissions_->turned_away(), 1u);
  near_.erase("a");
  EXPECT_NE(Arrive("f", "f"), nullptr);
  EXPECT_FALSE(Ended("b") || Ended("d"));
}

// After a connection is ended, its socket stays open until gRPC closes it. The limit of connections
// must include such connections.
TEST_F(AdmissionsTest, ConnectionsThatAreEndingAreBoundedToo) {
  Limit({.connections_max = 8, .callers_prove = true});
  int refused = 0;
  for (int i = 0; i < 30; ++i) refused += Arrive(std::to_string(i), "10.0.0.1") == nullptr;
  EXPECT_EQ(refused, 20);
  EXPECT_EQ(admissions_->connections(), 10u);
}

TEST_F(AdmissionsTest, StrangersAreEndedAndObserversStay) {
  Limit({.stranger_lifetime = std::chrono::seconds(60), .callers_prove = true});
  for (const char* peer : {"stranger", "observer", "trainer"}) Arrive(peer, "10.0.0.1");
  admissions_->Prove("observer", Standing::kObserver);
  admissions_->Prove("trainer", Standing::kTrusted);
  now_ += std::chrono::seconds(59);
  admissions_->Expire(now_);
  EXPECT_FALSE(Ended("stranger"));
  now_ += std::chrono::seconds(1);
  admissions_->Expire(now_);
  EXPECT_TRUE(Ended("stranger"));
  EXPECT_FALSE(Ended("observer") || Ended("trainer"));
}

TEST_F(AdmissionsTest, ReadersLeaveRoomForTheJob) {
  Limit({.readers_max = 2, .callers_prove = true});
  for (const char* peer : {"a", "b", "c", "trainer"}) Arrive(peer, "10.0.0.1");
  for (const char* peer : {"a", "b", "a", "c"}) admissions_->Prove(peer, Standing::kReader);
  EXPECT_FALSE(Ended("a") || Ended("b"));
  EXPECT_TRUE(Ended("c"));
  EXPECT_EQ(admissions_->turned_away(), 1u);
  admissions_->Prove("trainer", Standing::kTrusted);
  EXPECT_FALSE(Ended("trainer"));
  EXPECT_EQ(admissions_->strangers(), 0u);
  for (const char* peer : {"b", "c"}) near_.erase(peer);  // closes their connections
  Arrive("d", "10.0.0.1");
  admissions_->Prove("d", Standing::kReader);
  EXPECT_FALSE(Ended("d"));
}

// A call may still run on a connection that was closed.
TEST_F(AdmissionsTest, AReaderWhoseConnectionIsClosedIsNotCounted) {
  Limit({.readers_max = 1, .callers_prove = true});
  const auto gone = Arrive("gone", "10.0.0.1");
  near_.erase("gone");
  admissions_->Prove(*gone, Standing::kReader);
  Arrive("a", "10.0.0.1");
  admissions_->Prove("a", Standing::kReader);
  EXPECT_FALSE(Ended("a"));
  EXPECT_EQ(admissions_->turned_away(), 0u);
}

TEST_F(AdmissionsTest, ASourceBeginsStrangersSlowlyAndTheTrustedAtOnce) {
  Limit({.begun_burst = 2, .begun_per_second = 4, .callers_prove = true});
  std::vector<std::shared_ptr<Connection>> callers;
  for (int i = 0; i < 5; ++i) callers.push_back(Arrive(std::to_string(i), "10.0.0.1"));
  EXPECT_TRUE(admissions_->MayBegin(*callers[0], now_));
  EXPECT_TRUE(admissions_->MayBegin(*callers[1], now_));
  EXPECT_FALSE(admissions_->MayBegin(*callers[2], now_));
  EXPECT_TRUE(admissions_->MayBegin(*Arrive("other", "10.0.0.2"), now_));
  // When a caller proves itself, its connection returns its part of the budget.
  admissions_->Prove(*callers[0], Standing::kTrusted);
  EXPECT_TRUE(admissions_->MayBegin(*callers[2], now_));
  EXPECT_FALSE(admissions_->MayBegin(*callers[3], now_));
  now_ += std::chrono::milliseconds(250);
  EXPECT_TRUE(admissions_->MayBegin(*callers[3], now_));
  EXPECT_FALSE(admissions_->MayBegin(*callers[4], now_));
}

// After the connections of a source have used up the budget, the next connection of this source is
// delayed.
TEST_F(AdmissionsTest, AnOffenderDelaysItsSourceAndNoOther) {
  Limit({.begun_burst = 8, .begun_per_second = 4, .callers_prove = true});
  const auto begin = [this](const std::string& peer, const std::string& source) {
    const auto connection = Arrive(peer, source);
    return admissions_->MayBegin(*connection, now_) ? connection : nullptr;
  };
  const std::string garbage = "GET / HTTP/1.1\r\n\r\n";
  begin("flood", "10.0.0.1")->Decrypted(garbage);
  EXPECT_TRUE(Ended("flood"));
  near_.erase("flood");  // the budget of 8 is used up: 1 for the start, 7 for invalid bytes
  EXPECT_EQ(begin("next", "10.0.0.1"), nullptr);
  EXPECT_NE(begin("other", "10.0.0.2"), nullptr);
  now_ += std::chrono::milliseconds(250);
  ASSERT_NE(begin("again", "10.0.0.1"), nullptr);
  Connection::Of(near_["again"].get())->Decrypted(garbage);
  near_.erase("again");  // this leaves the budget at -3
  now_ += std::chrono::milliseconds(900);
  EXPECT_EQ(begin("later", "10.0.0.1"), nullptr);
  now_ += std::chrono::milliseconds(100);
  EXPECT_NE(begin("at last", "10.0.0.1"), nullptr);
}

TEST_F(AdmissionsTest, AStrangerThatLeavesPaysForWhatItTook) {
  Limit({.begun_burst = 9,
         .begun_per_second = 4,
         .strangers = {.bytes_burst = 1000},
         .callers_prove = true});
  const auto honest = Arrive("honest", "10.0.0.1"), half = Arrive("half", "10.0.0.1");
  ASSERT_TRUE(admissions_->MayBegin(*honest, now_) && admissions_->MayBegin(*half, now_));
  const std::string frame("\0\1\0\0\1\0\0\0\1", 9);  // the header of a DATA frame of 256 bytes
  const std::string some = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame;
  ASSERT_TRUE(honest->Decrypted(some) && half->Decrypted(some));
  admissions_->Prove(*honest, Standing::kTrusted);
  near_.erase("honest");  // a proven connection uses no budget
  near_.erase("half");    // an unproven connection uses 1 + 7 x 0.265 of the budget
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(admissions_->MayBegin(*Arrive(std::to_string(i), "10.0.0.1"), now_)) << i;
  }
  EXPECT_FALSE(admissions_->MayBegin(*Arrive("7", "10.0.0.1"), now_));
}

// The random bytes in the ClientHello identify a TLS connection. No second connection may use the
// same bytes.
TEST_F(AdmissionsTest, OneConnectionHasTheRandomBytes) {
  Limit({.callers_prove = true});
  const std::string random(32, 'r'), other(32, 's');
  const auto first = Arrive("first", "10.0.0.1"), second = Arrive("second", "10.0.0.1");
  EXPECT_TRUE(first->LinkTls(random));
  EXPECT_FALSE(second->LinkTls(random)) << "it repeats the other's";
  EXPECT_EQ(Connection::OfTls(random), first);
  EXPECT_EQ(Connection::OfTls(other), nullptr);
  near_.erase("first");
  EXPECT_EQ(Connection::OfTls(random), nullptr);
  EXPECT_TRUE(second->LinkTls(random));
}

TEST_F(AdmissionsTest, WithNothingToProveEveryCallerIsTrusted) {
  Limit({.begun_burst = 1, .begun_per_second = 0, .callers_prove = false});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(admissions_->MayBegin(*Arrive(std::to_string(i), "10.0.0.1"), now_));
  }
  EXPECT_EQ(admissions_->strangers(), 0u);
  EXPECT_EQ(admissions_->connections(), 3u);
}

TEST_F(AdmissionsTest, EndingAfterTheDescriptorWasClosedTouchesNoOther) {
  Limit({.callers_prove = true});
  const auto connection = Arrive("a", "10.0.0.1");
  const int fd = near_["a"].get();
  near_.erase("a");
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Fd left(ends[0]), right(ends[1]);
  ASSERT_TRUE(left.get() == fd || right.get() == fd) << "the number was not used again";
  connection->End();
  EXPECT_EQ(send(left.get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(send(right.get(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST(NamesTest, AnIpv6NetworkIsOneSource) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(80);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  inet_pton(AF_INET6, "2001:db8:1:2:3::4", &address.sin6_addr);
  EXPECT_EQ(PeerName(name), "ipv6:%5B2001:db8:1:2:3::4%5D:80");
  EXPECT_EQ(SourceName(name), "2001:db8:1:2::/64");
  inet_pton(AF_INET6, "::ffff:10.0.0.1", &address.sin6_addr);
  EXPECT_EQ(PeerName(name), "ipv4:10.0.0.1:80");
  EXPECT_EQ(SourceName(name), "10.0.0.1");
}

TEST(HelloTest, OnlyTheRightProtocolGoesOn) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (size_t i = 0; i < preface.size(); ++i) {
    EXPECT_EQ(ReadHello(preface.substr(0, i), false), Hello::kMore);
    std::string other = preface.substr(0, i + 1);
    other.back() ^= 1;
    EXPECT_EQ(ReadHello(other, false), Hello::kOther);
  }
  EXPECT_EQ(ReadHello(preface, false), Hello::kGood);
  EXPECT_EQ(ReadHello(preface + "more", false), Hello::kGood);
  EXPECT_EQ(ReadHello(preface, true), Hello::kOther);

  std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  hello += std::string(32, 'r');
  for (size_t i = 0; i < hello.size(); ++i) {
    EXPECT_EQ(ReadHello(hello.substr(0, i), true), Hello::kMore) << i;
  }
  EXPECT_EQ(ReadHello(hello, true), Hello::kGood);
  EXPECT_EQ(ClientRandom(hello + "more"), std::string(32, 'r'));
  EXPECT_EQ(ReadHello(hello, false), Hello::kOther);
  hello[5] = 2;  // the type byte of a ServerHello
  EXPECT_EQ(ReadHello(hello, true), Hello::kOther);
}

}  // namespace
}  // namespace tandem::rpc
