// Tests which trainers a server accepts into the same job.
#include "pserver/shard/trainers/job_settings_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const Agreement kOne = {{"batch", "32"}, {"seed", "1"}};
const Agreement kOther = {{"batch", "32"}, {"seed", "2"}};

class AgreedSettingsTest : public testing::Test {
 protected:
  Status Agree(int trainer, const Agreement& settings) {
    return agreed_.Agree(trainer, settings, seconds(60),
                         [this](int other) { return at_work_.contains(other); });
  }
  std::set<int> at_work_ = {0, 1, 2};
  JobSettingsCheck agreed_;
};

TEST_F(AgreedSettingsTest, OthersThanThoseAtWorkAreRefusedByName) {
  EXPECT_TRUE(Agree(0, kOne).ok());
  EXPECT_TRUE(Agree(1, kOne).ok());
  const Status refused = Agree(2, kOther);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("trainer 2 has seed 2, trainer 0 has 1"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("after 60 s without a call"));
  EXPECT_TRUE(Agree(2, kOne).ok());  // the rejected call changed no setting
  // Trainer 0 was the first trainer of the job, but other trainers have joined since then.
  EXPECT_FALSE(Agree(0, kOther).ok());
}

TEST_F(AgreedSettingsTest, WhoSaysNothingIsNotCompared) {
  EXPECT_TRUE(Agree(0, {}).ok());
  EXPECT_TRUE(Agree(1, kOne).ok());
  EXPECT_TRUE(Agree(2, {}).ok());
  EXPECT_FALSE(Agree(0, kOther).ok());
}

TEST_F(AgreedSettingsTest, AnotherJobBeginsWhenNobodyElseIsAtWork) {
  EXPECT_TRUE(Agree(0, kOne).ok());
  EXPECT_TRUE(Agree(0, kOther).ok());  // accepted: trainer 0 is the only trainer, and was restarted
  EXPECT_TRUE(Agree(1, kOther).ok());
  at_work_ = {};
  EXPECT_TRUE(Agree(1, kOne).ok());
  at_work_ = {0, 1};
  // The server rejects a trainer of the previous job that is still active.
  EXPECT_FALSE(Agree(0, kOther).ok());
  EXPECT_TRUE(Agree(0, kOne).ok());
}

TEST(CheckSettings, NamesAscendAndAreOfSomeLength) {
  EXPECT_TRUE(CheckSettings({}).ok());
  EXPECT_TRUE(CheckSettings(kOne).ok());
  EXPECT_THAT(
      std::string(CheckSettings({{"seed", "1"}, {"batch", "32"}}).message()),
      HasSubstr("setting \"batch\" follows \"seed\", but names must be in ascending order"));
  EXPECT_FALSE(CheckSettings({{"seed", "1"}, {"seed", "1"}}).ok());
  EXPECT_FALSE(CheckSettings({{"seed", std::string(1025, 'x')}}).ok());
  EXPECT_FALSE(CheckSettings(Agreement(4097)).ok());
}

}  // namespace
}  // namespace tandem::pserver
