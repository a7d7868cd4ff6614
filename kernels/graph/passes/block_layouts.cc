#include "kernels/graph/passes/block_layouts.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/require.h"
#include "common/tensor/types.h"
#include "kernels/graph/passes/rewrite.h"
#include "kernels/ops/core/image_layout.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

// Largest number of channels for which NCHW is kept. With so few channels, the NCHW kernels
// (conv_direct.cc) are as fast as those of the blocked layout. For 16-bit images the NCHW kernels
// widen their inputs, and are still several times as fast as oneDNN's kernels for NHWC.
constexpr int64_t kPlainChannelsMax = 24;
// Smallest number of channels for which Winograd's algorithm is used. Measured on Sapphire Rapids
// with oneDNN 2.6: with 64 channels or more, Winograd's algorithm is 1.6 to 2.7 times as fast as
// the direct algorithm, at every image size.
constexpr int64_t kWinogradChannelsMin = 64;

bool IsConv(const ops::Op& op) {
  return op.type == "conv2d" || op.type == "conv2d_grad" || op.type == "conv2d_relu";
}

bool AllOnes(const ops::Op& op, const char* attr) {
  const auto it = op.attrs.find(attr);
  return it == op.attrs.end() ||
         std::get<std::vector<int64_t>>(it->second) == std::vector<int64_t>{1, 1};
}

// Returns true if the convolution `op` is fastest in NCHW.
bool HasFewChannels(const Program& program, const ops::Op& op) {
  TD_REQUIRE(IsConv(op));
  const TensorDesc& x = program.FindVar(op.inputs[0][0])->desc;
  const Shape& filter = program.FindVar(op.inputs[1][0])->desc.shape;
  if (std::max(x.shape[1], filter[0]) > kPlainChannelsMax) return false;
  return !IsHalf(x.dtype) || (filter[1] == x.shape[1] && AllOnes(op, "strides"));
}

// Returns true for operators with the attribute data_layout. All images of such an operator have
// the same layout.
bool HasDataLayout(const ops::Op& op) {
  const auto& attrs = ops::FindOp(op.type)->attrs;
  return std::any_of(attrs.begin(), attrs.end(), [](const ops::AttrDef& attr) {
    return std::string_view(attr.name) == "data_layout";
  });
}

class Blocker {
 public:
  Blocker(Program& program, PlaceKind place)
      : program_(program), place_(place), before_(std::move(program.ops)) {
    program_.ops.clear();
  }

  // Returns the number of convolutions that were changed. After an error the program is unusable.
  StatusOr<int64_t> Run();

 private:
  // Returns true if `name` is an image with several pixels. With one pixel, all layouts are equal.
  bool IsImage(const std::string& name) const;
  bool IsHalfImage(const std::string& name) const;
  // Returns the layout that a pass may choose instead of NCHW: channels last for 16-bit images,
  // else blocks of 16 channels.
  std::string FastLayout(const std::string& name) const {
    return IsHalfImage(name) ? ops::kLastLayout : ops::kBlockedLayout;
  }
  bool CanBlock(const std::string& name) const;
  // Returns true if element i of each output depends only on element i of the inputs, and all
  // shapes are equal.
  bool IsElementwise(const ops::Op& op) const;
  bool ReadsBlocked(const ops::Op& op) const;
  bool AllCanBlock(const ops::Op& op) const;
  Status Convolution(ops::Op op);
  bool ForDevice(const ops::Op& op) const;
  Status DeviceConvolution(ops::Op op);
  Status InLayout(ops::Op op, bool blocked);
  StatusOr<std::string> Reordered(const std::string& name, bool blocked, ops::OpRole role);
  void SetLayout(ops::Op& op, const char* attr, const std::string& name) const;
  Status Append(ops::Op op, const std::set<std::string>& blocked_outputs);

  Program& program_;
  const PlaceKind place_;
  const std::vector<ops::Op> before_;
  std::set<std::string> blocked_;              // variables stored in their FastLayout
  std::map<std::string, std::string> copies_;  // by variable: its copy in the other layout
  int64_t convolutions_ = 0;
};

bool Blocker::IsHalfImage(const std::string& name) const {
  return IsImage(name) && IsHalf(program_.FindVar(name)->desc.dtype);
}

bool Blocker::IsImage(const std::string& name) const {
  const Var* var = name.empty() ? nullptr : program_.FindVar(name);
  if (var == nullptr) return false;
  if (var->desc.dtype != DType::kF32 && !IsHalf(var->desc.dtype)) return false;
  const Shape& s = var->desc.shape;
  return s.rank() == 4 && s[2] * s[3] > 1;
}

