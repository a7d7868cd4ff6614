// What an operator is: its definition (slots, attributes, shapes, gradient) and its kernels.
//
// An operator named x is defined in x.cc (`const OpDef kX`), its CPU kernels live in x_cpu.cc, its
// CUDA kernels in x_cuda.cu; op_table.cc lists it. docs/adding.md has the recipe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem {

using Attr = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                          std::vector<double>>;
using AttrMap = std::map<std::string, Attr, std::less<>>;

// Which part of a step an operator belongs to.
enum class OpRole : uint8_t { kForward, kLoss, kBackward, kComm, kOptimize, kInit };

// An operator in a program.
struct Op {
  std::string type;
  // Names of variables by slot, in the order of the OpDef's slots. An absent slot is empty;
  // in gradient operators an empty name stands for a gradient that is not needed.
  std::vector<std::vector<std::string>> inputs, outputs;
  AttrMap attrs;
  OpRole role = OpRole::kForward;
  std::string source;  // where the user wrote it ("model.pbtxt:52"); empty for generated ones
  // f32 variable of one element, read like an input: while it is 0 the operator is not run and what
  // it would write keeps its value. Empty: the operator is always run.
  std::string run_if;
  // What a fused operator (OpDef::has_body) stands for, in order, over the names of its own inputs
  // and outputs and of values inside; one level deep.
  std::vector<Op> body;
};

enum class Arity : uint8_t { kOne, kOptional, kMany };  // kMany: only as the last slot

struct SlotDef {
  const char* name;
  Arity arity = Arity::kOne;
  // An input of which the description alone is used: kernels get no pointer, and no memory is kept
  // for it.
  bool shape_only = false;
};

struct AttrDef {
  const char* name;
  Attr default_value;  // monostate: must be given
  const char* doc;
};

// An operator together with the descriptions of its tensors: what infer and prepare look at.
// Positions are flattened over the slots: one position for a kOne or kOptional slot (nullptr when
// absent), one per variable for a kMany slot.
class OpView {
 public:
  OpView(const Op& op, const struct OpDef& def, std::span<const TensorDesc* const> in,
         std::span<const TensorDesc* const> out)
      : op_(op), def_(def), in_(in), out_(out) {}

  const Op& op() const { return op_; }
  size_t in_count() const { return in_.size(); }
  bool has_in(size_t i) const { return i < in_.size() && in_[i] != nullptr; }
  const TensorDesc& in(size_t i) const { return *in_[i]; }
  // Only when preparing a kernel; outputs that are not needed are absent.
  size_t out_count() const { return out_.size(); }
  bool has_out(size_t i) const { return i < out_.size() && out_[i] != nullptr; }
  const TensorDesc& out(size_t i) const { return *out_[i]; }

  // The attribute, or its default. REQUIRES: declared in the OpDef with type T.
  template <typename T>
  T attr(std::string_view name) const {
    return std::get<T>(Find(name));
  }

  // INVALID_ARGUMENT that begins with the operator's type, its source and its shapes.
  Status Error(const std::string& what) const;

 private:
  const Attr& Find(std::string_view name) const;

  const Op& op_;
  const OpDef& def_;
  std::span<const TensorDesc*const> in_, out_;
};

// The two variables of a sparse gradient (kernels/ops/rows/sparse_rows.h): `values` [n, dim] are
// the rows numbered `rows` [n] of the gradient of a variable [height, dim].
struct SparseGradNames {
  std::string values, rows;
};

// Writes the gradient operators of one forward operator. `G(x)` stands for the gradient of x.
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual const Op& op() const = 0;
  // Variable of the forward operator; "" when the optional slot is absent.
  std::string In(size_t slot, size_t i = 0) const;
  std::string Out(size_t slot, size_t i = 0) const;
  // Name of G(output), already computed; "" when nothing flows back through this output.
  virtual std::string OutGrad(size_t slot, size_t i = 0) const = 0;
  // Name to write G(input) to; "" when it is not needed. Ask once per input, then write it.
  virtual std::string InGrad(size_t slot, size_t i = 0) = 0;
  // The same for a gradient of which the operator gives a few rows alone.
  virtual SparseGradNames InGradSparse(size_t slot, size_t i = 0) = 0;
  // Adds an operator with role kBackward. Slots in the order of its OpDef.
  virtual void Append(std::string type, std::vector<std::vector<std::string>> inputs,
                      std::vector<std::vector<std::string>> outputs, AttrMap attrs) = 0;
};

// ---- Kernels ------------------------------------------------------------------------------------

