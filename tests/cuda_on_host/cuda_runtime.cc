#include "tests/cuda_on_host/cuda_runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda_on_host/notes.h"

struct CudaOnHostGraph {
  std::vector<std::pair<const char*, std::function<void()>>> work;
};

struct CudaOnHostStream {
  // The graph that captures this stream; nullptr: the stream is not captured.
  std::unique_ptr<CudaOnHostGraph> captured;
  bool invalid = false;  // whether a call was made that a capture does not allow
};

namespace {

// The stream that this thread captures; nullptr: none.
thread_local CudaOnHostStream* capturing = nullptr;

// CUDA functions that a thread must not call while it captures a stream call this function. It
// makes the capture invalid and returns the error. Without a capture, it returns cudaSuccess.
cudaError_t Unsupported() {
  if (capturing == nullptr) return cudaSuccess;
  capturing->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

// Finds a function of the stand-in CUPTI (tests/support/fake_cupti.cc). Returns nullptr if the
// process has not opened the stand-in.
void* InCupti(const char* name) {
  void* const library = dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, name);
}

void Do(const char* what, const std::function<void()>& work) {
  const auto now = reinterpret_cast<uint64_t (*)()>(InCupti("tandem_fake_cupti_now"));
  const uint64_t begin = now == nullptr ? 0 : now();
  work();
  if (now == nullptr) return;
  using Ran = void (*)(const char* what, uint64_t begin);
  reinterpret_cast<Ran>(InCupti("tandem_fake_cupti_ran"))(what, begin);
}

}  // namespace

cudaError_t tandem::cuda_on_host::Put(cudaStream_t stream, const char* what,
                                      std::function<void()> work) {
  if (stream != nullptr && stream->captured != nullptr) {
    if (stream->invalid) return cudaErrorStreamCaptureInvalidated;
    stream->captured->work.emplace_back(what, std::move(work));
    return cudaSuccess;
  }
  Note(what);
  Do(what, work);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = std::make_unique<CudaOnHostStream>().release();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::unique_ptr<CudaOnHostStream> owned(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  tandem::cuda_on_host::Note("wait");
  return Unsupported();
}

// TANDEM_CUDA_ON_HOST_FAULT=capture: each capture is invalid from its start.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const char* const fault = std::getenv("TANDEM_CUDA_ON_HOST_FAULT");
  stream->captured = std::make_unique<CudaOnHostGraph>();
  stream->invalid = fault != nullptr && std::strcmp(fault, "capture") == 0;
  capturing = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  capturing = nullptr;
  const std::unique_ptr<CudaOnHostGraph> captured = std::move(stream->captured);
  *graph = nullptr;
  if (stream->invalid) return cudaErrorStreamCaptureInvalidated;
  *graph = std::make_unique<CudaOnHostGraph>(*captured).release();
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = std::make_unique<CudaOnHostGraph>(*graph).release();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  tandem::cuda_on_host::Note("graph");
  for (const auto& [what, work] : ready->work) Do(what, work);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) { return cudaGraphDestroy(ready); }

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CudaOnHostGraph> owned(graph);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (const cudaError_t error = Unsupported(); error != cudaSuccess) return error;
  constexpr size_t kAlignment = 256;
  *memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 30;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return tandem::cuda_on_host::Put(stream, "copy", [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return tandem::cuda_on_host::Put(stream, "fill", [=] { std::memset(at, value, bytes); });
}
