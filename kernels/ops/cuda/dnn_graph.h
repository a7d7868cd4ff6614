// cuDNN graphs: several operations on images that run as one plan and do not store intermediate
// values in memory. A graph can be described on any machine. cuDNN's heuristics make a plan of the
// graph for a device. Most plans are compiled, which takes about half a second. Source: the graph
// interface of cuDNN 9 (its backend descriptors). A plan is made without a cuDNN handle, which
// needs cuDNN 9.8 at build time and at run time. UNIMPLEMENTED: the library at run time is older.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/cuda/dnn_status.h"

namespace tandem::ops {

// A finalized backend descriptor of cuDNN, with shared ownership.
using DnnDescriptor = std::shared_ptr<void>;

// The device for which plans are made. DnnDeviceOf returns the device of `handle`. DnnDeviceFrom
// returns the device that cuDNN's JSON text describes, even if the machine has no such device.
StatusOr<DnnDescriptor> DnnDeviceOf(cudnnHandle_t handle);
StatusOr<DnnDescriptor> DnnDeviceFrom(std::string_view json);

class DnnPlan {
 public:
  // The memory of a tensor (on the device) or of a number (on the host).
  struct Given {
    int64_t tensor;
    const void* at;
  };
  // `parts`: the descriptor of the plan, and the descriptors that it uses.
  DnnPlan(std::vector<DnnDescriptor> parts, size_t workspace)
      : parts_(std::move(parts)), workspace_(workspace) {}
  // Makes a plan from `text`, which text() of another plan returned. That plan must have been made
  // by the same cuDNN version for the same kind of device. Nothing is compiled.
  static StatusOr<DnnPlan> Restore(const DnnDescriptor& device, std::string_view text);
  // Returns the plan as text, including compiled code.
  StatusOr<std::string> text() const;
  size_t workspace() const { return workspace_; }  // size of the workspace in bytes
  // Runs the plan on the stream of `handle`. `given` must contain every number and every tensor
  // that is in memory.
  Status Run(cudnnHandle_t handle, std::span<const Given> given, void* workspace) const;

 private:
  std::vector<DnnDescriptor> parts_;
  size_t workspace_;
};

// Builds a graph of operations. All tensors have their channels last. The first error is stored and
// returned when a plan is made. Sums are f32.
class DnnGraph {
 public:
  using Id = int64_t;                   // identifies a tensor or number of the graph
  using Dims = std::array<int64_t, 4>;  // sizes: images, channels, rows, columns

  // Adds a tensor in memory, aligned to 16 bytes.
  Id Tensor(cudnnDataType_t type, const Dims& dims);
  // Adds an intermediate value, which is not stored in memory.
  Id Between(cudnnDataType_t type, const Dims& dims);
  Id Number();  // adds one f32 in host memory, which is read when the plan runs
  Id Channels(int64_t channels) { return Tensor(CUDNN_DATA_FLOAT, {1, channels, 1, 1}); }

  struct Window {
    std::array<int64_t, 2> stride, pad, dilation;
  };
  // Add the convolution y = x * w and its two gradients. w is [filters, channels of a group, rows,
  // columns].
  void Convolution(Id x, Id w, Id y, const Window& window);
  void ConvolutionInputGrad(Id w, Id gy, Id gx, const Window& window);
  void ConvolutionFilterGrad(Id x, Id gy, Id gw, const Window& window);
  // Adds y = mode(a, b), element by element. b may have one element, or one per channel.
  void Pointwise(cudnnPointwiseMode_t mode, Id a, Id b, Id y);
  // Adds y = max(x, 0). y is NaN where x is NaN.
  void Relu(Id x, Id y);

  // The tensors of a batch normalisation. saved_inv becomes 1 / sqrt(variance + epsilon). The
  // variance is the biased one: the sum of squared deviations from the mean, divided by n.
  struct BatchNormTensors {
    Id x, scale, bias, epsilon, y, saved_mean, saved_inv;
  };
  // Adds a batch normalisation for training, without running statistics.
  void BatchNorm(const BatchNormTensors& t);
  struct BatchNormGradTensors {
    Id x, gy, scale, saved_mean, saved_inv, gx, gscale, gbias;
  };
  void BatchNormGrad(const BatchNormGradTensors& t);

  // Returns a description of the graph. Equal graphs have equal keys.
  const std::string& key() const { return key_; }
  // The numbers of cuDNN's proposals of plans for a device. Proposals of cuDNN's heuristics have
  // the numbers below kFallback, the best one first. The numbers from kFallback on belong to
  // cuDNN's fallback proposals, for the case that no other proposal works.
  static constexpr size_t kFallback = 8, kProposals = 16;
  // Makes the plan of proposal `number`. NOT_FOUND: cuDNN has no proposal with this number. Other
  // errors: the plan is not deterministic or cannot be made.
  StatusOr<DnnPlan> MakeProposal(const DnnDescriptor& device, size_t number) const;
  // Returns the plan of the first proposal that MakeProposal accepts and that needs at most
  // `workspace_max` bytes of workspace. UNIMPLEMENTED: there is no such proposal.
  StatusOr<DnnPlan> MakePlan(const DnnDescriptor& device, size_t workspace_max) const;

  class Builder;  // fills a cuDNN descriptor; defined in dnn_graph.cc

 private:
  using Slots = std::vector<std::pair<cudnnBackendAttributeName_t, Id>>;
  Id AddTensor(cudnnDataType_t type, const Dims& dims, bool between, bool number);
  void Operate(const char* what, Builder operation, const Slots& slots);
  Builder PointwiseOperation(cudnnPointwiseMode_t mode);
  struct ConvolutionKind;
  Builder ConvolutionOperation(const ConvolutionKind& kind, const Window& window);
  void* Keep(StatusOr<DnnDescriptor> made, std::vector<DnnDescriptor>& where);

  Status status_;
  std::vector<DnnDescriptor> tensors_, operations_;
  // The descriptors that the operations use, except those of tensors.
  std::vector<DnnDescriptor> parts_;
  std::string key_;
};

}  // namespace tandem::ops
