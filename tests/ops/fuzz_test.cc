// Fuzz test of operators: a program must reject an operator, or the operator must run without
// access outside its memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <random>

#include "kernels/graph/program.h"
#include "tests/ops/kernel_run.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

constexpr uint32_t kSeed = 2024;
constexpr int kPrograms = 20000;
// The test checks operators with more elements, but does not run them.
constexpr int64_t kElementsMax = 3000;

class Fuzzer {
 public:
  explicit Fuzzer(uint32_t seed) : random_(seed) {
    for (const OpCase& c : AllCases()) {
      if (!c.bench) rows_.push_back(c);
    }
  }

  OpCase Next() {
    if (Below(3) == 0) return FromNothing();
    OpCase c = rows_[Below(rows_.size())];
    for (size_t i = Below(3); i > 0; --i) Mutate(c);
    return c;
  }

 private:
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Below(values.size())];
  }

  int64_t Dim() {
    if (Below(40) == 0)
      return Pick<int64_t>({1 << 16, 1 << 20, int64_t{1} << 31, int64_t{1} << 47});
    return Pick<int64_t>({0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33});
  }
  int64_t Integer() {
    if (Below(10) == 0) {
      return Pick<int64_t>({INT64_MIN, INT64_MAX, INT32_MAX, int64_t{1} << 20, -100});
    }
    return static_cast<int64_t>(Below(8)) - 2;
  }
  double Real() { return Pick({0.0, 1.0, -1.0, 0.5, 0.999, 1e30, -1e300, 255.0}); }

  Draw Tensor() {
    Ints dims;
    for (size_t d = Below(6); d > 0; --d) dims.push_back(Dim());
    const auto shape = ParseShape(dims);
    const DType dtype = Below(8) == 0 ? Pick({DType::kF16, DType::kBF16, DType::kI32, DType::kU8})
                                      : Pick({DType::kF32, DType::kF32, DType::kF32, DType::kI64});
    return {.desc = {dtype, shape.ok() ? *shape : Shape{1}}, .low = 0, .high = 3};
  }

  // Returns a random attribute, usually of the type of the default value `like`. If `like` has no
  // value, the attribute has any type.
  ops::Attr Value(const ops::Attr& like) {
    size_t index = like.index();
    if (index == 0 || Below(20) == 0) index = 1 + Below(6);
    const Ints ints = {Integer(), Integer(), Integer()};
    const size_t n = Below(8) == 0 ? Below(4) : 2;
    switch (index) {
      case 1:
        return Below(2) == 0;
      case 2:
        return Integer();
      case 3:
        return Real();
      case 4:
        return std::string(Pick({"max", "avg", "f32", "u8", "i64", "nChw16c", "winograd", ""}));
      case 5:
        return Ints(ints.begin(), ints.begin() + static_cast<int64_t>(n));
      default:
        return std::vector<double>{Real()};
    }
  }

  OpCase FromNothing() {
    const ops::OpDef& def = *ops::AllOps()[Below(ops::AllOps().size())];
    OpCase c = {.op = def.type, .inputs = {}};
    for (const ops::SlotDef& slot : def.inputs) {
      size_t n = slot.arity == ops::Arity::kOptional ? Below(2) : 1;
      if (slot.arity == ops::Arity::kMany) n = Below(4);
      c.inputs.emplace_back(n, Tensor());
    }
    for (const ops::AttrDef& attr : def.attrs) {
      if (Below(2) == 0) c.attrs[attr.name] = Value(ops::ToAttr(attr.default_value));
    }
    return c;
  }

  void Mutate(OpCase& c) {
    const ops::OpDef& def = *ops::FindOp(c.op);
    if (!def.attrs.empty() && Below(2) == 0) {
      const ops::AttrDef& attr = def.attrs[Below(def.attrs.size())];
      c.attrs[attr.name] = Value(ops::ToAttr(attr.default_value));
      return;
    }
    if (c.inputs.empty()) return;
    auto& slot = c.inputs[Below(c.inputs.size())];
    if (slot.empty()) return;
    Draw& d = slot[Below(slot.size())];
    if (Below(6) == 0 || d.desc.shape.rank() == 0) {
      d = Tensor();
      return;
    }
    Shape shape = d.desc.shape;
    shape[static_cast<int>(Below(static_cast<size_t>(shape.rank())))] = Dim();
    if (ParseShape(shape.dims()).ok()) d.desc.shape = shape;
  }

  std::mt19937 random_;
  std::vector<OpCase> rows_;
};

