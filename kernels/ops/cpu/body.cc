#include "kernels/ops/cpu/body.h"

#include <algorithm>
#include <array>

#include "kernels/ops/core/kernel_settings.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

// Number of elements per block. A group uses few tensors, so the current blocks of all its tensors
// stay in the L2 cache.
constexpr int64_t kBlock = 4096;
constexpr size_t kOperandsMax = 32;
constexpr size_t kAlignment = 64;

constexpr size_t RoundUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The location of one tensor of a step.
struct Operand {
  enum Kind : uint8_t { kAbsent, kIn, kOut, kLocal };
  Kind kind = kAbsent;
  bool whole = false;  // true: a tensor of one element, the same for all blocks
  int position = 0;    // kIn, kOut: position in the kernel's arguments
  size_t offset = 0;   // kLocal: offset in the scratch memory of the part, in bytes
  size_t bytes = 0;    // size of one element in bytes
};

struct Step {
  std::vector<Operand> in, out;
  Kernel full, rest;  // `full` is prepared for blocks of kBlock elements, `rest` for the last block
};

struct Group {
  int64_t elements = 0;
  std::vector<size_t> steps;
};

struct Block {
  size_t group;
  int64_t begin, count;
};

// An output of one element whose memory is also an input. Every block of the group computes the
// value and writes it to the scratch memory of the thread, because later blocks still read the
// input from the same memory. Run copies the value to the output after all blocks have run.
struct LateResult {
  size_t group;
  size_t offset, bytes;
  int position;
};

struct State {
  std::vector<Group> groups;
  // The steps, by part. Each part has its own steps, because only one thread may use the state of a
  // kernel.
  std::vector<std::vector<Step>> steps;
  std::vector<Block> blocks;
  std::vector<LateResult> late;
  // Scratch memory of one part in bytes. The kernels use the first `kernel_bytes` bytes.
  size_t part_bytes = 0, kernel_bytes = 0;
  int parts = 1;
};

void* Address(const Operand& operand, const KernelArgs& args, std::byte* scratch, int64_t begin) {
  const size_t skip = operand.whole ? 0 : static_cast<size_t>(begin) * operand.bytes;
  switch (operand.kind) {
    case Operand::kIn:
      return static_cast<std::byte*>(const_cast<void*>(args.in[operand.position])) + skip;
    case Operand::kOut:
      return static_cast<std::byte*>(args.out[operand.position]) + skip;
    case Operand::kLocal:
      return scratch + operand.offset;
    case Operand::kAbsent:
      break;
  }
  return nullptr;
}

Status RunStep(const Step& step, const Block& block, const KernelArgs& args, std::byte* scratch) {
  std::array<const void*, kOperandsMax> in;
  std::array<void*, kOperandsMax> out;
  for (size_t i = 0; i < step.in.size(); ++i) {
    in[i] = Address(step.in[i], args, scratch, block.begin);
  }
  for (size_t i = 0; i < step.out.size(); ++i) {
    out[i] = Address(step.out[i], args, scratch, block.begin);
  }
  const Kernel& kernel = block.count == kBlock ? step.full : step.rest;
  return kernel.run({.in = in.data(),
                     .out = out.data(),
                     .scratch = scratch,
                     .state = kernel.state.get(),
                     .stream = nullptr});
}

Status RunBlocks(const State& s, int part, int64_t begin, int64_t end, const KernelArgs& args) {
  std::byte* scratch = static_cast<std::byte*>(args.scratch) + part * s.part_bytes;
  for (int64_t b = begin; b < end; ++b) {
    const Block& block = s.blocks[static_cast<size_t>(b)];
    for (const size_t i : s.groups[block.group].steps) {
      TD_RETURN_IF_ERROR(RunStep(s.steps[static_cast<size_t>(part)][i], block, args, scratch));
    }
    for (const LateResult& late : s.late) {
      if (late.group != block.group || block.begin != 0) continue;
      // New values stay in scratch memory, after the scratch memory of all parts, until all threads
      // have read the old values.
      std::copy_n(scratch + late.offset, late.bytes,
                  static_cast<std::byte*>(args.scratch) + s.parts * s.part_bytes + late.offset);
    }
  }
  return OkStatus();
}

