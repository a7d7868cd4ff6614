// Macros for formulas that are written once and used by the CPU's vector loops and by the CUDA
// kernels. All functions in the headers of this directory have internal linkage. They are compiled
// once per CPU instruction set (see loops_code.h) and once for the device. No compiler contracts
// multiplications and additions. Therefore CPU and device compute the same bits, except in formulas
// with expf or log1pf (sigmoid_xent.h), which each math library computes in its own way.
#pragma once

#if defined(__CUDACC__)
#define TD_HD __host__ __device__ __forceinline__
#else
#define TD_HD inline
#endif
