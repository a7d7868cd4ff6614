#include <cstring>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/shape/copy_parts.h"

namespace tandem {
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

std::vector<KernelImpl> TransposeCpu() { return {{"strided", Prepare<TransposeParts>}}; }
std::vector<KernelImpl> ConcatCpu() { return {{"strided", Prepare<ConcatParts>}}; }
std::vector<KernelImpl> ConcatGradCpu() { return {{"strided", Prepare<ConcatGradParts>}}; }
std::vector<KernelImpl> SplitCpu() { return {{"strided", Prepare<SplitParts>}}; }
std::vector<KernelImpl> SplitGradCpu() { return {{"strided", Prepare<SplitGradParts>}}; }
std::vector<KernelImpl> SliceCpu() { return {{"strided", Prepare<SliceParts>}}; }
std::vector<KernelImpl> SliceGradCpu() { return {{"strided", Prepare<SliceGradParts>}}; }

}  // namespace tandem
