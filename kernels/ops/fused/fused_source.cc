#include "kernels/ops/fused/fused_source.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/ops/update/optimizer_args.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

// Largest number of different bodies. The compilation of more bodies would be slow, and the groups
// would have little code in common.
constexpr size_t kBodiesMax = 16;

StatusOr<std::string> TypeName(DType type) {
  switch (type) {
    case DType::kF32:
      return "float";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    default:
      return Unimplemented("this kernel does not support tensors of %s", Name(type));
  }
}

std::string Literal(float x) { return absl::StrFormat("%af", x); }

// Writes the code of one group of operators.
class GroupWriter {
 public:
  GroupWriter(const Body& body, int group) : body_(body), group_(group) {}
  Status Write();
  // Returns the code of the functions that `Bodies` (fused_code.h) calls for this group.
  std::string Text() const;
  const std::vector<int>& values() const { return addresses_; }
  bool ends() const { return !end_.empty(); }

  // ---- Code of the current operator; tensors are numbered by position --------------------------
  const OpView& view() const { return *view_; }
  // In returns the expression for the current element of input `i`. InFirst returns the expression
  // for the only element of input `i`, which must have one element.
  std::string In(size_t i) { return InValue(step_->in[i]); }
  std::string InFirst(size_t i) { return First(step_->in[i]); }
  void Set(size_t i, const std::string& expression);
  // Sets output `i` once, after all elements. `expression` may contain only inputs from EndIn.
  void SetAtEnd(size_t i, const std::string& expression);
  std::string EndIn(size_t i);
  // Before adds code that runs once before the elements. Lane adds code that runs for each element.
  // Unique returns a name that only this operator uses.
  void Before(const std::string& code) { absl::StrAppend(&before_, "    ", code, "\n"); }
  void Lane(const std::string& code) { absl::StrAppend(&lanes_, "      ", code, "\n"); }
  std::string Unique(const std::string& name) const { return absl::StrCat(name, number_); }

 private:
  Status WriteStep(const BodyStep& step);
  const BodyValue& value(int v) const { return body_.values[static_cast<size_t>(v)]; }
  std::string Type(int v);
  std::string Address(int v);
  std::string InValue(int v);
  std::string First(int v);
  std::string NameOf(int v, const char* kind);
  void Refuse(const Status& why) {
    if (status_.ok()) status_ = why;
  }

  const Body& body_;
  const int group_;
  const OpView* view_ = nullptr;
  const BodyStep* step_ = nullptr;
  int number_ = 0;
  std::vector<int> addresses_;  // by number of an address in the code: index of its value
  // By index of a value: the name of the variable that contains its elements.
  std::map<int, std::string> names_;
  std::map<int, std::string> firsts_;
  std::string before_, lanes_, stores_, end_;
  Status status_;
};

std::string GroupWriter::Type(int v) {
  auto type = TypeName(value(v).desc.dtype);
  if (!type.ok()) Refuse(type.status());
  return type.ok() ? *std::move(type) : "";
}

std::string GroupWriter::Address(int v) {
  const auto it = std::find(addresses_.begin(), addresses_.end(), v);
  const auto at = it - addresses_.begin();
  if (it == addresses_.end()) addresses_.push_back(v);
  return absl::StrCat("at[", at, "]");
}

std::string GroupWriter::NameOf(int v, const char* kind) {
  std::string name = absl::StrCat(kind, names_.size() + firsts_.size());
  (*kind == 'v' ? names_ : firsts_)[v] = name;
  return name;
}

std::string GroupWriter::First(int v) {
  if (const auto it = firsts_.find(v); it != firsts_.end()) return it->second;
  if (value(v).in < 0)
    Refuse(
        Unimplemented("an operator of the fused group reads a one-element result of the same "
                      "group, which is not supported"));
  std::string name = NameOf(v, "s");
  Before(absl::StrFormat("const float %s = First<%s>(%s);", name, Type(v), Address(v)));
  return name;
}

std::string GroupWriter::InValue(int v) {
  const bool one = value(v).desc.shape.numel() == 1;
  if (one && body_.elements[static_cast<size_t>(group_)] != 1) return First(v);
  auto it = names_.find(v);
  if (it == names_.end()) {
    if (value(v).in < 0)
      Refuse(
          Unimplemented("an operator of the fused group reads a one-element result of the same "
                        "group, which is not supported"));
    const std::string name = NameOf(v, "v");
    Before(absl::StrFormat("float %s[n];", name));
    Before(absl::StrFormat("Load<%s>(%s, i, %s);", Type(v), Address(v), name));
    it = names_.find(v);
  }
  return it->second + "[e]";
}

