#include "pserver/image_values.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/pserver.pb.h"
#include "pserver/buffer_pool.h"
#include "pserver/proto_convert.h"
#include "pserver/value_file.h"

namespace tandem {
namespace {

Status AddFloats(const Buffer& values, int64_t numel, ValueWriter& file) {
  return file.Add(values.get(), static_cast<size_t>(numel) * sizeof(float));
}

// Records as they come, with where they belong.
class Records {
 public:
  Records(const std::string& path, ValueReader file) : path_(path), file_(std::move(file)) {}

  // `numel` -1: as many as there are; says how many.
  StatusOr<Buffer> Floats(const std::string& what, int64_t* numel) {
    TD_ASSIGN_OR_RETURN(const size_t bytes, file_.Next());
    const auto found = static_cast<int64_t>(bytes / sizeof(float));
    if (bytes % sizeof(float) != 0 || (*numel >= 0 && *numel != found)) {
      return DataLoss("%s: %s has %d bytes, expected %d elements", path_, what, bytes, *numel);
    }
    *numel = found;
    TD_ASSIGN_OR_RETURN(Buffer values, pool_.Take(bytes));
    TD_RETURN_IF_ERROR(file_.Read(values.get()));
    return values;
  }
  StatusOr<RowValues> Rows(const std::string& what) {
    TD_ASSIGN_OR_RETURN(const size_t bytes, file_.Next());
    text_.resize(bytes);
    TD_RETURN_IF_ERROR(file_.Read(text_.data()));
    if (!record_.ParseFromString(text_)) return DataLoss("%s: rows of %s are damaged", path_, what);
    return FromProto(record_);
  }
  Status Finish(uint32_t expected) {
    TD_ASSIGN_OR_RETURN(const uint32_t sum, file_.Finish());
    if (sum == expected) return OkStatus();
    return DataLoss("%s: CRC32C of the values is %08x, the checkpoint's record says %08x", path_,
                    sum, expected);
  }

 private:
  const std::string path_;
  ValueReader file_;
  BufferPool pool_{0};
  std::string text_;  // memory that is used again
  TableRows record_;
};

Status ReadSlices(const ShardMeta& meta, Records& records, ShardImage& image) {
  for (size_t i = 0; i < image.config.slices.size(); ++i) {
    const SliceSpec& spec = image.config.slices[i];
    SliceImage slice;
    int64_t numel = spec.numel;
    TD_ASSIGN_OR_RETURN(slice.param, records.Floats(spec.variable, &numel));
    const std::string& names = meta.slots(static_cast<int>(i));
    std::vector<std::string> slots;
    if (!names.empty()) slots = absl::StrSplit(names, '\n');
    for (const std::string& name : slots) {
      numel = -1;
      TD_ASSIGN_OR_RETURN(Buffer values, records.Floats(name, &numel));
      slice.slots.push_back({name, numel, std::move(values)});
    }
    image.slices.push_back(std::move(slice));
  }
  return OkStatus();
}

Status ReadTables(const ShardMeta& meta, Records& records, ShardImage& image) {
  for (int i = 0; i < meta.table_size(); ++i) {
    const std::string& name = image.config.tables[static_cast<size_t>(i)].variable;
    TableImage& table = image.tables.emplace_back();
    for (const uint32_t bucket : meta.table(i).bucket()) {
      TD_ASSIGN_OR_RETURN(RowValues values, records.Rows(name));
      table.buckets.emplace_back(static_cast<int>(bucket), std::move(values));
    }
    table.partial = meta.table(i).partial();
    for (const TableMeta::Scalar& slot : meta.table(i).slot()) {
      table.scalars.emplace_back(slot.name(), slot.value());
    }
  }
  return OkStatus();
}

Status WritePrevious(const ShardImage& image, ValueWriter& file) {
  for (size_t i = 0; i < image.slices.size(); ++i) {
    TD_RETURN_IF_ERROR(AddFloats(image.slices[i].previous, image.config.slices[i].numel, file));
  }
  for (const TableImage& table : image.tables) {
    TableRows record;
    ToProto(table.previous, &record);
    const std::string text = record.SerializeAsString();
    TD_RETURN_IF_ERROR(file.Add(text.data(), text.size()));
  }
  return OkStatus();
}

Status ReadPrevious(Records& records, ShardImage& image) {
  for (size_t i = 0; i < image.slices.size(); ++i) {
    int64_t numel = image.config.slices[i].numel;
    TD_ASSIGN_OR_RETURN(image.slices[i].previous,
                        records.Floats(image.config.slices[i].variable, &numel));
  }
  for (size_t i = 0; i < image.tables.size(); ++i) {
    TD_ASSIGN_OR_RETURN(image.tables[i].previous, records.Rows(image.config.tables[i].variable));
  }
  return OkStatus();
}

}  // namespace

Status WriteValues(const std::string& path, const ShardImage& image, ShardMeta& meta) {
  TD_ASSIGN_OR_RETURN(ValueWriter file, ValueWriter::Create(path));
  for (size_t i = 0; i < image.slices.size(); ++i) {
    TD_RETURN_IF_ERROR(AddFloats(image.slices[i].param, image.config.slices[i].numel, file));
    std::vector<std::string> names;
    for (const SliceImage::Slot& slot : image.slices[i].slots) {
      TD_RETURN_IF_ERROR(AddFloats(slot.values, slot.numel, file));
      names.push_back(slot.name);
    }
    meta.add_slots(absl::StrJoin(names, "\n"));
  }
  TableRows record;
  std::string text;
  for (const TableImage& table : image.tables) {
    TableMeta* const added = meta.add_table();
    added->set_partial(table.partial);
    for (const auto& [bucket, rows] : table.buckets) {
      added->add_bucket(static_cast<uint32_t>(bucket));
      record.Clear();
      ToProto(rows, &record);
      record.SerializeToString(&text);
      TD_RETURN_IF_ERROR(file.Add(text.data(), text.size()));
    }
    for (const auto& [name, value] : table.scalars) {
      TableMeta::Scalar* const slot = added->add_slot();
      slot->set_name(name);
      slot->set_value(value);
    }
  }
  meta.set_has_previous(image.has_previous);
  if (image.has_previous) TD_RETURN_IF_ERROR(WritePrevious(image, file));
  TD_ASSIGN_OR_RETURN(const uint32_t sum, file.Finish());
  meta.set_values_crc32c(sum);
  return OkStatus();
}

Status ReadValues(const std::string& path, const ShardMeta& meta, ShardImage& image) {
  if (meta.slots_size() != static_cast<int>(image.config.slices.size()) ||
      meta.table_size() != static_cast<int>(image.config.tables.size())) {
    return DataLoss("%s: the checkpoint's record meta is damaged", path);
  }
  TD_ASSIGN_OR_RETURN(ValueReader file, ValueReader::Open(path));
  Records records(path, std::move(file));
  TD_RETURN_IF_ERROR(ReadSlices(meta, records, image));
  TD_RETURN_IF_ERROR(ReadTables(meta, records, image));
  image.has_previous = meta.has_previous();
  if (image.has_previous) TD_RETURN_IF_ERROR(ReadPrevious(records, image));
  return records.Finish(meta.values_crc32c());
}

}  // namespace tandem
