#include "pserver/rocksdb/snapshot_values.h"

#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "common/threads/bounded_queue.h"
#include "common/threads/runner.h"
#include "proto/pserver.pb.h"
#include "pserver/disk/value_file.h"
#include "pserver/state/buffer_pool.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {
namespace {

constexpr size_t kChunksAhead = 4;
// Maximum bytes of unused buffers that are kept for reuse, because new memory costs more than the
// copy into the buffer.
constexpr size_t kSpareBytes = 64 << 20;

Status AddFloats(const Buffer& values, int64_t numel, ValueWriter& file) {
  TD_REQUIRE(values != nullptr || numel == 0);
  return file.Add(values.get(), static_cast<size_t>(numel) * sizeof(float));
}

// Reads the records of a file in order. Errors name the file and the record.
class Records {
 public:
  Records(const std::string& path, ValueReader file) : path_(path), file_(std::move(file)) {}

  // Reads a record of floats. `numel`: the expected number of floats; -1: any number is valid, and
  // the found number is written to `numel`. DATA_LOSS: the record has another number of floats.
  StatusOr<Buffer> Floats(const std::string& what, int64_t* numel) {
    TD_ASSIGN_OR_RETURN(const size_t bytes, file_.Next());
    const auto found = static_cast<int64_t>(bytes / sizeof(float));
    if (bytes % sizeof(float) != 0 || (*numel >= 0 && *numel != found)) {
      return DataLoss(
          "%s: %s has %d bytes, expected %d elements [TD2111]; hint: restore a copy of the "
          "directory, or move the directory away to start without this checkpoint",
          path_, what, bytes, *numel);
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
    if (!record_.ParseFromString(text_)) {
      return DataLoss(
          "%s: rows of %s are damaged [TD2111]; hint: restore the directory of the checkpoint from "
          "a copy, or move the directory away to start without this checkpoint",
          path_, what);
    }
    return FromProto(record_);
  }
  Status Finish(uint32_t expected) {
    TD_ASSIGN_OR_RETURN(const uint32_t sum, file_.Finish());
    if (sum == expected) return OkStatus();
    return DataLoss(
        "%s is damaged: the CRC32C of its values is %08x, but the checkpoint says %08x [TD2111]; "
        "hint: restore the directory of the checkpoint from a copy, or move the directory away to "
        "start without this checkpoint",
        path_, sum, expected);
  }

 private:
  const std::string path_;
  ValueReader file_;
  BufferPool pool_{kSpareBytes};
  std::string text_;  // text of the last record; kept so that its memory is reused
  TableRows record_;
};

using Kind = SnapshotChunk::Kind;

// Reads the records of a file in file order, as snapshot chunks.
class ChunkReader {
 public:
  using Give = std::function<Status(SnapshotChunk)>;

  ChunkReader(const ShardConfig& config, const ShardMeta& meta, const std::string& path,
              ValueReader file)
      : config_(config), meta_(meta), records_(path, std::move(file)) {}
  // Reads all chunks and calls `give` for each chunk. The caller calls Read at most once.
  Status Read(const Give& give) {
    TD_RETURN_IF_ERROR(ReadSlices(give));
    for (int i = 0; i < meta_.table_size(); ++i) {
      for (const uint32_t bucket : meta_.table(i).bucket()) {
        TD_RETURN_IF_ERROR(GiveRows(Kind::kRows, static_cast<size_t>(i), bucket, give));
      }
    }
    if (meta_.has_previous()) TD_RETURN_IF_ERROR(ReadPrevious(give));
    return records_.Finish(meta_.values_crc32c());
  }

 private:
  Status ReadSlices(const Give& give) {
    for (size_t i = 0; i < config_.slices.size(); ++i) {
      const SliceSpec& spec = config_.slices[i];
      SnapshotChunk chunk{.kind = Kind::kSlice, .index = i};
      int64_t numel = spec.numel;
      TD_ASSIGN_OR_RETURN(chunk.slice.param, records_.Floats(spec.variable, &numel));
      const std::string& names = meta_.slots(static_cast<int>(i));
      std::vector<std::string> slots;
      if (!names.empty()) slots = absl::StrSplit(names, '\n');
      for (const std::string& name : slots) {
        numel = -1;
        TD_ASSIGN_OR_RETURN(Buffer values, records_.Floats(name, &numel));
        chunk.slice.slots.push_back({name, numel, std::move(values)});
      }
      TD_RETURN_IF_ERROR(give(std::move(chunk)));
    }
    return OkStatus();
  }
  Status GiveRows(Kind kind, size_t table, uint32_t bucket, const Give& give) {
    SnapshotChunk chunk{.kind = kind, .index = table, .bucket = static_cast<int>(bucket)};
    TD_ASSIGN_OR_RETURN(chunk.rows, records_.Rows(config_.tables[table].variable));
    return give(std::move(chunk));
  }
  Status ReadPrevious(const Give& give) {
    for (size_t i = 0; i < config_.slices.size(); ++i) {
      int64_t numel = config_.slices[i].numel;
      SnapshotChunk chunk{.kind = Kind::kPreviousSlice, .index = i};
      TD_ASSIGN_OR_RETURN(chunk.slice.previous,
                          records_.Floats(config_.slices[i].variable, &numel));
      TD_RETURN_IF_ERROR(give(std::move(chunk)));
    }
    for (size_t i = 0; i < config_.tables.size(); ++i) {
      TD_RETURN_IF_ERROR(GiveRows(Kind::kPreviousRows, i, 0, give));
    }
    return OkStatus();
  }

