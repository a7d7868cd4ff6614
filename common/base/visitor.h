// A visitor of a std::variant that is made of one function for each alternative.
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
