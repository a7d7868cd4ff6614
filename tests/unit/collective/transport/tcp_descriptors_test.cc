// A rank without free descriptors cannot make its transport. The other ranks must learn this cause,
// because a user may see the message of any rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <optional>
#include <thread>

#include "collective/transport/tcp.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Text(const Status& status) { return std::string(status.message()); }

// Allows `count` more descriptors until the destructor.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int count) {
    CHECK_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    // dup returns the lowest free descriptor, so that all lower ones are in use.
    std::vector<Fd> free;
    for (int i = 0; i <= count; ++i) free.emplace_back(::dup(STDERR_FILENO));
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(free.back().get());
    free.clear();
    CHECK_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~DescriptorLimit() { CHECK_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(TcpDescriptorsTest, AllRanksNameTheCause) {
  for (const int allowed : {0, 1}) {
    for (const int failing : {0, 1, 2}) {
      SCOPED_TRACE(absl::StrFormat("event descriptor %d of rank %d", allowed + 1, failing));
      const Door door = BindLoopbackSocket();
      std::vector<std::optional<Mesh>> meshes(3);
      OnEveryRank(3, [&](int r) {
        auto mesh = JoinWorld(TestWorld(door, r, 3));
        CHECK(mesh.ok()) << mesh.status();
        meshes[static_cast<size_t>(r)] = *std::move(mesh);
      });
      const auto make = [&](int r) {
        return MakeTcpTransport(*std::exchange(meshes[static_cast<size_t>(r)], std::nullopt));
      };
      // One peer has its transport before the failure, the other peer makes it later.
      const int early = (failing + 1) % 3, late = (failing + 2) % 3;
      const auto before = make(early);
      ASSERT_TRUE(before.ok()) << before.status();
      {
        const DescriptorLimit limit(allowed);
        const Status failure = make(failing).status();
        EXPECT_EQ(failure.code(), StatusCode::kResourceExhausted);
        EXPECT_THAT(Text(failure), HasSubstr(ErrnoText(EMFILE)));
      }
      const auto after = make(late);
      ASSERT_TRUE(after.ok()) << after.status();
      for (const auto* transport : {&before, &after}) {
        const Time deadline = In(20);
        while ((**transport)->Health().ok() && SteadyNow() < deadline) std::this_thread::yield();
        EXPECT_THAT(Text((**transport)->Health()),
                    AllOf(HasSubstr(absl::StrFormat("rank %d (", failing)),
                          HasSubstr(ErrnoText(EMFILE)), HasSubstr("[TD2114]")));
      }
    }
  }
}

}  // namespace
}  // namespace tandem::collective
