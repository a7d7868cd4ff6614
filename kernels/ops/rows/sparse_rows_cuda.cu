// CUDA kernels of sparse gradients, which sparse_rows.cc defines.
#include "kernels/ops/rows/sparse_rows_cuda.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/ops/cuda/cuda_kernels.h"

namespace tandem::ops {
namespace {

constexpr size_t kAlignment = 256;  // alignment of the memory for CUB, in bytes

// Sorts the list by row. If `temp` is nullptr, only sets `bytes` to the required size of `temp`.
cudaError_t SortPairs(const CudaRowList& list, int64_t count, int64_t height, void* temp,
                      size_t& bytes, cudaStream_t stream) {
  const int bits = std::bit_width(static_cast<uint64_t>(height));
  return cub::DeviceRadixSort::SortPairs(temp, bytes, list.rows, list.sorted_rows, list.values,
                                         list.sorted_values, count, 0, bits, stream);
}

cudaError_t Scan(const CudaRowList& list, int64_t count, void* temp, size_t& bytes,
                 cudaStream_t stream) {
  return cub::DeviceScan::ExclusiveSum(temp, bytes, list.heads, list.places, count, stream);
}

}  // namespace

CudaRowSort::CudaRowSort(int64_t count, int64_t height) : count_(count), height_(height) {
  constexpr size_t kEach = 2 * (sizeof(uint64_t) + sizeof(const float*) + sizeof(int32_t));
  temp_at_ = (static_cast<size_t>(count) * kEach + kAlignment - 1) / kAlignment * kAlignment;
  size_t sort = 0, scan = 0;
  if (SortPairs({}, count, height, nullptr, sort, nullptr) != cudaSuccess) return;
  if (Scan({}, count, nullptr, scan, nullptr) != cudaSuccess) return;
  temp_bytes_ = std::max(sort, scan);
}

CudaRowList CudaRowSort::In(void* scratch) const {
  CudaRowList list;
  list.rows = static_cast<uint64_t*>(scratch);
  list.sorted_rows = list.rows + count_;
  list.values = reinterpret_cast<const float**>(list.sorted_rows + count_);
  list.sorted_values = list.values + count_;
  list.heads = reinterpret_cast<int32_t*>(list.sorted_values + count_);
  list.places = list.heads + count_;
  list.temp = static_cast<std::byte*>(scratch) + temp_at_;
  return list;
}

Status CudaRowSort::Sort(const KernelArgs& args, const CudaRowList& list) const {
  if (count_ == 0) return OkStatus();
  size_t bytes = temp_bytes_;
  return CheckCuda(SortPairs(list, count_, height_, list.temp, bytes, StreamOf(args).stream),
                   "sort of rows");
}

Status CudaRowSort::Merge(const KernelArgs& args, const CudaRowList& list, int64_t dim, int64_t n,
                          int64_t* rows, float* values) const {
  TD_RETURN_IF_ERROR(ForEach(args, n, [=] __device__(int64_t i) { rows[i] = -1; }));
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, values, static_cast<size_t>(n * dim) * sizeof(float)));
  if (count_ == 0) return OkStatus();
  TD_RETURN_IF_ERROR(Sort(args, list));
  const auto none = static_cast<uint64_t>(height_);
  TD_RETURN_IF_ERROR(ForEach(args, count_, [=] __device__(int64_t k) {
    const uint64_t row = list.sorted_rows[k];
    list.heads[k] = row != none && (k == 0 || list.sorted_rows[k - 1] != row) ? 1 : 0;
  }));
  size_t bytes = temp_bytes_;
  TD_RETURN_IF_ERROR(
      CheckCuda(Scan(list, count_, list.temp, bytes, StreamOf(args).stream), "places of rows"));
  return AddUp(args, list, dim, [=] __device__(int64_t k, int64_t row, int64_t d, float sum) {
    const int64_t place = list.places[k];
    if (d == 0) rows[place] = row;
    values[place * dim + d] = sum;
  });
}

namespace {

struct SumState {
  std::vector<int64_t> counts;  // for each input pair: its number of rows
  int64_t height, dim, n;
  CudaRowSort sort;
};

Status RunSum(SumState& s, const KernelArgs& args) {
  const CudaRowList list = s.sort.In(args.scratch);
  CudaFault* fault = StreamOf(args).fault;
  int64_t at = 0;
  for (size_t pair = 0; pair < s.counts.size(); ++pair) {
    const float* values = In<float>(args, static_cast<int>(2 * pair));
    const int64_t* rows = In<int64_t>(args, static_cast<int>(2 * pair + 1));
    const int64_t dim = s.dim, height = s.height;
    uint64_t* const list_rows = list.rows + at;
    const float** const list_values = list.values + at;
    TD_RETURN_IF_ERROR(ForEach(args, s.counts[pair], [=] __device__(int64_t i) {
      const bool there = rows[i] >= 0 && rows[i] < height;
      if (!there && rows[i] != -1) Blame(fault, CudaFault::kRows, i, rows[i], height);
      list_rows[i] = static_cast<uint64_t>(there ? rows[i] : height);
      list_values[i] = values + i * dim;
    }));
    at += s.counts[pair];
  }
  return s.sort.Merge(args, list, s.dim, s.n, Out<int64_t>(args, 1), Out<float>(args, 0));
}

StatusOr<Kernel> PrepareSum(const OpView& view, const PrepareContext&) {
  const int64_t height = view.attr<int64_t>("height");
  std::vector<int64_t> counts;
  int64_t total = 0;
  for (size_t i = 0; i < view.in_count(); i += 2) {
    counts.push_back(view.in(i).shape[0]);
    total += counts.back();
  }
  const CudaRowSort sort(total, height);
  return MakeKernel<SumState, RunSum>(
      {std::move(counts), height, view.in(0).shape[1], std::min(total, height), sort},
      sort.scratch_bytes());
}

struct DenseState {
  int64_t count, height, dim;
};

Status RunDense(DenseState& state, const KernelArgs& args) {
  const DenseState s = state;
  const float* values = In<float>(args, 0);
  const int64_t* rows = In<int64_t>(args, 1);
  float* out = Out<float>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  TD_RETURN_IF_ERROR(
      ZeroOnDevice(args, out, static_cast<size_t>(s.height * s.dim) * sizeof(float)));
  return ForEach(args, s.count * s.dim, [=] __device__(int64_t i) {
    const int64_t k = Quotient(i, s.dim), row = rows[k];
    if (row < 0) return;
    if (row >= s.height) return Blame(fault, CudaFault::kRows, k, row, s.height);
    out[row * s.dim + (i - k * s.dim)] = values[i];
  });
}

StatusOr<Kernel> PrepareDense(const OpView& view, const PrepareContext&) {
  const Shape& values = view.in(0).shape;
  return MakeKernel<DenseState, RunDense>({values[0], view.attr<int64_t>("height"), values[1]});
}

}  // namespace

std::vector<KernelRegistration> SparseRowsCudaRows() {
  return {{"sum_sparse_rows", {{"cuda", PrepareSum}}},
          {"sparse_rows_to_dense", {{"cuda", PrepareDense}}}};
}

}  // namespace tandem::ops
