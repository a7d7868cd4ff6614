#include "trainer/modes/comms/comm_bucket.h"

#include <cstring>

namespace tandem::trainer {
namespace {

StatusOr<collective::CollectiveOp> CollectiveOpOf(const std::string& type) {
  if (type == "c_allreduce_sum" || type == "c_allreduce_begin" || type == "c_allreduce_end") {
    return collective::CollectiveOp::kAllReduce;
  }
  if (type == "c_reduce_sum") return collective::CollectiveOp::kReduce;
  if (type == "c_broadcast" || type == "c_broadcast_params")
    return collective::CollectiveOp::kBroadcast;
  if (type == "c_allgather_selected") return collective::CollectiveOp::kAllGather;
  if (type == "send_v2" || type == "recv_v2") return collective::CollectiveOp::kSendRecv;
  return Unimplemented("operator %s is not implemented in collective mode [TD1109]", type);
}

}  // namespace

StatusOr<std::unique_ptr<CommBucket>> CommBucket::Make(const exec::CommNode& node, int rank,
                                                       int ranks, bool half_communication) {
  auto bucket = std::make_unique<CommBucket>();
  TD_ASSIGN_OR_RETURN(bucket->op, CollectiveOpOf(node.op->type));
  bucket->rank = rank;
  bucket->borrows = node.op->type == "c_broadcast_params";
  if (node.op->type == "c_allreduce_begin") {
    bucket->overlapped = std::make_unique<OverlappedFlight>();
  }
  if (bucket->op == collective::CollectiveOp::kReduce ||
      bucket->op == collective::CollectiveOp::kBroadcast) {
    const ops::AttrMap& attrs = node.op->attrs;
    bucket->root = static_cast<int>(std::get<int64_t>(attrs.at("root")));
    if (const auto group = attrs.find("group"); group != attrs.end()) {
      bucket->group = static_cast<int>(std::get<int64_t>(group->second));
    }
  }
  if (bucket->op == collective::CollectiveOp::kSendRecv) {
    const int peer = static_cast<int>(std::get<int64_t>(node.op->attrs.at("peer")));
    (node.op->type == "send_v2" ? bucket->to : bucket->from) = peer;
  }
  bucket->tensors = node.out;
  const DType dtype = node.out.front().desc.dtype;
  const bool on_host = node.place.kind == PlaceKind::kCpu;
  const bool gathers = bucket->op == collective::CollectiveOp::kAllGather;
  bucket->sources = gathers ? node.in : node.out;
  for (const exec::CommTensor& t : gathers && !on_host ? node.in : node.out) {
    if (t.desc.dtype != dtype)
      return InvalidArgument(
          "%s: the gradients of one bucket have different element types, expected one",
          node.op->type);
    bucket->count += static_cast<size_t>(t.desc.shape.numel());
  }
  if (gathers && on_host) bucket->selections.emplace(node.in, node.out, rank, ranks);
  // Only f32 gradients are converted to f16. Parameters and statistics are sent unchanged.
  const bool half = half_communication && on_host && dtype == DType::kF32 &&
                    node.op->role == ops::OpRole::kComm &&
                    bucket->op != collective::CollectiveOp::kBroadcast;
  bucket->dtype = half ? DType::kF16 : dtype;
  const size_t n = node.out.size();
  // A c_broadcast_params node is named after its inputs, because its outputs may have other names
  // than the parameters, which other ranks store.
  const std::string& first = (bucket->borrows ? node.in : node.out)[0].var;
  bucket->name = n == 1 ? first : absl::StrFormat("%s and %d more", first, n - 1);
  bucket->is_flat = on_host && (n > 1 || half || bucket->selections);
  return bucket;
}

StatusOr<size_t> CommBucket::Gather() {
  if (selections) return selections->Pack(words());
  if (is_flat) Join();
  return count;
}

collective::Collective CommBucket::Call(size_t given) const {
  collective::Collective call;
  call.op = op;
  call.dtype = dtype;
  call.root = root;
  call.group = group;
  call.what = name;
  if (is_flat) {
    call.in = selections ? words() + given * static_cast<size_t>(rank) : words();
    call.out = words();
    call.count = given;
    return call;
  }
  const auto numel = [](const exec::CommTensor& t) {
    return static_cast<size_t>(t.desc.shape.numel());
  };
  call.to = to;
  call.from = from;
  const bool message = op == collective::CollectiveOp::kSendRecv;
  call.in = message && to < 0 ? nullptr : sources[0].data;
  call.out = message && from < 0 ? nullptr : tensors[0].data;
  call.count = numel(sources[0]);
  for (size_t i = 1; i < tensors.size(); ++i) {
    call.more.push_back({sources[i].data, tensors[i].data, numel(sources[i])});
  }
  return call;
}

Status CommBucket::Scatter(size_t given) {
  if (selections) return selections->Unpack(words(), given);
  if (is_flat) Split();
  return OkStatus();
}

void CommBucket::Join() {
  std::byte* at = flat.get();
  for (const exec::CommTensor& t : tensors) {
    const auto n = static_cast<size_t>(t.desc.shape.numel());
    if (t.desc.dtype == dtype) {
      std::memcpy(at, t.data, t.desc.bytes());
    } else {
      const auto* from = static_cast<const float*>(t.data);
      auto* to = reinterpret_cast<uint16_t*>(at);
      for (size_t i = 0; i < n; ++i) to[i] = F32ToF16(from[i]);
    }
    at += n * SizeOf(dtype);
  }
}

void CommBucket::Split() {
  const std::byte* at = flat.get();
  for (const exec::CommTensor& t : tensors) {
    const auto n = static_cast<size_t>(t.desc.shape.numel());
    if (t.desc.dtype == dtype) {
      std::memcpy(t.data, at, t.desc.bytes());
    } else {
      const auto* from = reinterpret_cast<const uint16_t*>(at);
      auto* to = static_cast<float*>(t.data);
      for (size_t i = 0; i < n; ++i) to[i] = F16ToF32(from[i]);
    }
    at += n * SizeOf(dtype);
  }
}

}  // namespace tandem::trainer
