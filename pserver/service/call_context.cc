#include "pserver/service/call_context.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/message_checksum.h"

namespace tandem::pserver {

Status CallContext::CompareChecksum() const {
  const rpc::Metadata& metadata = context_->client_metadata();
  if (!rpc::HasChecksum(metadata)) return OkStatus();
  Status same = rpc::CompareChecksum(metadata, rpc::RequestChecksum(method_, *request_),
                                     absl::StrCat("the request ", method_));
  if (!same.ok()) {
    LOG_EVERY_T(WARNING, 1.0) << context_->peer() << ": " << same.message();
  }
  return same;
}

grpc::Status CallContext::Complete(const Status& status) {
  grpc::Status sent = rpc::ToGrpc(status);
  if (sent.ok()) sent = Encode(reply_);
  if (rpc::HasChecksum(context_->client_metadata())) {
    context_->AddTrailingMetadata(rpc::kChecksumMetadata,
                                  rpc::ReplyChecksum(method_, sent, *reply_));
  }
  return sent;
}

}  // namespace tandem::pserver
