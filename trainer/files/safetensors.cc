#include "trainer/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/os/files.h"
#include "trainer/files/sha256.h"

namespace tandem::trainer {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
// Maximum nesting of the header's JSON. A header with deeper nesting is rejected, because it could
// exhaust the stack.
constexpr int kDepthMax = 4;
constexpr size_t kTensorsMax = 1'000'000;

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kDTypes[] = {{DType::kF32, "F32"}, {DType::kF16, "F16"}, {DType::kBF16, "BF16"},
                                 {DType::kI32, "I32"}, {DType::kI64, "I64"}, {DType::kU8, "U8"}};

const char* FileName(DType dtype) {
  for (const auto& row : kDTypes) {
    if (row.dtype == dtype) return row.name;
  }
  LOG(FATAL) << "no safetensors name for " << Name(dtype);
}

uint64_t LittleEndian64(const uint8_t* p) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = (value << 8) | p[i];
  return value;
}

// Makes the header. The tensors are sorted by name (the order of nlohmann's objects), and their
// offsets are in this order. The header is padded with spaces so that the data start at a multiple
// of 8 bytes.
StatusOr<std::string> MakeHeader(const std::string& path, const TensorMap& tensors,
                                 const StringMap& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata)
      return InvalidArgument("%s: a tensor cannot have the name %s", path, name);
    if (!tensor.defined())
      return InvalidArgument("cannot write %s: tensor \"%s\" is not allocated", path, name);
    CHECK(tensor.place().kind == PlaceKind::kCpu) << name;
    const auto dims = tensor.shape().dims();
    header[name] = {{"dtype", FileName(tensor.dtype())},
                    {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {  // dump() reports invalid UTF-8 only by an exception
    return InvalidArgument("%s: the name or metadata of a tensor is not valid UTF-8", path);
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kSafetensorsHeaderBytesMax) {
    return InvalidArgument("%s: the header has %d bytes, but at most %d bytes are allowed", path,
                           text.size(), kSafetensorsHeaderBytesMax);
  }
  return text;
}

using WriteFn = std::function<Status(const void*, size_t)>;

// Passes all bytes of the file to `write`, in the order of the file.
Status Emit(const std::string& path, const TensorMap& tensors, const StringMap& metadata,
            const WriteFn& write) {
  TD_ASSIGN_OR_RETURN(const std::string header, MakeHeader(path, tensors, metadata));
  uint8_t length[8];
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(header.size() >> (8 * i));
  TD_RETURN_IF_ERROR(write(length, sizeof(length)));
  TD_RETURN_IF_ERROR(write(header.data(), header.size()));
  for (const auto& [name, tensor] : tensors) {
    TD_RETURN_IF_ERROR(write(tensor.data(), tensor.bytes()));
  }
  return OkStatus();
}

// Parses JSON without exceptions. Rejects duplicate names and deep nesting, which nlohmann's parser
// accepts.
class StrictHandler : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  explicit StrictHandler(Json& root) : Base(root, /*allow_exceptions=*/false) {}

  bool start_object(std::size_t n) {
    keys_.emplace_back();
    return Enter() && Base::start_object(n);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return Base::end_object();
  }
  bool start_array(std::size_t n) { return Enter() && Base::start_array(n); }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& name) {
    auto& seen = keys_.back();
    if (!seen.insert(name).second) {
      problem_ = absl::StrFormat("key \"%s\" occurs twice in the header", name);
      return false;
    }
    return Base::key(name);
  }
  bool parse_error(std::size_t at, const std::string& token, const nlohmann::detail::exception& e) {
    problem_ = absl::StrFormat("byte %d of the header is invalid JSON", at);
    return Base::parse_error(at, token, e);
  }
  const std::string& problem() const { return problem_; }

 private:
  bool Enter() {
    if (++depth_ <= kDepthMax) return true;
    problem_ = "the JSON is nested too deeply";
    return false;
  }

  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
  std::string problem_;
};

struct Entry {
  std::string name;
  TensorDesc desc;
  uint64_t begin = 0, end = 0;
};

using ReadFn = std::function<Status(void*, size_t)>;

