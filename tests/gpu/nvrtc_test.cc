// Compiles generated kernels with the real NVRTC, which needs no device. Every body of the operator
// cases must compile for all devices in the list. kernels_test.cc compares the results with the
// reference loops.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include "kernels/ops/fused/fused_source.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

static_assert(sizeof(ops::NvrtcResult) == sizeof(nvrtcResult) && NVRTC_SUCCESS == 0);
static_assert(sizeof(ops::NvrtcProgram) == sizeof(nvrtcProgram));

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

StatusOr<std::string> Compile(const std::string& source, int major = 9, int minor = 0) {
  TD_ASSIGN_OR_RETURN(const ops::NvrtcLibrary nvrtc, ops::OpenNvrtc());
  return ops::CompileWithNvrtc(nvrtc, source, ops::FusedHeaders(), major, minor);
}

// Returns the source code of the fused operator in a row.
StatusOr<ops::FusedSource> SourceOf(const OpCase& c) {
  const ops::Op op = MakeOp(c);
  std::vector<const TensorDesc*> in;
  for (const Draw& draw : c.inputs[0]) in.push_back(&draw.desc);
  TD_ASSIGN_OR_RETURN(const ops::Body body,
                      ops::BindBody(ops::OpView(op, *ops::FindOp(c.op), in, {})));
  return ops::WriteFusedSource(body);
}

TEST(NvrtcTest, EveryFusedRowCompiles) {
  int compiled = 0;
  for (const OpCase& c : FusedCases()) {
    if (c.op != "fused_elementwise") continue;
    const auto source = SourceOf(c);
    if (c.body[0].type == "ftrl") {
      EXPECT_EQ(source.status().message(), "this kernel does not support operator ftrl");
      continue;
    }
    ASSERT_TRUE(source.ok()) << CaseName(c) << ": " << source.status();
    for (const int major : {8, 9}) {
      const auto code = Compile(source->text, major);
      ASSERT_TRUE(code.ok()) << code.status() << "\n" << source->text;
      EXPECT_EQ(code->substr(1, 3), "ELF");
      EXPECT_THAT(*code, HasSubstr("fused"));
      ++compiled;
    }
  }
  EXPECT_GT(compiled, 0);
}

// The log and the PTX code of a compilation with an additional option.
struct Details {
  std::string log, ptx;
};
Details DetailsOf(const ops::FusedSource& source, const char* arch) {
  Details details;
  const auto nvrtc = ops::OpenNvrtc();
  std::vector<const char*> names, texts;
  for (const ops::HeaderText& header : ops::FusedHeaders()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  ops::NvrtcProgram program = nullptr;
  const int headers = static_cast<int>(names.size());
  nvrtc->CreateProgram(&program, source.text.c_str(), "f.cu", headers, texts.data(), names.data());
  const char* const options[] = {arch, "--fmad=false", "--std=c++17", "--ptxas-options=-v"};
  EXPECT_EQ(nvrtc->CompileProgram(program, 4, options), 0);
  const auto take = [&](auto size, auto get, std::string* text) {
    size_t bytes = 0;
    EXPECT_EQ(size(program, &bytes), 0);
    text->resize(bytes);
    EXPECT_EQ(get(program, text->data()), 0);
  };
  take(nvrtc->GetProgramLogSize, nvrtc->GetProgramLog, &details.log);
  void* const library = dlopen("libnvrtc.so.13", RTLD_LAZY | RTLD_NOLOAD);
  // If libnvrtc.so.13 is not loaded (NVRTC is older), `ptx` stays empty. Most tests need only the
  // log.
  if (library != nullptr) {
    take(reinterpret_cast<ops::NvrtcResult (*)(ops::NvrtcProgram, size_t*)>(
             dlsym(library, "nvrtcGetPTXSize")),
         reinterpret_cast<ops::NvrtcResult (*)(ops::NvrtcProgram, char*)>(
             dlsym(library, "nvrtcGetPTX")),
         &details.ptx);
  }
  nvrtc->DestroyProgram(&program);
  return details;
}

// The heaviest bodies must not spill registers. The log reports spills after the last stage of the
// compilation.
TEST(NvrtcTest, TheHeaviestBodiesSpillNothing) {
  int bodies = 0;
  for (const OpCase& c : FusedCases()) {
    if (c.op != "fused_elementwise" || c.inputs[0].size() > 12) continue;
    const auto source = SourceOf(c);
    if (!source.ok()) continue;
    const std::string log = DetailsOf(*source, "--gpu-architecture=sm_90").log;
    EXPECT_THAT(log, HasSubstr("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))
        << CaseName(c);
    EXPECT_THAT(log, Not(ContainsRegex("[1-9][0-9]* bytes spill"))) << CaseName(c);
    ++bodies;
  }
  EXPECT_GT(bodies, 20);
}

// Kernels read and write four elements per access, except at the ends of tensors.
TEST(NvrtcTest, AccessesAreWide) {
  for (const OpCase& c : FusedCases()) {
    if (c.op != "fused_elementwise" || c.body[0].type != "adam" || c.body.size() != 1) continue;
    const std::string ptx = DetailsOf(*SourceOf(c), "--gpu-architecture=compute_90").ptx;
    if (ptx.empty()) GTEST_SKIP() << "no NVRTC 13";
    const auto count = [&ptx](const std::string& what) {
      int found = 0;
      for (size_t at = 0; (at = ptx.find(what, at)) != std::string::npos; ++at) ++found;
      return found;
    };
    // Four wide loads: the parameter, the gradient and two moments.
    EXPECT_EQ(count("ld.global.v4.f32"), 4);
    EXPECT_EQ(count("st.global.v4.f32"), 3);
    return;
  }
  FAIL() << "no row of one adam";
}

TEST(NvrtcTest, WhatDoesNotCompileIsNamed) {
  const auto code = Compile("#include \"kernels/ops/fused/fused_code.h\"\nint x = nonsense;\n");
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("nonsense"));
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("NVRTC_ERROR_COMPILATION"));
}

TEST(NvrtcTest, ADeviceThatTheCompilerDoesNotKnow) {
  const auto code = Compile("#include \"kernels/ops/fused/fused_code.h\"\n", 1, 2);
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("sm_12"));
}

}  // namespace
}  // namespace tandem::optest
