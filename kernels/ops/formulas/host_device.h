// Formulas are written once and computed by the CPU's vector loops and by the CUDA kernels alike.
// All headers of this folder have internal linkage: they are compiled once per instruction set of
// the CPU (loops_code.h says why), and once more for the device. Neither compiler contracts
// multiplications and additions, so both give the same bits.
#pragma once

#if defined(__CUDACC__)
#define TD_HD __host__ __device__ __forceinline__
#else
#define TD_HD inline
#endif
