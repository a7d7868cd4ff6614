#include "trainer/monitoring/event_graph.h"

#include <set>
#include <unordered_map>

#include "proto/event.pb.h"

namespace tandem::trainer {
namespace {

// Oldest version of GraphDef that has all features used in this file.
constexpr int kProducer = 22;

// Returns the part of a variable's name that all variables of its layer share.
std::string LayerOf(const std::string& var) { return var.substr(0, var.find_first_of(".@")); }

const char* KindName(graph::VarKind kind) {
  switch (kind) {
    case graph::VarKind::kData:
      return "Data";
    case graph::VarKind::kParam:
      return "Parameter";
    case graph::VarKind::kRemote:
      return "RemoteTable";
    case graph::VarKind::kState:
    case graph::VarKind::kTemp:
      return "State";
  }
  return "";
}

class GraphWriter {
 public:
  explicit GraphWriter(const graph::Program& program) : program_(program) {
    graph_.mutable_versions()->set_producer(kProducer);
  }

  void Add(const ops::Op& op) {
    // Collects the sources before the node of `op` is made, because SourceOf makes a node for each
    // variable that no operator wrote before.
    std::vector<std::string> sources;
    graph::ForEachRead(op, [&](const std::string& var) { sources.push_back(SourceOf(var)); });
    pb::NodeDef* node = NewNode(LayerOf(NamesakeOf(op)) + "/" + op.type, op.type);
    for (std::string& source : sources) node->add_input(std::move(source));
    int output = 0;
    graph::ForEachWrite(op, [&](const std::string& var) {
      AddShape(var, node);
      sources_[var] = output == 0 ? node->name() : node->name() + ":" + std::to_string(output);
      ++output;
    });
  }

  std::string Take() const { return graph_.SerializeAsString(); }

 private:
  // Returns the variable whose name determines the operator's layer: the first parameter that the
  // operator reads, or else a variable that it writes.
  std::string NamesakeOf(const ops::Op& op) const {
    std::string param, written;
    graph::ForEachRead(op, [&](const std::string& var) {
      if (param.empty() && program_.FindVar(var)->kind == graph::VarKind::kParam) param = var;
    });
    graph::ForEachWrite(op,
                        [&](const std::string& var) { written = written.empty() ? var : written; });
    return !param.empty() ? param : !written.empty() ? written : op.type;
  }
  std::string SourceOf(const std::string& var) {
    if (const auto it = sources_.find(var); it != sources_.end()) return it->second;
    const std::string layer = LayerOf(var);
    const std::string name = layer == var ? var : layer + "/" + var.substr(layer.size() + 1);
    pb::NodeDef* node = NewNode(name, KindName(program_.FindVar(var)->kind));
    AddShape(var, node);
    return sources_[var] = node->name();
  }

  // Makes a node with a new name. Replaces '@', which is not allowed in names of TensorFlow.
  pb::NodeDef* NewNode(std::string name, const std::string& op) {
    for (char& c : name) c = c == '@' ? '_' : c;
    std::string fresh = name;
    for (int i = 1; !names_.insert(fresh).second; ++i) fresh = name + "_" + std::to_string(i);
    pb::NodeDef* node = graph_.add_node();
    node->set_name(fresh);
    node->set_op(op);
    return node;
  }

  void AddShape(const std::string& var, pb::NodeDef* node) {
    pb::TensorShapeProto* shape =
        (*node->mutable_attr())["_output_shapes"].mutable_list()->add_shape();
    for (const int64_t size : program_.FindVar(var)->desc.shape.dims())
      shape->add_dim()->set_size(size);
  }

  const graph::Program& program_;
  pb::GraphDef graph_;
  std::set<std::string> names_;
  // Name of the node that wrote each variable last.
  std::unordered_map<std::string, std::string> sources_;
};

}  // namespace

std::string ToGraphDef(const graph::Program& program) {
  GraphWriter writer(program);
  for (const ops::Op& op : program.ops) writer.Add(op);
  return writer.Take();
}

}  // namespace tandem::trainer