struct Counts {
  int accepted = 0, ran = 0;
};

// Adds the operator to a new program. Returns an error if the program rejects the operator.
// Otherwise checks that all shapes of the program are valid, and sets `elements` to the number of
// elements of all variables.
Status Append(const OpCase& c, int64_t& elements) {
  graph::Program program;
  ops::Op op = MakeOp(c);
  if (ops::FindOp(c.op)->is_comm) op.outputs = op.inputs;
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    for (size_t i = 0; i < op.inputs[slot].size(); ++i) {
      TD_RETURN_IF_ERROR(program.AddVar({.name = op.inputs[slot][i],
                                         .kind = graph::VarKind::kData,
                                         .desc = c.inputs[slot][i].desc}));
    }
  }
  TD_RETURN_IF_ERROR(graph::AppendOp(program, op));
  elements = 0;
  for (const graph::Var& var : program.vars()) {
    EXPECT_TRUE(ParseShape(var.desc.shape.dims()).ok())
        << CaseName(c) << " gives " << var.name << " of " << ToString(var.desc);
    elements += std::min<int64_t>(var.desc.shape.numel(), kElementsMax + 1);
  }
  return OkStatus();
}

void RunAll(const OpCase& c, Counts& counts) {
  // The values of inputs are arbitrary in this test, so every draw is uniform.
  OpCase plain = c;
  for (auto& slot : plain.inputs) {
    for (Draw& d : slot) {
      if (d.desc.dtype == DType::kF16 || d.desc.dtype == DType::kBF16) return;
      d.kind = Draw::kUniform;
      d.low = d.desc.dtype == DType::kU8 ? 0 : -1;
      d.high = 3;
    }
  }
  auto inputs = DrawInputs(plain, kSeed);
  for (Value& value : inputs) {
    if (value.desc.dtype == DType::kF32) continue;
    for (double& v : value.v) v = std::floor(v);
  }
  for (const ops::KernelImpl& impl : ops::FindOp(c.op)->cpu_kernels()) {
    auto run = KernelRun::Make(c, inputs);
    ASSERT_TRUE(run.ok()) << CaseName(c) << ": " << run.status();
    const Status prepared = (*run)->Prepare(impl, 1 + static_cast<int>(counts.ran % 3));
    if (!prepared.ok()) {
      EXPECT_NE(prepared.message(), "") << CaseName(c) << ": " << impl.name;
      continue;
    }
    const Status status = (*run)->Run();
    ++counts.ran;
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument)
        << CaseName(c) << ": " << impl.name << ": " << status;
  }
}

void Check(const OpCase& c, Counts& counts) {
  int64_t elements = 0;
  const Status status = Append(c, elements);
  if (!status.ok()) {
    EXPECT_NE(std::string(status.message()).find(c.op), std::string::npos)
        << "the message does not name " << c.op << ": " << status;
    return;
  }
  ++counts.accepted;
  if (elements <= kElementsMax && !ops::FindOp(c.op)->is_comm) RunAll(c, counts);
}

TEST(Fuzz, RandomOperatorsAreRefusedOrRun) {
  RecordProperty("seed", kSeed);
  std::cout << "seed " << kSeed << "\n";
  Fuzzer fuzzer(kSeed);
  Counts counts;
  for (int i = 0; i < kPrograms; ++i) {
    const OpCase c = fuzzer.Next();
    try {
      Check(c, counts);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "program " << i << ", " << CaseName(c) << " threw " << e.what();
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  std::cout << counts.accepted << " of " << kPrograms << " accepted, " << counts.ran << " runs\n";
  EXPECT_GT(counts.accepted, kPrograms / 10);
  EXPECT_GT(counts.ran, kPrograms / 10);
}

}  // namespace
}  // namespace tandem::optest
