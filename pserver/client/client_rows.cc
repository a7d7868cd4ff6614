// The part of PsClient for tables: which server has which row, and the transfer of rows.
#include <algorithm>
#include <utility>

#include "common/base/nearest.h"
#include "common/rpc/byte_buffer.h"
#include "common/tensor/row_buckets.h"
#include "pserver/client/client_impl.h"
#include "pserver/client/table_rows.h"

namespace tandem::ps {
namespace {

constexpr size_t kRowBytesMax = size_t{512} << 20;  // of one table in one message
constexpr size_t kInitBytesMax = size_t{64} << 20;
constexpr int kWaitingMax = 1 << 20;  // in one message

// Rows of a table for one server, in their own memory.
struct OwnedRows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

void AppendSlices(const std::string& table, int64_t dim, std::shared_ptr<const OwnedRows> rows,
                  PushPart& part) {
  const auto n = static_cast<int64_t>(rows->ids.size());
  codec::CodedSlice ids, values;
  ids.variable = values.variable = table;
  ids.desc = {DType::kI64, {n}};
  ids.data = rows->ids.data();
  values.desc = {DType::kF32, {n, dim}};
  values.data = rows->values.data();
  ids.keep = values.keep = std::move(rows);
  part.bytes += ids.desc.bytes() + values.desc.bytes();
  part.slices.push_back(std::move(ids));
  part.slices.push_back(std::move(values));
}

// Copies rows [size of `to`, dim] of the message to their destinations.
Status CopyRows(codec::Fragments message, const codec::CodedSlice& rows, int64_t dim,
                const std::vector<float*>& to) {
  if (to.empty()) return OkStatus();
  size_t next = 1;
  while (next < to.size() && to[next] == to[next - 1] + dim) ++next;
  if (next == to.size()) return codec::CopyContent(message, rows, to[0]);
  std::unique_ptr<float[]> values;
  auto* from = static_cast<const float*>(codec::ContentInPlace(message, rows));
  if (from == nullptr) {
    values = std::make_unique_for_overwrite<float[]>(to.size() * static_cast<size_t>(dim));
    TD_RETURN_IF_ERROR(codec::CopyContent(message, rows, values.get()));
    from = values.get();
  }
  for (float* const place : to) {
    std::copy_n(from, dim, place);
    from += dim;
  }
  return OkStatus();
}

}  // namespace

StatusOr<codec::CodedPullReply> TakeRows(const RowsPart& part, codec::Fragments message) {
  TD_ASSIGN_OR_RETURN(const codec::CodedPullReply reply, codec::DecodePullReply(message));
  if (reply.slices.size() != part.to.size()) {
    return DataLoss("the reply has %d tables, expected %d", reply.slices.size(), part.to.size());
  }
  for (size_t i = 0; i < part.to.size(); ++i) {
    const codec::CodedSlice& s = reply.slices[i];
    const std::string& table = part.request.rows(static_cast<int>(i)).variable();
    const auto n = static_cast<int64_t>(part.to[i].size());
    if (s.variable != table || s.desc.dtype != DType::kF32 ||
        s.desc.shape != Shape{n, part.dims[i]}) {
      return DataLoss("expected %d rows of %s, got %s %s", n, table, s.variable, ToString(s.desc));
    }
    TD_RETURN_IF_ERROR(CopyRows(message, s, part.dims[i], part.to[i]));
  }
  return reply;
}

StatusOr<int> PsClient::Impl::TableIndex(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].variable == name) return static_cast<int>(i);
    names.push_back(tables[i].variable);
  }
  return NotFound("unknown table \"%s\" [TD1205]%s", name, OrDidYouMean(name, names));
}

void PsClient::Impl::FillOwners() {
  const auto count = static_cast<int>(servers.size());
  auto first = std::make_shared<PsPlacement>();
  for (int server = 0; server < count && !tables.empty(); ++server) {
    const auto end = static_cast<size_t>(FirstBucket(server + 1, count));
    first->rows.resize(end, static_cast<size_t>(server));
  }
  for (const PsSlice& block : blocks) first->blocks.push_back(static_cast<size_t>(block.server));
  first->generations.resize(servers.size());
  MutexLock lock(mu);
  placement = std::move(first);
}