bool Blocker::CanBlock(const std::string& name) const {
  TD_REQUIRE(IsImage(name));
  const Var& var = *program_.FindVar(name);
  const bool fits = IsHalf(var.desc.dtype) ||
                    (place_ == PlaceKind::kCpu && var.desc.shape[1] % ops::kLayoutBlock == 0);
  return fits && MayVanish(program_, name);
}

bool Blocker::IsElementwise(const ops::Op& op) const {
  const ops::OpDef& def = *ops::FindOp(op.type);
  const bool pointwise =
      def.elementwise || def.has_body || op.type.starts_with("fused_elemwise_activation");
  if (!pointwise || !op.run_if.empty() || op.inputs.empty() || op.inputs[0].empty()) return false;
  const TensorDesc& first = program_.FindVar(op.inputs[0][0])->desc;
  bool same = true;
  const auto check = [&](const std::string& name) {
    same &= program_.FindVar(name)->desc == first;
  };
  ForEachRead(op, check);
  ForEachWrite(op, check);
  return same;
}

bool Blocker::ReadsBlocked(const ops::Op& op) const {
  bool found = false;
  ForEachRead(op, [&](const std::string& name) { found |= blocked_.contains(name); });
  return found;
}

bool Blocker::AllCanBlock(const ops::Op& op) const {
  bool can = true;
  const auto check = [&](const std::string& name) { can &= !IsImage(name) || CanBlock(name); };
  ForEachWrite(op, check);
  return can;
}

// Returns a variable with the value of `name` in the fast layout (if `blocked` is true) or in NCHW.
// The result is `name` if `name` has this layout, otherwise a copy that an appended reorder writes.
StatusOr<std::string> Blocker::Reordered(const std::string& name, bool blocked, ops::OpRole role) {
  if (!IsImage(name) || blocked_.contains(name) == blocked) return name;
  if (const auto it = copies_.find(name); it != copies_.end()) return it->second;
  const std::string copy = program_.FreshName(name + (blocked ? "@BLOCKED" : "@PLAIN"));
  ops::Op op{.type = "reorder",
             .inputs = {{name}},
             .outputs = {{copy}},
             .attrs = {{"from", blocked ? ops::kPlainLayout : FastLayout(name)},
                       {"to", blocked ? FastLayout(name) : ops::kPlainLayout}},
             .role = role};
  TD_RETURN_IF_ERROR(AppendOp(program_, std::move(op)));
  if (blocked) blocked_.insert(copy);
  return copies_[name] = copy;
}

void Blocker::SetLayout(ops::Op& op, const char* attr, const std::string& name) const {
  op.attrs[attr] = blocked_.contains(name) ? FastLayout(name) : ops::kPlainLayout;
}

Status Blocker::Append(ops::Op op, const std::set<std::string>& blocked_outputs) {
  ForEachWrite(op, [&](const std::string& name) {
    copies_.erase(name);
    blocked_.erase(name);
  });
  blocked_.insert(blocked_outputs.begin(), blocked_outputs.end());
  return AppendOp(program_, std::move(op));
}

// Appends `op`, which is no convolution, to the new program. All images of `op` get the same
// layout.
Status Blocker::InLayout(ops::Op op, bool blocked) {
  for (auto& slot : op.inputs) {
    for (std::string& name : slot) {
      TD_ASSIGN_OR_RETURN(name, Reordered(name, blocked, op.role));
    }
  }
  std::set<std::string> outputs;
  if (blocked) {
    ForEachWrite(op, [&](const std::string& name) {
      if (IsImage(name)) outputs.insert(name);
    });
    if (HasDataLayout(op)) op.attrs["data_layout"] = FastLayout(op.inputs[0][0]);
  }
  return Append(std::move(op), outputs);
}

// Appends `op`, a convolution on the CPU or its gradient, to the new program. Input and Output may
// have different layouts. Output gets the layout in which the convolution is fastest. The gradient
// of Input gets the layout of Input.
Status Blocker::Convolution(ops::Op op) {
  const bool grad = op.type == "conv2d_grad";
  const std::string x = op.inputs[0][0];
  const Shape& filter = program_.FindVar(op.inputs[1][0])->desc.shape;
  const int64_t in_c = program_.FindVar(x)->desc.shape[1], out_c = filter[0];
  const bool half = IsHalf(program_.FindVar(x)->desc.dtype);
  const bool small = HasFewChannels(program_, op);
  std::set<std::string> outputs;
  SetLayout(op, "input_layout", x);
  if (grad) {
    SetLayout(op, "output_layout", op.inputs[2][0]);
    const std::string gx = op.outputs[0].empty() ? "" : op.outputs[0][0];
    if (!gx.empty() && blocked_.contains(x)) outputs.insert(gx);
  } else {
    const std::string& y = op.outputs[0][0];
    if (IsImage(y) && CanBlock(y) && !small) outputs.insert(y);
    op.attrs["output_layout"] = outputs.empty() ? ops::kPlainLayout : FastLayout(y);
  }
  const bool square = !half && filter[2] == 3 && filter[3] == 3 && filter[1] == in_c;
  if (square && std::min(in_c, out_c) >= kWinogradChannelsMin && AllOnes(op, "strides") &&
      AllOnes(op, "dilations")) {
    op.attrs["algorithm"] = std::string("winograd");
  }
  ++convolutions_;
  return Append(std::move(op), outputs);
}

