#include "trainer/reader/input/npy_array.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/base/require.h"

namespace tandem::reader {
namespace {

static_assert(std::endian::native == std::endian::little, "At() loads little-endian elements");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderMax = size_t{1} << 20;  // maximum size of the header's text in bytes

struct TypeRow {
  std::string_view name;
  NpyType type;
  size_t bytes;
};
constexpr TypeRow kTypes[] = {{"<f4", NpyType::kF4, 4}, {"<f8", NpyType::kF8, 8},
                              {"<i4", NpyType::kI4, 4}, {"<i8", NpyType::kI8, 8},
                              {"|u1", NpyType::kU1, 1}, {"|b1", NpyType::kBool, 1}};

// The values of the header's keys; nullopt: the header lacks the key.
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

// Parses the header: a Python dictionary with the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // Returns the values of the dictionary. nullopt: the text is not such a dictionary, or a key is
  // missing.
  std::optional<Header> Parse() {
    if (!Accept('{')) return std::nullopt;
    while (!Accept('}')) {
      if (!ParseItem()) return std::nullopt;
      if (Accept(',')) continue;
      if (!Accept('}')) return std::nullopt;
      break;
    }
    SkipBlanks();
    if (!text_.empty() || !header_.descr || !header_.fortran_order || !header_.shape) {
      return std::nullopt;
    }
    return header_;
  }

 private:
  void SkipBlanks() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool Accept(char c) {
    SkipBlanks();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool AcceptWord(std::string_view word) {
    SkipBlanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> ParseString() {
    SkipBlanks();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }
  std::optional<std::vector<uint64_t>> ParseShape() {
    if (!Accept('(')) return std::nullopt;
    std::vector<uint64_t> dims;
    while (!Accept(')')) {
      SkipBlanks();
      uint64_t dim = 0;
      const auto [stop, error] = std::from_chars(text_.data(), text_.data() + text_.size(), dim);
      if (error != std::errc() || dims.size() == 32) return std::nullopt;
      text_.remove_prefix(static_cast<size_t>(stop - text_.data()));
      dims.push_back(dim);
      Accept('L');  // suffix that Python 2 wrote
      if (Accept(',')) continue;
      if (!Accept(')')) return std::nullopt;
      break;
    }
    return dims;
  }
  bool ParseItem() {
    const auto key = ParseString();
    if (!key || !Accept(':')) return false;
    if (*key == "descr") {
      // The value is a list if the elements are records, and a string otherwise.
      if (Accept('[')) {
        header_.descr = "[";
        text_ = text_.substr(std::min(text_.find(']'), text_.size()));
        return Accept(']');
      }
      header_.descr = ParseString();
      return header_.descr.has_value();
    }
    if (*key == "fortran_order") {
      header_.fortran_order = AcceptWord("True");
      return *header_.fortran_order || AcceptWord("False");
    }
    if (*key != "shape") return false;
    header_.shape = ParseShape();
    return header_.shape.has_value();
  }

  std::string_view text_;
  Header header_;
};

Status Damaged(const std::string& name, size_t offset, const char* why) {
  return DataLoss("%s: offset %d: %s [TD2002]; hint: write the file again with numpy.save", name,
                  offset, why);
}

Status WrongType(const std::string& name, const std::string& descr) {
  const std::string_view expected = "<f4, <f8, <i4, <i8, |u1 or |b1";
  if (descr.starts_with("|O")) {
    return Unimplemented(
        "%s: the array contains Python objects, expected %s [TD2009]; hint: convert it before "
        "numpy.save with array.astype(\"float32\")",
        name, expected);
  }
  if (descr.starts_with("[") || descr.find('U') != std::string::npos ||
      descr.find('S') != std::string::npos) {
    return Unimplemented(
        "%s: the array contains %s, expected %s [TD2009]; hint: write a csv file with "
        "pandas.DataFrame(array).to_csv",
        name, descr == "[" ? "records" : "texts", expected);
  }
  return Unimplemented(
      "%s: the array has the type %s, expected %s [TD2009]; hint: convert it before numpy.save "
      "with array.astype(\"float32\")",
      name, descr, expected);
}

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Returns the text of the header. Sets `begin` to the offset of the data, directly after the
// header.
StatusOr<std::string_view> HeaderText(std::span<const uint8_t> file, const std::string& name,
                                      size_t& begin) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (!bytes.starts_with(kMagic)) return Damaged(name, 0, "the file is not an array of numpy");
  if (file.size() < kMagic.size() + 4) return Damaged(name, file.size(), "the file is truncated");
  const uint8_t version = file[6];
  if (version < 1 || version > 3) {
    return Unimplemented(
        "%s: offset 6: the format has the version %d, expected 1, 2 or 3 [TD2009]; hint: write the "
        "file with numpy.save",
        name, version);
  }
  begin = kMagic.size() + 2 + (version == 1 ? 2 : 4);
  if (file.size() < begin) return Damaged(name, file.size(), "the file is truncated");
  const size_t length = version == 1 ? Load<uint16_t>(&file[8]) : Load<uint32_t>(&file[8]);
  if (length > kHeaderMax) return Damaged(name, 8, "the header is too long");
  if (file.size() - begin < length) return Damaged(name, file.size(), "the file is truncated");
  const std::string_view text = bytes.substr(begin, length);
  begin += length;
  return text;
}

}  // namespace

double NpyArray::At(size_t i) const {
  TD_REQUIRE(i < elements);
  const uint8_t* const at = data.data();
  switch (type) {
    case NpyType::kF4:
      return static_cast<double>(Load<float>(at + 4 * i));
    case NpyType::kF8:
      return Load<double>(at + 8 * i);
    case NpyType::kI4:
      return Load<int32_t>(at + 4 * i);
    case NpyType::kI8:
      return static_cast<double>(Load<int64_t>(at + 8 * i));
    case NpyType::kU1:
      return at[i];
    case NpyType::kBool:
      return at[i] != 0 ? 1 : 0;
  }
  return 0;
}

StatusOr<NpyArray> ParseNpy(std::span<const uint8_t> file, const std::string& name) {
  size_t begin = 0;
  TD_ASSIGN_OR_RETURN(const std::string_view text, HeaderText(file, name, begin));
  const std::optional<Header> header = HeaderParser(text).Parse();
  if (!header) return Damaged(name, 10, "the header is not a dictionary of an array");
  const TypeRow* row = nullptr;
  for (const TypeRow& known : kTypes) {
    if (*header->descr == known.name) row = &known;
  }
  if (row == nullptr) return WrongType(name, *header->descr);
  NpyArray array{.type = row->type, .dims = *header->shape};
  if (*header->fortran_order && array.dims.size() > 1) {
    return Unimplemented(
        "%s: the array is in Fortran order, expected C order [TD2009]; hint: convert it before "
        "numpy.save with numpy.ascontiguousarray(array)",
        name);
  }
  const uint64_t most = (file.size() - begin) / row->bytes;
  for (const uint64_t dim : array.dims) {
    if (dim == 0) return Damaged(name, begin, "the array has no element");
    if (array.elements > most / dim) {
      return Damaged(name, file.size(), "the file is shorter than its array");
    }
    array.elements *= dim;
  }
  const size_t bytes = static_cast<size_t>(array.elements) * row->bytes;
  if (file.size() - begin != bytes) {
    return Damaged(name, begin + bytes, "bytes follow the end of the array");
  }
  array.data = file.subspan(begin, bytes);
  return array;
}

}  // namespace tandem::reader