Status Run(State& s, const KernelArgs& args) {
  std::array<Status, 64> failed;
  ParallelFor(s.parts, static_cast<int64_t>(s.blocks.size()),
              [&](int part, int64_t begin, int64_t end) {
                failed[static_cast<size_t>(part)] = RunBlocks(s, part, begin, end, args);
              });
  for (int part = 0; part < s.parts; ++part) {
    TD_RETURN_IF_ERROR(failed[static_cast<size_t>(part)]);
  }
  const std::byte* results = static_cast<std::byte*>(args.scratch) + s.parts * s.part_bytes;
  for (const LateResult& late : s.late) {
    std::copy_n(results + late.offset, late.bytes,
                static_cast<std::byte*>(args.out[late.position]));
  }
  return OkStatus();
}

// Prepares the kernel of a body, in this order: groups and blocks, locations of the values,
// kernels.
class Preparer {
 public:
  Preparer(const Body& body, int threads) : body_(body), threads_(std::clamp(threads, 1, 64)) {}
  StatusOr<Kernel> Prepare();

 private:
  void CutBlocks();
  void PlaceValues();
  bool IsWhole(const BodyStep& step, int value) const;
  Status AddStep(const BodyStep& step, std::vector<Step>* steps);
  StatusOr<Kernel> Choose(const BodyStep& step, int64_t elements);

  const Body& body_;
  const int threads_;
  State state_;
  // By value: its offset in the scratch memory of a part, after kernel_bytes.
  std::vector<size_t> local_;
  size_t local_bytes_ = 0;
};

bool Preparer::IsWhole(const BodyStep& step, int value) const {
  const auto& values = body_.values;
  return values[static_cast<size_t>(value)].desc.shape !=
         values[static_cast<size_t>(step.out[0])].desc.shape;
}

void Preparer::CutBlocks() {
  state_.groups.resize(body_.elements.size());
  int64_t cost = 0;
  for (size_t i = 0; i < body_.steps.size(); ++i) {
    Group& group = state_.groups[static_cast<size_t>(body_.steps[i].group)];
    group.elements = body_.elements[static_cast<size_t>(body_.steps[i].group)];
    group.steps.push_back(i);
    cost += group.elements;
  }
  for (size_t g = 0; g < state_.groups.size(); ++g) {
    const int64_t n = state_.groups[g].elements;
    // A group without elements also gets one block, because the block computes the group's results
    // of one element.
    for (int64_t begin = 0; begin == 0 || begin < n; begin += kBlock) {
      state_.blocks.push_back({g, begin, std::min(kBlock, n - begin)});
    }
  }
  state_.parts = PartsFor(threads_, cost);
}

void Preparer::PlaceValues() {
  local_.resize(body_.values.size());
  for (const BodyStep& step : body_.steps) {
    for (const int v : step.out) {
      if (v < 0) continue;
      const BodyValue& value = body_.values[static_cast<size_t>(v)];
      const bool whole = IsWhole(step, v);
      if (value.out >= 0 && !whole) continue;
      local_[static_cast<size_t>(v)] = local_bytes_;
      const size_t element = SizeOf(value.desc.dtype);
      local_bytes_ += RoundUp(whole ? element : element * kBlock);
    }
  }
}

