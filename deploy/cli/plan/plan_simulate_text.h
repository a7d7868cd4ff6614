// Prints the result of a simulation by `tandem plan` as text, as JSON and as a chart.
#pragma once

#include <string>

#include "deploy/cli/plan/plan_simulate.h"

namespace tandem::deploy {

std::string SimulationText(const PlanJob& job, const SimulationRequest& request,
                           const Simulation& simulation);
std::string SimulationJson(const PlanJob& job, const SimulationRequest& request,
                           const Simulation& simulation);
std::string SimulationSvg(const PlanJob& job, const SimulationRequest& request,
                          const Simulation& simulation);

}  // namespace tandem::deploy