void PsClient::Impl::FillTables(size_t server, ConfigureRequest* request) const {
  const auto count = static_cast<int>(servers.size()), index = static_cast<int>(server);
  for (const PsTable& t : tables) {
    TableDef* def = request->add_table();
    def->set_variable(t.variable);
    def->add_dims(t.height);
    def->add_dims(t.dim);
    def->mutable_init()->set_kind(static_cast<InitDef::Kind>(t.init));
    def->mutable_init()->set_a(t.a);
    def->mutable_init()->set_b(t.b);
    def->set_seed(t.seed);
    def->set_rules(t.rules);
    def->set_bucket_begin(static_cast<uint32_t>(FirstBucket(index, count)));
    def->set_bucket_end(static_cast<uint32_t>(FirstBucket(index + 1, count)));
  }
}

void PsClient::Impl::FillWhen(PullCondition when, PullRequest* request) const {
  FillCaller(request);
  request->set_min_version(when.version);
  request->set_min_step(when.step);
  uint64_t highest = told;
  while (highest < when.step && !told.compare_exchange_weak(highest, when.step)) continue;
  if (when.exactly) request->set_at_version(when.version);
  request->set_timeout_ms(static_cast<uint64_t>(std::max<int64_t>(1, Millis(call_timeout()))));
  request->set_crc32c(options.crc32c);
}

Status PsClient::Impl::AppendRows(const std::vector<PsConstRows>& rows, const PsPlacement& now,
                                  const std::set<size_t>& all, std::vector<PushPart>& parts) {
  for (const PsConstRows& r : rows) {
    TD_ASSIGN_OR_RETURN(const int index, TableIndex(r.variable));
    const int64_t dim = push_widths[static_cast<size_t>(index)];
    std::vector<std::shared_ptr<OwnedRows>> split(now.generations.size());
    for (auto& part : split) {
      part = std::make_shared<OwnedRows>();
      part->ids.reserve(r.ids.size() / split.size());
      part->values.reserve(r.ids.size() / split.size() * static_cast<size_t>(dim));
    }
    for (size_t i = 0; i < r.ids.size(); ++i) {
      OwnedRows& part = *split[now.OwnerOf(static_cast<uint64_t>(r.ids[i]))];
      part.ids.push_back(r.ids[i]);
      const float* values = r.values + static_cast<int64_t>(i) * dim;
      part.values.insert(part.values.end(), values, values + dim);
    }
    for (size_t server = 0; server < split.size(); ++server) {
      const size_t count = split[server]->ids.size();
      if (count == 0 && !all.contains(server)) continue;
      const size_t bytes = split[server]->values.size() * sizeof(float);
      if (count > kRowsOfMessageMax || bytes > kRowBytesMax) {
        return InvalidArgument(
            "gradient of table %s: %d rows (%d bytes) go to %s, expected at most %d rows and %d "
            "bytes",
            r.variable, count, bytes, ServerAt(server).name, kRowsOfMessageMax, kRowBytesMax);
      }
      AppendSlices(r.variable, dim, std::move(split[server]), PartOf(server, 0, parts));
    }
  }
  return OkStatus();
}

StatusOr<std::map<size_t, std::shared_ptr<RowsPart>>> PsClient::Impl::RowsParts(
    const std::vector<PsRows>& rows, PullCondition when) {
  const auto now = Placement();
  std::map<size_t, std::shared_ptr<RowsPart>> parts;
  for (const size_t s : now->RowOwners()) {
    parts[s] = std::make_shared<RowsPart>();
    FillWhen(when, &parts[s]->request);
  }
  for (const PsRows& r : rows) {
    TD_ASSIGN_OR_RETURN(const int table, TableIndex(r.variable));
    if (r.ids.size() != r.to.size()) {
      return InvalidArgument("cannot pull %d rows of table %s into buffers with room for %d rows",
                             r.ids.size(), r.variable, r.to.size());
    }
    struct Own {
      RowsRange* range;
      std::vector<float*>* to;
    };
    std::vector<Own> own(now->generations.size());  // by server
    for (auto& [server, part] : parts) {
      RowsRange* const range = part->request.add_rows();
      range->set_variable(r.variable);
      part->dims.push_back(tables[table].dim);
      range->mutable_id()->Reserve(static_cast<int>(r.ids.size() / parts.size()));
      own[server] = {range, &part->to.emplace_back()};
      own[server].to->reserve(r.ids.size() / parts.size());
    }
    for (size_t i = 0; i < r.ids.size(); ++i) {
      const auto id = static_cast<uint64_t>(r.ids[i]);
      const Own& part = own[now->OwnerOf(id)];
      part.range->add_id(id);
      part.to->push_back(r.to[i]);
    }
  }
  for (const auto& [server, part] : parts) {
    for (const RowsRange& range : part->request.rows()) {
      if (static_cast<size_t>(range.id_size()) <= kRowsOfMessageMax) continue;
      return InvalidArgument(
          "cannot pull %d rows of table %s from %s at once, expected at most %d rows",
          range.id_size(), range.variable(), ServerAt(server).name, kRowsOfMessageMax);
    }
  }
  return parts;
}

