// Tests that the committed docs/reference/operators.md equals the generated page.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "kernels/ops/core/op.h"
#include "tests/ops/support_page.h"

namespace tandem::optest {
namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Support, CommittedPageIsCurrent) {
  const std::string source = Env("TANDEM_SOURCE_DIR");
  if (source.empty()) GTEST_SKIP() << "TANDEM_SOURCE_DIR is not set; run it through ctest";
  const std::string page = ReadFile(source + "/docs/reference/operators.md");
  // If the CUDA module is missing, the CUDA column is copied from the committed page.
  const auto cuda = CudaOps(Env("TANDEM_BIN_DIR") + "/../lib/libtandem_cuda.so");
  const std::string want = SupportPage(cuda.ok() ? *cuda : CudaOpsOfPage(page));
  if (!Env("TANDEM_UPDATE").empty()) {
    std::ofstream(source + "/docs/reference/operators.md") << want;
    return;
  }
  EXPECT_TRUE(page == want) << "docs/reference/operators.md is not current; write it anew: "
                            << "TANDEM_UPDATE=1 ctest -R ops_support_test";
}

TEST(Support, ReadsItsOwnCudaColumn) {
  const std::set<std::string> cuda = {"sgd", "relu"};
  EXPECT_EQ(CudaOpsOfPage(SupportPage(cuda)), cuda);
}

TEST(Support, EveryOperatorIsDescribed) {
  for (const ops::OpDef* def : ops::AllOps()) {
    EXPECT_NE(def->doc, nullptr) << def->type;
    EXPECT_NE(def->infer, nullptr) << def->type;
    EXPECT_EQ(def->cpu_kernels().empty(), def->is_comm) << def->type;
    for (const ops::AttrDef& attr : def->attrs)
      EXPECT_STRNE(attr.doc, "") << def->type << attr.name;
  }
}

// Each operator has a CUDA kernel, or a documented reason why it has none.
TEST(Support, EveryOperatorHasACudaEntryOrAReason) {
  const std::string source = Env("TANDEM_SOURCE_DIR");
  if (source.empty()) GTEST_SKIP() << "TANDEM_SOURCE_DIR is not set; run it through ctest";
  const auto module = CudaOps(Env("TANDEM_BIN_DIR") + "/../lib/libtandem_cuda.so");
  const std::set<std::string> cuda =
      module.ok() ? *module : CudaOpsOfPage(ReadFile(source + "/docs/reference/operators.md"));
  for (const ops::OpDef* def : ops::AllOps()) {
    EXPECT_NE(cuda.contains(def->type), !WithoutCudaKernel(def->type).empty()) << def->type;
  }
}

TEST(Support, AMissingModuleIsSaid) {
  EXPECT_EQ(CudaOps("/nowhere/libtandem_cuda.so").status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem::optest
