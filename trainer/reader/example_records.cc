#include "trainer/reader/example_records.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "proto/example.pb.h"
#include "trainer/reader/input/bad_records.h"
#include "trainer/reader/input/input_file.h"
#include "trainer/reader/input/record_io.h"

namespace tandem::reader {
namespace {

constexpr int64_t kValuesMax = int64_t{1} << 28;  // maximum number of values of a feature

struct Field {
  ExampleFeature feature;
  Shape shape;
  size_t values = 0;  // number of values of the feature in a sample
};

const char* KindName(const pb::Feature& feature) {
  switch (feature.kind_case()) {
    case pb::Feature::kBytesList:
      return "bytes";
    case pb::Feature::kFloatList:
      return "float";
    case pb::Feature::kInt64List:
      return "int64";
    default:
      return "nothing";
  }
}

Status NeedValues(const Field& field, int64_t got) {
  if (std::cmp_equal(got, field.values)) return OkStatus();
  return DataLoss("feature \"%s\" has %d values, expected %d", field.feature.name, got,
                  field.values);
}

// Checks the values of a feature and copies them to `out`. If `out` is nullptr, only checks the
// values.
Status Decode(const pb::Example& example, const Field& field, void* out) {
  const auto& features = example.features().feature();
  const auto found = features.find(field.feature.name);
  if (found == features.end())
    return DataLoss("the record has no feature \"%s\"", field.feature.name);
  const pb::Feature& value = found->second;
  if (field.feature.kind == ExampleFeature::kFloat && value.has_float_list()) {
    const auto& list = value.float_list().value();
    TD_RETURN_IF_ERROR(NeedValues(field, list.size()));
    if (out != nullptr) std::copy(list.begin(), list.end(), static_cast<float*>(out));
    return OkStatus();
  }
  if (field.feature.kind == ExampleFeature::kInt64 && value.has_int64_list()) {
    const auto& list = value.int64_list().value();
    TD_RETURN_IF_ERROR(NeedValues(field, list.size()));
    const int64_t limit = field.feature.limit;
    for (const int64_t id : list) {
      if (limit > 0 && (id < 0 || id >= limit)) {
        return DataLoss("feature \"%s\": %d is out of range, expected 0 to %d", field.feature.name,
                        id, limit - 1);
      }
    }
    if (out != nullptr) std::copy(list.begin(), list.end(), static_cast<int64_t*>(out));
    return OkStatus();
  }
  if (field.feature.kind == ExampleFeature::kBytes && value.has_bytes_list()) {
    if (const int texts = value.bytes_list().value_size(); texts != 1) {
      return DataLoss("feature \"%s\" has %d byte strings, expected 1", field.feature.name, texts);
    }
    const std::string& bytes = value.bytes_list().value(0);
    TD_RETURN_IF_ERROR(NeedValues(field, static_cast<int64_t>(bytes.size())));
    if (out != nullptr) {
      std::transform(bytes.begin(), bytes.end(), static_cast<float*>(out), [&](char c) {
        return static_cast<float>(static_cast<unsigned char>(c)) * field.feature.scale;
      });
    }
    return OkStatus();
  }
  return DataLoss("feature \"%s\" contains %s, which is not the configured kind",
                  field.feature.name, KindName(value));
}

Status Parse(std::string_view record, pb::Example& example) {
  // The silencer suppresses protobuf's log lines about names that are not UTF-8, because these
  // lines name neither the file nor the record.
  const google::protobuf::LogSilencer quiet;
  if (record.size() <= INT32_MAX &&
      example.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return OkStatus();
  }
  return DataLoss("the record is not a tf.train.Example");
}

struct Place {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t file = 0;
};

struct Store {
  std::vector<Field> fields;
  std::vector<InputFile> files;
  std::vector<Place> places;  // positions of the good records, in the order of the files
};

class Examples final : public Dataset {
 public:
  Examples(std::shared_ptr<const Store> store, uint64_t begin, uint64_t size, std::string name)
      : store_(std::move(store)),
        begin_(begin),
        size_(static_cast<uint32_t>(size)),
        name_(std::move(name)) {
    for (const Field& field : store_->fields) {
      const bool i64 = field.feature.kind == ExampleFeature::kInt64;
      fields_.push_back({field.feature.field.empty() ? field.feature.name : field.feature.field,
                         {i64 ? DType::kI64 : DType::kF32, field.shape},
                         field.feature.limit});
    }
  }