void GroupWriter::Set(size_t i, const std::string& expression) {
  const int v = step_->out[i];
  if (v < 0) return;
  const std::string name = NameOf(v, "v"), type = Type(v);
  Before(absl::StrFormat("float %s[n];", name));
  Lane(absl::StrFormat("%s[e] = Round<%s>(%s);", name, type, expression));
  if (value(v).out < 0) return;
  absl::StrAppend(&stores_, absl::StrFormat("    Store<%s>(%s, i, %s);\n", type, Address(v), name));
}

std::string GroupWriter::EndIn(size_t i) {
  const int v = step_->in[i];
  if (value(v).in < 0)
    Refuse(
        Unimplemented("an operator of the fused group reads a one-element result of the same "
                      "group, which is not supported"));
  return absl::StrFormat("First<%s>(%s)", Type(v), Address(v));
}

void GroupWriter::SetAtEnd(size_t i, const std::string& expression) {
  const int v = step_->out[i];
  if (v < 0 || value(v).out < 0) return;
  absl::StrAppend(&end_,
                  absl::StrFormat("    PutFirst<%s>(%s, %s);\n", Type(v), Address(v), expression));
}

std::string GroupWriter::Text() const {
  return absl::StrCat(
      "  template <int n>\n"
      "  static __device__ void Run(void* const* at, int64_t i) {\n",
      before_, "    for (int e = 0; e < n; ++e) {\n", lanes_, "    }\n", stores_,
      "  }\n  static __device__ void End(void* const* at) {\n", end_, "  }\n");
}

// ---- The supported operators --------------------------------------------------------------------

using WriteFn = Status (*)(GroupWriter&);

// Writes an operator whose result is `formula`::Of(elements of all inputs).
template <size_t inputs>
void WriteMap(GroupWriter& w, const char* formula) {
  std::vector<std::string> in;
  for (size_t i = 0; i < inputs; ++i) in.push_back(w.In(i));
  w.Set(0, absl::StrCat(formula, "::Of(", absl::StrJoin(in, ", "), ")"));
}

template <const char* formula, size_t inputs>
Status Map(GroupWriter& w) {
  WriteMap<inputs>(w, formula);
  return OkStatus();
}

Status Gelu(GroupWriter& w) {
  WriteMap<1>(w, w.view().attr<bool>("approximate") ? "GeluTanh" : "Gelu");
  return OkStatus();
}
Status GeluGrad(GroupWriter& w) {
  WriteMap<2>(w, w.view().attr<bool>("approximate") ? "GeluTanhGrad" : "GeluGrad");
  return OkStatus();
}

Status Scale(GroupWriter& w) {
  const float scale = AttrF32(w.view(), "scale"), bias = AttrF32(w.view(), "bias");
  if (!std::isfinite(scale) || !std::isfinite(bias)) {
    return Unimplemented(
        "the attributes are scale=%g and bias=%g, but this kernel supports only finite numbers",
        scale, bias);
  }
  w.Set(0, absl::StrFormat("%s * %s + %s", w.In(0), Literal(scale), Literal(bias)));
  return OkStatus();
}

// Writes a sum. The inputs are added in order, as in the operator's own kernels. UNIMPLEMENTED: a
// 16-bit sum has more than four inputs, because the own kernels round its intermediate sums.
Status Sum(GroupWriter& w) {
  constexpr size_t kHalfMax = 4;
  if (w.view().in(0).dtype != DType::kF32 && w.view().in_count() > kHalfMax) {
    return Unimplemented("this kernel supports at most %d inputs of 16-bit type", kHalfMax);
  }
  std::vector<std::string> in;
  for (size_t i = 0; i < w.view().in_count(); ++i) in.push_back(w.In(i));
  w.Set(0, absl::StrJoin(in, " + "));
  return OkStatus();
}

// Writes an optimizer step. `begin`: the arguments of formula::Begin between the learning rate and
// the UpdateArgs. Empty: the formula has no Begin, and only the learning rate is set.
Status WriteUpdate(GroupWriter& w, const char* formula, const UpdateArgs& args, size_t scalars,
                   const std::string& begin) {
  const OpView& view = w.view();
  const size_t slots = SlotsOf(view);
  if (view.has_in(RowsAt(slots)))
    return Unimplemented("this kernel does not support sparse gradients");
  size_t full = slots - scalars;
  // Skip slots that these attributes do not need.
  while (full > 0 && !view.has_in(1 + full)) --full;
  const std::string u = w.Unique("u"), e = w.Unique("x");
  const std::string rate = w.InFirst(LearningRateAt(slots));
  const std::pair<const char*, float> given[] = {
      {"beta1", args.beta1},     {"beta2", args.beta2},
      {"epsilon", args.epsilon}, {"mu", args.mu},
      {"decay", args.decay},     {"l1", args.l1},
      {"l2", args.l2},           {"weight_decay", args.weight_decay}};
  w.Before(absl::StrFormat("UpdateArgs %s;", u));
  for (const auto& [name, number] : given) {
    if (!std::isfinite(number))
      return Unimplemented("attribute %s is %g, but this kernel supports only finite numbers", name,
                           number);
    if (number != 0) w.Before(absl::StrFormat("%s.%s = %s;", u, name, Literal(number)));
  }
  w.Before(begin.empty() ? absl::StrFormat("%s.lr = %s;", u, rate)
                         : absl::StrFormat("%s::Begin(%s, %s, %s);", formula, rate, begin, u));
  std::vector<std::string> state;
  for (size_t i = 0; i < full; ++i) state.push_back(w.In(2 + i));
  w.Lane(absl::StrFormat("UpdateElement %s = {%s, %s, {%s}};", e, w.In(0), w.In(1),
                         absl::StrJoin(state, ", ")));
  w.Lane(absl::StrFormat("%s::Step(%s, %s);", formula, u, e));
  w.Set(0, e + ".p");
  for (size_t i = 0; i < full; ++i) w.Set(1 + i, absl::StrFormat("%s.s[%d]", e, i));
  return OkStatus();
}

