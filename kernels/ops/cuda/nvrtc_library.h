// NVRTC, CUDA's compiler library, as a table of functions that is loaded at run time. Neither its
// header nor the library is needed to build or start Tandem. tests/gpu/nvrtc_test.cc compares the
// declarations with the header in CUDA builds.
#pragma once

#include <span>
#include <string>

#include "common/base/status.h"

namespace tandem::ops {

using NvrtcResult = int;  // result code of an NVRTC function; 0: success
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

// Opens NVRTC at `path`. If `path` is empty, searches libnvrtc.so.13 and .12 next to the running
// program, in ../lib, in the loader's search path and in /usr/local/cuda. UNAVAILABLE: the library
// or a function is missing.
StatusOr<NvrtcLibrary> OpenNvrtc(const std::string& path = "");

// A header file: its content, and the name under which the source includes it.
struct HeaderText {
  const char* name;
  const char* text;
};

// Returns the machine code of `source` for devices of compute capability major.minor.
// Multiplications and additions are not contracted, as in all code of Tandem. INTERNAL: compilation
// failed; the message contains the compiler's output.
StatusOr<std::string> CompileWithNvrtc(const NvrtcLibrary& nvrtc, const std::string& source,
                                       std::span<const HeaderText> headers, int major, int minor);

}  // namespace tandem::ops
