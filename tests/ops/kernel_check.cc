#include "tests/ops/kernel_check.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ops/kernel_run.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Bits = std::vector<std::string>;

Bits AllBits(const KernelRun& run) {
  Bits bits;
  for (size_t i = 0; i < run.outputs().size(); ++i) {
    bits.push_back(run.HasOutput(i) ? run.OutputBits(i) : "");
  }
  return bits;
}

void ExpectResults(const KernelRun& run, const std::vector<Value>& want,
                   const Tolerance& tolerance) {
  ASSERT_EQ(run.outputs().size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(run.outputs()[i], want[i].desc) << "output " << i << " is inferred wrongly";
    if (!run.HasOutput(i)) continue;
    EXPECT_EQ(Compare(run.Output(i), want[i], tolerance), "") << "output " << i;
  }
}

// Checks that the operator gives the same bits with each way of sharing memory that its definition
// allows.
void ExpectInplace(KernelRun& run, const Bits& want) {
  std::vector<std::vector<ops::InplacePair>> ways;
  std::set<int> outputs, inputs;
  std::vector<ops::InplacePair> all;
  for (const auto& [out, in] : run.def().inplace) {
    if (!run.HasOutput(static_cast<size_t>(out)) || !run.HasInput(static_cast<size_t>(in))) {
      continue;
    }
    ways.push_back({{out, in}});
    if (outputs.insert(out).second && inputs.insert(in).second) all.emplace_back(out, in);
  }
  if (all.size() > 1) ways.push_back(all);
  for (const std::vector<ops::InplacePair>& way : ways) {
    run.Alias(way);
    ASSERT_TRUE(run.Run().ok());
    EXPECT_EQ(AllBits(run) == want, true) << "output " << way[0].first << " in the place of input "
                                          << way[0].second << " (" << way.size() << " shared)";
  }
  run.Alias({});
}

// Checks one implementation; errors fail the gtest test. Returns false if the implementation does
// not support the row.
bool CheckImpl(const OpCase& c, const ops::KernelImpl& impl, bool inplace,
               const std::vector<Value>& inputs, const std::vector<Value>& want, Device* device) {
  Bits one_thread;
  for (int threads = 1; threads <= (device == nullptr ? 2 : 1); ++threads) {
    SCOPED_TRACE(CaseName(c) + ": " + impl.name + ", threads " + std::to_string(threads));
    auto made = KernelRun::Make(c, inputs, device);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return true;
    KernelRun& run = **made;
    const Status prepared =
        run.Prepare(impl, threads, device == nullptr ? SIZE_MAX : KernelRun::kDeviceConvScratch);
    if (prepared.code() == StatusCode::kUnimplemented) return false;
    const Status status = prepared.ok() ? run.Run() : prepared;
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return true;
    ExpectResults(run, want, c.tolerance);
    const Bits bits = AllBits(run);
    EXPECT_TRUE(run.Run().ok());
    EXPECT_TRUE(AllBits(run) == bits) << "the second run gives other bits";
    if (inplace) ExpectInplace(run, bits);
    if (threads == 1) one_thread = bits;
    // On a CPU without AVX-512, oneDNN's order of summation depends on the number of threads.
    const bool may_vary = c.bits_vary_with_threads || std::string_view(impl.name) == "onednn";
    EXPECT_TRUE(bits == one_thread || may_vary) << "threads change the bits";
  }
  return true;
}

}  // namespace

int CheckCase(const OpCase& c, const ops::KernelRegistration& row, Device* device) {
  const auto inputs = DrawInputs(c, kCheckSeed);
  const auto want = RunOracle(c, inputs);
  int served = 0;
  for (const ops::KernelImpl& impl : row.impls) {
    served += CheckImpl(c, impl, !row.apart, inputs, want, device) ? 1 : 0;
  }
  return served;
}

}  // namespace tandem::optest
