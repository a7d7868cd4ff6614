#include "trainer/serving/server_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/require.h"

namespace tandem::trainer {

StatusOr<std::unique_ptr<ServerSource>> ServerSource::Connect(
    const std::vector<std::string>& servers, const ps::ReaderOptions& options) {
  TD_ASSIGN_OR_RETURN(auto reader, ps::Reader::Connect(servers, options));
  return std::unique_ptr<ServerSource>(new ServerSource(std::move(reader)));
}

StatusOr<std::shared_ptr<const DenseValues>> ServerSource::Dense() {
  TD_ASSIGN_OR_RETURN(const ps::Reader::Dense read, reader_->ReadDense());
  auto dense = std::make_shared<DenseValues>();
  dense->version = "update " + absl::StrJoin(read.versions, ",");
  for (const auto& [name, values] : read.variables) {
    const TensorDesc desc{DType::kF32, Shape{static_cast<int64_t>(values.size())}};
    TD_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Make(desc, *dense->host));
    std::ranges::copy(values, tensor.span<float>().begin());
    dense->tensors[name] = tensor;
  }
  return dense;
}

Status ServerSource::ReadRows(const ServedTable& table, std::span<const int64_t> ids,
                              std::span<float* const> to) {
  TD_REQUIRE(ids.size() == to.size());
  if (ids.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const ps::Reader::Rows rows, reader_->ReadRows(table.name, ids));
  if (rows.dim != table.dim) {
    return InvalidArgument(
        "table \"%s\" of the model has rows of %d values, but those of the servers have %d "
        "[TD7030]",
        table.name, table.dim, rows.dim);
  }
  const auto dim = static_cast<size_t>(rows.dim);
  for (size_t i = 0; i < ids.size(); ++i) std::copy_n(rows.values.data() + i * dim, dim, to[i]);
  return OkStatus();
}

}  // namespace tandem::trainer
