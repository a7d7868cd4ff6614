// The merging of rows on a device: RowMerger of sparse_rows.h, with the same bits. Rows are sorted
// (CUB's radix sort, which keeps the order of equal ones), so that equal ones stand together.
#pragma once

#include "kernels/ops/cuda/cuda_launch.h"

namespace tandem {

// A list of rows and where the values of each are, in the scratch memory of a kernel.
struct CudaRowList {
  uint64_t *rows, *sorted_rows;           // [count]; `height`: none
  const float **values, **sorted_values;  // [count]
  int32_t *heads, *places;                // [count]
  void* temp;                             // of CUB
};

class CudaRowSort {
 public:
  // Of `count` rows below `height`, on the current device: what CUB needs depends on it. Without
  // one this can be prepared, and not run.
  CudaRowSort(int64_t count, int64_t height);

  size_t scratch_bytes() const { return temp_at_ + temp_bytes_; }
  CudaRowList In(void* scratch) const;
  // Fills the sorted lists from the others.
  Status Sort(const KernelArgs& args, const CudaRowList& list) const;
  // Sort, then writes the rows that there are, ascending, each once, with -1 behind them up to n;
  // values of equal rows are added in the order of the list.
  Status Merge(const KernelArgs& args, const CudaRowList& list, int64_t dim, int64_t n,
               int64_t* rows, float* values) const;

  // Calls put(k, row, d, sum) on the device for the place k of each row's first one in the sorted
  // list and each element d: the sum over the equal ones.
  template <typename Put>
  Status AddUp(const KernelArgs& args, const CudaRowList& list, int64_t dim, const Put& put) const {
    const int64_t count = count_;
    const auto none = static_cast<uint64_t>(height_);
    return ForEach(args, count * dim, [=] __device__(int64_t i) {
      const int64_t k = Quotient(i, dim), d = i - k * dim;
      const uint64_t row = list.sorted_rows[k];
      if (row == none || (k > 0 && list.sorted_rows[k - 1] == row)) return;
      float sum = 0.0f;
      for (int64_t e = k; e < count && list.sorted_rows[e] == row; ++e) {
        sum += list.sorted_values[e][d];
      }
      put(k, static_cast<int64_t>(row), d, sum);
    });
  }

 private:
  int64_t count_, height_;
  size_t temp_at_, temp_bytes_ = 0;
};

}  // namespace tandem