  uint32_t size() const override { return size_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    std::string record;
    pb::Example example;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= size_)
        return OutOfRange("%s has no sample %d, expected a number below %d", name_, ids[i], size_);
      const Place& place = store_->places[begin_ + ids[i]];
      const InputFile& file = store_->files[place.file];
      const auto where = [&] {
        return absl::StrFormat("%s: offset %d", file.path(), place.offset);
      };
      record.resize(place.bytes);
      TD_ASSIGN_OR_RETURN(const size_t got, file.Read(place.offset, record.data(), place.bytes));
      if (got < place.bytes)
        return DataLoss("%s: the file was truncated while it was read [TD2002]", where());
      Status status = Parse(record, example);
      for (size_t f = 0; status.ok() && f < fields_.size(); ++f) {
        const size_t bytes = fields_[f].desc.bytes();
        status = Decode(example, store_->fields[f], static_cast<char*>(out[f]) + i * bytes);
      }
      if (!status.ok()) return Annotate(status, where());
    }
    return OkStatus();
  }
  std::string Describe() const override {
    return absl::StrFormat("%s: %d records of %d features", name_, size_, fields_.size());
  }

 private:
  const std::shared_ptr<const Store> store_;
  const uint64_t begin_;
  const uint32_t size_;
  const std::string name_;
  std::vector<SampleField> fields_;
};

StatusOr<std::vector<Field>> Check(const std::vector<ExampleFeature>& features) {
  if (features.empty())
    return InvalidArgument("data.records names no feature, expected at least one [TD1106]");
  std::vector<Field> fields;
  for (const ExampleFeature& feature : features) {
    if (feature.name.empty())
      return InvalidArgument("data.records has a feature without a name [TD1106]");
    const auto shape = ParseShape(feature.dims);
    if (!shape.ok()) return Annotate(shape.status(), "feature \"" + feature.name + "\"");
    if (shape->numel() < 1 || shape->numel() > kValuesMax) {
      return InvalidArgument(
          "data.records: feature \"%s\" has %d values, expected 1 to %d [TD1104]", feature.name,
          shape->numel(), kValuesMax);
    }
    fields.push_back({feature, *shape, static_cast<size_t>(shape->numel())});
  }
  return fields;
}

// Adds the positions of the good records of a file to `store`, at most `records_max` records.
// Returns their number.
StatusOr<uint64_t> Index(const std::string& path, uint64_t records_max, int64_t bad_max,
                         Store& store, std::vector<std::string>* warnings) {
  TD_ASSIGN_OR_RETURN(const auto scanner, RecordScanner::Open(path));
  TD_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  BadRecords bad(path, bad_max, warnings);
  const auto number = static_cast<uint32_t>(store.files.size());
  uint64_t records = 0;
  pb::Example example;
  while (records_max == 0 || records < records_max) {
    const auto frame = scanner->Next();
    if (scanner->lost()) return frame.status();
    if (!frame.ok()) {
      TD_RETURN_IF_ERROR(bad.Add(std::string(frame.status().message())));
      continue;
    }
    if (!frame->has_value()) break;
    const auto [bytes, offset] = **frame;
    Status status = Parse(bytes, example);
    for (const Field& field : store.fields) {
      if (status.ok()) status = Decode(example, field, nullptr);
    }
    if (!status.ok()) {
      TD_RETURN_IF_ERROR(bad.Add(
          absl::StrFormat("%s: offset %d: %s", path, offset, std::string(status.message()))));
      continue;
    }
    store.places.push_back({offset, static_cast<uint32_t>(bytes.size()), number});
    ++records;
  }
  bad.Finish();
  if (records == 0) return DataLoss("%s contains no record [TD2006]", path);
  store.files.push_back(std::move(file));
  return records;
}

