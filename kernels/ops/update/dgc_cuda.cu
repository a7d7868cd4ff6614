// CUDA kernels of deep gradient compression, whose operators are defined in dgc.cc. They send the
// same elements as the CPU kernels, in the same order. The host does not know how many elements are
// sent; only the device knows this number.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/formulas/dgc.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/update/dgc.h"
#include "kernels/ops/update/optimizer_args.h"

namespace tandem::ops {
namespace {

constexpr int kOneBlock = 1024;  // number of threads of the kernels that use one block
constexpr int64_t kPartsMax = kOneBlock;

// The results of the search for the threshold, in scratch memory.
struct Found {
  int64_t k;  // number of elements to send; 0: input Sparsity is invalid
  // During the search: number of elements to send among those with the digits found so far. At the
  // end: number of elements to send among those equal to the threshold.
  int64_t left;
  // The digits of the threshold found so far. At the end: the smallest magnitude that is sent.
  uint32_t magnitude;
};

// The counts of one part of the elements: elements above the threshold, and elements equal to it.
// Later, `above` is the position where the part writes, and `equal` is the number of elements equal
// to the threshold that the part sends.
struct Part {
  int64_t above, equal;
};

struct Scratch {
  static constexpr size_t kFoundBytes = 64;
  static constexpr size_t kCounts = size_t{kDgcLevelCount} * kDgcDigitsMax;
  static constexpr size_t kBytes =
      kFoundBytes + kCounts * sizeof(unsigned) + kPartsMax * sizeof(Part);

  Found* found;
  unsigned* counts;  // an array [kDgcLevelCount][kDgcDigitsMax]
  Part* parts;       // an array [kPartsMax]

  explicit Scratch(const KernelArgs& args)
      : found(static_cast<Found*>(args.scratch)),
        counts(reinterpret_cast<unsigned*>(static_cast<std::byte*>(args.scratch) + kFoundBytes)),
        parts(reinterpret_cast<Part*>(counts + kCounts)) {}
};

struct CompressState {
  UpdateArgs args;
  bool nesterov;
  int64_t n, capacity;

  int64_t parts() const { return std::clamp<int64_t>(n / 4096, 1, kPartsMax); }
};

// Computes the number of elements to send from the sparsity, and sets the output to 0.
Status Begin(const CompressState& s, const KernelArgs& args, const Scratch& scratch) {
  const float* sparsity = In<float>(args, 3);
  int32_t* selected = Out<int32_t>(args, 2);
  Found* found = scratch.found;
  CudaFault* fault = StreamOf(args).fault;
  const int64_t n = s.n, capacity = s.capacity;
  const size_t words = static_cast<size_t>(SelectionWords(capacity));
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, selected, words * sizeof(int32_t)));
  TD_RETURN_IF_ERROR(
      ZeroOnDevice(args, scratch.counts, Scratch::kCounts * sizeof(*scratch.counts)));
  return ForEach(args, 1, [=] __device__(int64_t) {
    const bool share = *sparsity >= 0.0f && *sparsity < 1.0f;
    int64_t k = share ? DgcSelectedOf(n, *sparsity) : 0;
    if (!share) Blame(fault, CudaFault::kSparsity, 0, 0, 0);
    if (k > capacity) {
      Blame(fault, CudaFault::kCapacity, 0, k, capacity);
      k = 0;
    }
    *found = {k, k, 0};
    selected[0] = static_cast<int32_t>(k);
  });
}

// Counts how often each value of the digit of `level` occurs. value(i) returns element i.
template <typename Fn>
__global__ void CountKernel(DgcLevel level, const Found* found, int64_t n, unsigned* counts,
                            Fn value) {
  __shared__ unsigned here[kDgcDigitsMax];
  if (found->k == 0) return;
  for (unsigned d = threadIdx.x; d < kDgcDigitsMax; d += blockDim.x) here[d] = 0;
  __syncthreads();
  const uint32_t higher = found->magnitude;
  for (int64_t i = GridIndex(); i < n; i += GridSize()) {
    uint32_t digit = 0;
    if (level.Digit(DgcMagnitude(value(i)), higher, &digit)) atomicAdd(&here[digit], 1U);
  }
  __syncthreads();
  for (unsigned d = threadIdx.x; d < kDgcDigitsMax; d += blockDim.x) {
    if (here[d] != 0) atomicAdd(&counts[d], here[d]);
  }
}

