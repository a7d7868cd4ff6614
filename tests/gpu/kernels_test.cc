// Tests the kernels of the CUDA module. Without a device, the test checks which operators have
// kernels, and that the module prepares every row of the operator bench or rejects the row with a
// reason. With a device, the test compares every row with the loops in double precision that also
// check the CPU's kernels.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "kernels/ops/cuda/nvrtc_library.h"
#include "tests/ops/kernel_check.h"
#include "tests/ops/kernel_run.h"
#include "tests/ops/module.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

class CudaModule : public testing::Test {
 protected:
  void SetUp() override {
    const auto module = OpenCudaModule();
    ASSERT_TRUE(module.ok()) << module.status();
    module_ = *module;
  }
  const exec::BackendModule* module_ = nullptr;
};

TEST_F(CudaModule, RowsNameOperators) {
  std::set<std::string> seen;
  for (const ops::KernelRegistration& row : module_->kernels()) {
    const ops::OpDef* def = ops::FindOp(row.op);
    ASSERT_NE(def, nullptr) << row.op;
    EXPECT_FALSE(def->is_comm) << row.op;
    EXPECT_TRUE(seen.insert(row.op).second) << row.op << " is there twice";
    EXPECT_FALSE(row.impls.empty()) << row.op;
    for (const ops::KernelImpl& impl : row.impls) EXPECT_STRNE(impl.name, "") << row.op;
  }
}

// Describes the inputs of a row. Preparation of a kernel reads only the descriptions, not the
// values.
std::vector<Value> DescriptionsOf(const OpCase& c) {
  std::vector<Value> values;
  for (const auto& slot : c.inputs) {
    if (slot.empty()) values.emplace_back();
    for (const Draw& draw : slot) values.push_back({draw.desc, {}});
  }
  return values;
}

// The module prepares every row, or rejects the row with a reason. The test needs no device.
TEST_F(CudaModule, PreparesOrRefusesEveryRow) {
  std::vector<OpCase> cases = AllCases();
  for (OpCase& c : RandomCases(7, 240)) cases.push_back(std::move(c));
  std::map<std::string, int> prepared, refused;
  for (const OpCase& c : cases) {
    for (const ops::KernelImpl& impl : KernelsOf(*module_, c.op)) {
      auto run = KernelRun::Make(c, DescriptionsOf(c));
      ASSERT_TRUE(run.ok()) << CaseName(c) << ": " << run.status();
      const Status status = (*run)->Prepare(impl, 1, KernelRun::kDeviceConvScratch);
      const bool unserved = status.code() == StatusCode::kUnimplemented;
      EXPECT_TRUE(status.ok() || unserved) << CaseName(c) << ": " << status;
      EXPECT_TRUE(status.ok() || !status.message().empty()) << CaseName(c);
      ++(unserved ? refused : prepared)[c.op];
    }
  }
  int rows = 0, not_served = 0;
  for (const ops::KernelRegistration& row : module_->kernels()) {
    EXPECT_GT(prepared[row.op], 0) << row.op << " serves no row of the bench";
    rows += prepared[row.op];
    not_served += refused[row.op];
  }
  RecordProperty("prepared", rows);
  RecordProperty("refused", not_served);
  std::printf("%d rows prepared, %d refused\n", rows, not_served);
}