class Parser {
 public:
  // `read` copies the requested number of bytes, starting where the previous read ended.
  // `file_bytes`: size of the file.
  Parser(const std::string& name, uint64_t file_bytes, ReadFn read)
      : name_(name), file_bytes_(file_bytes), read_(std::move(read)) {}

  StatusOr<Safetensors> Parse(Device& device) {
    TD_ASSIGN_OR_RETURN(const std::string header, ReadHeader());
    TD_RETURN_IF_ERROR(ParseHeader(header));
    TD_RETURN_IF_ERROR(CheckOffsets());
    for (const Entry& entry : entries_) {
      TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make(entry.desc, device));
      CHECK(tensor.place().kind == PlaceKind::kCpu) << "tensors are read into host memory";
      TD_RETURN_IF_ERROR(read_(tensor.data(), tensor.bytes()));
      out_.tensors.emplace(entry.name, std::move(tensor));
    }
    return std::move(out_);
  }

 private:
  Status Bad(const std::string& what) const {
    return DataLoss("%s cannot be read: %s", name_, what);
  }
  Status BadTensor(const std::string& tensor, const std::string& what) const {
    return DataLoss("%s: tensor \"%s\" is invalid: %s", name_, tensor, what);
  }

  StatusOr<std::string> ReadHeader() {
    if (file_bytes_ < 8) {
      return Bad(absl::StrFormat(
          "the file has %d bytes, but a safetensors file has at least 8 bytes", file_bytes_));
    }
    uint8_t length[8];
    TD_RETURN_IF_ERROR(read_(length, sizeof(length)));
    const uint64_t bytes = LittleEndian64(length);
    if (bytes > kSafetensorsHeaderBytesMax) {
      return Bad(
          absl::StrFormat("offset 0: the header has %d bytes, but at most %d bytes are allowed; "
                          "this is not a safetensors file",
                          bytes, kSafetensorsHeaderBytesMax));
    }
    if (bytes > file_bytes_ - 8) {
      return Bad(
          absl::StrFormat("offset 0: the header needs %d bytes, but the file has only %d bytes; "
                          "the file is truncated",
                          bytes, file_bytes_));
    }
    data_bytes_ = file_bytes_ - 8 - bytes;
    std::string header(bytes, '\0');
    TD_RETURN_IF_ERROR(read_(header.data(), header.size()));
    return header;
  }

  Status ParseHeader(const std::string& header) {
    Json root;
    StrictHandler handler(root);
    if (!Json::sax_parse(header, &handler) || !handler.problem().empty()) {
      return Bad("header: " + (handler.problem().empty() ? "broken JSON" : handler.problem()));
    }
    if (!root.is_object()) return Bad("the header is not a JSON object");
    if (root.size() > kTensorsMax)
      return Bad(absl::StrFormat(
          "the header lists %d tensors, which is more than this program supports", root.size()));
    for (const auto& [name, value] : root.items()) {
      TD_RETURN_IF_ERROR(name == kMetadata ? ParseMetadata(value) : ParseEntry(name, value));
    }
    return OkStatus();
  }

  Status ParseMetadata(const Json& value) {
    if (!value.is_object()) return Bad("header: __metadata__ must be an object with string values");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        return Bad(absl::StrFormat("header: __metadata__ \"%s\" must be a string", key));
      }
      out_.metadata[key] = text.get<std::string>();
    }
    return OkStatus();
  }

  Status ParseEntry(const std::string& name, const Json& value) {
    Entry entry{.name = name};
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      return BadTensor(name, "expected dtype, shape and data_offsets");
    }
    if (!value["dtype"].is_string()) return BadTensor(name, "dtype must be a string");
    const auto dtype = value["dtype"].get<std::string>();
    const auto* row = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const DTypeName& d) { return dtype == d.name; });
    if (row == std::end(kDTypes)) {
      return BadTensor(
          name, "the dtype \"" + dtype + "\" is unknown, expected F32, F16, BF16, I32, I64 or U8");
    }
    TD_ASSIGN_OR_RETURN(const auto dims, Numbers(name, "shape", value["shape"]));
    TD_ASSIGN_OR_RETURN(const auto offsets, Numbers(name, "data_offsets", value["data_offsets"]));
    const auto shape = ParseShape(dims);
    if (!shape.ok()) return BadTensor(name, std::string(shape.status().message()));
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      return BadTensor(name, "data_offsets must be [begin, end] with begin <= end");
    }
    entry.desc = {row->dtype, *shape};
    entry.begin = static_cast<uint64_t>(offsets[0]);
    entry.end = static_cast<uint64_t>(offsets[1]);
    if (entry.end - entry.begin != entry.desc.bytes()) {
      return BadTensor(
          name, absl::StrFormat("data_offsets [%d, %d] contain %d bytes, but %s needs %d bytes",
                                entry.begin, entry.end, entry.end - entry.begin,
                                ToString(entry.desc), entry.desc.bytes()));
    }
    entries_.push_back(std::move(entry));
    return OkStatus();
  }

  // Parses an array of whole numbers from 0 to 2^62.
  StatusOr<std::vector<int64_t>> Numbers(const std::string& name, const char* field,
                                         const Json& value) const {
    constexpr uint64_t kMax = uint64_t{1} << 62;
    std::vector<int64_t> out;
    if (!value.is_array()) return BadTensor(name, absl::StrFormat("%s must be an array", field));
    for (const Json& item : value) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > kMax) {
        return BadTensor(name,
                         absl::StrFormat("%s must contain whole numbers of at least 0", field));
      }
      out.push_back(static_cast<int64_t>(item.get<uint64_t>()));
    }
    return out;
  }

  // Sorts the tensors by offset. Checks that the tensors fill the data without an overlap or a gap,
  // and that no bytes follow the last tensor.
  Status CheckOffsets() {
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t at = 0;
    for (const Entry& entry : entries_) {
      if (entry.begin != at) {
        return BadTensor(entry.name,
                         absl::StrFormat("the data begin at byte %d, expected byte %d (%s)",
                                         entry.begin, at, entry.begin < at ? "overlap" : "gap"));
      }
      if (entry.end > data_bytes_) {
        return BadTensor(entry.name, absl::StrFormat("the data end at byte %d, but the file has "
                                                     "only %d bytes of data; the file is truncated",
                                                     entry.end, data_bytes_));
      }
      at = entry.end;
    }
    if (at != data_bytes_) {
      return Bad(absl::StrFormat("%d bytes follow the last tensor", data_bytes_ - at));
    }
    return OkStatus();
  }

  const std::string& name_;
  const uint64_t file_bytes_;
  uint64_t data_bytes_ = 0;
  const ReadFn read_;
  std::vector<Entry> entries_;
  Safetensors out_;
};

}  // namespace

Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                        const StringMap& metadata) {
  FileWriter file;
  TD_RETURN_IF_ERROR(file.Open(path));
  TD_RETURN_IF_ERROR(Emit(path, tensors, metadata,
                          [&](const void* data, size_t bytes) { return file.Write(data, bytes); }));
  return file.SyncAndClose();
}

StatusOr<std::string> Sha256Params(const TensorMap& tensors) {
  Sha256 hash;
  TD_RETURN_IF_ERROR(Emit("parameters", tensors, {}, [&](const void* data, size_t bytes) {
    hash.Add(data, bytes);
    return OkStatus();
  }));
  return hash.Finish();
}

StatusOr<Safetensors> ParseSafetensors(std::span<const uint8_t> file, const std::string& name,
                                       Device& device) {
  size_t at = 0;
  const auto read = [&](void* data, size_t bytes) {
    CHECK_LE(bytes, file.size() - at);
    if (bytes > 0) std::memcpy(data, file.data() + at, bytes);
    at += bytes;
    return OkStatus();
  };
  return Parser(name, file.size(), read).Parse(device);
}

StatusOr<Safetensors> ReadSafetensors(const std::string& path, Device& device) {
  FileReader file;
  TD_RETURN_IF_ERROR(file.Open(path));
  const auto read = [&](void* data, size_t bytes) { return file.Read(data, bytes); };
  return Parser(path, file.bytes(), read).Parse(device);
}

}  // namespace tandem::trainer
