#include "common/tensor/launch_graph_cuda.h"

#include "common/tensor/device_cuda.h"

namespace tandem {
namespace {

Status CudaStatus(cudaError_t error, const char* what) {
  return error == cudaSuccess
             ? OkStatus()
             : Unavailable("the CUDA call \"%s\" failed: %s", what, cudaGetErrorString(error));
}

class CudaGraph final : public LaunchGraph {
 public:
  explicit CudaGraph(cudaStream_t stream) : stream_(stream) {}
  ~CudaGraph() override {
    if (ready_ != nullptr) (void)cudaGraphExecDestroy(ready_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  Status Record(const DeviceWork& work) {
    // In thread-local mode, other threads may allocate driver memory during the capture.
    TD_RETURN_IF_ERROR(CudaStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                                  "cudaStreamBeginCapture"));
    const Status put = work();
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph_);
    (void)cudaGetLastError();  // clears CUDA's error state: the error is reported here
    TD_RETURN_IF_ERROR(put);
    TD_RETURN_IF_ERROR(CudaStatus(ended, "cudaStreamEndCapture"));
    size_t nodes = 0;
    TD_RETURN_IF_ERROR(CudaStatus(cudaGraphGetNodes(graph_, nullptr, &nodes), "cudaGraphGetNodes"));
    launches_ = static_cast<int64_t>(nodes);
    return CudaStatus(cudaGraphInstantiate(&ready_, graph_, 0), "cudaGraphInstantiate");
  }

  Status Launch() override {
    return CudaStatus(cudaGraphLaunch(ready_, stream_), "cudaGraphLaunch");
  }
  int64_t launches() const override { return launches_; }

 private:
  const cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
  int64_t launches_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<LaunchGraph>> RecordCudaGraph(Device& device, const DeviceWork& work) {
  TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device.place().index), "cudaSetDevice"));
  const cudaStream_t stream = static_cast<const CudaStream*>(device.stream())->stream;
  auto graph = std::make_unique<CudaGraph>(stream);
  TD_RETURN_IF_ERROR(graph->Record(work));
  return std::unique_ptr<LaunchGraph>(std::move(graph));
}

}  // namespace tandem
