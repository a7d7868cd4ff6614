// Makes a visitor for std::visit from one function for each alternative of the std::variant.
#pragma once

namespace tandem {

// Use: std::visit(Visitor{[](const A&) { ... }, [](const B&) { ... }}, variant)
template <typename... Functions>
struct Visitor : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Visitor(Functions...) -> Visitor<Functions...>;

}  // namespace tandem
