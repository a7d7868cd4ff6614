// The definition of an operator (slots, attributes, shapes, gradient) and its kernel interface.
//
// Operator x is defined in x.cc (`constinit const OpDef kX`). Its CPU kernels are in x_cpu.cc, its
// CUDA kernels in x_cuda.cu. op_table.cc lists all operators. docs/contributing/recipes.md
// describes how to add an operator.
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
class Device;
}  // namespace tandem

namespace tandem::ops {

using Attr = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                          std::vector<double>>;
using AttrMap = std::map<std::string, Attr, std::less<>>;

// The part of a training step to which an operator belongs.
enum class OpRole : uint8_t { kForward, kLoss, kBackward, kComm, kOptimize, kInit };

// An operator of a program.
struct Op {
  std::string type;
  // Names of variables: one list per slot, in the order of the OpDef's slots. The list of an absent
  // slot is empty. In a gradient operator, an empty name means that this gradient is not needed.
  std::vector<std::vector<std::string>> inputs, outputs;
  AttrMap attrs;
  OpRole role = OpRole::kForward;
  // position in the user's file ("model.pbtxt:52"); empty: the operator is generated
  std::string source;
  // Name of the condition: an f32 variable of one element, which is read like an input. If its
  // value is 0, the operator does not run and its outputs keep their values. Empty: the operator
  // always runs.
  std::string run_if;
  // The operators inside a fused operator (OpDef::has_body), in order. Their variables are inputs,
  // outputs and internal values of the fused operator. These operators have no body themselves.
  // Empty: OpDef::has_body is false.
  std::vector<Op> body;
};

enum class Arity : uint8_t { kOne, kOptional, kMany };  // kMany is only allowed for the last slot

struct SlotDef {
  const char* name;
  Arity arity = Arity::kOne;
  // If true, only the description of the input is used. Kernels get nullptr for this input, and the
  // plan reserves no memory for it.
  bool shape_only = false;
};

// A default value: like an Attr, but texts and lists are views of constants in the program's code.
using AttrDefault = std::variant<std::monostate, bool, int64_t, double, std::string_view,
                                 std::span<const int64_t>, std::span<const double>>;
static_assert(std::variant_size_v<AttrDefault> == std::variant_size_v<Attr>,
              "both have the same types in the same order");

struct AttrDef {
  const char* name;
  AttrDefault default_value;  // monostate: the attribute is required and has no default
  const char* doc;
};

// Returns the default as the value of an attribute. Both variants have the same index.
Attr ToAttr(const AttrDefault& value);

// An operator with the descriptions of its tensors, for infer and prepare. Tensors are numbered by
// position, over all slots in order. A kOne or kOptional slot has one position (nullptr if absent).
// A kMany slot has one position per variable.
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
  // Descriptions of the outputs, which are available only while a kernel is prepared. An output
  // that is not needed is absent.
  size_t out_count() const { return out_.size(); }
  bool has_out(size_t i) const { return i < out_.size() && out_[i] != nullptr; }
  const TensorDesc& out(size_t i) const {
    TD_REQUIRE(has_out(i));
    return *out_[i];
  }

  // Returns the value of attribute `name`, or the default if the attribute is not set. REQUIRES:
  // the OpDef declares the attribute with type T.
  template <typename T>
  T attr(std::string_view name) const {
    const auto given = op_.attrs.find(name);
    return std::get<T>(given != op_.attrs.end() ? given->second : Default(name));
  }

  // Returns INVALID_ARGUMENT. The message contains the operator's type, source position and shapes,
  // followed by `what`.
  Status Error(const std::string& what) const;

 private:
  Attr Default(std::string_view name) const;

  const Op& op_;
  const OpDef& def_;
  std::span<const TensorDesc*const> in_, out_;
};

// Returns the attribute `name`, a double, as f32.
inline float AttrF32(const OpView& view, const char* name) {
  return static_cast<float>(view.attr<double>(name));
}

// The names of the two variables of a sparse gradient (kernels/ops/rows/sparse_rows.h). The
// gradient belongs to a variable [height, dim] and has n rows. `values` [n, dim] contains the rows,
// `rows` [n] contains their row numbers.
struct SparseGradNames {
  std::string values, rows;
};

// Writes the gradient operators of one forward operator. In the comments below, G(x) is the
// gradient of x.
class GradContext {
 public:
  virtual ~GradContext() = default;
  virtual const Op& op() const = 0;
  // Returns the name of an input variable of the forward operator; "" if the optional slot is
  // absent.
  std::string In(size_t slot, size_t i = 0) const;
  std::string Out(size_t slot, size_t i = 0) const;
  // Returns the name of the gradient of an output; "" if no gradient flows through this output. The
  // program computes this gradient before the operators that Append adds.
  virtual std::string OutGrad(size_t slot, size_t i = 0) const = 0;
  // Returns the name for G(input); "" if G(input) is not needed. The caller calls InGrad at most
  // once per input. If the name is not "", the caller must append an operator that writes G(input).
  virtual std::string InGrad(size_t slot, size_t i = 0) = 0;
  // Like InGrad, but returns the names for a sparse G(input). The operator computes only some rows
  // of G(input).
  virtual SparseGradNames InGradSparse(size_t slot, size_t i = 0) = 0;
  // Appends an operator with role kBackward. `inputs` and `outputs` are in the order of the slots
  // in the operator's OpDef.
  virtual void Append(std::string type, std::vector<std::vector<std::string>> inputs,
                      std::vector<std::vector<std::string>> outputs, AttrMap attrs) = 0;
};

