#include "trainer/onnx/patterns.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/onnx.pb.h"

namespace tandem::onnx {
namespace {

using Node = ::onnx::NodeProto;
using Nodes = std::vector<Node*>;

// Returns the number of a tensor with one element; nullopt: the tensor has several elements or an
// unsupported type.
std::optional<double> NumberOf(const ::onnx::TensorProto& tensor) {
  for (const int64_t size : tensor.dims()) {
    if (size != 1) return std::nullopt;
  }
  const std::string& raw = tensor.raw_data();
  if (tensor.data_type() == ::onnx::TensorProto::FLOAT) {
    float value = 0;
    if (raw.size() == sizeof(value)) {
      std::memcpy(&value, raw.data(), sizeof(value));
    } else if (tensor.float_data_size() == 1) {
      value = tensor.float_data(0);
    } else {
      return std::nullopt;
    }
    return value;
  }
  if (tensor.data_type() != ::onnx::TensorProto::INT64) return std::nullopt;
  int64_t value = 0;
  if (raw.size() == sizeof(value)) {
    std::memcpy(&value, raw.data(), sizeof(value));
  } else if (tensor.int64_data_size() == 1) {
    value = tensor.int64_data(0);
  } else {
    return std::nullopt;
  }
  return static_cast<double>(value);
}

const ::onnx::AttributeProto* AttrOf(const Node& node, const std::string& name) {
  for (const auto& attr : node.attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

class Fuser {
 public:
  explicit Fuser(::onnx::GraphProto* graph) : graph_(*graph) {
    for (Node& node : *graph_.mutable_node()) {
      if (node.output_size() == 1) makers_[node.output(0)] = &node;
      for (const std::string& value : node.input()) readers_[value].push_back(&node);
    }
    for (const auto& output : graph_.output()) readers_[output.name()].push_back(nullptr);
    for (const auto& tensor : graph_.initializer()) initializers_[tensor.name()] = &tensor;
  }

  std::set<const Node*> Run() {
    for (Node& node : *graph_.mutable_node()) {
      if (node.output_size() != 1 || node.input_size() != 1) continue;
      if (node.op_type() == "IsNaN") TestForNaN(&node);
      if (node.op_type() == "Erf") Gelu(&node);
      if (node.op_type() == "Sqrt") Normalisation(&node);
    }
    return gone_;
  }

 private:
  // Returns the node that computes `value`; nullptr: there is no such node, or its type is not
  // `type`.
  Node* Maker(const std::string& value, const char* type) const {
    const auto it = makers_.find(value);
    return it != makers_.end() && it->second->op_type() == type ? it->second : nullptr;
  }
  // Returns the only node that reads the result of `node`; nullptr: there are several readers, or
  // the type of the reader is not `type`.
  Node* OnlyReader(const Node& node, const char* type) const {
    const auto it = readers_.find(node.output(0));
    const bool one = it != readers_.end() && it->second.size() == 1 && it->second[0] != nullptr;
    return one && it->second[0]->op_type() == type ? it->second[0] : nullptr;
  }
  std::optional<double> Number(const std::string& value) const {
    if (const auto it = initializers_.find(value); it != initializers_.end()) {
      return NumberOf(*it->second);
    }
    const Node* constant = Maker(value, "Constant");
    const auto* attr = constant == nullptr ? nullptr : AttrOf(*constant, "value");
    return attr == nullptr ? std::nullopt : NumberOf(attr->t());
  }
  bool Is(const std::string& value, double wanted) const {
    const auto number = Number(value);
    return number && std::abs(*number - wanted) < 1e-4 * wanted;
  }
  bool IsVector(const std::string& value) const {
    const auto it = initializers_.find(value);
    return it != initializers_.end() && it->second->dims_size() == 1 && it->second->dims(0) > 1;
  }
  // Returns the input of `node` that is not `value`. "": the node does not have two inputs, or
  // neither of them is `value`.
  static std::string Other(const Node& node, const std::string& value) {
    if (node.input_size() != 2) return "";
    if (node.input(0) == value) return node.input(1);
    return node.input(1) == value ? node.input(0) : "";
  }
  // Returns x if `node` computes x times `factor`. Returns "" if it does not.
  std::string Scaled(const Node& node, double factor) const {
    if (node.input_size() != 2) return "";
    const std::string &a = node.input(0), &b = node.input(1);
    if (node.op_type() == "Div") return Is(b, 1 / factor) ? a : "";
    if (node.op_type() != "Mul") return "";
    return Is(b, factor) ? a : Is(a, factor) ? b : "";
  }
  // Returns x if a node computes `value` as x times `factor`, and adds this node to `nodes`.
  // Returns "" if there is no such node.
  std::string ScaledIn(const std::string& value, double factor, Nodes* nodes) const {
    const auto it = makers_.find(value);
    const std::string x = it == makers_.end() ? "" : Scaled(*it->second, factor);
    if (!x.empty()) nodes->push_back(it->second);
    return x;
  }

  void Gelu(Node* erf) {
    Nodes nodes;
    const std::string x = ScaledIn(erf->input(0), M_SQRT1_2, &nodes);
    Node* at = OnlyReader(*erf, "Add");
    if (x.empty() || at == nullptr || !Is(Other(*at, erf->output(0)), 1)) return;
    nodes.push_back(erf);
    for (bool has_x = false, has_half = false; !has_x || !has_half;) {
      Node* next = OnlyReader(*at, "Mul");
      if (next == nullptr) return;
      const std::string factor = Other(*next, at->output(0));
      if (!has_half && Is(factor, 0.5)) {
        has_half = true;
      } else if (!has_x && factor == x) {
        has_x = true;
      } else if (!has_x && !has_half && ScaledIn(factor, 0.5, &nodes) == x) {
        has_x = has_half = true;
      } else {
        return;
      }
      nodes.push_back(at);
      at = next;
    }
    Become(at, "Gelu", {x}, nodes);
  }

  // Replaces Where(IsNaN(x), 0, x) by x. PyTorch writes this after the softmax of an attention, for
  // rows in which all numbers are masked.
  void TestForNaN(Node* test) {
    Node* where = OnlyReader(*test, "Where");
    if (where == nullptr || where->input_size() != 3) return;
    const std::string x = test->input(0);
    if (where->input(0) != test->output(0) || where->input(2) != x) return;
    if (Number(where->input(1)) == 0.0) Become(where, "Identity", {x}, {test});
  }

  // Returns the dimension over which a ReduceMean computes the mean. nullopt: the node reduces
  // several dimensions, or removes the dimension.
  std::optional<int64_t> AxisOf(const Node& mean) const {
    const auto *axes = AttrOf(mean, "axes"), *keep = AttrOf(mean, "keepdims");
    if (keep != nullptr && keep->i() != 1) return std::nullopt;
    if (axes != nullptr)
      return axes->ints_size() == 1 ? std::optional(axes->ints(0)) : std::nullopt;
    const auto number = mean.input_size() == 2 ? Number(mean.input(1)) : std::nullopt;
    return number ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
  }
  // Returns x if `node` computes the square of x. Returns "" if it does not.
  std::string Root(const Node& node) const {
    if (node.input_size() != 2) return "";
    const std::string &a = node.input(0), &b = node.input(1);
    const bool square = node.op_type() == "Pow" ? Is(b, 2) : node.op_type() == "Mul" && a == b;
    return square ? a : "";
  }

  // The value Sqrt(ReduceMean(c * c) + epsilon), and the nodes that compute it.
  struct Deviation {
    std::string c;
    int64_t axis = 0;
    double epsilon = 0;
    Nodes nodes;
  };

  std::optional<Deviation> DeviationOf(Node* root) const {
    Node* add = Maker(root->input(0), "Add");
    if (add == nullptr || add->input_size() != 2) return std::nullopt;
    const bool left = Number(add->input(0)).has_value();
    const auto epsilon = Number(add->input(left ? 0 : 1));
    Node* variance = Maker(add->input(left ? 1 : 0), "ReduceMean");
    if (!epsilon || variance == nullptr || variance->input_size() == 0) return std::nullopt;
    const auto square = makers_.find(variance->input(0));
    const std::string c = square == makers_.end() ? "" : Root(*square->second);
    const auto axis = AxisOf(*variance);
    if (c.empty() || !axis) return std::nullopt;
    return Deviation{c, *axis, *epsilon, {square->second, variance, add, root}};
  }

  // Returns the node that divides c by the deviation: c / Sqrt(...), or c times
  // Reciprocal(Sqrt(...)) or 1 / Sqrt(...). Adds the Reciprocal or quotient to the deviation's
  // nodes. nullptr: there is no such node.
  Node* QuotientOf(const Node& root, Deviation* deviation) const {
    Node* reciprocal = OnlyReader(root, "Reciprocal");
    Node* at = reciprocal == nullptr ? OnlyReader(root, "Div") : nullptr;
    if (at != nullptr && at->input_size() == 2 && at->input(1) == root.output(0) &&
        Number(at->input(0)) == 1.0) {
      reciprocal = at;  // PyTorch's rsqrt
    }
    if (reciprocal == nullptr) {
      return at != nullptr && Other(*at, root.output(0)) == deviation->c &&
                     at->input(0) == deviation->c
                 ? at
                 : nullptr;
    }
    at = OnlyReader(*reciprocal, "Mul");
    if (at == nullptr || Other(*at, reciprocal->output(0)) != deviation->c) return nullptr;
    deviation->nodes.push_back(reciprocal);
    return at;
  }

  void Normalisation(Node* root) {
    std::optional<Deviation> deviation = DeviationOf(root);
    Node* at = deviation ? QuotientOf(*root, &*deviation) : nullptr;
    if (at == nullptr) return;
    Node* sub = Maker(deviation->c, "Sub");
    Node* mean =
        sub != nullptr && sub->input_size() == 2 ? Maker(sub->input(1), "ReduceMean") : nullptr;
    const bool centred = mean != nullptr && mean->input_size() > 0 &&
                         mean->input(0) == sub->input(0) && AxisOf(*mean) == deviation->axis;
    if (centred) {
      deviation->nodes.insert(deviation->nodes.begin(), {mean, sub});
      at = LayerNorm(at, sub->input(0), deviation->nodes);
    } else {
      Become(at, "RMSNormalization", {deviation->c}, deviation->nodes);
    }
    ::onnx::AttributeProto* attr = at->add_attribute();
    attr->set_name("axis");
    attr->set_i(deviation->axis);
    attr = at->add_attribute();
    attr->set_name("epsilon");
    attr->set_f(static_cast<float>(deviation->epsilon));
  }

  // `at` and `nodes` compute the normalised X. Replaces these nodes, and a scale and a bias after
  // them, by a LayerNormalization node. Returns this node.
  Node* LayerNorm(Node* at, const std::string& x, Nodes nodes) {
    std::vector<std::string> inputs = {x};
    for (const char* type : {"Mul", "Add"}) {
      Node* next = OnlyReader(*at, type);
      const std::string vector = next == nullptr ? "" : Other(*next, at->output(0));
      if (!IsVector(vector)) break;
      inputs.push_back(vector);
      nodes.push_back(at);
      at = next;
    }
    Become(at, "LayerNormalization", inputs, nodes);
    return at;
  }

  // Changes `last` to a node of type `type` that computes the result of the pattern. Removes each
  // of `nodes`, the other nodes of the pattern in order, if no remaining node reads its result.
  void Become(Node* last, const char* type, const std::vector<std::string>& inputs, Nodes nodes) {
    for (const std::string& value : last->input()) std::erase(readers_[value], last);
    last->set_op_type(type);
    last->clear_attribute();
    last->clear_input();
    for (const std::string& value : inputs) {
      last->add_input(value);
      readers_[value].push_back(last);
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (!readers_[(*node)->output(0)].empty()) continue;
      gone_.insert(*node);
      for (const std::string& value : (*node)->input()) std::erase(readers_[value], *node);
    }
  }

  ::onnx::GraphProto& graph_;
  std::map<std::string, Node*> makers_;   // the node that computes each value
  std::map<std::string, Nodes> readers_;  // readers of each value; nullptr: the graph's output
  std::map<std::string, const ::onnx::TensorProto*> initializers_;
  std::set<const Node*> gone_;
};

}  // namespace

std::set<const ::onnx::NodeProto*> FusePatterns(::onnx::GraphProto* graph) {
  return Fuser(graph).Run();
}

}  // namespace tandem::onnx
