// The merging of rows on a device: RowMerger of sparse_rows.h, with the same bits.
#pragma once

#include "kernels/ops/cuda_launch.h"

namespace tandem {

// A row of a list; row -1: none.
struct CudaRow {
  int64_t row;
  const float* values;
};

// What MergeRows needs beside its list.
struct CudaRowScratch {
  CudaRow* list;   // [count]
  uint8_t* first;  // [count]: no row before it is the same

  static size_t Bytes(int64_t count) {
    return static_cast<size_t>(count) * (sizeof(CudaRow) + sizeof(uint8_t));
  }
  CudaRowScratch(void* scratch, int64_t count)
      : list(static_cast<CudaRow*>(scratch)), first(reinterpret_cast<uint8_t*>(list + count)) {}
};

// Writes the rows of the list that there are, ascending, each once, with -1 behind them up to n;
// values of equal rows are added in the order of the list. Every row is compared with every other:
// meant for the rows of a batch, some ten thousands.
Status MergeRows(const KernelArgs& args, const CudaRowScratch& scratch, int64_t count, int64_t dim,
                 int64_t n, int64_t* rows, float* values);

}  // namespace tandem