class CudaDevice : public CudaModule {
 protected:
  void SetUp() override {
    CudaModule::SetUp();
    if (HasFatalFailure()) return;
    const auto count = module_->device_count();
    if (!count.ok()) GTEST_SKIP() << "cannot find a CUDA device: " << count.status();
    if (*count == 0) GTEST_SKIP() << "no CUDA device";
    auto device = module_->make_device(0, {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  // Checks every case that has a kernel. If TANDEM_SMALL_ROWS is set, skips the large rows of the
  // benchmark: on a stand-in device large rows take long and test nothing more than small rows. Of
  // the 16-bit rows every second one is then skipped: HalfCases has most rows in both types.
  void Check(const std::vector<OpCase>& cases, bool half = false) {
    const bool small = std::getenv("TANDEM_SMALL_ROWS") != nullptr;
    int served = 0, rows = 0;
    std::set<std::string> without;
    for (size_t i = 0; i < cases.size(); ++i) {
      const OpCase& c = cases[i];
      if (small && (c.bench || (half && (i + i / 2) % 2 != 0))) continue;
      const ops::KernelRegistration* const row = RowOf(*module_, c.op);
      if (row == nullptr) without.insert(c.op);
      if (row == nullptr) continue;
      ++rows;
      served += CheckCase(c, *row, device_.get()) > 0 ? 1 : 0;
      const Status usable = device_->Synchronize();
      ASSERT_TRUE(usable.ok()) << "the device takes no more: " << usable;
    }
    RecordProperty("rows", static_cast<int>(cases.size()));
    RecordProperty("served", served);
    std::printf("%zu rows: %d ran on the device, %d are refused", cases.size(), served,
                rows - served);
    for (const std::string& op : without) std::printf(", no kernel for %s", op.c_str());
    std::printf("\n");
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CudaDevice, Linear) { Check(LinearCases()); }
TEST_F(CudaDevice, Image) { Check(ImageCases()); }
TEST_F(CudaDevice, Norm) { Check(NormCases()); }
TEST_F(CudaDevice, Elementwise) { Check(ElementwiseCases()); }
TEST_F(CudaDevice, Dense) { Check(DenseCases()); }
TEST_F(CudaDevice, Layout) { Check(LayoutCases()); }
TEST_F(CudaDevice, Loss) { Check(LossCases()); }
TEST_F(CudaDevice, Embedding) { Check(EmbeddingCases()); }
TEST_F(CudaDevice, Optimizer) { Check(OptimizerCases()); }
TEST_F(CudaDevice, Click) { Check(ClickCases()); }
TEST_F(CudaDevice, Regime) { Check(RegimeCases()); }
TEST_F(CudaDevice, Update) { Check(UpdateCases()); }
TEST_F(CudaDevice, Fused) { Check(FusedCases()); }
TEST_F(CudaDevice, Half) { Check(HalfCases(), /*half=*/true); }
TEST_F(CudaDevice, RandomShapes) { Check(RandomCases(7, 240)); }

// Runs `impl` on the device and compares the bits of its outputs with those of `here`, which has
// already run on the CPU. Returns whether `impl` supports the row.
bool SameBits(const OpCase& c, const KernelRun& here, const ops::KernelImpl& impl, Device* device) {
  auto there = KernelRun::Make(c, DrawInputs(c, kCheckSeed), device);
  EXPECT_TRUE(there.ok());
  if (!there.ok() || !(*there)->Prepare(impl, 1).ok()) return false;
  const Status ran = (*there)->Run();
  EXPECT_TRUE(ran.ok()) << CaseName(c) << ": " << ran;
  for (size_t i = 0; i < here.outputs().size(); ++i) {
    if (!here.HasOutput(i)) continue;
    EXPECT_TRUE(here.OutputBits(i) == (*there)->OutputBits(i))
        << CaseName(c) << ", output " << i << ", " << impl.name;
  }
  return true;
}

// CPU and device compile the same formulas without contraction (fused multiply-add). So elementwise
// operators, single or fused, give the same bits on both.
TEST_F(CudaDevice, ElementwiseFormulasGiveTheBitsOfTheCpu) {
  std::map<std::string, int> compared;  // number of compared rows, by name of the implementation
  for (const OpCase& c : AllCases()) {
    const ops::OpDef& def = *ops::FindOp(c.op);
    if (!def.elementwise && !def.has_body) continue;
    auto here = KernelRun::Make(c, DrawInputs(c, kCheckSeed));
    ASSERT_TRUE(here.ok()) << here.status();
    if (!(*here)->Prepare(def.cpu_kernels()[0], 1).ok()) continue;
    ASSERT_TRUE((*here)->Run().ok()) << CaseName(c);
    for (const ops::KernelImpl& impl : KernelsOf(*module_, c.op)) {
      if (SameBits(c, **here, impl, device_.get())) ++compared[impl.name];
    }
  }
  EXPECT_GT(compared["cuda"], 50);
  EXPECT_GT(compared["sequence"], 30);
  EXPECT_EQ(compared["nvrtc"] > 30, ops::OpenNvrtc().ok());
}

TEST_F(CudaDevice, WrongIdsAndLabelsAreNamed) {
  struct Wrong {
    OpCase c;
    size_t input;
    std::string message;
    double value = 9;
  };
  const std::vector<Wrong> cases = {
      {{.op = "lookup_table", .inputs = {{Ids({4}, 9)}, {F32({9, 3})}}},
       0,
       "element 2 of Ids is 9"},
      {{.op = "lookup_table_grad", .inputs = {{Ids({4}, 9)}, {F32({9, 3})}, {F32({4, 3})}}},
       0,
       "element 2 of Ids is 9"},
      {{.op = "lookup_table_sparse_grad", .inputs = {{Ids({4}, 9)}, {F32({9, 3})}, {F32({4, 3})}}},
       0,
       "element 2 of Ids is 9"},
      {{.op = "sequence_pool", .inputs = {{F32({3, 5, 2})}, {Ids({3}, 5)}}},
       1,
       "element 2 of Lengths is 9, expected 0 to 5"},
      {{.op = "sample_image",
        .inputs = {{{.desc = {DType::kU8, {12}}, .low = 0, .high = 255}},
                   {{.desc = {DType::kI64, {1, 3}}, .low = 1, .high = 2}},
                   {{.desc = {DType::kI32, {1, 2, 2}}, .low = 0, .high = 1}}}},
       1,
       "resize_images: image 0 lies outside of Pixels"},
      {{.op = "sample_image",
        .inputs = {{{.desc = {DType::kU8, {12}}, .low = 0, .high = 255}},
                   {{.desc = {DType::kI64, {1, 3}}, .low = 1, .high = 2}},
                   {{.desc = {DType::kI32, {1, 2, 2}}, .low = 0, .high = 1}}}},
       2,
       "element 2 of Taps is 1000, which is outside of image 0",
       1000},
  };
  for (const auto& [c, input, message, value] : cases) {
    auto inputs = DrawInputs(c, kCheckSeed);
    inputs[input].v[2] = value;
    auto run = KernelRun::Make(c, inputs, device_.get());
    ASSERT_TRUE(run.ok() && (*run)->Prepare(KernelsOf(*module_, c.op)[0], 1).ok()) << c.op;
    const Status status = (*run)->Run();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.op << ": " << status;
    EXPECT_NE(std::string(status.message()).find(message), std::string::npos) << status;
    EXPECT_TRUE(device_->Synchronize().ok()) << "it is said once";
  }
}

// Runs the search for non-finite numbers on the device. The search writes its results into
// `cells_`.
class CudaSearch : public CudaDevice {
 protected:
  static constexpr uint64_t kNone = exec::NonFiniteScan::kNone;
  static constexpr size_t kTensors = 70;  // number of tensors; more than one launch can search

  void SetUp() override {
    CudaDevice::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::vector<uint64_t> none(1 + kTensors, kNone);
    cells_ = OnDevice(none);
  }
  template <typename T>
  Buffer OnDevice(const std::vector<T>& values) {
    auto memory = device_->Allocate(values.size() * sizeof(T));
    CHECK(memory.ok()) << memory.status();
    const Status status =
        device_->CopyFromHost(memory->get(), values.data(), values.size() * sizeof(T));
    CHECK(status.ok()) << status;
    return *memory;
  }
  // Searches `tensors` and returns the values of all cells.
  std::vector<uint64_t> Found(uint64_t number, bool inputs,
                              const std::vector<exec::NonFiniteScan::Floats>& tensors) {
    auto* const cells = reinterpret_cast<uint64_t*>(cells_.get());
    const Status status = module_->search(*device_, {number, tensors, inputs, cells, cells + 1});
    EXPECT_TRUE(status.ok()) << status;
    std::vector<uint64_t> found(1 + kTensors);
    EXPECT_TRUE(device_->CopyToHost(found.data(), cells, found.size() * sizeof(uint64_t)).ok());
    return found;
  }

  Buffer cells_;
};

TEST_F(CudaSearch, FirstElementOfEveryTypeAndAlignment) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> f(5000, -3e38f);
  f[4001] = std::numeric_limits<float>::quiet_NaN();
  f[4002] = f[1303] = -kInf;
  std::vector<uint16_t> half(3000, 0x7BFF), brain(3000, 0xFF7F);
  half[2998] = half[2999] = 0xFC00;
  brain[17] = brain[2000] = 0x7F81;
  const std::vector<float> one = {kInf}, finite(100, 1e-45f);
  const Buffer on_f = OnDevice(f), on_half = OnDevice(half), on_brain = OnDevice(brain);
  const Buffer on_one = OnDevice(one), on_finite = OnDevice(finite);
  const std::vector<exec::NonFiniteScan::Floats> tensors = {
      {on_f.get(), DType::kF32, 5000},
      {on_f.get() + 4, DType::kF32, 1302},
      {on_f.get() + 4, DType::kF32, 4999},
      {on_half.get(), DType::kF16, 3000},
      {on_half.get(), DType::kBF16, 3000},
      {on_brain.get() + 2, DType::kBF16, 2999},
      {on_one.get(), DType::kF32, 1},
      {on_finite.get(), DType::kF32, 100},
      {nullptr, DType::kF32, 0}};
  const std::vector<uint64_t> found = Found(7, false, tensors);
  const std::vector<uint64_t> want = {7, 1303, kNone, 1302, 2998, kNone, 16, 0, kNone, kNone};
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 10), want);
}

TEST_F(CudaSearch, TheFirstSearchThatFindsSomethingIsKept) {
  std::vector<float> values(300, 1);
  const Buffer finite = OnDevice(values);
  values[200] = std::numeric_limits<float>::infinity();
  const Buffer wrong = OnDevice(values);
  const exec::NonFiniteScan::Floats good = {finite.get(), DType::kF32, 300};
  const exec::NonFiniteScan::Floats bad = {wrong.get(), DType::kF32, 300};
  const std::vector<uint64_t> nothing(1 + kTensors, kNone);
  EXPECT_EQ(Found(3, false, {good, good}), nothing);
  EXPECT_EQ(Found(3, true, {bad}), nothing) << "its outputs are finite";
  std::vector<exec::NonFiniteScan::Floats> many(kTensors, good);
  many[66] = bad;
  std::vector<uint64_t> found = Found(4, false, many);
  auto want = nothing;
  want[0] = 4;
  want[1 + 66] = 200;
  EXPECT_EQ(found, want);
  EXPECT_EQ(Found(5, false, {bad}), want) << "later than the first";
  EXPECT_EQ(Found(5, true, {bad}), want);
  want[1] = 200;
  EXPECT_EQ(Found(4, true, {bad}), want) << "its own inputs";
}

}  // namespace
}  // namespace tandem::optest
