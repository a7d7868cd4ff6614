#include "kernels/exec/finite_search_cuda.h"

#include "kernels/ops/cuda/cuda_launch.h"

namespace tandem::exec {
namespace {

using Cell = unsigned long long;  // the type that atomicMin expects
static_assert(sizeof(Cell) == sizeof(uint64_t));

// The tensors that one launch searches. The table is passed by value in the kernel arguments, which
// are limited to 4 KiB.
struct Table {
  static constexpr size_t kTensors = 64;
  NonFiniteScan::Floats at[kTensors];
};

// Searches one tensor. Each thread stops at its first element that has all bits of `exponent` set,
// which means infinity or NaN. `first` becomes the smallest position that any thread found.
template <typename Bits>
__device__ void Find(const void* data, int64_t numel, Bits exponent, Cell number, Cell* failed,
                     Cell* first) {
  constexpr int kPack = 16 / sizeof(Bits);
  const auto* at = static_cast<const Bits*>(data);
  const auto found = [=](int64_t i) {
    atomicMin(first, static_cast<Cell>(i));
    atomicMin(failed, number);
  };
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  const int64_t packs = aligned ? numel / kPack : 0;
  for (int64_t i = ops::GridIndex(); i < packs; i += ops::GridSize()) {
    const auto pack = reinterpret_cast<const ops::Pack<Bits, kPack>*>(at)[i];
    for (int e = 0; e < kPack; ++e) {
      if ((pack.at[e] & exponent) == exponent) return found(i * kPack + e);
    }
  }
  for (int64_t i = packs * kPack + ops::GridIndex(); i < numel; i += ops::GridSize()) {
    if ((at[i] & exponent) == exponent) return found(i);
  }
}

// The blocks with y index y in the grid search tensor y.
__global__ void SearchKernel(Table table, Cell number, bool inputs, Cell* failed, Cell* first) {
  // Another thread may change `failed` at the same time, but only to `number`.
  const Cell before = *static_cast<volatile Cell*>(failed);
  if (inputs ? before != number : before < number) return;
  const NonFiniteScan::Floats& tensor = table.at[blockIdx.y];
  Cell* const own = first + blockIdx.y;
  if (tensor.dtype == DType::kF32) {
    Find<uint32_t>(tensor.data, tensor.numel, 0x7F800000, number, failed, own);
  } else {
    const uint16_t exponent = tensor.dtype == DType::kF16 ? 0x7C00 : 0x7F80;
    Find<uint16_t>(tensor.data, tensor.numel, exponent, number, failed, own);
  }
}

}  // namespace

Status StartCudaSearch(Device& device, const NonFiniteScan& search) {
  TD_RETURN_IF_ERROR(ops::CheckCuda(cudaSetDevice(device.place().index), "cudaSetDevice"));
  ops::KernelArgs args{};
  args.stream = device.stream();
  for (size_t begin = 0; begin < search.tensors.size(); begin += Table::kTensors) {
    const size_t count = std::min(Table::kTensors, search.tensors.size() - begin);
    Table table{};
    int64_t longest = 0;
    for (size_t t = 0; t < count; ++t) {
      table.at[t] = search.tensors[begin + t];
      longest = std::max(longest, table.at[t].numel);
    }
    const dim3 blocks(ops::CudaBlocks(longest, ops::kCudaThreads * 4),
                      static_cast<unsigned>(count));
    TD_RETURN_IF_ERROR(ops::Launch(
        args, blocks, ops::kCudaThreads, SearchKernel, table, Cell{search.number}, search.inputs,
        reinterpret_cast<Cell*>(search.failed), reinterpret_cast<Cell*>(search.first + begin)));
  }
  return OkStatus();
}

}  // namespace tandem::exec