// ---- Kernels ------------------------------------------------------------------------------------

// The arguments of a kernel. Inputs and outputs are pointers by position, nullptr if absent.
// Between runs, only the pointers to data variables may change (Plan::Readers). Kernels allocate no
// memory and never synchronise the device. They write only to their outputs, scratch memory and
// state.
struct KernelArgs {
  const void* const* in;
  void* const* out;
  void* scratch;  // memory of Kernel::scratch_bytes bytes, aligned to 64 bytes
  void* state;    // points to Kernel::state
  void* stream;   // stream of the device; nullptr on the CPU
};

// The function of a kernel. Returns an error only for bad data, such as a label out of range. The
// error message does not name the operator, because the executor adds type and source position.
using KernelFn = Status (*)(const KernelArgs&);

// A kernel that is prepared for one place in one plan. `state` contains shapes and attributes, so
// that a run is one call through a pointer.
struct Kernel {
  KernelFn run = nullptr;
  std::shared_ptr<void> state;
  size_t scratch_bytes = 0;
};

class CodeCache;
struct KernelSettings;

struct PrepareContext {
  // Settings that only some kernels read (kernels/ops/core/kernel_settings.h).
  const KernelSettings& settings;
  int threads = 1;  // number of threads that the kernel may use
  // The device that will run the kernel. nullptr: there is no device, so nothing can be compiled or
  // measured.
  Device* device = nullptr;
  // Cache of compiled kernels (kernels/ops/cuda/code_cache.h). nullptr: each kernel compiles its
  // own code.
  CodeCache* code = nullptr;
};

// Prepares a kernel for an operator. UNIMPLEMENTED, with the reason: this implementation does not
// support the case. The plan then tries the operator's next implementation.
using PrepareFn = StatusOr<Kernel> (*)(const OpView&, const PrepareContext&);

// One implementation of an operator's kernel on one kind of place.
struct KernelImpl {
  const char* name;  // name of the implementation: "onednn", "xsmm", "plain", "cudnn", ...
  PrepareFn prepare;
};

// A row of a backend's kernel table (kernels/exec/backend.h): the implementations of one operator.
// The preferred one comes first, plain loops come last.
struct KernelRegistration {
  const char* op;
  std::vector<KernelImpl> impls;
  // If true, no output may share memory with an input, even if OpDef::inplace allows it.
  bool apart = false;
};

// Makes a kernel with state S and the function Run(S&, const KernelArgs&).
template <typename S, Status (*Run)(S&, const KernelArgs&)>
Kernel MakeKernel(S state, size_t scratch_bytes = 0) {
  return Kernel{[](const KernelArgs& args) { return Run(*static_cast<S*>(args.state), args); },
                std::make_shared<S>(std::move(state)), scratch_bytes};
}

// ---- Definitions of operators -------------------------------------------------------------------

// (output position, input position) of two tensors that may share memory. The kernel must read
// element i of the input before it writes element i of the output, and must not read this element
// again after the write.
using InplacePair = std::pair<int, int>;

// Lists in a definition. A capacity is the length of the longest list.
using SlotList = ShortList<SlotDef, 8>;
using AttrList = ShortList<AttrDef, 8>;
using InplaceList = ShortList<InplacePair, 5>;
// The implementations of an operator on the CPU. The preferred one comes first, plain loops come
// last.
using KernelList = ShortList<KernelImpl, 4>;

// The definition of an operator. All definitions are constants that the compiler initialises
// (constinit). Therefore definitions are complete when initialisers of other files look them up.
struct OpDef {
  const char* type;
  const char* doc;
  SlotList inputs, outputs;
  AttrList attrs;
  // Checks inputs and attributes. Writes the description of every output position, even of outputs
  // that are not needed. `outputs` has one element per output position.
  Status (*infer)(const OpView& view, std::span<TensorDesc> outputs) = nullptr;
  // Writes the gradient operators. nullptr: the operator has no gradient, which is an error only if
  // a gradient must flow through it.
  void (*grad)(GradContext& ctx) = nullptr;
  // Returns the number of multiplications and additions of one run, for the profile. `view`
  // contains only the outputs that are needed. nullptr: the operator only moves memory.
  double (*flops)(const OpView& view) = nullptr;
  // The implementations on the CPU. nullptr for communication operators.
  const KernelList* cpu = nullptr;
  InplaceList inplace;
  // If true, a CommHandler (kernels/exec/comm.h) runs the operator, and no kernel does.
  bool is_comm = false;
  // If true, the result differs on purpose when the operator runs again or on another rank. Passes
  // never remove or repeat such an operator.
  bool has_side_effect = false;
  // If true, element i of every output depends only on element i of the inputs and on inputs of one
  // element. An output of one element depends only on inputs of one element. The result depends on
  // shapes in no other way. Therefore a kernel that runs on a part of the tensors computes the same
  // bits as on the whole tensors (fused_elementwise.cc).
  bool elementwise = false;
  bool has_body = false;  // true: a fused operator, whose computation is in Op::body

  std::span<const KernelImpl> cpu_kernels() const {
    return cpu == nullptr ? std::span<const KernelImpl>() : *cpu;
  }
};

// Returns the definitions of all operators, ordered by type. op_table.cc lists them.
std::span<const OpDef* const> AllOps();
const OpDef* FindOp(std::string_view type);  // nullptr: there is no operator of this type
// Returns the definition of operator `type`. NOT_FOUND: there is no such operator; the message
// names the most similar types.
StatusOr<const OpDef*> GetOp(std::string_view type);

}  // namespace tandem::ops
