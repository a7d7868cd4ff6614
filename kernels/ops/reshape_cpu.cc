#include <cstring>

#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

template <int input>
struct State {
  size_t bytes;
};

// In place there is nothing to do.
template <int input>
Status Run(State<input>& s, const KernelArgs& args) {
  if (args.out[0] != args.in[input]) std::memcpy(args.out[0], args.in[input], s.bytes);
  return OkStatus();
}

template <int input>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State<input>, Run<input>>({view.in(input).bytes()});
}

}  // namespace

std::vector<KernelImpl> ReshapeCpu() { return {{"plain", Prepare<0>}}; }
std::vector<KernelImpl> ReshapeGradCpu() { return {{"plain", Prepare<1>}}; }

}  // namespace tandem
