// Compares the declarations in collective/nccl/nccl_library.h with NCCL's header, in CUDA builds.
// Also checks that NCCL's library opens if it is installed.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>

#include "collective/nccl/nccl_library.h"

namespace tandem {
namespace {

static_assert(sizeof(collective::NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(collective::NcclResult) == sizeof(ncclResult_t));
static_assert(static_cast<int>(collective::NcclResult::kSuccess) == ncclSuccess);
static_assert(static_cast<int>(collective::NcclResult::kUnhandledCudaError) ==
              ncclUnhandledCudaError);
static_assert(static_cast<int>(collective::NcclResult::kSystemError) == ncclSystemError);
static_assert(static_cast<int>(collective::NcclResult::kInternalError) == ncclInternalError);
static_assert(static_cast<int>(collective::NcclResult::kInvalidArgument) == ncclInvalidArgument);
static_assert(static_cast<int>(collective::NcclResult::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(collective::NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(collective::NcclResult::kInProgress) == ncclInProgress);
static_assert(static_cast<int>(collective::NcclType::kU8) == ncclUint8);
static_assert(static_cast<int>(collective::NcclType::kI32) == ncclInt32);
static_assert(static_cast<int>(collective::NcclType::kI64) == ncclInt64);
static_assert(static_cast<int>(collective::NcclType::kF16) == ncclFloat16);
static_assert(static_cast<int>(collective::NcclType::kF32) == ncclFloat32);
static_assert(static_cast<int>(collective::NcclType::kBF16) == ncclBfloat16);
static_assert(static_cast<int>(collective::NcclReduce::kSum) == ncclSum);
static_assert(static_cast<int>(collective::NcclReduce::kProd) == ncclProd);
static_assert(static_cast<int>(collective::NcclReduce::kMax) == ncclMax);
static_assert(static_cast<int>(collective::NcclReduce::kMin) == ncclMin);
static_assert(offsetof(collective::NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(collective::NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(collective::NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(collective::NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(collective::NcclLibrary::kVersionMin == NCCL_VERSION(2, 18, 0));

// Checks that an entry of the table of functions in nccl_library.h has the argument types of the
// real function, in the same order.
template <typename Real, typename... Args>
constexpr bool Takes = std::is_same_v<Real, ncclResult_t(Args...)>;
static_assert(
    Takes<decltype(ncclCommInitRankConfig), ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*>);
static_assert(Takes<decltype(ncclCommGetAsyncError), ncclComm_t, ncclResult_t*>);
static_assert(Takes<decltype(ncclAllReduce), const void*, void*, size_t, ncclDataType_t,
                    ncclRedOp_t, ncclComm_t, cudaStream_t>);
static_assert(Takes<decltype(ncclReduce), const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                    int, ncclComm_t, cudaStream_t>);
static_assert(Takes<decltype(ncclBroadcast), const void*, void*, size_t, ncclDataType_t, int,
                    ncclComm_t, cudaStream_t>);
static_assert(Takes<decltype(ncclAllGather), const void*, void*, size_t, ncclDataType_t, ncclComm_t,
                    cudaStream_t>);
static_assert(Takes<decltype(ncclReduceScatter), const void*, void*, size_t, ncclDataType_t,
                    ncclRedOp_t, ncclComm_t, cudaStream_t>);
static_assert(
    Takes<decltype(ncclSend), const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t>);
static_assert(
    Takes<decltype(ncclRecv), void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t>);

TEST(NcclAbi, TheInitializersMagic) {
  const ncclConfig_t real = NCCL_CONFIG_INITIALIZER;
  const collective::NcclConfig ours;
  EXPECT_EQ(ours.magic, real.magic);
  EXPECT_LE(ours.size, real.size);
  EXPECT_LE(ours.version, real.version);
}

TEST(NcclAbi, TheLibraryOpens) {
  const auto nccl = collective::OpenNccl();
  if (!nccl.ok()) GTEST_SKIP() << nccl.status();
  EXPECT_GE(nccl->version, collective::NcclLibrary::kVersionMin);
  collective::NcclUniqueId id{};
  // The function succeeds without a device too, or reports the reason of its failure.
  const collective::NcclResult result = nccl->GetUniqueId(&id);
  EXPECT_EQ(result, collective::NcclResult::kSuccess) << nccl->GetErrorString(result);
  EXPECT_STRNE(nccl->GetErrorString(collective::NcclResult::kRemoteError), "");
}

}  // namespace
}  // namespace tandem
