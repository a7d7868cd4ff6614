// The values of a model from one checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/files/checkpoint.h"
#include "trainer/ps/table_file.h"
#include "trainer/serving/model_source.h"

namespace tandem::trainer {

// Holds all values of a checkpoint in memory, also the rows of tables that only pservers stored.
class CheckpointSource final : public ModelSource {
 public:
  // Loads a checkpoint directory (".../step-00000123"). Errors: those of LoadCheckpoint and
  // ReadTableFile.
  static StatusOr<std::unique_ptr<CheckpointSource>> Load(const std::string& path);

  uint64_t step() const { return step_; }
  const std::string& job() const { return job_; }
  StatusOr<std::shared_ptr<const DenseValues>> Dense() override { return std::move(dense_); }
  Status ReadRows(const ServedTable& table, std::span<const int64_t> ids,
                  std::span<float* const> to) override;
  bool fixed() const override { return true; }

 private:
  struct Table {
    int64_t dim = 0;
    std::vector<float> values;                  // [rows, dim]
    absl::flat_hash_map<int64_t, size_t> rows;  // by id: position in `values`
  };
  Status AddRows(const ps::PsTableRows& rows, const ps::PsTable& table);

  uint64_t step_ = 0, seed_ = 0;
  std::string job_;
  std::shared_ptr<const DenseValues> dense_;
  std::map<std::string, Table, std::less<>> tables_;
};

}  // namespace tandem::trainer
