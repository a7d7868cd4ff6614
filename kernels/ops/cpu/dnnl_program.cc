#include "kernels/ops/cpu/dnnl_program.h"

#include <omp.h>

#include <algorithm>

#include "common/os/signal_stack.h"
#include "kernels/ops/cpu/fast_half.h"
#include "kernels/ops/cpu/half.h"

namespace tandem::ops {

OmpThreads::OmpThreads(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
  if (!SignalStacksRequired()) return;
#pragma omp parallel num_threads(threads)
  UseSignalStack();
}

OmpThreads::~OmpThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

int DnnlProgram::AddMemory(Source source, size_t at, const dnnl::memory::desc& desc) {
  memories_.push_back({source, at, dnnl::memory(desc, engine_, DNNL_MEMORY_NONE)});
  return static_cast<int>(memories_.size()) - 1;
}

int DnnlProgram::Scratch(const dnnl::memory::desc& desc) {
  constexpr size_t kAlign = 64;
  const size_t at = scratch_used_;
  scratch_used_ += (desc.get_size() + kAlign - 1) / kAlign * kAlign;
  scratch_bytes_ = std::max(scratch_bytes_, scratch_used_);
  return AddMemory(Source::kScratch, at, desc);
}

DnnlProgram DnnlProgram::Emptied() const {
  DnnlProgram empty = *this;
  empty.memories_.clear();
  empty.steps_.clear();
  empty.scratch_used_ = empty.scratch_bytes_ = 0;
  return empty;
}

int DnnlProgram::Reordered(int memory, const dnnl::memory::desc& wanted) {
  if (DescOf(memory) == wanted) return memory;
  const int copy = Scratch(wanted);
  Copy(memory, copy);
  return copy;
}

void DnnlProgram::Copy(int from, int to) {
  if (from == to) return;
  const dnnl::reorder::primitive_desc pd(engine_, DescOf(from), engine_, DescOf(to),
                                         UserScratchpad());
  Add(dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, pd.scratchpad_desc());
}

void DnnlProgram::Add(const dnnl::primitive& primitive,
                      std::initializer_list<std::pair<int, int>> args,
                      const dnnl::memory::desc& scratchpad) {
  Step step{primitive, {}};
  for (const auto& [arg, memory] : args) {
    if (memory >= 0) step.args.push_back({arg, At(memory).memory.get()});
  }
  if (scratchpad.get_size() > 0) {
    step.args.push_back({DNNL_ARG_SCRATCHPAD, At(Scratch(scratchpad)).memory.get()});
  }
  steps_.push_back(std::move(step));
}

Status DnnlProgram::Run(const KernelArgs& args) {
  TD_REQUIRE(scratch_bytes_ == 0 || args.scratch != nullptr);
  const OmpThreads threads(threads_);
  for (Memory& m : memories_) {
    void* data = m.source == Source::kIn    ? const_cast<void*>(args.in[m.at])
                 : m.source == Source::kOut ? args.out[m.at]
                                            : static_cast<std::byte*>(args.scratch) + m.at;
    if (data == m.bound) continue;
    if (dnnl_memory_set_data_handle_v2(m.memory.get(), data, stream_.get()) != dnnl_success) {
      return Internal("oneDNN rejected a pointer to a buffer");
    }
    m.bound = data;
  }
  for (const Step& step : steps_) {
    const dnnl_status_t status = dnnl_primitive_execute(
        step.primitive.get(), stream_.get(), static_cast<int>(step.args.size()), step.args.data());
    if (status != dnnl_success) return Internal("oneDNN failed with status %d", int{status});
  }
  return OkStatus();
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

DnnlType DnnlTypeOf(DType dtype) {
  TD_REQUIRE(dtype == DType::kF32 || IsHalf(dtype));
  return dtype == DType::kBF16  ? DnnlType::bf16
         : dtype == DType::kF16 ? DnnlType::f16
                                : DnnlType::f32;
}

Status CheckDnnlTypes(const OpView& view) {
  DType half = DType::kF32;
  for (size_t i = 0; i < view.in_count(); ++i) {
    if (view.has_in(i) && IsHalf(view.in(i).dtype)) half = view.in(i).dtype;
  }
  if (half == DType::kF32) return OkStatus();
  if (HasFastHalf(half)) return OkStatus();
  return half == DType::kF16 ? Unimplemented("oneDNN 2 does not support f16 on CPUs")
                             : Unimplemented("this CPU has no bf16 instructions");
}

dnnl::memory::desc PlainDesc(const std::vector<int64_t>& dims, DnnlType type) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return dnnl::memory::desc(dims, type, strides);
}

dnnl::memory::desc ImageDesc(const std::vector<int64_t>& dims, ImageLayout layout, DnnlType type) {
  using Tag = dnnl::memory::format_tag;
  if (layout == ImageLayout::kPlain) return PlainDesc(dims, type);
  TD_REQUIRE(dims.size() == 4);
  return {dims, type, layout == ImageLayout::kLast ? Tag::nhwc : Tag::nChw16c};
}

}  // namespace tandem::ops
