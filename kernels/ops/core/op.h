// The definition of an operator (slots, attributes, shapes, gradient) and its kernels.
//
// An operator named x is defined in x.cc (`constinit const OpDef kX`). Its CPU kernels are in
// x_cpu.cc, its CUDA kernels in x_cuda.cu. op_table.cc lists it. docs/contributing/recipes.md
// describes how to add one.
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

#include "common/base/require.h"
#include "common/base/status.h"
#include "common/tensor/types.h"
#include "kernels/ops/core/short_list.h"

namespace tandem {

using Attr = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                          std::vector<double>>;
using AttrMap = std::map<std::string, Attr, std::less<>>;

// The part of a step to which an operator belongs.
enum class OpRole : uint8_t { kForward, kLoss, kBackward, kComm, kOptimize, kInit };

// An operator in a program.
struct Op {
  std::string type;
  // Names of variables by slot, in the order of the OpDef's slots. An absent slot is empty. In
  // gradient operators, an empty name means that the gradient is not needed.
  std::vector<std::vector<std::string>> inputs, outputs;
  AttrMap attrs;
  OpRole role = OpRole::kForward;
  std::string source;  // where the user wrote it ("model.pbtxt:52"); empty for generated operators
  // An f32 variable of one element, read like an input. If it is 0, the operator does not run and
  // its outputs keep their values. Empty: the operator always runs.
  std::string run_if;
  // The operators inside a fused operator (OpDef::has_body), in order. Their variables are the
  // inputs and outputs of the fused operator and internal values. Bodies do not nest.
  std::vector<Op> body;
};

enum class Arity : uint8_t { kOne, kOptional, kMany };  // kMany: only the last slot

struct SlotDef {
  const char* name;
  Arity arity = Arity::kOne;
  // An input that is used only for its description. Kernels get no pointer, and no memory is kept
  // for it.
  bool shape_only = false;
};

// A default value: an Attr whose text and numbers lie in constants of the program.
using AttrDefault = std::variant<std::monostate, bool, int64_t, double, std::string_view,
                                 std::span<const int64_t>, std::span<const double>>;
static_assert(std::variant_size_v<AttrDefault> == std::variant_size_v<Attr>,
              "both have the same types in the same order");

struct AttrDef {
  const char* name;
  AttrDefault default_value;  // monostate: required
  const char* doc;
};

// Returns the default as the value of an attribute, which has the same index.
Attr ToAttr(const AttrDefault& value);

// An operator with the descriptions of its tensors, for infer and prepare. Positions are flattened
// over the slots. A kOne or kOptional slot has one position (nullptr if absent), a kMany slot has
// one per variable.
class OpView {
 public:
  OpView(const Op& op, const struct OpDef& def, std::span<const TensorDesc* const> in,
         std::span<const TensorDesc* const> out)
      : op_(op), def_(def), in_(in), out_(out) {}

  const Op& op() const { return op_; }
  size_t in_count() const { return in_.size(); }
  bool has_in(size_t i) const { return i < in_.size() && in_[i] != nullptr; }
  const TensorDesc& in(size_t i) const {
    TD_REQUIRE(has_in(i));
    return *in_[i];
  }
  // Available only when preparing a kernel. Outputs that are not needed are absent.
  size_t out_count() const { return out_.size(); }
  bool has_out(size_t i) const { return i < out_.size() && out_[i] != nullptr; }
  const TensorDesc& out(size_t i) const {
    TD_REQUIRE(has_out(i));
    return *out_[i];
  }

  // Returns the attribute or its default. REQUIRES: the OpDef declares it with type T.
  template <typename T>
  T attr(std::string_view name) const {
    const auto given = op_.attrs.find(name);
    return std::get<T>(given != op_.attrs.end() ? given->second : Default(name));
  }

  // Returns INVALID_ARGUMENT with a message that begins with the operator's type, source and
  // shapes.
  Status Error(const std::string& what) const;

 private:
  Attr Default(std::string_view name) const;

  const Op& op_;
  const OpDef& def_;
  std::span<const TensorDesc*const> in_, out_;
};

// Returns a floating-point attribute as f32.
inline float AttrF32(const OpView& view, const char* name) {
  return static_cast<float>(view.attr<double>(name));
}

// The two variables of a sparse gradient (kernels/ops/rows/sparse_rows.h). The gradient belongs to
// a variable [height, dim]. `values` [n, dim] are its rows with the numbers `rows` [n].
struct SparseGradNames {
  std::string values, rows;
};

// Writes the gradient operators of one forward operator. G(x) means the gradient of x.
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual const Op& op() const = 0;
  // Variable of the forward operator; "" if the optional slot is absent.
  std::string In(size_t slot, size_t i = 0) const;
  std::string Out(size_t slot, size_t i = 0) const;
  // Name of G(output), which is already computed; "" if no gradient flows through this output.
  virtual std::string OutGrad(size_t slot, size_t i = 0) const = 0;
  // Name for G(input); "" if it is not needed. Call once per input and then write the gradient.
  virtual std::string InGrad(size_t slot, size_t i = 0) = 0;
  // Like InGrad, for a gradient in which the operator computes only some rows.
  virtual SparseGradNames InGradSparse(size_t slot, size_t i = 0) = 0;
  // Appends an operator with role kBackward. Slots are in the order of its OpDef.
  virtual void Append(std::string type, std::vector<std::vector<std::string>> inputs,
                      std::vector<std::vector<std::string>> outputs, AttrMap attrs) = 0;
};

