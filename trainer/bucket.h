// One communication of collective mode: the tensors that travel together, and how they lie on their
// way. Internal to it.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "common/tensor/types.h"
#include "kernels/exec/comm.h"
#include "trainer/selection_gather.h"

namespace tandem {

// One communication of the plan. What is several tensors, or travels in another type, is gathered
// in a flat buffer of its communicator, where the others can reach it.
struct Bucket {
  CollectiveOp op = CollectiveOp::kAllReduce;
  int root = 0;
  std::vector<CommTensor> tensors;
  std::string name;
  DType dtype = DType::kF32;  // on its way
  bool is_flat = false;       // else a tensor that travels from where it is
  Buffer flat;
  std::optional<SelectionGather> selections;  // of kAllGather
  bool gives = true, takes = true;            // this rank
  size_t count = 0;                           // elements; of kAllGather those of all ranks at most
  size_t index = 0;                           // in program order

  void* data() { return is_flat ? flat.get() : tensors[0].data; }
  int32_t* words() { return reinterpret_cast<int32_t*>(flat.get()); }
  // Puts together what this rank gives, and says how many elements that is.
  StatusOr<size_t> Gather() {
    if (selections) return selections->Pack(words());
    if (is_flat) Join();
    return count;
  }
  // Gives back what came, of as many elements.
  Status Scatter(size_t given) {
    if (selections) return selections->Unpack(words(), given);
    if (is_flat) Split();
    return OkStatus();
  }

 private:
  void Join() {
    std::byte* at = flat.get();
    for (const CommTensor& t : tensors) {
      const auto n = static_cast<size_t>(t.desc.shape.numel());
      if (t.desc.dtype == dtype) {
        std::memcpy(at, t.data, t.desc.bytes());
      } else {
        const auto* from = static_cast<const float*>(t.data);
        auto* to = reinterpret_cast<uint16_t*>(at);
        for (size_t i = 0; i < n; ++i) to[i] = F32ToF16(from[i]);
      }
      at += n * SizeOf(dtype);
    }
  }
  void Split() {
    const std::byte* at = flat.get();
    for (const CommTensor& t : tensors) {
      const auto n = static_cast<size_t>(t.desc.shape.numel());
      if (t.desc.dtype == dtype) {
        std::memcpy(t.data, at, t.desc.bytes());
      } else {
        const auto* from = reinterpret_cast<const uint16_t*>(at);
        auto* to = static_cast<float*>(t.data);
        for (size_t i = 0; i < n; ++i) to[i] = F16ToF32(from[i]);
      }
      at += n * SizeOf(dtype);
    }
  }
};

}  // namespace tandem
