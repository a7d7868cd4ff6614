// The versions of one model that a server of predictions has loaded.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "trainer/serving/model_version.h"

namespace tandem::trainer {

// The model that a server of predictions serves.
struct ModelSpec {
  std::string name;                  // name of the model: that of its job
  graph::Program forward;            // the forward program of the job
  std::vector<std::string> outputs;  // as in ServingProgram::Make
  // Directory of checkpoints. "": `versions` has one live version, of running servers.
  std::string checkpoints;
  int keep = 1;  // number of the newest checkpoints to serve; at least 1
  // Checkpoint that computes requests too, without answering; nullopt: none.
  std::optional<uint64_t> shadow;
  ServingOptions options;
};

// Name of the version whose values come from running servers.
inline constexpr const char* kLiveVersion = "live";

// Loads versions, and directs requests to them. Versions are named by their steps, such as "1200",
// or kLiveVersion. Thread-safe.
class ServedModel {
 public:
  // Loads the live version from `live`, or, without it, the newest checkpoints of
  // ModelSpec::checkpoints. Later, loads new checkpoints as they appear, and unloads old ones. A
  // checkpoint that cannot be loaded is left out with a warning. `metrics` must outlive the model.
  // NOT_FOUND: there is no checkpoint. Other errors: no checkpoint could be loaded, or not the
  // shadow.
  static StatusOr<std::unique_ptr<ServedModel>> Start(ModelSpec spec,
                                                      std::unique_ptr<ModelSource> live,
                                                      Metrics& metrics);
  ~ServedModel();
  // Answers all waiting requests, and later ones, with UNAVAILABLE.
  void Stop();

  const std::string& name() const { return spec_.name; }
  bool ready() const;  // whether the newest version is ready and Stop was not called
  // Returns the names of the loaded versions, the default one last.
  std::vector<std::string> versions() const;
  // A loaded version. It stays loaded as long as `version` exists.
  struct Chosen {
    std::string name;
    bool by_default = false;  // true: the caller named no version
    std::shared_ptr<ModelVersion> version;
  };
  // Returns a version; "" is the newest. NOT_FOUND: the version is not loaded.
  StatusOr<Chosen> Choose(const std::string& version) const;
  // Passes a request to a version. If it was chosen by default, the shadow version computes the
  // request too.
  void Predict(const Chosen& chosen, PredictRequest request) const;

 private:
  ServedModel(ModelSpec spec, Metrics& metrics);
  std::string NameOf(uint64_t number) const;
  StatusOr<std::shared_ptr<ModelVersion>> Load(uint64_t step, const std::string& role);
  // Loads the newest checkpoints and unloads old ones. An error: none is loaded.
  Status LoadNewest();
  void WatchCheckpoints();
  // Makes the answer to `request` start the same request at the shadow version, and the comparison.
  void AddShadow(const std::shared_ptr<ModelVersion>& shadow, PredictRequest* request) const;

  const ModelSpec spec_;
  Metrics& metrics_;
  Histogram& differences_;
  Counter &failed_loads_, &failed_shadows_;
  mutable Mutex mu_;
  // By number of the version; the live version is number 0 and the only one.
  std::map<uint64_t, std::shared_ptr<ModelVersion>> versions_ TD_GUARDED_BY(mu_);
  std::shared_ptr<ModelVersion> shadow_;  // set by Start; null: none
  // By step: when its checkpoint could not be loaded. Only the loading thread uses this map.
  std::map<uint64_t, Time> failed_;
  CondVar ended_;
  bool ending_ TD_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace tandem::trainer
