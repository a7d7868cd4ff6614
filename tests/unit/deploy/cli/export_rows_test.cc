// Tests which rows of a checkpoint's tables tandem export writes: all rows, only rows worth
// serving, or only changed rows.
#include "deploy/cli/tools/export_rows.h"

#include <set>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/ps/table_file.h"

namespace tandem::deploy {
namespace {

using Mode = deploy::RowChoice::Mode;
using testing::ElementsAre;

const ps::PsTable kTable = {.variable = "emb", .dim = 3, .rules = "accessor=ctr nonclk_coeff=0.5"};

struct Row {
  uint64_t id;
  ps::PsTableRows::Use use;  // the fields shows, age, clicks and brief
};

std::string Written(const TempDir& dir, const std::string& name, const std::vector<Row>& rows) {
  const std::string path = dir.path() + "/" + name;
  trainer::TableFileWriter file;
  CHECK(file.Open(path).ok());
  for (int bucket = 0; bucket < kRowBuckets; ++bucket) {
    ps::PsTableRows some{.variable = "emb", .slots = {"emb@moment"}};
    for (const Row& row : rows) {
      if (RowBucket(row.id) != bucket) continue;
      some.ids.push_back(row.id);
      some.use.push_back(row.use);
      for (int i = 0; i < (row.use.brief ? 2 : 6); ++i) {
        some.content.push_back(static_cast<float>(row.id) + static_cast<float>(i) / 8);
      }
    }
    CHECK(file.Add(some, kTable).ok());
  }
  CHECK(file.SyncAndClose().ok());
  return path;
}

class ExportRowsTest : public testing::Test {
 protected:
  std::set<int64_t> Chosen(const deploy::RowChoice& choice) {
    auto tensors = deploy::ChooseRows(now_, choice, device_);
    CHECK(tensors.ok()) << tensors.status();
    tensors_ = *std::move(tensors);
    const auto ids = tensors_.at("emb/ids").span<int64_t>();
    return {ids.begin(), ids.end()};
  }
  std::vector<float> RowOf(int64_t id) {
    const auto ids = tensors_.at("emb/ids").span<int64_t>();
    const auto rows = tensors_.at("emb/rows").span<float>();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == id) return {rows.data() + 3 * i, rows.data() + 3 * (i + 1)};
    }
    return {};
  }

  TempDir dir_;
  CpuDevice device_;
  // The scores of these rows, 0.5 (shows - clicks) + clicks, are 1, 2, 2 and 5.5.
  const std::vector<Row> rows_ = {
      {1, {2, 0, 0, true}}, {2, {4, 7, 0, false}}, {3, {3, 2, 1, false}}, {4, {6, 1, 5, true}}};
  const std::string now_ = Written(dir_, "now", rows_);
  trainer::TensorMap tensors_;
};

TEST_F(ExportRowsTest, All) {
  EXPECT_THAT(Chosen({}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(RowOf(2), ElementsAre(2, 2.125f, 2.25f)) << "without slots";
  EXPECT_THAT(RowOf(4), ElementsAre(4, 0, 0)) << "as a pull gives it";
}

TEST_F(ExportRowsTest, ThoseWorthServing) {
  EXPECT_THAT(Chosen({.mode = Mode::kBase}), ElementsAre(2, 3, 4));
  EXPECT_THAT(Chosen({.mode = Mode::kBase, .base_threshold = 2}), ElementsAre(2, 3, 4));
  EXPECT_THAT(Chosen({.mode = Mode::kBase, .base_threshold = 2.125}), ElementsAre(4));
  EXPECT_THAT(Chosen({.mode = Mode::kBase, .delta_keep = 2}), ElementsAre(3, 4));
}

TEST_F(ExportRowsTest, ThoseThatChanged) {
  deploy::RowChoice delta{.mode = Mode::kDelta};
  // In the earlier checkpoint the score of row 3 is 0.25 lower and the score of row 4 is 0.125
  // lower. Row 2 does not exist.
  delta.since =
      Written(dir_, "before",
              {{1, {0.5f, 0, 0, true}}, {3, {2.5f, 2, 1, false}}, {4, {5.75f, 1, 5, true}}});
  EXPECT_THAT(Chosen(delta), ElementsAre(2, 3));
  delta.delta_threshold = 0.1;
  EXPECT_THAT(Chosen(delta), ElementsAre(2, 3, 4));
  delta.delta_threshold = 0.3;
  EXPECT_THAT(Chosen(delta), ElementsAre(2));
  delta.since = now_;
  EXPECT_THAT(Chosen(delta), ElementsAre());
  delta.since = dir_.path() + "/none";
  EXPECT_FALSE(deploy::ChooseRows(now_, delta, device_).ok());
}

}  // namespace
}  // namespace tandem::deploy