// Returns true if cuDNN has fast channels-last kernels for the convolution `op`.
bool Blocker::ForDevice(const ops::Op& op) const {
  if (!IsHalfImage(op.inputs[0][0])) return false;
  const std::string result = op.outputs[0].empty() ? "" : op.outputs[0][0];
  return !IsImage(result) || CanBlock(result);
}

// Appends `op`, a convolution on a device or its gradient, to the new program. Input, Output and
// their gradients have the same layout. The layout of the filter does not change.
Status Blocker::DeviceConvolution(ops::Op op) {
  const bool last = ForDevice(op);
  for (const size_t slot : {size_t{0}, size_t{2}}) {
    const bool images = slot == 0 || op.type == "conv2d_grad";
    if (!images || op.inputs.size() <= slot || op.inputs[slot].empty()) continue;
    TD_ASSIGN_OR_RETURN(op.inputs[slot][0], Reordered(op.inputs[slot][0], last, op.role));
  }
  std::set<std::string> outputs;
  if (last) {
    op.attrs["input_layout"] = op.attrs["output_layout"] = std::string(ops::kLastLayout);
    if (!op.outputs[0].empty() && IsImage(op.outputs[0][0])) outputs.insert(op.outputs[0][0]);
    ++convolutions_;
  }
  return Append(std::move(op), outputs);
}

StatusOr<int64_t> Blocker::Run() {
  for (const ops::Op& op : before_) {
    if (IsConv(op) && op.run_if.empty()) {
      TD_RETURN_IF_ERROR(place_ == PlaceKind::kCpu ? Convolution(op) : DeviceConvolution(op));
      continue;
    }
    const bool follows = (HasDataLayout(op) && op.run_if.empty()) || IsElementwise(op);
    const bool blocked = follows && ReadsBlocked(op) && AllCanBlock(op);
    TD_RETURN_IF_ERROR(InLayout(op, blocked));
  }
  return convolutions_;
}

}  // namespace

StatusOr<PassOutcome> BlockLayouts(Program& program, PassContext& context) {
  if (context.place != PlaceKind::kCpu) return PassOutcome{0, "only for programs on CPU"};
  const auto& types = context.strategy.build_strategy().mkldnn_enabled_op_types();
  for (const char* type : {"conv2d", "conv2d_grad"}) {
    if (types.empty() || std::find(types.begin(), types.end(), type) != types.end()) continue;
    return PassOutcome{0, std::string("mkldnn_enabled_op_types does not contain ") + type};
  }
  const bool large = std::any_of(program.ops.begin(), program.ops.end(), [&](const ops::Op& op) {
    if (op.type != "conv2d") return false;
    const TensorDesc& filter = program.FindVar(op.inputs[1][0])->desc;
    if (IsHalf(filter.dtype)) return !HasFewChannels(program, op);
    return filter.shape[0] > kPlainChannelsMax && filter.shape[0] % ops::kLayoutBlock == 0;
  });
  if (!large) {
    return PassOutcome{0, absl::StrFormat("no convolution has a multiple of %d channels above %d",
                                          ops::kLayoutBlock, kPlainChannelsMax)};
  }
  TD_ASSIGN_OR_RETURN(const int64_t convolutions, Blocker(program, context.place).Run());
  return PassOutcome{convolutions, ""};
}

StatusOr<PassOutcome> ChannelsLast(Program& program, PassContext& context) {
  if (context.place == PlaceKind::kCpu)
    return PassOutcome{0, "on CPU use_mkldnn determines the layouts"};
  TD_ASSIGN_OR_RETURN(const int64_t convolutions, Blocker(program, context.place).Run());
  if (convolutions > 0) return PassOutcome{convolutions, ""};
  return PassOutcome{0, "no convolution has 16-bit images"};
}

}  // namespace tandem::graph
