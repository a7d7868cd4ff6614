#include "common/rpc/grpc_lifetime.h"

#include <grpc/grpc.h>
#include <grpcpp/security/credentials.h>

#include "common/rpc/channel.h"
#include "gtest/gtest.h"

namespace tandem::rpc {
namespace {

// gRPC must not shut down when the last channel is destroyed, because the shutdown may take 10 s.
TEST(GrpcLifetimeTest, GrpcOutlivesTheLastChannel) {
  ASSERT_EQ(grpc_is_initialized(), 0);
  MakeChannel({"127.0.0.1", 1}, grpc::InsecureChannelCredentials()).reset();
  EXPECT_NE(grpc_is_initialized(), 0);
}

}  // namespace
}  // namespace tandem::rpc
