#include "kernels/graph/passes/amp.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/check.h"
#include "kernels/graph/passes/rewrite.h"
#include "kernels/graph/variable_hint.h"
#include "kernels/ops/cpu/fast_half.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

enum class List : uint8_t { kWhite, kGray, kBlack };

struct Row {
  const char* type;
  List list;
  uint32_t f32_slots = 0;  // bit s is set if input slot s is always f32
};

// The white and gray lists. All other operators are on the black list. Paddle's black list has
// mean, sum, the softmaxes and the cross entropies, which are not in this table. `fc` is Paddle's
// mul.
constexpr uint32_t kStatistics = 0b11110;  // bits of the input slots Scale, Bias, Mean and Variance
constexpr Row kRows[] = {
    {"conv2d", List::kWhite, 0b100},  // bit of the input slot Bias
    {"fc", List::kWhite, 0b100},      // bit of the input slot Bias
    {"fused_attention", List::kWhite},
    {"matmul", List::kWhite},
    {"batch_norm", List::kGray, kStatistics},
    {"concat", List::kGray},
    {"dropout", List::kGray},
    {"elementwise_add", List::kGray},
    {"elementwise_div", List::kGray},
    {"elementwise_max", List::kGray},
    {"elementwise_mul", List::kGray},
    {"elementwise_sub", List::kGray},
    {"fused_bn_add_activation", List::kGray, kStatistics},
    {"fused_elemwise_activation", List::kGray},
    {"pool2d", List::kGray},
    {"relu", List::kGray},
    {"reshape", List::kGray},
    {"scale", List::kGray},
    {"sigmoid", List::kGray},
    {"slice", List::kGray},
    {"split", List::kGray},
    {"tanh", List::kGray},
    {"transpose", List::kGray},
};

// Pairs of Paddle's and Tandem's name of an operator, if the two names differ.
constexpr std::pair<const char*, const char*> kPaddleNames[] = {{"mul", "fc"},
                                                                {"matmul_v2", "matmul"},
                                                                {"reshape2", "reshape"},
                                                                {"flatten2", "reshape"},
                                                                {"transpose2", "transpose"}};

std::string OurName(const std::string& type) {
  for (const auto& [theirs, ours] : kPaddleNames) {
    if (type == theirs) return ours;
  }
  return type;
}

const Row* FindRow(const std::string& type) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&type](const Row& r) { return type == r.type; });
  return row == std::end(kRows) ? nullptr : row;
}

// The width of the floating-point numbers with which an operator computes.
enum class Width : uint8_t { kAny, kHalf, kFull };  // kAny: the width of the operator's inputs

class Rewriter {
 public:
  Rewriter(Program& program, DType half) : program_(program), half_(half) {}

  Status ReadLists(const AmpConfigs& configs);
  // Inserts the casts. Returns the number of operators that got 16-bit inputs.
  StatusOr<int64_t> Run();

 private:
  List ListOf(const std::string& type) const;
  bool MustBeFull(const ops::Op& op) const;
  Width WidthOf(const ops::Op& op) const;
  Status CastInputs(ops::Op& op, Width width);
  StatusOr<std::string> Cast(const std::string& name, DType to);

  Program& program_;
  const DType half_;
  std::map<std::string, List> custom_;
  std::set<std::string> black_vars_;
  // By variable: the width of the operator that wrote it.
  std::map<std::string, Width> written_;
  // By variable: its copy with the other element type.
  std::map<std::string, std::string> copies_;
};

Status Rewriter::ReadLists(const AmpConfigs& configs) {
  const auto read = [this](const auto& types, const char* knob, List list) -> Status {
    for (const std::string& type : types) {
      TD_RETURN_IF_ERROR(Annotate(ops::GetOp(OurName(type)).status(), knob));
      custom_[OurName(type)] = list;
    }
    return OkStatus();
  };
  TD_RETURN_IF_ERROR(read(configs.custom_white_list(), "custom_white_list", List::kWhite));
  TD_RETURN_IF_ERROR(read(configs.custom_black_list(), "custom_black_list", List::kBlack));
  for (const std::string& name : configs.custom_black_varnames()) {
    if (program_.FindVar(name) == nullptr) {
      return NotFound("custom_black_varnames: the program has no variable \"%s\" [TD1205]%s", name,
                      OrVariableMeant(program_, name));
    }
    black_vars_.insert(name);
  }
  return OkStatus();
}

List Rewriter::ListOf(const std::string& type) const {
  if (const auto it = custom_.find(type); it != custom_.end()) return it->second;
  const Row* row = FindRow(type);
  return row == nullptr ? List::kBlack : row->list;
}

