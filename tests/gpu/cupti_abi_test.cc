// Compares the declarations in kernels/exec/trace/cupti_library.h with CUPTI's header, in CUDA
// builds.
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "kernels/exec/trace/cupti_library.h"

namespace tandem {
namespace {

static_assert(sizeof(exec::CuptiResult) == sizeof(CUptiResult) && CUPTI_SUCCESS == 0);
static_assert(static_cast<int>(exec::CuptiKind::kCopy) == CUPTI_ACTIVITY_KIND_MEMCPY);
static_assert(static_cast<int>(exec::CuptiKind::kFill) == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(static_cast<int>(exec::CuptiKind::kDriverCall) == CUPTI_ACTIVITY_KIND_DRIVER);
static_assert(static_cast<int>(exec::CuptiKind::kRuntimeCall) == CUPTI_ACTIVITY_KIND_RUNTIME);
static_assert(static_cast<int>(exec::CuptiKind::kKernel) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(static_cast<int>(exec::CuptiKind::kExternalId) ==
              CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
static_assert(exec::kCuptiOwnIds == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
static_assert(exec::kCuptiFlushAll == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);

#define TANDEM_SAME_PLACE(ours, own, theirs, their) \
  static_assert(offsetof(ours, own) == offsetof(theirs, their))
#if CUDA_VERSION >= 13000
using Kernel = CUpti_ActivityKernel10;
using Copy = CUpti_ActivityMemcpy6;
using Fill = CUpti_ActivityMemset4;
#else
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy5;
using Fill = CUpti_ActivityMemset4;
#endif
TANDEM_SAME_PLACE(exec::CuptiKernel, kind, Kernel, kind);
TANDEM_SAME_PLACE(exec::CuptiKernel, start, Kernel, start);
TANDEM_SAME_PLACE(exec::CuptiKernel, end, Kernel, end);
TANDEM_SAME_PLACE(exec::CuptiKernel, stream, Kernel, streamId);
TANDEM_SAME_PLACE(exec::CuptiKernel, correlation, Kernel, correlationId);
TANDEM_SAME_PLACE(exec::CuptiKernel, name, Kernel, name);
TANDEM_SAME_PLACE(exec::CuptiCopy, start, Copy, start);
TANDEM_SAME_PLACE(exec::CuptiCopy, end, Copy, end);
TANDEM_SAME_PLACE(exec::CuptiCopy, stream, Copy, streamId);
TANDEM_SAME_PLACE(exec::CuptiCopy, correlation, Copy, correlationId);
TANDEM_SAME_PLACE(exec::CuptiFill, start, Fill, start);
TANDEM_SAME_PLACE(exec::CuptiFill, end, Fill, end);
TANDEM_SAME_PLACE(exec::CuptiFill, stream, Fill, streamId);
TANDEM_SAME_PLACE(exec::CuptiFill, correlation, Fill, correlationId);
TANDEM_SAME_PLACE(exec::CuptiExternalId, external_kind, CUpti_ActivityExternalCorrelation,
                  externalKind);
TANDEM_SAME_PLACE(exec::CuptiExternalId, id, CUpti_ActivityExternalCorrelation, externalId);
TANDEM_SAME_PLACE(exec::CuptiExternalId, correlation, CUpti_ActivityExternalCorrelation,
                  correlationId);

// Checks that a function in cupti_library.h has the argument types of CUPTI's function, in the same
// order.
template <typename Real, typename... Args>
constexpr bool Takes = std::is_same_v<Real, CUptiResult(Args...)>;
static_assert(Takes<decltype(cuptiGetTimestamp), uint64_t*>);
static_assert(Takes<decltype(cuptiActivityRegisterCallbacks), CUpti_BuffersCallbackRequestFunc,
                    CUpti_BuffersCallbackCompleteFunc>);
static_assert(std::is_same_v<exec::CuptiLibrary::RequestBuffer, CUpti_BuffersCallbackRequestFunc>);
static_assert(std::is_same_v<CUpti_BuffersCallbackCompleteFunc,
                             void (*)(CUcontext, uint32_t, uint8_t*, size_t, size_t)>);
static_assert(Takes<decltype(cuptiActivityEnable), CUpti_ActivityKind>);
static_assert(Takes<decltype(cuptiActivityDisable), CUpti_ActivityKind>);
static_assert(Takes<decltype(cuptiActivityFlushAll), uint32_t>);
static_assert(Takes<decltype(cuptiActivityGetNextRecord), uint8_t*, size_t, CUpti_Activity**>);
static_assert(Takes<decltype(cuptiActivityPushExternalCorrelationId), CUpti_ExternalCorrelationKind,
                    uint64_t>);
static_assert(Takes<decltype(cuptiActivityPopExternalCorrelationId), CUpti_ExternalCorrelationKind,
                    uint64_t*>);
static_assert(Takes<decltype(cuptiGetResultString), CUptiResult, const char**>);

// The library can be opened from its directory, even without a device.
TEST(CuptiAbi, TheLibraryOpens) {
  const auto cupti = exec::OpenCupti();
  if (!cupti.ok()) GTEST_SKIP() << cupti.status();
  uint64_t ns = 0;
  EXPECT_EQ(cupti->GetTimestamp(&ns), 0);
  EXPECT_GT(ns, 0u);
}

}  // namespace
}  // namespace tandem
