#include "tests/cuda_on_host/cudnn_descriptor.h"

#include <sstream>

namespace tandem::cuda_on_host {
namespace {

constexpr char kBegin[] = "plan", kEnd[] = "end";

// Writes the descriptor as "type attributes". Each attribute is "name type count", followed by the
// descriptors or the bytes of the attribute.
void Write(const Descriptor& d, std::ostream& out) {
  out << d.type << " " << d.attributes.size() << "\n";
  for (const auto& [name, attribute] : d.attributes) {
    out << name << " " << attribute.type << " " << attribute.count;
    if (attribute.type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      out << "\n";
      for (const auto* part : d.all<Descriptor*>(name)) Write(*part, out);
      continue;
    }
    for (const std::byte b : attribute.bytes) out << " " << std::to_integer<int>(b);
    out << "\n";
  }
}

std::unique_ptr<Descriptor> Read(std::istream& in);

bool ReadAttribute(std::istream& in, Descriptor& d) {
  int name = 0, type = 0;
  int64_t count = 0;
  if (!(in >> name >> type >> count) || count < 0) return false;
  Descriptor::Attribute attribute{static_cast<cudnnBackendAttributeType_t>(type), count, {}};
  if (type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR) return false;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::vector<Descriptor*> parts;
    for (int64_t i = 0; i < count; ++i) {
      auto part = Read(in);
      if (part == nullptr) return false;
      parts.push_back(part.get());
      d.owned.push_back(std::move(part));
    }
    const auto* const bytes = reinterpret_cast<const std::byte*>(parts.data());
    attribute.bytes.assign(bytes, bytes + parts.size() * sizeof(Descriptor*));
  } else {
    for (size_t i = 0; i < SizeOf(attribute.type) * static_cast<size_t>(count); ++i) {
      int b = 0;
      if (!(in >> b)) return false;
      attribute.bytes.push_back(static_cast<std::byte>(b));
    }
  }
  d.attributes[name] = std::move(attribute);
  return true;
}

std::unique_ptr<Descriptor> Read(std::istream& in) {
  int type = 0;
  size_t attributes = 0;
  if (!(in >> type >> attributes)) return nullptr;
  auto d = std::make_unique<Descriptor>();
  d->type = static_cast<cudnnBackendDescriptorType_t>(type);
  d->finalized = true;
  for (size_t i = 0; i < attributes; ++i) {
    if (!ReadAttribute(in, *d)) return nullptr;
  }
  return d;
}

}  // namespace

std::string ToText(const Descriptor& d) {
  std::ostringstream out;
  out << kBegin << " " << cudnnGetVersion() << "\n";
  Write(d, out);
  out << kEnd << "\n";
  return out.str();
}

std::unique_ptr<Descriptor> FromText(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string begin, end;
  size_t version = 0;
  if (!(in >> begin >> version) || begin != kBegin || version != cudnnGetVersion()) return nullptr;
  auto d = Read(in);
  return d != nullptr && in >> end && end == kEnd ? std::move(d) : nullptr;
}

}  // namespace tandem::cuda_on_host