// What a kernel gets at each run. Pointers are fixed once the plan is made; absent positions are
// nullptr. Kernels allocate nothing, never synchronise the device, and write nothing but their
// outputs, their scratch and their own state.
struct KernelArgs {
  const void* const* in;
  void* const* out;
  void* scratch;  // Kernel::scratch_bytes, aligned to 64
  void* state;    // Kernel::state
  void* stream;   // device stream, nullptr on the CPU
};

// Errors are for what data can cause (a label out of range); they name the operator by themselves
// not at all: the executor adds its type and source.
using KernelFn = Status (*)(const KernelArgs&);

// A kernel made ready for one place in one plan: shapes and attributes are already baked into
// `state`, so that a run is one call through a pointer.
struct Kernel {
  KernelFn run = nullptr;
  std::shared_ptr<void> state;
  size_t scratch_bytes = 0;
};

class ConvSearch;
class Device;

class CodeCache;

struct PrepareContext {
  int threads = 1;                     // how many threads the kernel may use
  size_t conv_scratch_max = SIZE_MAX;  // bytes that an algorithm of a convolution may use
  // Measures the algorithms of convolutions (kernels/ops/conv/conv_search.h); nullptr: by rule.
  ConvSearch* conv_search = nullptr;
  // On CUDA: f32 matrix products may be of TF32, and cuDNN's batch normalisation is its persistent
  // one.
  bool tensor_op_math = false, persistent_batch_norm = true;
  // Where the kernel is to run; nullptr: nowhere, so that nothing can be compiled or measured.
  Device* device = nullptr;
  CodeCache* code =
      nullptr;  // kernels/ops/cuda/code_cache.h; nullptr: every kernel compiles its own
};

// UNIMPLEMENTED (with the reason) when this implementation does not serve this case: the next one
// in the list is asked.
using PrepareFn = StatusOr<Kernel> (*)(const OpView&, const PrepareContext&);

// One implementation of an operator's kernel on one kind of place.
struct KernelImpl {
  const char* name;  // "onednn", "xsmm", "plain", "cudnn", ...
  PrepareFn prepare;
};

// A row of a backend's kernel table (kernels/exec/backend.h): implementations in order of
// preference, plain loops last.
struct KernelRegistration {
  const char* op;
  std::vector<KernelImpl> impls;
  bool apart = false;  // no output may lie in the place of an input: OpDef::inplace does not hold
};

// A kernel whose state is a plain struct S and whose body is `run(const S&, const KernelArgs&)`.
template <typename S, Status (*Run)(S&, const KernelArgs&)>
Kernel MakeKernel(S state, size_t scratch_bytes = 0) {
  return Kernel{[](const KernelArgs& args) { return Run(*static_cast<S*>(args.state), args); },
                std::make_shared<S>(std::move(state)), scratch_bytes};
}

// ---- Definitions --------------------------------------------------------------------------------

// Pairs (output position, input position) that may share memory: the kernel reads element i of the
// input before it writes element i of the output, and nothing of that input later.
using InplacePairs = std::vector<std::pair<int, int>>;

struct OpDef {
  const char* type;
  const char* doc;
  std::vector<SlotDef> inputs, outputs;
  std::vector<AttrDef> attrs;
  // Checks inputs and attributes and gives the description of every output position (also of those
  // nobody needs). `outputs` comes sized to the number of output positions.
  Status (*infer)(const OpView& view, std::span<TensorDesc> outputs) = nullptr;
  // nullptr: not differentiable (an error only if a gradient must flow through it).
  void (*grad)(GradContext& ctx) = nullptr;
  // Multiplications and additions of a run, for the profile; nullptr: it is the memory moved that
  // counts. `view` with the outputs that are wanted.
  double (*flops)(const OpView& view) = nullptr;
  std::vector<KernelImpl> cpu;  // empty for communication operators
  InplacePairs inplace;
  bool is_comm = false;  // run by a CommHandler (kernels/exec/comm.h) instead of a kernel
  // Gives other results when run again or on other ranks on purpose; never eliminated or repeated.
  bool has_side_effect = false;
  // Element i of every output depends on element i of the inputs alone, besides inputs of one
  // element; outputs of one element depend on such inputs alone. The kernels look at shapes in no
  // other way, so a piece of the tensors gives the same bits as the whole (fused_elementwise.cc).
  bool elementwise = false;
  bool has_body = false;  // a fused operator: Op::body says what it computes
};

// All operators, by type. Explicit: op_table.cc.
std::span<const OpDef* const> AllOps();
const OpDef* FindOp(std::string_view type);  // nullptr when unknown
// NOT_FOUND with the nearest names when unknown.
StatusOr<const OpDef*> GetOp(std::string_view type);

}  // namespace tandem
