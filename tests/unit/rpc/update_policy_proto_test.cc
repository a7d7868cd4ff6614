// Tests the conversion of the servers' policies between messages and C++.
#include "common/codec/update_policy_proto.h"

#include "gtest/gtest.h"
#include "proto/pserver.pb.h"

namespace tandem {
namespace {

TEST(UpdatePolicyProtoTest, APolicyComesBackUnchanged) {
  for (const UpdatePolicy policy : {UpdatePolicy::kSync, UpdatePolicy::kASync}) {
    EXPECT_EQ(*FromProto(ToProto(policy)), policy);
  }
  EXPECT_EQ(ToProto(UpdatePolicy::kASync), UPDATE_MODE_A_SYNC);
  for (const NonfinitePolicy policy :
       {NonfinitePolicy::kReject, NonfinitePolicy::kSkip, NonfinitePolicy::kApply}) {
    EXPECT_EQ(*FromProto(ToProto(policy)), policy);
  }
  EXPECT_EQ(ToProto(NonfinitePolicy::kSkip), NONFINITE_SKIP);
}

TEST(UpdatePolicyProtoTest, OtherValuesAreRejected) {
  for (const UpdateMode mode : {UPDATE_MODE_UNSPECIFIED, UPDATE_MODE_HALF_ASYNC, UPDATE_MODE_GEO,
                                static_cast<UpdateMode>(77)}) {
    EXPECT_EQ(FromProto(mode).status().code(), StatusCode::kInvalidArgument) << mode;
  }
  EXPECT_EQ(FromProto(static_cast<NonfiniteGradients>(3)).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
