// CUDA kernels of fc and matmul, which are defined in fc.cc and matmul.cc. They use cuBLASLt.
#include <utility>

#include "kernels/ops/core/kernel_settings.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/product/matmul.h"

namespace tandem::ops {
namespace {

// Size of the workspace in bytes: cuBLAS's default on Hopper.
constexpr size_t kWorkspace = size_t{32} << 20;

Status BlasStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return OkStatus();
  return Internal("the cuBLASLt call %s failed: %s", what, cublasLtGetStatusString(status));
}

cudaDataType TypeOf(DType dtype) {
  return dtype == DType::kF16 ? CUDA_R_16F : dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
}

struct ProductSizes {
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  int64_t batch = 1;
  float alpha = 1.0f;
  bool bias = false;  // true: an f32 bias is added; only supported if C is f32
};

// Computes the product without cuBLASLt. One thread computes one element of C.
template <typename In, typename Out>
Status PlainProduct(const KernelArgs& args, const ProductSizes& s, const void* left,
                    const void* right, const float* bias, void* out) {
  const In *a = static_cast<const In*>(left), *b = static_cast<const In*>(right);
  Out* c = static_cast<Out*>(out);
  return ForEach(args, s.batch * s.m * s.n, [=] __device__(int64_t at) {
    const int64_t row = Quotient(at, s.n), j = at - row * s.n;
    const int64_t matrix = Quotient(row, s.m), i = row - matrix * s.m;
    const In* x = a + matrix * s.m * s.k + (s.trans_a ? i : i * s.k);
    const In* y = b + matrix * s.k * s.n + (s.trans_b ? j * s.k : j);
    const int64_t step_x = s.trans_a ? s.m : 1, step_y = s.trans_b ? 1 : s.n;
    float sum = 0.0f;
    for (int64_t k = 0; k < s.k; ++k) sum += Wide(x[k * step_x]) * Wide(y[k * step_y]);
    c[at] = Narrow<Out>(s.alpha * sum + (bias == nullptr ? 0.0f : bias[j]));
  });
}

// Computes C [m, n] = alpha op(A) op(B), optionally plus a bias per column. Matrices are row-major,
// op(A) is [m, k]. The matrices of `batch` products are stored one after another. Sums are f32. At
// the first run, cuBLASLt chooses an algorithm among those that give the same bits each time. If
// cuBLASLt has no algorithm (for some vectors with a bias), plain loops compute the product.
class Product {
 public:
  using Sizes = ProductSizes;

  Product() = default;
  // `tf32`: true: tensor cores may round f32 inputs to TF32.
  static StatusOr<Product> Make(const Sizes& sizes, DType in, DType out, bool tf32);
  // Computes the product. `workspace`: device memory of kWorkspace bytes.
  Status Run(const KernelArgs& args, const void* a, const void* b, const void* bias, void* c,
             void* workspace);

 private:
  // Chooses cuBLASLt's algorithm. Returns false if cuBLASLt has none.
  StatusOr<bool> Choose(cublasLtHandle_t blas);
  Status RunPlain(const KernelArgs& args, const void* a, const void* b, const void* bias,
                  void* c) const;
  template <typename T>
  cublasStatus_t Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return cublasLtMatmulDescSetAttribute(&desc_, attribute, &value, sizeof(value));
  }

  Sizes sizes_{};
  DType in_ = DType::kF32, out_ = DType::kF32;
  bool chosen_ = false, plain_ = false;
  // The matrices in the order of cuBLASLt, which is column-major: C^T = op(B)^T op(A)^T, so B is
  // the first factor.
  cublasLtMatmulDescOpaque_t desc_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, c_{};
  cublasLtMatmulAlgo_t algorithm_{};
};

// Describes a row-major matrix [rows, cols] to cuBLASLt.
cublasStatus_t Layout(cublasLtMatrixLayoutOpaque_t* layout, DType dtype, int64_t rows, int64_t cols,
                      int64_t batch) {
  const auto high = static_cast<uint64_t>(cols), wide = static_cast<uint64_t>(rows);
  cublasStatus_t status = cublasLtMatrixLayoutInit(layout, TypeOf(dtype), high, wide, cols);
  if (status != CUBLAS_STATUS_SUCCESS || batch == 1) return status;
  const auto count = static_cast<int32_t>(batch);
  const int64_t stride = rows * cols;
  status = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                            sizeof(count));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof(stride));
}

