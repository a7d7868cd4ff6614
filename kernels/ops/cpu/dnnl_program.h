// Combines several oneDNN primitives into one kernel. Memory objects are made when the kernel is
// prepared. A run only sets the pointers and executes. Included only by *_dnnl.cc.
#pragma once

#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op.h"

namespace tandem {

// While this object exists, OpenMP regions of the calling thread use `threads` threads. oneDNN uses
// OpenMP.
class OmpThreads {
 public:
  explicit OmpThreads(int threads);
  ~OmpThreads();
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  const int before_;
};

// Methods throw dnnl::error unless they return a Status. Build programs inside BuildDnnl.
class DnnlProgram {
 public:
  explicit DnnlProgram(int threads)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), threads_(threads) {}

  const dnnl::engine& engine() const { return engine_; }

  // Memory objects, identified by an index. They are argument i of the kernel or a part of its
  // scratch.
  int In(int i, const dnnl::memory::desc& desc) { return AddMemory(Source::kIn, i, desc); }
  int Out(int i, const dnnl::memory::desc& desc) { return AddMemory(Source::kOut, i, desc); }
  int Scratch(const dnnl::memory::desc& desc);

  // Returns the bytes of `memory` with another description.
  int View(int memory, const dnnl::memory::desc& desc) {
    return AddMemory(At(memory).source, At(memory).at, desc);
  }

  dnnl::memory::desc DescOf(int memory) const { return At(memory).memory.get_desc(); }

  // Returns `memory` in the layout `wanted`: itself, or a copy by an appended reorder.
  int Reordered(int memory, const dnnl::memory::desc& wanted);
  // Appends a primitive. `scratchpad` is the scratchpad description of its primitive descriptor.
  void Add(const dnnl::primitive& primitive, std::initializer_list<std::pair<int, int>> args,
           const dnnl::memory::desc& scratchpad);
  // Appends a copy of `from` to `to`, unless they are the same.
  void Copy(int from, int to);

  // Primitives added after this call reuse the scratch memory of earlier ones, which must not be
  // read any more.
  void ReuseScratch() { scratch_used_ = 0; }
  size_t scratch_used() const { return scratch_used_; }  // since the last ReuseScratch()
  size_t scratch_bytes() const { return scratch_bytes_; }
  // Returns an empty program with the same engine.
  DnnlProgram Emptied() const;
  Status Run(const KernelArgs& args);

 private:
  enum class Source { kIn, kOut, kScratch };
  struct Memory {
    Source source;
    size_t at;  // index, or offset in bytes
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

// Attributes for every primitive: the caller provides the scratchpad.
dnnl::primitive_attr UserScratchpad();

using DnnlType = dnnl::memory::data_type;
// REQUIRES: f32, f16 or bf16.
DnnlType DnnlTypeOf(DType dtype);
// UNIMPLEMENTED: a tensor has 16 bits and oneDNN is slow with this type on this machine.
Status CheckDnnlTypes(const OpView& view);

// A row-major description with these dimensions.
dnnl::memory::desc PlainDesc(const std::vector<int64_t>& dims, DnnlType type = DnnlType::f32);
// A description of images [n,c,h,w].
dnnl::memory::desc ImageDesc(const std::vector<int64_t>& dims, ImageLayout layout, DnnlType type);

// Calls build(program). Converts exceptions of oneDNN to UNIMPLEMENTED.
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

}  // namespace tandem
