#include <cstring>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/shape/copy_parts.h"

namespace tandem::ops {
namespace {

struct State {
  CopyParts copies;
  int threads;
};

Status Run(State& s, const KernelArgs& args) {
  if (s.copies.zeros > 0) std::memset(args.out[0], 0, s.copies.zeros);
  for (const CopyPart& p : s.copies.parts) {
    p.copy.Run(static_cast<const std::byte*>(args.in[p.in]) + p.from,
               static_cast<std::byte*>(args.out[p.out]) + p.to, s.threads);
  }
  return OkStatus();
}

template <StatusOr<CopyParts> (*Parts)(const OpView&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(CopyParts copies, Parts(view));
  return MakeKernel<State, Run>({std::move(copies), ctx.threads});
}

}  // namespace

constinit const KernelList kTransposeCpu = {{"strided", Prepare<TransposeParts>}};
constinit const KernelList kConcatCpu = {{"strided", Prepare<ConcatParts>}};
constinit const KernelList kConcatGradCpu = {{"strided", Prepare<ConcatGradParts>}};
constinit const KernelList kSplitCpu = {{"strided", Prepare<SplitParts>}};
constinit const KernelList kSplitGradCpu = {{"strided", Prepare<SplitGradParts>}};
constinit const KernelList kSliceCpu = {{"strided", Prepare<SliceParts>}};
constinit const KernelList kSliceGradCpu = {{"strided", Prepare<SliceGradParts>}};

}  // namespace tandem::ops