Status Sgd(GroupWriter& w) { return WriteUpdate(w, "SgdStep", {}, 0, ""); }
Status Momentum(GroupWriter& w) {
  const UpdateArgs args = MomentumArgs(w.view());
  return WriteUpdate(w, args.nesterov ? "MomentumStep<true>" : "MomentumStep<false>", args, 0, "");
}
Status Adagrad(GroupWriter& w) {
  return WriteUpdate(w, "AdagradStep", AdagradArgs(w.view()), 0, "");
}
Status DecayedAdagrad(GroupWriter& w) {
  return WriteUpdate(w, "DecayedAdagradStep", DecayedAdagradArgs(w.view()), 0, "");
}
Status Rmsprop(GroupWriter& w) {
  TD_ASSIGN_OR_RETURN(const UpdateArgs args, RmspropArgs(w.view()));
  const bool centered = w.view().attr<bool>("centered");
  return WriteUpdate(w, centered ? "RmspropStep<true>" : "RmspropStep<false>", args, 0, "");
}

// Writes the code that multiplies a power of beta by beta, after all elements.
void WritePower(GroupWriter& w, size_t in, size_t out, float beta) {
  w.SetAtEnd(out, absl::StrFormat("%s * %s", w.EndIn(in), Literal(beta)));
}
Status Adam(GroupWriter& w) {
  const UpdateArgs args = AdamArgs(w.view());
  const std::string powers = absl::StrCat(w.InFirst(4), ", ", w.InFirst(5));
  TD_RETURN_IF_ERROR(WriteUpdate(w, "AdamStep", args, 2, powers));
  WritePower(w, 4, 3, args.beta1);
  WritePower(w, 5, 4, args.beta2);
  return OkStatus();
}
Status Adamax(GroupWriter& w) {
  const UpdateArgs args = AdamaxArgs(w.view());
  TD_RETURN_IF_ERROR(WriteUpdate(w, "AdamaxStep", args, 1, w.InFirst(4)));
  WritePower(w, 4, 3, args.beta1);
  return OkStatus();
}

constexpr char kRelu[] = "Relu", kReluGrad[] = "ReluGrad", kSigmoid[] = "Sigmoid",
               kSigmoidGrad[] = "SigmoidGrad", kTanh[] = "Tanh", kTanhGrad[] = "TanhGrad",
               kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kDiv[] = "Div", kMax[] = "Max";

// The function that writes each supported operator. ftrl is not supported, because its own kernel
// returns an error if the learning rate is not above 0.
const std::map<std::string_view, WriteFn>& Writers() {
  static const std::map<std::string_view, WriteFn> writers = {
      {"adagrad", Adagrad},
      {"adam", Adam},
      {"adamax", Adamax},
      {"decayed_adagrad", DecayedAdagrad},
      {"elementwise_add", Map<kAdd, 2>},
      {"elementwise_div", Map<kDiv, 2>},
      {"elementwise_max", Map<kMax, 2>},
      {"elementwise_mul", Map<kMul, 2>},
      {"elementwise_sub", Map<kSub, 2>},
      {"gelu", Gelu},
      {"gelu_grad", GeluGrad},
      {"momentum", Momentum},
      {"relu", Map<kRelu, 1>},
      {"relu_grad", Map<kReluGrad, 2>},
      {"rmsprop", Rmsprop},
      {"scale", Scale},
      {"sgd", Sgd},
      {"sigmoid", Map<kSigmoid, 1>},
      {"sigmoid_grad", Map<kSigmoidGrad, 2>},
      {"sum", Sum},
      {"tanh", Map<kTanh, 1>},
      {"tanh_grad", Map<kTanhGrad, 2>},
  };
  return writers;
}