// Returns true if `op` must compute in f32. This applies to operators that read or write a variable
// of custom_black_varnames, or write the loss or a metric. It also applies to operators that write
// a persistent variable and have no Row::f32_slots.
bool Rewriter::MustBeFull(const ops::Op& op) const {
  bool full = false;
  ForEachRead(op, [&](const std::string& name) { full |= black_vars_.contains(name); });
  const Row* row = FindRow(op.type);
  ForEachWrite(op, [&](const std::string& name) {
    const bool kept = program_.FindVar(name)->kind != VarKind::kTemp;
    full |= black_vars_.contains(name) || (kept && (row == nullptr || row->f32_slots == 0)) ||
            (!kept && !MayVanish(program_, name));
  });
  return full;
}

Width Rewriter::WidthOf(const ops::Op& op) const {
  if (op.type == "cast" || op.type == "sample_image") return Width::kAny;
  const List list = ListOf(op.type);
  if (MustBeFull(op) || list == List::kBlack) return Width::kFull;
  if (list == List::kWhite) return Width::kHalf;
  bool half = false, full = false;
  ForEachRead(op, [&](const std::string& name) {
    const auto it = written_.find(name);
    half |= it != written_.end() && it->second == Width::kHalf;
    full |= it != written_.end() && it->second == Width::kFull;
  });
  return full ? Width::kFull : half ? Width::kHalf : Width::kAny;
}

StatusOr<std::string> Rewriter::Cast(const std::string& name, DType to) {
  if (const auto it = copies_.find(name); it != copies_.end()) return it->second;
  const std::string suffix = to == DType::kF32 ? "@F32" : to == DType::kBF16 ? "@BF16" : "@F16";
  const std::string copy = program_.FreshName(name + suffix);
  TD_RETURN_IF_ERROR(AppendOp(program_, {.type = "cast",
                                         .inputs = {{name}},
                                         .outputs = {{copy}},
                                         .attrs = {{"out_dtype", std::string(Name(to))}}}));
  return copies_[name] = copy;
}

Status Rewriter::CastInputs(ops::Op& op, Width width) {
  if (width == Width::kAny) return OkStatus();
  const Row* row = FindRow(op.type);
  const uint32_t f32_slots = row == nullptr ? 0 : row->f32_slots;
  for (size_t s = 0; s < op.inputs.size(); ++s) {
    const bool full = width == Width::kFull || (f32_slots >> s & 1) != 0;
    const DType wanted = full ? DType::kF32 : half_;
    for (std::string& name : op.inputs[s]) {
      if (name.empty()) continue;
      const DType dtype = program_.FindVar(name)->desc.dtype;
      const bool real = dtype == DType::kF32 || IsHalf(dtype);
      if (!real || dtype == wanted) continue;
      TD_ASSIGN_OR_RETURN(name, Cast(name, wanted));
    }
  }
  return OkStatus();
}

StatusOr<int64_t> Rewriter::Run() {
  std::vector<ops::Op> before = std::move(program_.ops);
  program_.ops.clear();
  int64_t halved = 0;
  for (ops::Op& op : before) {
    const Width width = WidthOf(op);
    halved += width == Width::kHalf ? 1 : 0;
    TD_RETURN_IF_ERROR(CastInputs(op, width));
    ForEachWrite(op, [&](const std::string& name) {
      written_[name] = width;
      copies_.erase(name);
    });
    const bool asked = custom_.contains(op.type);
    const std::string type = op.type;
    const Status status = AppendOpReinferred(program_, std::move(op));
    if (!status.ok() && asked && width == Width::kHalf) {
      return Annotate(status, "custom_white_list: " + type + " has no 16-bit form");
    }
    TD_RETURN_IF_ERROR(status);
  }
  return halved;
}

// If a cast is the only reader of the result of a sample_image, removes the cast and lets the
// sample_image write 16-bit images. Changes at most one sample_image.
void SampleInHalf(Program& program) {
  const UseMap uses = FindUses(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& cast = program.ops[i];
    if (cast.type != "cast" || !ReadOnlyBy(program, uses, cast.inputs[0][0], i)) continue;
    const auto maker = std::find_if(program.ops.begin(), program.ops.end(), [&](const ops::Op& op) {
      return op.type == "sample_image" && op.outputs == cast.inputs;
    });
    if (maker == program.ops.end()) continue;
    maker->attrs["out_dtype"] = cast.attrs.at("out_dtype");
    maker->outputs = cast.outputs;
    program.ops.erase(program.ops.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

}  // namespace

StatusOr<PassOutcome> CastToHalf(Program& program, PassContext& context) {
  const AmpConfigs& configs = context.strategy.amp_configs();
  const DType half = configs.amp_dtype() == AmpConfigs::f16 ? DType::kF16 : DType::kBF16;
  LOG_IF(WARNING, context.place == PlaceKind::kCpu && !ops::HasFastHalf(half))
      << "amp: this CPU has no instructions for products of " << Name(half)
      << "; products are computed in f32, and the casts make them slower than without amp";
  Rewriter rewriter(program, half);
  TD_RETURN_IF_ERROR(rewriter.ReadLists(configs));
  TD_ASSIGN_OR_RETURN(const int64_t halved, rewriter.Run());
  SampleInHalf(program);
  return PassOutcome{halved, "the program has no operator of the white list"};
}

}  // namespace tandem::graph