// ---- Kernels ------------------------------------------------------------------------------------

// The arguments of a kernel in each run. Pointers are fixed once the plan is made. Absent positions
// are nullptr. Kernels allocate no memory and never synchronise the device. They write only their
// outputs, their scratch and their own state.
struct KernelArgs {
  const void* const* in;
  void* const* out;
  void* scratch;  // Kernel::scratch_bytes, aligned to 64
  void* state;    // Kernel::state
  void* stream;   // device stream, nullptr on the CPU
};

// Kernels return errors only for bad data (a label out of range). The message does not name the
// operator, because the executor adds its type and source.
using KernelFn = Status (*)(const KernelArgs&);

// A kernel prepared for one place in one plan. Shapes and attributes are stored in `state`, so that
// a run is one call through a pointer.
struct Kernel {
  KernelFn run = nullptr;
  std::shared_ptr<void> state;
  size_t scratch_bytes = 0;
};

class CodeCache;
class Device;
struct KernelSettings;

struct PrepareContext {
  const KernelSettings& settings;  // kernels/ops/core/kernel_settings.h; for single families
  int threads = 1;                 // threads that the kernel may use
  // The device that will run the kernel; nullptr: none, so nothing can be compiled or measured.
  Device* device = nullptr;
  // kernels/ops/cuda/code_cache.h; nullptr: each kernel compiles its own code.
  CodeCache* code = nullptr;
};

// UNIMPLEMENTED, with the reason: this implementation does not support the case. The next one in
// the list is then tried.
using PrepareFn = StatusOr<Kernel> (*)(const OpView&, const PrepareContext&);

// One implementation of an operator's kernel on one kind of place.
struct KernelImpl {
  const char* name;  // "onednn", "xsmm", "plain", "cudnn", ...
  PrepareFn prepare;
};

// A row of a backend's kernel table (kernels/exec/backend.h). Implementations are in order of
// preference, plain loops last.
struct KernelRegistration {
  const char* op;
  std::vector<KernelImpl> impls;
  bool apart = false;  // no output may share memory with an input; OpDef::inplace is ignored
};

// Makes a kernel with a plain struct S as its state and `run(const S&, const KernelArgs&)` as its
// body.
template <typename S, Status (*Run)(S&, const KernelArgs&)>
Kernel MakeKernel(S state, size_t scratch_bytes = 0) {
  return Kernel{[](const KernelArgs& args) { return Run(*static_cast<S*>(args.state), args); },
                std::make_shared<S>(std::move(state)), scratch_bytes};
}

// ---- Definitions --------------------------------------------------------------------------------

// Pairs (output position, input position) that may share memory. The kernel reads element i of the
// input before it writes element i of the output, and does not read it afterwards.
using InplacePair = std::pair<int, int>;

// Lists of a definition. Their capacities are those of the longest definitions.
using SlotList = ShortList<SlotDef, 8>;
using AttrList = ShortList<AttrDef, 8>;
using InplaceList = ShortList<InplacePair, 5>;
// Implementations on the CPU, in order of preference, plain loops last.
using KernelList = ShortList<KernelImpl, 4>;

// All definitions are constants that the compiler initialises (constinit). Therefore a lookup in
// the initialiser of another file finds them complete.
struct OpDef {
  const char* type;
  const char* doc;
  SlotList inputs, outputs;
  AttrList attrs;
  // Checks inputs and attributes. Writes the description of every output position, also of outputs
  // that are not needed. The size of `outputs` is the number of output positions.
  Status (*infer)(const OpView& view, std::span<TensorDesc> outputs) = nullptr;
  // nullptr: not differentiable; an error only if a gradient must flow through it
  void (*grad)(GradContext& ctx) = nullptr;
  // Number of multiplications and additions of a run, for the profile. `view` contains the needed
  // outputs. nullptr: only the bytes moved count.
  double (*flops)(const OpView& view) = nullptr;
  const KernelList* cpu = nullptr;  // nullptr for communication operators
  InplaceList inplace;
  bool is_comm = false;  // a CommHandler (kernels/exec/comm.h) runs it, not a kernel
  // The results differ on purpose when it runs again or on other ranks. Passes never remove or
  // repeat the operator.
  bool has_side_effect = false;
  // Element i of every output depends only on element i of the inputs and on inputs of one element.
  // Outputs of one element depend only on inputs of one element. The kernels use shapes in no other
  // way. Therefore a part of the tensors gives the same bits as the whole (fused_elementwise.cc).
  bool elementwise = false;
  bool has_body = false;  // a fused operator: Op::body defines the computation

  std::span<const KernelImpl> cpu_kernels() const {
    return cpu == nullptr ? std::span<const KernelImpl>() : *cpu;
  }
};

// All operators, by type. op_table.cc lists them.
std::span<const OpDef* const> AllOps();
const OpDef* FindOp(std::string_view type);  // nullptr: unknown
// NOT_FOUND, with the most similar names: unknown type.
StatusOr<const OpDef*> GetOp(std::string_view type);

}  // namespace tandem