  const ShardConfig& config_;
  const ShardMeta& meta_;
  Records records_;
};

Status WritePrevious(const ShardSnapshot& snapshot, ValueWriter& file) {
  for (size_t i = 0; i < snapshot.slices.size(); ++i) {
    TD_RETURN_IF_ERROR(
        AddFloats(snapshot.slices[i].previous, snapshot.config.slices[i].numel, file));
  }
  for (const TableSnapshot& table : snapshot.tables) {
    TableRows record;
    ToProto(table.previous, &record);
    const std::string text = record.SerializeAsString();
    TD_RETURN_IF_ERROR(file.Add(text.data(), text.size()));
  }
  return OkStatus();
}

}  // namespace

Status WriteValues(const std::string& path, const ShardSnapshot& snapshot, CheckpointThrottle* pace,
                   ShardMeta& meta) {
  TD_REQUIRE(snapshot.slices.size() == snapshot.config.slices.size());
  TD_REQUIRE(snapshot.tables.size() == snapshot.config.tables.size());
  TD_REQUIRE(meta.slots_size() == 0 && meta.table_size() == 0);
  TD_ASSIGN_OR_RETURN(ValueWriter file, ValueWriter::Create(path, pace));
  for (size_t i = 0; i < snapshot.slices.size(); ++i) {
    TD_RETURN_IF_ERROR(AddFloats(snapshot.slices[i].param, snapshot.config.slices[i].numel, file));
    std::vector<std::string> names;
    for (const SliceSnapshot::Slot& slot : snapshot.slices[i].slots) {
      TD_RETURN_IF_ERROR(AddFloats(slot.values, slot.numel, file));
      names.push_back(slot.name);
    }
    meta.add_slots(absl::StrJoin(names, "\n"));
  }
  TableRows record;
  std::string text;
  for (const TableSnapshot& table : snapshot.tables) {
    TableMeta* const added = meta.add_table();
    added->set_partial(table.partial);
    if (table.checks.made > 0) ToProto(table.checks, added->mutable_checks());
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
  meta.set_has_previous(snapshot.has_previous);
  if (snapshot.has_previous) TD_RETURN_IF_ERROR(WritePrevious(snapshot, file));
  TD_ASSIGN_OR_RETURN(const uint32_t sum, file.Finish());
  meta.set_values_crc32c(sum);
  return OkStatus();
}

Status ReadValues(const std::string& path, const ShardMeta& meta, ShardSnapshot head,
                  SnapshotSink& sink) {
  if (meta.slots_size() != static_cast<int>(head.config.slices.size()) ||
      meta.table_size() != static_cast<int>(head.config.tables.size())) {
    return DataLoss(
        "%s: the checkpoint's record meta is damaged [TD2118]; hint: restore a copy of the "
        "directory, or move the directory away to start with an empty state",
        path);
  }
  TD_ASSIGN_OR_RETURN(ValueReader file, ValueReader::Open(path));
  head.has_previous = meta.has_previous();
  for (const TableMeta& table : meta.table()) {
    TableSnapshot& added = head.tables.emplace_back();
    added.partial = table.partial();
    added.checks = FromProto(table.checks());
    for (const TableMeta::Scalar& slot : table.slot()) {
      added.scalars.emplace_back(slot.name(), slot.value());
    }
  }
  const ShardConfig config = head.config;
  ChunkReader chunks(config, meta, path, std::move(file));
  TD_RETURN_IF_ERROR(sink.Begin(std::move(head)));
  BoundedQueue<SnapshotChunk> ahead(kChunksAhead);
  Status read, taken;
  std::thread reader([&] {
    SetThreadName("read-ahead");
    read = chunks.Read([&](SnapshotChunk chunk) {
      if (ahead.Push(std::move(chunk), Time::max()) == PushResult::kOk) return OkStatus();
      return Aborted("the receiver of the snapshot stopped");
    });
    ahead.Close();
  });
  while (std::optional<SnapshotChunk> chunk = ahead.Pop(Time::max())) {
    taken = sink.Take(*std::move(chunk));
    if (taken.ok()) continue;
    ahead.Close();
    break;
  }
  reader.join();
  return taken.ok() ? read : taken;
}

}  // namespace tandem::pserver
