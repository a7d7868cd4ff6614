#include "pserver/shard/trainers/named_barriers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NamedBarriersTest : public testing::Test {
 protected:
  NamedBarriersTest() { roster_.Begin(2); }

  void Enter(int trainer, const std::string& name, uint64_t generation, const void* tag = nullptr) {
    const WaitingCall call{trainer, clock_.Now(), clock_.Now() + seconds(10),
                           roster_[trainer].incarnation, tag};
    barriers_.Enter(name,
                    {call, generation, [this](const Status& status) { told_.push_back(status); }},
                    ready_);
  }
  // Returns the replies that were sent since the previous call of Told, in their order.
  std::vector<std::string> Told() {
    told_.clear();
    for (const auto& answer : std::exchange(ready_, {})) answer(OkStatus());
    std::vector<std::string> texts;
    for (const Status& status : told_) texts.push_back(ToString(status));
    return texts;
  }
  const std::string kOk = ToString(OkStatus());

  FakeClock clock_;
  Metrics metrics_;
  TrainerRegistry roster_{clock_, metrics_};
  NamedBarriers barriers_{roster_, clock_, metrics_.GetHistogram("waited", "", {1})};
  ReadyAnswers ready_;
  std::vector<Status> told_;
};

TEST_F(NamedBarriersTest, OpensWithTheLastAndStaysOpenForThatGeneration) {
  Enter(0, "a", 1);
  Enter(1, "b", 1);
  EXPECT_THAT(Told(), IsEmpty()) << "each name is a barrier of its own";
  EXPECT_THAT(barriers_.Missing(), ElementsAre(1, 0));
  Enter(1, "a", 1);
  EXPECT_THAT(Told(), ElementsAre(kOk, kOk));
  Enter(1, "a", 1);  // trainer 1 repeats the call because the reply was lost
  EXPECT_THAT(Told(), ElementsAre(kOk));
  Enter(1, "a", 2);
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(NamedBarriersTest, NobodyWaitsForWhoIsGone) {
  Enter(0, "a", 1);
  roster_[1].completed = true;
  barriers_.Wake(ready_);
  EXPECT_THAT(Told(), ElementsAre(kOk));
  EXPECT_FALSE(roster_.Waits(0));
  Enter(1, "a", 2);
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("has already completed")));
}

TEST_F(NamedBarriersTest, WhoWaitedTooLongIsToldWhoIsMissing) {
  EXPECT_EQ(barriers_.NextDeadline(), Time::max());
  Enter(0, "a", 1);
  EXPECT_EQ(barriers_.NextDeadline(), clock_.Now() + seconds(10));
  clock_.Advance(seconds(9));
  barriers_.Expire(clock_.Now(), ready_);
  EXPECT_THAT(Told(), IsEmpty());
  clock_.Advance(seconds(1));
  barriers_.Expire(clock_.Now(), ready_);
  EXPECT_THAT(
      Told(),
      ElementsAre(HasSubstr("barrier \"a\": timed out after 10.0 s: trainer 1 did not arrive")));
  EXPECT_FALSE(roster_.Waits(0));
}

TEST_F(NamedBarriersTest, AllAreToldWhenItEnds) {
  Enter(0, "a", 1);
  Enter(1, "b", 1);
  barriers_.FailAll(Unavailable("the end"), ready_);
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("the end"), HasSubstr("the end")));
  EXPECT_EQ(barriers_.NextDeadline(), Time::max());
}

TEST_F(NamedBarriersTest, ATrainerThatWasStartedAgainHasToComeItself) {
  Enter(1, "a", 1);
  roster_[1].Replace(1, 0);
  Enter(0, "a", 1);
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_THAT(barriers_.Missing(), ElementsAre(1));
  EXPECT_TRUE(barriers_.HasReplaced());
  barriers_.FailReplaced(ready_);
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("trainer 1 was restarted as incarnation 1")));
  EXPECT_FALSE(roster_.Waits(1));
  Enter(1, "a", 1);
  EXPECT_THAT(Told(), ElementsAre(kOk, kOk));
}

TEST_F(NamedBarriersTest, ThoseOfOneGenerationMeet) {
  Enter(0, "a", 2);
  Enter(1, "a", 1);
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_THAT(barriers_.Missing(), ElementsAre(0, 1));
  Enter(1, "a", 2);
  EXPECT_THAT(Told(), ElementsAre(kOk, kOk, kOk)) << "the older one is over too";
}

TEST_F(NamedBarriersTest, ACallerThatIsGoneDoesNotCount) {
  const int call = 0;
  Enter(1, "a", 1, &call);
  barriers_.Leave(&call, ready_);
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("the caller closed its connection")));
  EXPECT_FALSE(roster_.Waits(1)) << "it is silent from now on";
  Enter(0, "a", 1);
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(NamedBarriersTest, NamesInWhichNobodyWaitsAreForgotten) {
  for (int i = 0; i < 2000; ++i) {
    Enter(0, std::to_string(i), 1);
    Enter(1, std::to_string(i), 1);
    ASSERT_THAT(Told(), ElementsAre(kOk, kOk)) << i;
  }
  Enter(0, "1999", 1);
  EXPECT_THAT(Told(), ElementsAre(kOk)) << "the newest are known";
}

TEST_F(NamedBarriersTest, NamesAndGenerationsHaveLimits) {
  Enter(0, "", 1);
  Enter(0, std::string(201, 'x'), 1);
  Enter(0, "a", 0);
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("0 characters"), HasSubstr("201 characters"),
                                  HasSubstr("generation 0")));
  for (int i = 0; i < 1024; ++i) Enter(0, std::to_string(i), 1);
  Enter(0, "one more", 1);
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("trainers already wait in 1024 barriers")));
}

}  // namespace
}  // namespace tandem::pserver
