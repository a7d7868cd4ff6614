// NVRTC, CUDA's compiler as a library, as a table of functions opened at run time: neither its
// header nor the library is needed to build or to start. tests/gpu/nvrtc_test.cc compares what
// stands here with the header of CUDA builds.
#pragma once

#include <span>
#include <string>

#include "common/base/status.h"

namespace tandem {

using NvrtcResult = int;  // 0: success
using NvrtcProgram = struct NvrtcProgramState*;

struct NvrtcLibrary {
  const char* (*GetErrorString)(NvrtcResult result);
  NvrtcResult (*Version)(int* major, int* minor);
  NvrtcResult (*CreateProgram)(NvrtcProgram* program, const char* source, const char* name,
                               int headers, const char* const* texts, const char* const* names);
  NvrtcResult (*DestroyProgram)(NvrtcProgram* program);
  NvrtcResult (*CompileProgram)(NvrtcProgram program, int options, const char* const* option);
  NvrtcResult (*GetProgramLogSize)(NvrtcProgram program, size_t* bytes);
  NvrtcResult (*GetProgramLog)(NvrtcProgram program, char* log);
  NvrtcResult (*GetCubinSize)(NvrtcProgram program, size_t* bytes);
  NvrtcResult (*GetCubin)(NvrtcProgram program, char* cubin);
};

// Opens `path`; empty: libnvrtc.so.13 or .12 beside the running program, in ../lib, where the
// loader looks, or in /usr/local/cuda. UNAVAILABLE with what is missing.
StatusOr<NvrtcLibrary> OpenNvrtc(const std::string& path = "");

// A header by the name that the source includes it by.
struct HeaderText {
  const char* name;
  const char* text;
};

// The machine code of `source` for devices of compute capability major.minor; multiplications and
// additions are not contracted, as everywhere. INTERNAL with the compiler's words.
StatusOr<std::string> CompileWithNvrtc(const NvrtcLibrary& nvrtc, const std::string& source,
                                       std::span<const HeaderText> headers, int major, int minor);

}  // namespace tandem