StatusOr<Product> Product::Make(const Sizes& s, DType in, DType out, bool tf32) {
  if (s.batch * s.m * s.n * s.k == 0)
    return Unimplemented("this kernel does not support a product without elements");
  if (s.batch > INT32_MAX)
    return Unimplemented("this kernel does not support more than 2^31 products");
  Product p;
  p.sizes_ = s;
  p.in_ = in;
  p.out_ = out;
  const auto compute =
      tf32 && in == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  TD_RETURN_IF_ERROR(BlasStatus(cublasLtMatmulDescInit(&p.desc_, compute, CUDA_R_32F), "product"));
  TD_RETURN_IF_ERROR(
      BlasStatus(p.Set(CUBLASLT_MATMUL_DESC_TRANSA, s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N), "B"));
  TD_RETURN_IF_ERROR(
      BlasStatus(p.Set(CUBLASLT_MATMUL_DESC_TRANSB, s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N), "A"));
  if (s.bias) {
    TD_RETURN_IF_ERROR(
        BlasStatus(p.Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS), "epilogue"));
  }
  const int64_t a_rows = s.trans_a ? s.k : s.m, b_rows = s.trans_b ? s.n : s.k;
  TD_RETURN_IF_ERROR(BlasStatus(Layout(&p.a_, in, a_rows, s.m + s.k - a_rows, s.batch), "A"));
  TD_RETURN_IF_ERROR(BlasStatus(Layout(&p.b_, in, b_rows, s.k + s.n - b_rows, s.batch), "B"));
  TD_RETURN_IF_ERROR(BlasStatus(Layout(&p.c_, out, s.m, s.n, s.batch), "C"));
  return p;
}

StatusOr<bool> Product::Choose(cublasLtHandle_t blas) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  TD_RETURN_IF_ERROR(BlasStatus(cublasLtMatmulPreferenceInit(&preference), "preference"));
  const auto prefer = [&preference](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    return BlasStatus(
        cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof(value)),
        "preference");
  };
  TD_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspace}));
  // Partial sums must be added in the order of their parts, not in the order of completion.
  TD_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                            uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    TD_RETURN_IF_ERROR(prefer(alignment, uint32_t{16}));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(blas, &desc_, &b_, &a_, &c_, &c_,
                                                               &preference, 1, &found, &count);
  // cuBLASLt returns one of these errors if it does not support the epilogue for vectors.
  const bool unserved =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (!unserved) TD_RETURN_IF_ERROR(BlasStatus(status, "choosing an algorithm"));
  if (unserved || count == 0) return false;
  algorithm_ = found.algo;
  return true;
}

Status Product::RunPlain(const KernelArgs& args, const void* a, const void* b, const void* bias,
                         void* c) const {
  const auto* row = static_cast<const float*>(bias);
  switch (in_) {
    case DType::kF16:
      return out_ == DType::kF32 ? PlainProduct<__half, float>(args, sizes_, a, b, row, c)
                                 : PlainProduct<__half, __half>(args, sizes_, a, b, row, c);
    case DType::kBF16:
      return out_ == DType::kF32
                 ? PlainProduct<__nv_bfloat16, float>(args, sizes_, a, b, row, c)
                 : PlainProduct<__nv_bfloat16, __nv_bfloat16>(args, sizes_, a, b, row, c);
    default:
      return PlainProduct<float, float>(args, sizes_, a, b, row, c);
  }
}

Status Product::Run(const KernelArgs& args, const void* a, const void* b, const void* bias, void* c,
                    void* workspace) {
  const CudaStream& work = StreamOf(args);
  if (bias != nullptr && !plain_) {
    TD_RETURN_IF_ERROR(BlasStatus(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), "bias"));
  }
  if (!std::exchange(chosen_, true)) {
    TD_ASSIGN_OR_RETURN(const bool found, Choose(work.blas));
    plain_ = !found;
  }
  if (plain_) return RunPlain(args, a, b, bias, c);
  const float zero = 0.0f;
  return BlasStatus(cublasLtMatmul(work.blas, &desc_, &sizes_.alpha, b, &b_, a, &a_, &zero, c, &c_,
                                   c, &c_, &algorithm_, workspace, kWorkspace, work.stream),
                    "cublasLtMatmul");
}

// ---- matmul -------------------------------------------------------------------------------------

Status RunMatmul(Product& product, const KernelArgs& args) {
  return product.Run(args, args.in[0], args.in[1], nullptr, args.out[0], args.scratch);
}

StatusOr<Kernel> PrepareMatmul(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const MatmulSizes s, MatmulSizesOf(view));
  TD_ASSIGN_OR_RETURN(Product product, Product::Make({.m = s.m,
                                                      .n = s.n,
                                                      .k = s.k,
                                                      .trans_a = s.trans_x,
                                                      .trans_b = s.trans_y,
                                                      .batch = s.batch,
                                                      .alpha = s.alpha},
                                                     view.in(0).dtype, view.out(0).dtype,
                                                     ctx.settings.tensor_op_math));
  return MakeKernel<Product, RunMatmul>(std::move(product), kWorkspace);
}