// Finds the digit of the threshold at one level, with one block. The digits are visited from the
// highest down, until the visited digits have as many elements as must be sent.
__global__ void DigitKernel(DgcLevel level, const unsigned* counts, Found* found) {
  constexpr int kEach = kDgcDigitsMax / kOneBlock;
  const int64_t left = found->left;
  if (found->k == 0) return;
  const auto highest = static_cast<int>((1U << level.bits) - 1 - threadIdx.x * kEach);
  int64_t mine = 0;
  for (int d = highest; d > highest - kEach && d >= 0; --d) mine += counts[d];
  // BlockPrefix also waits until all threads have read `found`.
  int64_t before = BlockPrefix<int64_t>(mine).before;
  if (before >= left || before + mine < left) return;
  int digit = highest;
  for (; before + counts[digit] < left; --digit) before += counts[digit];
  found->magnitude = found->magnitude << level.bits | static_cast<uint32_t>(digit);
  found->left = left - before;
}

template <typename Fn>
Status FindDigit(const CompressState& s, const KernelArgs& args, int level, const Fn& value) {
  const Scratch scratch(args);
  unsigned* counts = scratch.counts + static_cast<size_t>(level) * kDgcDigitsMax;
  // Each block clears and adds the counts of all digits, so a block should process many elements.
  TD_RETURN_IF_ERROR(Launch(args, CudaBlocks(s.n, 16 * kCudaThreads), kCudaThreads, CountKernel<Fn>,
                            kDgcLevels[level], scratch.found, s.n, counts, value));
  return Launch(args, 1, kOneBlock, DigitKernel, kDgcLevels[level], counts, scratch.found);
}

// Updates the optimizer's velocity and the residual, which is the sum of all velocities that were
// not sent. Also counts the first digits of the residual. The update of the residual is a momentum
// step with learning rate -1.
template <bool nesterov>
Status Accumulate(const CompressState& s, const KernelArgs& args) {
  const float *g = In<float>(args, 0), *velocity = In<float>(args, 1), *rest = In<float>(args, 2);
  float *velocity_out = Out<float>(args, 0), *rest_out = Out<float>(args, 1);
  const UpdateArgs update = s.args;
  return FindDigit(s, args, 0, [=] __device__(int64_t i) {
    UpdateElement e{rest[i], g[i], {velocity[i]}};
    MomentumStep<nesterov>::Step(update, e);
    velocity_out[i] = e.s[0];
    rest_out[i] = e.p;
    return e.p;
  });
}

// Counts the elements of each part that are above the threshold or equal to it. One block processes
// one part.
__global__ void PartsKernel(const Found* found, const float* residual, int64_t n, Part* parts) {
  const int64_t part = (n + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * part;
  const int64_t end = begin + part < n ? begin + part : n;
  const uint32_t cut = found->magnitude;
  int64_t above = 0, equal = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const uint32_t magnitude = DgcMagnitude(residual[i]);
    above += magnitude > cut ? 1 : 0;
    equal += magnitude == cut ? 1 : 0;
  }
  above = BlockSum(above);
  equal = BlockSum(equal);
  if (threadIdx.x == 0) parts[blockIdx.x] = {above, equal};
}

// Computes the position where each part writes, with one block. Parts write one after another.
// Among the elements equal to the threshold, the first ones are sent.
__global__ void PlacesKernel(const Found* found, Part* parts, int64_t count) {
  const bool mine = threadIdx.x < count;
  const Part part = mine ? parts[threadIdx.x] : Part{0, 0};
  const int64_t above = BlockPrefix<int64_t>(part.above).before;
  const int64_t equal = BlockPrefix<int64_t>(part.equal).before;
  const int64_t taken = min(equal, found->left);
  if (mine) parts[threadIdx.x] = {above + taken, min(part.equal, found->left - taken)};
}