Status PsClient::Impl::MakeCache() {
  if (options.row_cache_bytes == 0 || tables.empty()) return OkStatus();
  std::vector<int64_t> dims;
  for (const PsTable& table : tables) {
    dims.push_back(table.dim);
    if (options.row_cache_bytes / tables.size() >= RowCache::BytesOfRow(table.dim)) continue;
    return InvalidArgument(
        "row_cache_mb allows only %d bytes, but a row of table %s (one of %d tables) needs %d "
        "bytes [TD1104]",
        options.row_cache_bytes, table.variable, tables.size(), RowCache::BytesOfRow(table.dim));
  }
  cache = std::make_unique<RowCache>(
      RowCache::Options{options.row_cache_bytes, options.row_cache_versions}, dims);
  return OkStatus();
}

void PsClient::Impl::TakeKept(size_t server, PullCondition when, RowsPart& part) {
  if (!when.exactly && options.row_cache_versions == 0) return;  // the current version is unknown
  const uint64_t heard = ServerAt(server).version;
  const uint64_t version = when.exactly ? when.version : std::max(heard, when.version);
  for (int i = 0; i < part.request.rows_size(); ++i) {
    RowsRange& range = *part.request.mutable_rows(i);
    std::vector<float*>& to = part.to[static_cast<size_t>(i)];
    const auto table = static_cast<size_t>(*TableIndex(range.variable()));
    const std::span<const uint64_t> ids(range.id().data(), static_cast<size_t>(range.id_size()));
    const std::vector<size_t> missing = cache->Take(table, server, version, ids, to);
    for (size_t k = 0; k < missing.size(); ++k) {
      range.set_id(static_cast<int>(k), range.id(static_cast<int>(missing[k])));
      to[k] = to[missing[k]];
    }
    range.mutable_id()->Truncate(static_cast<int>(missing.size()));
    to.resize(missing.size());
  }
}

void PsClient::Impl::Keep(size_t index, const RowsPart& part, const codec::CodedPullReply& reply) {
  Server& server = ServerAt(index);
  const uint64_t before = server.incarnation.exchange(reply.server_incarnation);
  if (before != reply.server_incarnation) {
    cache->Forget(index);
    server.version = 0;
  }
  uint64_t heard = server.version;
  while (heard < reply.version && !server.version.compare_exchange_weak(heard, reply.version)) {
  }
  for (int i = 0; i < part.request.rows_size(); ++i) {
    const RowsRange& range = part.request.rows(i);
    const auto table = static_cast<size_t>(*TableIndex(range.variable()));
    cache->Put(table, index, reply.version,
               {range.id().data(), static_cast<size_t>(range.id_size())},
               part.to[static_cast<size_t>(i)]);
  }
}

StatusOr<bool> PsClient::Impl::WaitForVersion(Server& server, uint64_t version) {
  PullRequest request;
  FillWhen({.version = version}, &request);
  request.add_rows()->set_variable(tables[0].variable);  // without ids
  return CallOwner(server, "Pull", request, std::make_shared<PullReply>(), call_timeout());
}

