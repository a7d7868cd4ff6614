#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/fused/fused_elementwise.h"

namespace tandem::ops {
namespace {

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const Body body, BindBody(view));
  return PrepareBody(body, ctx.threads);
}

}  // namespace

constinit const KernelList kFusedElementwiseCpu = {{"blocks", Prepare}};

}  // namespace tandem::ops