// Writes the selected elements and sets them to 0 in velocity and residual. One block processes one
// part.
__global__ void SelectKernel(const Found* found, const Part* parts, int64_t n, float* velocity,
                             float* residual, int32_t* selected) {
  const int64_t part = (n + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * part;
  const int64_t end = begin + part < n ? begin + part : n;
  const uint32_t cut = found->magnitude;
  int32_t* const indices = selected + 1;
  int32_t* const values = indices + found->k;
  if (found->k == 0) return;
  int64_t at = parts[blockIdx.x].above, ties = parts[blockIdx.x].equal;
  for (int64_t first = begin; first < end; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const float x = i < end ? residual[i] : 0.0f;
    const uint32_t magnitude = DgcMagnitude(x);
    const bool above = i < end && magnitude > cut, equal = i < end && magnitude == cut;
    const BlockPrefix<int64_t> higher(above ? 1 : 0), same(equal ? 1 : 0);
    if (above || (equal && same.before < ties)) {
      const int64_t to = at + higher.before + min(same.before, ties);
      indices[to] = static_cast<int32_t>(i);
      values[to] = __float_as_int(x);
      residual[i] = velocity[i] = 0.0f;
    }
    const int64_t taken = min(same.all, ties);
    at += higher.all + taken;
    ties -= taken;
  }
}

Status RunCompress(CompressState& s, const KernelArgs& args) {
  const Scratch scratch(args);
  TD_RETURN_IF_ERROR(Begin(s, args, scratch));
  if (s.n == 0) return OkStatus();
  float* residual = Out<float>(args, 1);
  TD_RETURN_IF_ERROR(s.nesterov ? Accumulate<true>(s, args) : Accumulate<false>(s, args));
  for (int level = 1; level < kDgcLevelCount; ++level) {
    TD_RETURN_IF_ERROR(
        FindDigit(s, args, level, [=] __device__(int64_t i) { return residual[i]; }));
  }
  const auto parts = static_cast<unsigned>(s.parts());
  TD_RETURN_IF_ERROR(
      Launch(args, parts, kCudaThreads, PartsKernel, scratch.found, residual, s.n, scratch.parts));
  TD_RETURN_IF_ERROR(
      Launch(args, 1, kOneBlock, PlacesKernel, scratch.found, scratch.parts, s.parts()));
  return Launch(args, parts, kCudaThreads, SelectKernel, scratch.found, scratch.parts, s.n,
                Out<float>(args, 0), residual, Out<int32_t>(args, 2));
}

StatusOr<Kernel> PrepareCompress(const OpView& view, const PrepareContext&) {
  const CompressState state{.args = {.lr = -1, .mu = AttrF32(view, "mu")},
                            .nesterov = view.attr<bool>("use_nesterov"),
                            .n = view.in(0).shape.numel(),
                            .capacity = view.attr<int64_t>("capacity")};
  return MakeKernel<CompressState, RunCompress>(state, Scratch::kBytes);
}

struct AddState {
  int64_t n, rows, words;
};

// Adds the selections of all ranks to the parameter. The kernel checks the content of a selection
// before its use, because selections come from other ranks. Each rank's selection has a separate
// launch, because ranks may send the same elements.
Status RunAdd(AddState& s, const KernelArgs& args) {
  float* param = Out<float>(args, 0);
  TD_RETURN_IF_ERROR(
      CopyOnDevice(args, param, args.in[0], static_cast<size_t>(s.n) * sizeof(float)));
  const float* lr = In<float>(args, 2);
  CudaFault* fault = StreamOf(args).fault;
  const int64_t n = s.n, room = s.words / 2;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int32_t* selection = In<int32_t>(args, 1) + r * s.words;
    TD_RETURN_IF_ERROR(ForEach(args, std::max<int64_t>(room, 1), [=] __device__(int64_t j) {
      const int64_t k = selection[0];
      if (k < 0 || k > room) return Blame(fault, CudaFault::kSelection, r, k, room);
      if (j >= k) return;
      const int32_t* indices = selection + 1;
      const int64_t i = indices[j], before = j == 0 ? -1 : indices[j - 1];
      if (i <= before || i >= n) return Blame(fault, CudaFault::kSelectedIndex, before, i, n);
      param[i] -= *lr * __int_as_float(indices[k + j]);
    }));
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareUpdate(const OpView& view, const PrepareContext&) {
  const Shape& shape = view.in(1).shape;
  return MakeKernel<AddState, RunAdd>({view.in(0).shape.numel(), shape[0], shape[1]});
}

}  // namespace

std::vector<KernelRegistration> DgcCudaRows() {
  return {{"dgc_compress", {{"cuda", PrepareCompress}}}, {"dgc_update", {{"cuda", PrepareUpdate}}}};
}

}  // namespace tandem::ops
