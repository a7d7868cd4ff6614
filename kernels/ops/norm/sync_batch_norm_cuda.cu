// CUDA kernels of batch_norm over several ranks, which sync_batch_norm.cc defines.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/norm/batch_norm_cuda.h"

namespace tandem::ops {
namespace {

struct MomentsState {
  BatchNormState s;
  int64_t rank, ranks;
};

Status RunMoments(MomentsState& st, const KernelArgs& args) {
  const float* x = In<float>(args, 0);
  const int64_t channels = st.s.channels, columns = 2 * channels + 1;
  float* row = Out<float>(args, 0) + st.rank * columns;
  const float count = st.s.count, images = st.s.images;
  const size_t bytes = static_cast<size_t>(st.ranks * columns) * sizeof(float);
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, args.out[0], bytes));
  TD_RETURN_IF_ERROR(st.s.sums().Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t) { return x[i]; },
      [=] __device__(int64_t c, float sum) {
        row[1 + c] = sum / count;
        if (c == 0) row[0] = images;
      }));
  return st.s.sums().Run(
      args, args.scratch,
      [=] __device__(int64_t i, int64_t c) { return (x[i] - row[1 + c]) * (x[i] - row[1 + c]); },
      [=] __device__(int64_t c, float sum) { row[1 + channels + c] = sum / count; });
}

StatusOr<Kernel> PrepareMoments(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const BatchNormState s, BatchNormStateOf(view));
  const MomentsState state{s, view.attr<int64_t>("rank"), view.attr<int64_t>("ranks")};
  return MakeKernel<MomentsState, RunMoments>(state, s.sums().scratch_bytes());
}

struct MergeState {
  int64_t ranks, channels;
  float momentum;
};

Status RunMerge(MergeState& st, const KernelArgs& args) {
  const MergeState s = st;
  const float* moments = In<float>(args, 0);
  const float *mean = In<float>(args, 1), *variance = In<float>(args, 2);
  float *batch_mean = Out<float>(args, 0), *batch_variance = Out<float>(args, 1);
  float *mean_out = Out<float>(args, 2), *variance_out = Out<float>(args, 3);
  return ForEach(args, s.channels, [=] __device__(int64_t c) {
    JoinedMoments joined;
    for (int64_t r = 0; r < s.ranks; ++r) {
      const float* row = moments + r * (2 * s.channels + 1);
      joined.Add(row[0], row[1 + c], row[1 + s.channels + c]);
    }
    const auto m = static_cast<float>(joined.mean);
    const auto v = static_cast<float>(joined.m2 / joined.count);
    batch_mean[c] = m;
    batch_variance[c] = v;
    mean_out[c] = AdvanceStatistic(s.momentum, mean[c], m);
    variance_out[c] = AdvanceStatistic(s.momentum, variance[c], v);
  });
}

StatusOr<Kernel> PrepareMerge(const OpView& view, const PrepareContext&) {
  return MakeKernel<MergeState, RunMerge>({view.in(0).shape[0], view.in(1).shape[0],
                                           static_cast<float>(view.attr<double>("momentum"))});
}

Status RunGradSums(BatchNormState& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *mean = In<float>(args, 1);
  const Masked<float> masked{In<float>(args, 3), In<float>(args, 2)};
  float* out = Out<float>(args, 0);
  const int64_t channels = s.channels;
  const float images = s.images;
  TD_RETURN_IF_ERROR(s.sums().Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t) { return masked(i); },
      [=] __device__(int64_t c, float sum) {
        out[1 + c] = sum;
        if (c == 0) out[0] = images;
      }));
  return s.sums().Run(
      args, args.scratch,
      [=] __device__(int64_t i, int64_t c) { return masked(i) * (x[i] - mean[c]); },
      [=] __device__(int64_t c, float sum) { out[1 + channels + c] = sum; });
}

StatusOr<Kernel> PrepareGradSums(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(BatchNormState state, BatchNormStateOf(view));
  return MakeKernel<BatchNormState, RunGradSums>(state, state.sums().scratch_bytes());
}

}  // namespace

std::vector<KernelRegistration> SyncBatchNormCudaRows() {
  return {{"batch_norm_grad_sums", {{"cuda", PrepareGradSums}}},
          {"batch_norm_merge", {{"cuda", PrepareMerge}}},
          {"batch_norm_moments", {{"cuda", PrepareMoments}}}};
}

}  // namespace tandem::ops