StatusOr<Kernel> Preparer::Choose(const BodyStep& step, int64_t elements) {
  std::vector<TensorDesc> flat;
  std::vector<const TensorDesc*> in, out;
  flat.reserve(step.in.size() + step.out.size());
  for (const auto* side : {&step.in, &step.out}) {
    for (const int v : *side) {
      auto& descs = side == &step.in ? in : out;
      descs.push_back(nullptr);
      if (v < 0) continue;
      flat.push_back(body_.values[static_cast<size_t>(v)].desc);
      if (!IsWhole(step, v)) flat.back().shape = {elements};
      descs.back() = &flat.back();
    }
  }
  const OpView view(*step.op, *step.def, in, out);
  const KernelSettings settings;
  Status why = Unimplemented("operator %s has no kernel", step.op->type);
  for (const KernelImpl& impl : step.def->cpu_kernels()) {
    auto kernel = impl.prepare(view, PrepareContext{.settings = settings});
    if (kernel.ok()) return kernel;
    why = kernel.status();
    if (why.code() != StatusCode::kUnimplemented) break;
  }
  return why;
}

Status Preparer::AddStep(const BodyStep& step, std::vector<Step>* steps) {
  if (step.in.size() > kOperandsMax || step.out.size() > kOperandsMax) {
    return Unimplemented("this kernel does not support operator %s with more than %d tensors",
                         step.op->type, kOperandsMax);
  }
  const int64_t n = body_.elements[static_cast<size_t>(step.group)];
  Step ready;
  for (const auto* side : {&step.in, &step.out}) {
    for (const int v : *side) {
      Operand operand;
      if (v >= 0) {
        const BodyValue& value = body_.values[static_cast<size_t>(v)];
        operand.whole = IsWhole(step, v);
        operand.bytes = SizeOf(value.desc.dtype);
        const bool direct = value.out >= 0 && !operand.whole;
        operand.kind = value.in >= 0 ? Operand::kIn : direct ? Operand::kOut : Operand::kLocal;
        operand.position = value.in >= 0 ? value.in : value.out;
        operand.offset = local_[static_cast<size_t>(v)];
      }
      (side == &step.in ? ready.in : ready.out).push_back(operand);
    }
  }
  if (n >= kBlock) {
    TD_ASSIGN_OR_RETURN(ready.full, Choose(step, kBlock));
  }
  if (n % kBlock != 0 || n == 0) {
    TD_ASSIGN_OR_RETURN(ready.rest, Choose(step, n % kBlock));
  }
  state_.kernel_bytes = std::max(
      {state_.kernel_bytes, RoundUp(ready.full.scratch_bytes), RoundUp(ready.rest.scratch_bytes)});
  steps->push_back(std::move(ready));
  return OkStatus();
}

StatusOr<Kernel> Preparer::Prepare() {
  CutBlocks();
  PlaceValues();
  state_.steps.resize(static_cast<size_t>(state_.parts));
  for (auto& steps : state_.steps) {
    for (const BodyStep& step : body_.steps) TD_RETURN_IF_ERROR(AddStep(step, &steps));
  }
  for (auto& steps : state_.steps) {
    for (Step& step : steps) {
      for (auto* side : {&step.in, &step.out}) {
        for (Operand& operand : *side) operand.offset += state_.kernel_bytes;
      }
    }
  }
  for (const BodyStep& step : body_.steps) {
    for (const int v : step.out) {
      if (v < 0 || !IsWhole(step, v)) continue;
      const BodyValue& value = body_.values[static_cast<size_t>(v)];
      if (value.out < 0) continue;
      state_.late.push_back({static_cast<size_t>(step.group),
                             state_.kernel_bytes + local_[static_cast<size_t>(v)],
                             SizeOf(value.desc.dtype), value.out});
    }
  }
  state_.part_bytes = state_.kernel_bytes + local_bytes_;
  const size_t scratch = static_cast<size_t>(state_.parts + 1) * state_.part_bytes;
  return MakeKernel<State, Run>(std::move(state_), scratch);
}

}  // namespace

StatusOr<Kernel> PrepareBody(const Body& body, int threads) {
  return Preparer(body, threads).Prepare();
}

}  // namespace tandem::ops