Status GroupWriter::WriteStep(const BodyStep& step) {
  const auto it = Writers().find(step.op->type);
  if (it == Writers().end())
    return Unimplemented("this kernel does not support operator %s", step.op->type);
  std::vector<const TensorDesc*> in, out;
  for (const int v : step.in) in.push_back(v < 0 ? nullptr : &value(v).desc);
  for (const int v : step.out) out.push_back(v < 0 ? nullptr : &value(v).desc);
  const OpView view(*step.op, *step.def, in, out);
  view_ = &view;
  step_ = &step;
  TD_RETURN_IF_ERROR(Annotate(it->second(*this), step.op->type));
  ++number_;
  return Annotate(status_, step.op->type);
}

Status GroupWriter::Write() {
  for (const BodyStep& step : body_.steps) {
    if (step.group == group_) TD_RETURN_IF_ERROR(WriteStep(step));
  }
  return OkStatus();
}

// ---- The complete source ------------------------------------------------------------------------

std::string Switch(size_t bodies, const char* call) {
  std::string text = "    switch (body) {\n";
  for (size_t i = 0; i < bodies; ++i) {
    absl::StrAppend(&text, "      case ", i, ":\n        return Body", i, "::", call, ";\n");
  }
  return text + "    }\n";
}

std::string Kernel(const char* name, const char* run) {
  return absl::StrFormat(
      "extern \"C\" __global__ void __launch_bounds__(tandem::ops::kFusedThreads)\n"
      "    %s(const tandem::ops::Table __grid_constant__ t) {\n"
      "  tandem::ops::%s<tandem::ops::Bodies>(t);\n}\n",
      name, run);
}

std::string WholeText(const std::vector<std::string>& bodies, const FusedSource& source) {
  std::string text =
      "#include \"kernels/ops/fused/fused_code.h\"\n\nnamespace tandem::ops {\nnamespace {\n\n";
  for (size_t i = 0; i < bodies.size(); ++i) {
    absl::StrAppend(&text, "struct Body", i, " {\n", bodies[i], "};\n\n");
  }
  absl::StrAppend(&text,
                  "struct Bodies {\n  template <int n>\n"
                  "  static __device__ void Run(int body, void* const* at, int64_t i) {\n",
                  Switch(bodies.size(), "Run<n>(at, i)"),
                  "  }\n  static __device__ void End(int body, void* const* at) {\n",
                  Switch(bodies.size(), "End(at)"), "  }\n};\n\n}  // namespace\n\n");
  absl::StrAppend(&text, "using Table = FusedTable<", source.groups_max, ", ", source.addresses_max,
                  ">;\n\n}  // namespace tandem::ops\n\n");
  text += Kernel("fused", "RunFused");
  if (source.ends) absl::StrAppend(&text, "\n", Kernel("fused_end", "EndFused"));
  return text;
}

// Computes the largest number of groups and addresses of one launch, limited by the table size.
Status SizeTable(FusedSource& source) {
  size_t all = 0, most = 1;
  for (const auto& group : source.groups) {
    all += group.values.size();
    most = std::max(most, group.values.size());
  }
  const auto bytes = [](size_t groups, size_t addresses) {
    return sizeof(FusedTable<1, 1>) - sizeof(FusedGroup) - sizeof(void*) +
           groups * sizeof(FusedGroup) + addresses * sizeof(void*);
  };
  source.groups_max = source.groups.size();
  source.addresses_max = all;
  if (bytes(source.groups_max, all) <= kFusedTableMax) return OkStatus();
  source.groups_max = (kFusedTableMax - bytes(0, 0)) / bytes(1, most);
  source.addresses_max = source.groups_max * most;
  if (source.groups_max == 0)
    return Unimplemented("the fused chain has %d tensors, which is more than this kernel supports",
                         most);
  return OkStatus();
}

}  // namespace

StatusOr<FusedSource> WriteFusedSource(const Body& body) {
  FusedSource source;
  std::vector<std::string> bodies;
  for (size_t g = 0; g < body.elements.size(); ++g) {
    GroupWriter writer(body, static_cast<int>(g));
    TD_RETURN_IF_ERROR(writer.Write());
    const auto it = std::find(bodies.begin(), bodies.end(), writer.Text());
    const auto number = it - bodies.begin();
    if (it == bodies.end()) bodies.push_back(writer.Text());
    source.groups.push_back({body.elements[g], static_cast<uint8_t>(number), writer.values()});
    source.ends |= writer.ends();
    if (bodies.size() > kBodiesMax) {
      return Unimplemented(
          "the fused operator has more than %d different chains of elementwise operations, which "
          "is "
          "not supported",
          kBodiesMax);
    }
  }
  TD_RETURN_IF_ERROR(SizeTable(source));
  source.text = WholeText(bodies, source);
  return source;
}

}  // namespace tandem::ops