Status PsClient::Impl::WaitForRows(uint64_t version) {
  const Time deadline = carrier->Now() + call_timeout();
  for (int attempts = 0;;) {
    StatusOr<bool> there = true;
    for (Server* const server : AllServers()) {
      if (there.ok() && *there && owns_any(*server)) there = WaitForVersion(*server, version);
    }
    if (there.ok() && *there) return OkStatus();
    const bool moved = there.ok() || HasMoved(there.status());  // its rows have moved
    if (!moved || carrier->Now() >= deadline) return there.status();
    TD_RETURN_IF_ERROR(ExchangeAndWait(attempts++));
  }
}

namespace {

bool Fits(const PullTableReply& reply, size_t dim, uint32_t bucket) {
  const TableRows& rows = reply.rows();
  const size_t of_brief = 1 + static_cast<size_t>(reply.slot_size());
  const auto brief =
      static_cast<size_t>(std::count(rows.brief().begin(), rows.brief().end(), true));
  const size_t weights = (static_cast<size_t>(rows.id_size()) - brief) * dim + brief;
  return HasConsistentLengths(rows) &&
         rows.content().size() == weights * of_brief * sizeof(float) &&
         reply.slot_size() == reply.slot_start_size() && reply.next_bucket() > bucket;
}

template <typename T>
void Append(const std::vector<T>& more, std::vector<T>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

Status PsClient::Impl::PullBuckets(const PsTable& table, bool slots, uint32_t& bucket, uint32_t end,
                                   const Server& server, const RowSink& take) {
  while (bucket < end) {
    PullTableRequest request;
    const auto answer = std::make_shared<PullTableReply>();
    request.set_job(options.job);
    request.set_variable(table.variable);
    request.set_bucket_begin(bucket);
    request.set_bucket_end(end);
    request.set_slots(slots);
    TD_ASSIGN_OR_RETURN(const bool owns,
                        CallOwner(server, "PullTable", request, answer, options.start_timeout));
    if (!owns) return OkStatus();
    const PullTableReply& reply = *answer;
    if (!Fits(reply, static_cast<size_t>(table.dim), bucket)) {
      return DataLoss("%s replied with a wrong number of rows of table %s", server.name,
                      table.variable);
    }
    PsTableRows page = RowsFromProto(reply.rows());
    page.slots.assign(reply.slot().begin(), reply.slot().end());
    page.slot_start.assign(reply.slot_start().begin(), reply.slot_start().end());
    TD_RETURN_IF_ERROR(take(page));
    bucket = reply.next_bucket();
  }
  return OkStatus();
}

Status PsClient::Impl::PullPages(const PsTable& table, bool slots, uint64_t min_version,
                                 const RowSink& take) {
  TD_RETURN_IF_ERROR(WaitForRows(min_version));
  Time deadline = carrier->Now() + call_timeout();  // for the next page
  int attempts = 0;
  uint32_t bucket = 0;
  while (bucket < kRowBuckets) {
    const uint32_t before = bucket;
    const auto now = Placement();
    const size_t owner = now->rows[bucket];
    uint32_t end = bucket + 1;
    while (end < kRowBuckets && now->rows[end] == owner) ++end;
    const Status status = PullBuckets(table, slots, bucket, end, ServerAt(owner), take);
    if (status.code() != StatusCode::kOutOfRange) {
      TD_RETURN_IF_ERROR(status);
      continue;
    }
    // Some buckets are moving.
    if (bucket != before) {
      deadline = carrier->Now() + call_timeout();
      attempts = 0;
    }
    if (carrier->Now() >= deadline) return status;
    TD_RETURN_IF_ERROR(ExchangeAndWait(attempts++));
  }
  return OkStatus();
}

Status PsClient::PullTable(const std::string& variable, uint64_t min_version, const RowSink& take) {
  TD_ASSIGN_OR_RETURN(const int table, impl_->TableIndex(variable));
  return impl_->PullPages(impl_->tables[table], true, min_version, take);
}

StatusOr<PsTableRows> PsClient::PullTable(const std::string& variable, bool slots,
                                          uint64_t min_version) {
  TD_ASSIGN_OR_RETURN(const int table, impl_->TableIndex(variable));
  PsTableRows all{.variable = variable};
  TD_RETURN_IF_ERROR(
      impl_->PullPages(impl_->tables[table], slots, min_version, [&all](const PsTableRows& page) {
        all.slots = page.slots;
        all.slot_start = page.slot_start;
        Append(page.ids, all.ids);
        Append(page.content, all.content);
        Append(page.use, all.use);
        Append(page.waiting, all.waiting);
        return OkStatus();
      }));
  return all;
}

// Collects rows of one table for one server and sends them in large messages.
class PsClient::Impl::InitRows {
 public:
  InitRows(Impl& impl, size_t server, uint64_t version)
      : impl_(impl), server_(server), version_(version) {}

  void Begin(const std::string& table) {
    request_.Clear();
    impl_.FillCaller(&request_);
    request_.set_version(version_);
    rows_ = request_.add_rows();
    rows_->set_variable(table);
  }
  const std::string& table() const { return rows_->variable(); }
  void AddScalar(const PsSlot& s) {
    SlotTensor* slot = request_.add_slot();
    slot->set_variable(s.variable);
    slot->set_slot(s.slot);
    slot->mutable_tensor()->set_dtype(F32);
    slot->mutable_tensor()->add_dims(1);
    slot->mutable_tensor()->set_content(s.values.data(), sizeof(float));
  }
  Status Add(const PsTableRows& r) {
    const std::vector<size_t> begins = r.Begins();
    TD_ASSIGN_OR_RETURN(const int table, impl_.TableIndex(r.variable));
    const auto index = static_cast<size_t>(table);
    const bool counted = impl_.push_widths[index] != impl_.tables[index].dim;
    for (size_t i = 0; i < r.ids.size(); ++i) {
      if (impl_.Placement()->OwnerOf(r.ids[i]) != server_) continue;
      rows_->add_id(r.ids[i]);
      rows_->mutable_content()->append(reinterpret_cast<const char*>(r.content.data() + begins[i]),
                                       (begins[i + 1] - begins[i]) * sizeof(float));
      if (!r.use.empty()) AddUse({&r.use[i], 1}, counted, rows_);
      if (rows_->content().size() >= kInitBytesMax) TD_RETURN_IF_ERROR(Send(false));
    }
    for (const PsTableRows::Waiting& w : r.waiting) {
      if (impl_.Placement()->OwnerOf(w.id) != server_) continue;
      rows_->add_waiting_id(w.id);
      rows_->add_waiting_seen(w.seen);
      rows_->add_waiting_age(w.age);
      if (rows_->waiting_id_size() >= kWaitingMax) TD_RETURN_IF_ERROR(Send(false));
    }
    return OkStatus();
  }
  Status Send(bool last) {
    InitParamsReply reply;
    rows_->set_last(last);
    TD_RETURN_IF_ERROR(impl_.CallAndWait(*impl_.servers[server_], "InitParams", request_, &reply,
                                         impl_.options.start_timeout));
    Begin(std::string(table()));
    return OkStatus();
  }

 private:
  Impl& impl_;
  const size_t server_;
  const uint64_t version_;
  InitParamsRequest request_;
  TableRows* rows_ = nullptr;  // in request_
};

Status PsClient::Impl::SendInitRows(size_t server, uint64_t version, std::span<const PsSlot> slots,
                                    const RowSource& rows) {
  InitRows init(*this, server, version);
  if (tables.empty()) return OkStatus();
  init.Begin(tables[0].variable);
  TD_RETURN_IF_ERROR(rows([&](const PsTableRows& piece) -> Status {
    TD_RETURN_IF_ERROR(TableIndex(piece.variable).status());
    if (piece.variable != init.table()) {
      TD_RETURN_IF_ERROR(init.Send(false));
      init.Begin(piece.variable);
    }
    return init.Add(piece);
  }));
  TD_RETURN_IF_ERROR(init.Send(false));
  for (const PsTable& table : tables) {
    init.Begin(table.variable);
    for (const PsSlot& s : slots) {
      if (s.variable != table.variable) continue;
      if (s.values.size() != 1) {
        return InvalidArgument(
            "slot %s of table %s has %d elements, expected one, because slots of rows belong to "
            "their rows",
            s.slot, s.variable, s.values.size());
      }
      init.AddScalar(s);
    }
    TD_RETURN_IF_ERROR(init.Send(true));
  }
  return OkStatus();
}

}  // namespace tandem::ps
