#include "kernels/graph/draw.h"

#include <set>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace tandem::graph {
namespace {

const char* ColorOf(ops::OpRole role) {
  switch (role) {
    case ops::OpRole::kForward:
      return "#cfe2f3";
    case ops::OpRole::kLoss:
      return "#fff2cc";
    case ops::OpRole::kBackward:
      return "#f4cccc";
    case ops::OpRole::kComm:
      return "#d9d2e9";
    case ops::OpRole::kOptimize:
      return "#d9ead3";
    case ops::OpRole::kInit:
      return "#eeeeee";
  }
  return "#ffffff";
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string LabelOf(const ops::Op& op) {
  std::string label = op.type;
  for (const ops::Op& inner : op.body) absl::StrAppend(&label, "\\n· ", inner.type);
  if (!op.run_if.empty()) absl::StrAppend(&label, "\\nif ", op.run_if);
  return label;
}

}  // namespace

std::string ToDot(const Program& program, const std::string& title) {
  std::string text = absl::StrCat("digraph program {\n  label=", Quoted(title),
                                  ";\n  labelloc=t;\n  node [fontname=\"sans-serif\"];\n"
                                  "  edge [fontname=\"sans-serif\", fontsize=9];\n");
  std::string nodes, edges;
  std::set<std::string> drawn;
  // By variable: the node of the operator that wrote it last.
  std::unordered_map<std::string, std::string> writer;
  const auto source = [&](const std::string& name) {
    if (const auto it = writer.find(name); it != writer.end()) return it->second;
    if (drawn.insert(name).second) absl::StrAppend(&nodes, "  ", Quoted(name), ";\n");
    return Quoted(name);
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& op = program.ops[i];
    const std::string node = absl::StrCat("op", i);
    absl::StrAppend(&nodes, "  ", node, " [shape=box, style=filled, fillcolor=\"", ColorOf(op.role),
                    "\", label=", Quoted(LabelOf(op)), "];\n");
    ForEachRead(op, [&](const std::string& name) {
      absl::StrAppend(&edges, "  ", source(name), " -> ", node, " [label=",
                      Quoted(name + "\\n" + ToString(program.FindVar(name)->desc.shape)), "];\n");
    });
    ForEachWrite(op, [&](const std::string& name) { writer[name] = node; });
  }
  return absl::StrCat(text, nodes, edges, "}\n");
}

}  // namespace tandem::graph
