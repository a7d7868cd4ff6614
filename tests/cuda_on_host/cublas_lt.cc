#include <bit>
#include <cstring>

#include "tests/cuda_on_host/cublasLt.h"
#include "tests/cuda_on_host/elements.h"
#include "tests/cuda_on_host/notes.h"

using tandem::DType;
using tandem::cuda_on_host::Load;
using tandem::cuda_on_host::Store;

namespace {

DType TypeOf(const cublasLtMatrixLayoutOpaque_t& layout) {
  return tandem::cuda_on_host::TypeOf(layout.type, CUDA_R_16F, CUDA_R_16BF);
}

cublasStatus_t Take(void* to, size_t size, const void* value, size_t bytes) {
  if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// Rounds to the 10 fraction bits of TF32. Ties go to the even number.
float ToTf32(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFFU);
}

// A matrix of the product with its operation (transposed or not). Returns element (i, j) of matrix
// `n` of the batch, after the operation is applied.
struct Operand {
  const cublasLtMatrixLayoutOpaque_t& layout;
  const void* data;
  bool transposed;
  bool tf32 = false;

  int64_t rows() const { return static_cast<int64_t>(transposed ? layout.cols : layout.rows); }
  int64_t cols() const { return static_cast<int64_t>(transposed ? layout.rows : layout.cols); }
  float At(int64_t n, int64_t i, int64_t j) const {
    const int64_t row = transposed ? j : i, col = transposed ? i : j;
    const float x = Load(TypeOf(layout), data, n * layout.stride + col * layout.ld + row);
    return tf32 ? ToTf32(x) : x;
  }
};

}  // namespace

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t* desc, cublasComputeType_t compute,
                                      cudaDataType scale) {
  *desc = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t* desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Take(&desc->op_a, sizeof(desc->op_a), value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Take(&desc->op_b, sizeof(desc->op_b), value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Take(&desc->epilogue, sizeof(desc->epilogue), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Take(&desc->bias, sizeof(desc->bias), value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t* layout, cudaDataType type,
                                        uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = {type, rows, cols, ld, 1, 0};
  return ld < static_cast<int64_t>(rows) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayoutOpaque_t* layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
             ? Take(&layout->batch, sizeof(layout->batch), value, bytes)
             : Take(&layout->stride, sizeof(layout->stride), value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t* preference) {
  *preference = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t* preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return Take(&preference->workspace, sizeof(preference->workspace), value, bytes);
  }
  return bytes == sizeof(uint32_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDescOpaque_t* desc, cublasLtMatrixLayoutOpaque_t* a,
    cublasLtMatrixLayoutOpaque_t*, cublasLtMatrixLayoutOpaque_t*, cublasLtMatrixLayoutOpaque_t*,
    cublasLtMatmulPreferenceOpaque_t*, int wanted, cublasLtMatmulHeuristicResult_t* results,
    int* found) {
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  // Imitates an error of cuBLASLt that PyTorch also works around: cuBLASLt rejects a bias if its
  // first argument `a` (the right matrix of a row-major product) is a row or a column.
  const bool vector = desc->epilogue == CUBLASLT_EPILOGUE_BIAS && (a->rows == 1 || a->cols == 1);
  if (vector) return CUBLAS_STATUS_INVALID_VALUE;
  results[0].algo = {desc->compute};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

// A copy of all arguments of a product. The copy is needed because the caller may change its
// arguments before the graph that stores the product runs.
struct Product {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float by, keep;

  bool tf32() const { return desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32; }
  Operand x() const { return {a, a_data, desc.op_a == CUBLAS_OP_T, tf32()}; }
  Operand y() const { return {b, b_data, desc.op_b == CUBLAS_OP_T, tf32()}; }
  bool bias() const { return desc.epilogue == CUBLASLT_EPILOGUE_BIAS; }
  int64_t rows() const { return static_cast<int64_t>(d.rows); }
  int64_t cols() const { return static_cast<int64_t>(d.cols); }

  bool Fits() const {
    return x().rows() == rows() && y().cols() == cols() && x().cols() == y().rows() &&
           a.batch == d.batch && b.batch == d.batch && !(bias() && desc.bias == nullptr);
  }

  void Run() const {
    const Operand left = x(), right = y(), added{c, c_data, false};
    for (int64_t n = 0; n < d.batch; ++n) {
      for (int64_t j = 0; j < cols(); ++j) {
        for (int64_t i = 0; i < rows(); ++i) {
          float sum = 0.0f;
          for (int64_t k = 0; k < left.cols(); ++k) sum += left.At(n, i, k) * right.At(n, k, j);
          sum *= by;
          if (keep != 0.0f) sum += keep * added.At(n, i, j);
          if (bias()) sum += Load(TypeOf(d), desc.bias, i);
          Store(TypeOf(d), d_data, n * d.stride + j * d.ld + i, sum);
        }
      }
    }
  }
};

}  // namespace

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDescOpaque_t* desc, const void* alpha,
                              const void* a, cublasLtMatrixLayoutOpaque_t* la, const void* b,
                              cublasLtMatrixLayoutOpaque_t* lb, const void* beta, const void* c,
                              cublasLtMatrixLayoutOpaque_t* lc, void* d,
                              cublasLtMatrixLayoutOpaque_t* ld, const cublasLtMatmulAlgo_t* algo,
                              void*, size_t, cudaStream_t stream) {
  const Product product{*desc,
                        *la,
                        *lb,
                        *lc,
                        *ld,
                        a,
                        b,
                        c,
                        d,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta)};
  tandem::cuda_on_host::Note(product.tf32() ? "cublasLtMatmul 32F_FAST_TF32"
                                            : "cublasLtMatmul 32F");
  if (!product.Fits() || algo->compute != desc->compute) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaError_t put = tandem::cuda_on_host::Put(stream, "kernel", [product] { product.Run(); });
  return put == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
