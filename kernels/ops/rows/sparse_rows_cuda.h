// Merges rows on a device. The result has the same bits as that of RowMerger (row_merger.h). Rows
// are sorted with CUB's stable radix sort: equal rows become adjacent and keep their order.
#pragma once

#include "kernels/ops/cuda/cuda_launch.h"

namespace tandem::ops {

// A list of rows with the addresses of their values, in the scratch memory of a kernel. Each array
// has `count` elements (CudaRowSort). The sorted arrays have the entries in ascending order of the
// row numbers.
struct CudaRowList {
  // Row numbers. The number `height` of CudaRowSort marks an entry without a row.
  uint64_t *rows, *sorted_rows;
  const float **values, **sorted_values;  // address of the values of each entry
  // For Merge, by sorted entry. heads: 1: the first entry of its row; 0: any other entry. places:
  // number of heads before the entry, which is the position of a row in the result.
  int32_t *heads, *places;
  void* temp;  // memory for CUB
};

class CudaRowSort {
 public:
  // Prepares lists of `count` rows with numbers below `height`. The size of the memory for CUB
  // depends on the current device. Without a device, the object can be constructed, but Sort and
  // Merge cannot run.
  CudaRowSort(int64_t count, int64_t height);

  size_t scratch_bytes() const { return temp_at_ + temp_bytes_; }
  CudaRowList In(void* scratch) const;
  // Fills sorted_rows and sorted_values from rows and values.
  Status Sort(const KernelArgs& args, const CudaRowList& list) const;
  // Sorts the list. Then writes the distinct rows in ascending order to `rows`, and fills the rest
  // of the n row numbers with -1. The values of equal rows are added in the order of the list.
  Status Merge(const KernelArgs& args, const CudaRowList& list, int64_t dim, int64_t n,
               int64_t* rows, float* values) const;

  // Calls put(k, row, d, sum) on the device for each distinct row and each of its elements d. k is
  // the position of the row's first entry in the sorted list. `sum` is the sum over all entries of
  // the row.
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

}  // namespace tandem::ops
