// The values of a model from the pservers of a running job, or from their read replicas.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pserver/client/reader.h"
#include "trainer/serving/model_source.h"

namespace tandem::trainer {

class ServerSource final : public ModelSource {
 public:
  // Connects to the servers of a job. Errors: those of ps::Reader::Connect.
  static StatusOr<std::unique_ptr<ServerSource>> Connect(const std::vector<std::string>& servers,
                                                         const ps::ReaderOptions& options);

  // Reads all dense variables. The values of one server are of one version.
  StatusOr<std::shared_ptr<const DenseValues>> Dense() override;
  Status ReadRows(const ServedTable& table, std::span<const int64_t> ids,
                  std::span<float* const> to) override;
  bool fixed() const override { return false; }

 private:
  explicit ServerSource(std::unique_ptr<ps::Reader> reader) : reader_(std::move(reader)) {}

  const std::unique_ptr<ps::Reader> reader_;
};

}  // namespace tandem::trainer
