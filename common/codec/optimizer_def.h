// Converts an optimizer to the message OptimizerDef, which parameter servers receive and store in
// checkpoints. The conversion has its own file, because clients also use the conversion but do not
// link the code of servers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace tandem::codec {

// Copies `optimizer` into `def`. `Optimizer` is OptimizerSpec or PsOptimizer; `Def` is
// OptimizerDef.
template <typename Optimizer, typename Def>
void FillOptimizer(const Optimizer& optimizer, Def* def) {
  def->set_type(optimizer.type);
  for (const auto& [name, value] : optimizer.attrs) {
    auto* attr = def->add_attr();
    attr->set_name(name);
    if (const bool* b = std::get_if<bool>(&value)) attr->set_b(*b);
    if (const int64_t* i = std::get_if<int64_t>(&value)) attr->set_i(*i);
    if (const double* f = std::get_if<double>(&value)) attr->set_f(*f);
    if (const std::string* s = std::get_if<std::string>(&value)) attr->set_s(*s);
  }
}

}  // namespace tandem::codec
