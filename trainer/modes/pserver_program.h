// Inserts the operators of pserver mode into a rank's programs, and records which parameters and
// tables the pservers store.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/pserver_mode.h"
#include "trainer/ps/ps_tables.h"

namespace tandem::trainer {

class PserverProgram final : public ProgramShaper {
 public:
  // `options` must outlive this object.
  explicit PserverProgram(const PserverOptions& options) : options_(options) {}

  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& given) override;
  Status DistributeForward(graph::Program& program) override;

  // Returns whether the optimizer update of an element needs values of the whole parameter. This
  // method and the following methods are valid after Distribute.
  bool whole_params() const {
    return reach_ != graph::UpdateScope::kElement && !options_.updates_locally();
  }
  // Returns the trained parameters except tables, in program order.
  const std::vector<std::string>& params() const { return params_; }
  // The names of the parameters of each fragment (PsSyncMode::kLocalSteps).
  const std::vector<std::vector<std::string>>& fragments() const { return fragments_; }
  PsTables& tables() { return tables_; }
  const PsTables& tables() const { return tables_; }

 private:
  Status SplitParams(const graph::Program& program, const std::vector<graph::ParamGrad>& given);

  const PserverOptions& options_;
  graph::UpdateScope reach_ = graph::UpdateScope::kElement;
  std::vector<std::string> params_;
  std::vector<std::vector<std::string>> fragments_;
  PsTables tables_;
};

}  // namespace tandem::trainer