template <typename T>
void AddValues(const T* values, size_t count, pb::Feature& feature) {
  if constexpr (std::is_same_v<T, float>) {
    for (size_t i = 0; i < count; ++i) feature.mutable_float_list()->add_value(values[i]);
  } else {
    for (size_t i = 0; i < count; ++i) {
      feature.mutable_int64_list()->add_value(static_cast<int64_t>(values[i]));
    }
  }
}

template <typename List, typename Text>
std::string Listed(const char* kind, const List& list, size_t values_max, const Text& text) {
  std::string out = absl::StrFormat("%s [%d]", kind, list.size());
  for (size_t i = 0; i < std::min<size_t>(values_max, static_cast<size_t>(list.size())); ++i) {
    out += " " + text(list[static_cast<int>(i)]);
  }
  return out + (std::cmp_less(values_max, list.size()) ? " ..." : "");
}

}  // namespace

StatusOr<TrainAndTest> OpenExamples(const ExampleOptions& options) {
  auto store = std::make_shared<Store>();
  TD_ASSIGN_OR_RETURN(store->fields, Check(options.features));
  std::vector<std::string> warnings;
  const auto read = [&](const std::string& path, uint64_t records_max) {
    return Index(path, records_max, options.files.reading.bad_records_max, *store, &warnings);
  };
  TD_ASSIGN_OR_RETURN(const RecordSplit split, ReadRecordFiles(options.files, read));
  const auto view = [&](uint64_t begin, uint64_t size, const std::string& name) {
    return std::make_unique<Examples>(store, begin, size, name);
  };
  return MakeViews(options.files, split, std::move(warnings), view);
}

StatusOr<std::string> ExampleOf(const Dataset& data, uint32_t id) {
  std::vector<std::vector<char>> bytes;
  std::vector<void*> out;
  for (const SampleField& field : data.fields()) {
    out.push_back(bytes.emplace_back(field.desc.bytes()).data());
  }
  TD_RETURN_IF_ERROR(data.Fill({&id, 1}, out));
  pb::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (size_t f = 0; f < out.size(); ++f) {
    const SampleField& field = data.fields()[f];
    const auto values = static_cast<size_t>(field.desc.shape.numel());
    pb::Feature& feature = features[field.name];
    switch (field.desc.dtype) {
      case DType::kF32:
        AddValues(static_cast<const float*>(out[f]), values, feature);
        break;
      case DType::kI64:
        AddValues(static_cast<const int64_t*>(out[f]), values, feature);
        break;
      case DType::kU8:
        AddValues(static_cast<const uint8_t*>(out[f]), values, feature);
        break;
      default:
        return Unimplemented("field \"%s\" is %s, but a record can store only f32, i64 and bytes",
                             field.name, Name(field.desc.dtype));
    }
  }
  return example.SerializeAsString();
}

StatusOr<std::string> DescribeExample(std::string_view record, size_t values_max) {
  pb::Example example;
  TD_RETURN_IF_ERROR(Parse(record, example));
  std::vector<std::string> lines;
  for (const auto& [name, feature] : example.features().feature()) {
    std::string text;
    if (feature.has_float_list()) {
      text = Listed("float", feature.float_list().value(), values_max,
                    [](float v) { return absl::StrFormat("%g", v); });
    } else if (feature.has_int64_list()) {
      text = Listed("int64", feature.int64_list().value(), values_max,
                    [](int64_t v) { return absl::StrFormat("%d", v); });
    } else {
      text = Listed("bytes", feature.bytes_list().value(), values_max,
                    [](const std::string& v) { return absl::StrFormat("(%d bytes)", v.size()); });
    }
    lines.push_back(name + ": " + text + "\n");
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
}

}  // namespace tandem::reader
