// CUDA kernel of dropout, which is defined in dropout.cc. It drops the same elements as the CPU
// kernel: word j of the random stream is Philox(key, j / 4)[j % 4].
#include "common/base/rng.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/elementwise/dropout.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t n;
  uint64_t name;        // hash of the operator's name
  uint32_t drop_below;  // limit of DropBelow for the random words
  float scale;
};

// Returns the four words of Philox-4x32-10 (common/base/rng.h) for `counter`.
struct Words {
  uint32_t at[4];
};
__device__ Words PhiloxWords(uint64_t key, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = 0, c3 = 0;
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
  }
  return {{c0, c1, c2, c3}};
}
__device__ uint64_t KeyOf(uint64_t of, int64_t counter) {
  const Words words = PhiloxWords(of, static_cast<uint64_t>(counter));
  return (uint64_t{words.at[1]} << 32) | words.at[0];
}

// Each thread processes one group of four words after another. The first and the last group may
// extend beyond the tensor.
template <typename T>
__global__ void DropoutKernel(const T* x, T* y, const DropoutPosition* position, State s,
                              CudaFault* fault) {
  const DropoutPosition at = *position;
  if (at.samples < 1 || s.n % at.samples != 0 || at.first_sample < 0) {
    Blame(fault, CudaFault::kPositionSamples, 3, at.samples, s.n + 1);
    return;
  }
  const uint64_t key = KeyOf(KeyOf(s.name, at.seed), at.step);
  const int64_t first = at.first_sample * (s.n / at.samples), end = first + s.n;
  for (int64_t group = first / 4 + GridIndex(); group * 4 < end; group += GridSize()) {
    const Words words = PhiloxWords(key, static_cast<uint64_t>(group));
    for (int k = 0; k < 4; ++k) {
      const int64_t i = group * 4 + k - first;
      if (i < 0 || i >= s.n) continue;
      y[i] = Narrow<T>(words.at[k] < s.drop_below ? 0.0f : Wide(x[i]) * s.scale);
    }
  }
}

template <typename T>
Status Run(State& s, const KernelArgs& args) {
  if (s.n == 0) return OkStatus();
  const CudaStream& stream = StreamOf(args);
  return Launch(args, CudaBlocks(s.n / 4 + 1), kCudaThreads, DropoutKernel<T>, In<T>(args, 0),
                Out<T>(args, 0), In<DropoutPosition>(args, 1), s, stream.fault);
}

template <typename T>
Status Copy(State& s, const KernelArgs& args) {
  return CopyOnDevice(args, args.out[0], args.in[0], static_cast<size_t>(s.n) * sizeof(T));
}

template <typename T>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  const double p = view.attr<double>("dropout_prob");
  const State state{view.in(0).shape.numel(),
                    StableHash("dropout:" + view.attr<std::string>("name")), DropBelow(p),
                    KeptScale(p)};
  return view.attr<bool>("is_test") ? MakeKernel<State, Copy<T>>(state)
                                    : MakeKernel<State, Run<T>>(state);
}

}  // namespace

std::vector<KernelRegistration> DropoutCudaRows() {
  return {{"dropout", {{"cuda", ByType<Prepare<float>, Prepare<__half>, Prepare<__nv_bfloat16>>}}}};
}

}  // namespace tandem::ops