// ---- fc -----------------------------------------------------------------------------------------

struct FcState {
  Product product;
  int64_t m, n;
};

Status RunFc(FcState& s, const KernelArgs& args) {
  return s.product.Run(args, args.in[0], args.in[1], args.in[2], args.out[0], args.scratch);
}

// Computes fc for 16 bits with a bias. The product is computed in f32 in scratch memory, so that
// the result is rounded only once.
template <typename T>
Status RunFcHalf(FcState& s, const KernelArgs& args) {
  auto* sums = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + kWorkspace);
  TD_RETURN_IF_ERROR(s.product.Run(args, args.in[0], args.in[1], nullptr, sums, args.scratch));
  const float* bias = In<float>(args, 2);
  T* out = Out<T>(args, 0);
  const int64_t n = s.n;
  return ForEach(args, s.m * n, [=] __device__(int64_t i) {
    out[i] = Narrow<T>(sums[i] + bias[Remainder(i, n)]);
  });
}

StatusOr<Kernel> PrepareFc(const OpView& view, const PrepareContext& ctx) {
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  const DType dtype = view.in(0).dtype;
  const bool wide = IsHalf(dtype) && view.has_in(2);
  FcState s{{}, x[0], w[1]};
  TD_ASSIGN_OR_RETURN(
      s.product, Product::Make({.m = x[0], .n = w[1], .k = x[1], .bias = view.has_in(2) && !wide},
                               dtype, wide ? DType::kF32 : dtype, ctx.settings.tensor_op_math));
  if (!wide) return MakeKernel<FcState, RunFc>(std::move(s), kWorkspace);
  const size_t bytes = kWorkspace + static_cast<size_t>(s.m * s.n) * sizeof(float);
  return dtype == DType::kF16 ? MakeKernel<FcState, RunFcHalf<__half>>(std::move(s), bytes)
                              : MakeKernel<FcState, RunFcHalf<__nv_bfloat16>>(std::move(s), bytes);
}

struct FcGradState {
  Product input, weight;
  ColumnSums bias;
};

// Computes the gradients from the gradient G of Out: Input@GRAD = G W^T, W@GRAD = Input^T G, and
// Bias@GRAD is the sum of the rows of G.
template <typename T>
Status RunFcGrad(FcGradState& s, const KernelArgs& args) {
  const void *x = args.in[0], *w = args.in[1];
  const T* g = In<T>(args, 2);
  if (args.out[0] != nullptr) {
    TD_RETURN_IF_ERROR(s.input.Run(args, g, w, nullptr, args.out[0], args.scratch));
  }
  if (args.out[1] != nullptr) {
    TD_RETURN_IF_ERROR(s.weight.Run(args, x, g, nullptr, args.out[1], args.scratch));
  }
  float* gbias = Out<float>(args, 2);
  if (gbias == nullptr) return OkStatus();
  const int64_t n = s.bias.cols;
  return s.bias.Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t j) { return Wide(g[i * n + j]); },
      [=] __device__(int64_t j, float sum) { gbias[j] = sum; });
}

template <typename T>
StatusOr<Kernel> PrepareFcGrad(const OpView& view, const PrepareContext& ctx) {
  const int64_t m = view.in(0).shape[0], k = view.in(1).shape[0], n = view.in(1).shape[1];
  const DType dtype = view.in(0).dtype;
  FcGradState s{{}, {}, {m, n}};
  TD_ASSIGN_OR_RETURN(s.input, Product::Make({.m = m, .n = k, .k = n, .trans_b = true}, dtype,
                                             dtype, ctx.settings.tensor_op_math));
  TD_ASSIGN_OR_RETURN(s.weight, Product::Make({.m = k, .n = n, .k = m, .trans_a = true}, dtype,
                                              dtype, ctx.settings.tensor_op_math));
  const size_t scratch = std::max(kWorkspace, s.bias.scratch_bytes());
  return MakeKernel<FcGradState, RunFcGrad<T>>(std::move(s), scratch);
}

}  // namespace

std::vector<KernelRegistration> ProductCudaRows() {
  return {
      {"fc", {{"cublas", PrepareFc}}},
      {"fc_grad",
       {{"cublas",
         ByType<PrepareFcGrad<float>, PrepareFcGrad<__half>, PrepareFcGrad<__nv_bfloat16>>}}},
      {"matmul", {{"cublas", PrepareMatmul}}},
  };
}

}  // namespace tandem::ops
