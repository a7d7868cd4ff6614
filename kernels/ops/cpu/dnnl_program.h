// Combines several oneDNN primitives into one kernel. The memory objects are made when the kernel
// is prepared. A run only sets their pointers and executes the primitives. Included only by
// *_dnnl.cc.
#pragma once

#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Sets the number of threads that OpenMP regions of the calling thread use while this object
// exists. oneDNN uses OpenMP.
class OmpThreads {
 public:
  explicit OmpThreads(int threads);
  ~OmpThreads();
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  const int before_;
};

// A list of oneDNN primitives and the memory that they use. Methods throw dnnl::error unless they
// return a Status. Therefore programs must be built inside BuildDnnl.
class DnnlProgram {
 public:
  explicit DnnlProgram(int threads)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), threads_(threads) {}

  const dnnl::engine& engine() const { return engine_; }

  // In, Out and Scratch add a memory object and return its index. In uses input i of the kernel,
  // Out uses output i, and Scratch uses a part of the scratch memory.
  int In(int i, const dnnl::memory::desc& desc) { return AddMemory(Source::kIn, i, desc); }
  int Out(int i, const dnnl::memory::desc& desc) { return AddMemory(Source::kOut, i, desc); }
  int Scratch(const dnnl::memory::desc& desc);

  // Adds a memory object with the same bytes as memory object `memory` and another description.
  // Returns the index of the new object.
  int View(int memory, const dnnl::memory::desc& desc) {
    return AddMemory(At(memory).source, At(memory).at, desc);
  }

  dnnl::memory::desc DescOf(int memory) const { return At(memory).memory.get_desc(); }

  // Returns memory object `memory` in the layout `wanted`: the object itself if it has this layout,
  // otherwise a copy, which an appended reorder writes.
  int Reordered(int memory, const dnnl::memory::desc& wanted);
  // Appends a primitive. `args` are pairs of argument number and memory index. `scratchpad` is the
  // scratchpad description of the primitive's descriptor.
  void Add(const dnnl::primitive& primitive, std::initializer_list<std::pair<int, int>> args,
           const dnnl::memory::desc& scratchpad);
  // Appends a copy of memory `from` to memory `to`, unless both are the same memory.
  void Copy(int from, int to);

  // After this call, new primitives reuse the scratch memory of earlier primitives. No new
  // primitive may read the earlier scratch memory.
  void ReuseScratch() { scratch_used_ = 0; }
  // Returns the bytes of scratch memory added since the last ReuseScratch().
  size_t scratch_used() const { return scratch_used_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  // Returns an empty program for the same number of threads.
  DnnlProgram Emptied() const;
  Status Run(const KernelArgs& args);

 private:
  enum class Source { kIn, kOut, kScratch };
  struct Memory {
    Source source;
    size_t at;  // index of the argument, or offset in scratch memory in bytes
    dnnl::memory memory;
    void* bound = nullptr;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };

  const Memory& At(int memory) const {
    TD_REQUIRE(memory >= 0 && static_cast<size_t>(memory) < memories_.size());
    return memories_[static_cast<size_t>(memory)];
  }
  int AddMemory(Source source, size_t at, const dnnl::memory::desc& desc);

  dnnl::engine engine_;
  dnnl::stream stream_;
  int threads_;
  std::vector<Memory> memories_;
  std::vector<Step> steps_;
  size_t scratch_used_ = 0, scratch_bytes_ = 0;
};

// Returns the attributes that every primitive needs: the caller provides the scratchpad.
dnnl::primitive_attr UserScratchpad();

using DnnlType = dnnl::memory::data_type;
// Returns oneDNN's name of an element type. REQUIRES: `dtype` is f32, f16 or bf16.
DnnlType DnnlTypeOf(DType dtype);
// Checks whether oneDNN should compute an operator. UNIMPLEMENTED: a tensor has a 16-bit type whose
// products are slow on this machine with oneDNN.
Status CheckDnnlTypes(const OpView& view);

// Returns the description of a row-major tensor with dimensions `dims`.
dnnl::memory::desc PlainDesc(const std::vector<int64_t>& dims, DnnlType type = DnnlType::f32);
// Returns the description of images [n,c,h,w] in memory layout `layout`.
dnnl::memory::desc ImageDesc(const std::vector<int64_t>& dims, ImageLayout layout, DnnlType type);

// Returns the program that build(program) makes. UNIMPLEMENTED: oneDNN threw an exception.
template <typename Build>
StatusOr<DnnlProgram> BuildDnnl(const PrepareContext& ctx, const Build& build) {
  const OmpThreads threads(ctx.threads);
  try {
    DnnlProgram program(ctx.threads);
    build(program);
    return program;
  } catch (const dnnl::error& e) {
    return Unimplemented("oneDNN failed: %s", e.what());
  }
}

}  // namespace tandem::ops
