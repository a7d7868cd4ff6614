// A stand-in for the part of cuBLASLt that kernels/ops/product/product_cuda.cu uses. It computes
// with plain loops (see cuda_runtime.h).
#pragma once

#include "tests/cuda_on_host/cuda_runtime.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS,
  CUBLAS_STATUS_INVALID_VALUE,
  CUBLAS_STATUS_NOT_SUPPORTED
};
enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };
enum cublasLtReductionScheme_t { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA,
  CUBLASLT_MATMUL_DESC_TRANSB,
  CUBLASLT_MATMUL_DESC_EPILOGUE,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER
};
enum cublasLtMatrixLayoutAttribute_t {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};

using cublasLtHandle_t = struct CublasLtOnHost*;
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t op_a, op_b;
  cublasLtEpilogue_t epilogue;
  const void* bias;
};
struct cublasLtMatrixLayoutOpaque_t {  // a matrix in column-major order
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batch;
  int64_t stride;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace;
};
struct cublasLtMatmulAlgo_t {
  cublasComputeType_t compute;  // the compute type for which the algorithm was found
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
};

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "invalid value";
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t* desc, cublasComputeType_t compute,
                                      cudaDataType scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t* desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t* layout, cudaDataType type,
                                        uint64_t rows, uint64_t cols, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayoutOpaque_t* layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t* preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t* preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t* desc, cublasLtMatrixLayoutOpaque_t* a,
    cublasLtMatrixLayoutOpaque_t* b, cublasLtMatrixLayoutOpaque_t* c,
    cublasLtMatrixLayoutOpaque_t* d, cublasLtMatmulPreferenceOpaque_t* preference, int wanted,
    cublasLtMatmulHeuristicResult_t* results, int* found);
// D = alpha op(A) op(B) + beta C. With the bias epilogue, the bias of row i is added to each
// element of row i.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t* desc,
                              const void* alpha, const void* a, cublasLtMatrixLayoutOpaque_t* la,
                              const void* b, cublasLtMatrixLayoutOpaque_t* lb, const void* beta,
                              const void* c, cublasLtMatrixLayoutOpaque_t* lc, void* d,
                              cublasLtMatrixLayoutOpaque_t* ld, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t bytes, cudaStream_t stream);
