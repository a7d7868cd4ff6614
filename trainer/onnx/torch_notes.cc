#include "trainer/onnx/torch_notes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <vector>

#include "absl/strings/str_split.h"
#include "onnx/onnx.pb.h"

namespace tandem::onnx {
namespace {

// Numbers of the fields metadata_props in a node and in a graph. The code needs the numbers because
// Debian's version of the ONNX format is too old to have these fields.
constexpr int kOfNode = 9, kOfGraph = 16;

// Returns the value of the metadata entry `key`. `unknown`: the unknown fields of a message in wire
// format; `field`: number of the field with the metadata.
std::string NoteOf(const std::string& unknown, int field, std::string_view key) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(unknown.data()),
                                            static_cast<int>(unknown.size()));
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return "";
      continue;
    }
    std::string bytes;
    ::onnx::StringStringEntryProto pair;
    if (!WireFormatLite::ReadBytes(&in, &bytes)) return "";
    const bool note =
        WireFormatLite::GetTagFieldNumber(tag) == field && pair.ParseFromString(bytes);
    if (note && pair.key() == key) return pair.value();
  }
  return "";
}

}  // namespace

// Parses the lines of the signature, for example "p_fc_weight: PARAMETER target='fc.weight'" and
// "b_mask: BUFFER target='mask' ...".
TorchSignature TorchSignatureOf(const ::onnx::GraphProto& graph) {
  TorchSignature signature;
  const std::string text =
      NoteOf(graph.unknown_fields(), kOfGraph, "pkg.torch.export.ExportedProgram.graph_signature");
  signature.known = !text.empty();
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    for (auto& [kind, names] : {std::pair(": PARAMETER target='", &signature.parameters),
                                std::pair(": BUFFER target='", &signature.buffers)}) {
      const size_t at = line.find(kind);
      if (at == line.npos) continue;
      const std::string rest = line.substr(at + std::string_view(kind).size());
      names->emplace(rest.substr(0, rest.find('\'')));
    }
  }
  return signature;
}

bool HasFoldedBatchNorm(const ::onnx::NodeProto& node) {
  return NoteOf(node.unknown_fields(), kOfNode, "pkg.onnxscript.rewriter.rule_name")
             .find("FuseBatchNorm") != std::string::npos;
}

}  // namespace tandem::onnx
