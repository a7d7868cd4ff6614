// row_cache_mb and row_cache_versions: a trainer reuses pulled rows until they are too many
// versions old, so it receives fewer bytes. With 0 versions the bits are the same as without a
// cache.
#include <random>

#include "pserver/client/row_cache.h"
#include "tests/knobs/knob_programs.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- Content of the cache -----------------------------------------------------------------------

class RowCacheTest : public testing::Test {
 protected:
  // Returns the positions in `ids` of the rows that are not in the cache. Copies all other rows
  // into out_.
  std::vector<size_t> Take(ps::RowCache& cache, size_t server, uint64_t version,
                           std::vector<uint64_t> ids) {
    out_.assign(ids.size(), -1);
    std::vector<float*> to;
    for (float& v : out_) to.push_back(&v);
    return cache.Take(0, server, version, ids, to);
  }
  // Stores rows of table 0. All elements of these rows are `value`.
  static void Put(ps::RowCache& cache, size_t server, uint64_t version, std::vector<uint64_t> ids,
                  float value) {
    std::vector<float*> from(ids.size(), &value);
    cache.Put(0, server, version, ids, from);
  }
  std::vector<float> out_;
};

TEST_F(RowCacheTest, OldRowsAndThoseOfOtherServersAreMissing) {
  ps::RowCache cache({.bytes = 1 << 16, .versions_max = 3}, {1});
  Put(cache, 0, 10, {1, 2}, 5);
  Put(cache, 0, 12, {2}, 6);
  Put(cache, 0, 11, {2}, 7);  // a version older than the stored one is ignored
  EXPECT_THAT(Take(cache, 0, 13, {1, 2, 3}), ElementsAre(2));
  EXPECT_THAT(out_, ElementsAre(5, 6, -1));
  EXPECT_THAT(Take(cache, 0, 14, {1, 2, 3}), ElementsAre(0, 2));
  EXPECT_THAT(Take(cache, 0, 9, {1}), ElementsAre(0)) << "of a later version";
  EXPECT_THAT(Take(cache, 1, 13, {1}), ElementsAre(0));
  EXPECT_EQ(cache.counts().hits, 3u);
  EXPECT_EQ(cache.counts().misses, 5u);
  cache.Forget(0);
  EXPECT_THAT(Take(cache, 0, 13, {1, 2}), ElementsAre(0, 1));
  Put(cache, 0, 2, {1}, 8);  // versions start again after a restart of the server
  EXPECT_THAT(Take(cache, 0, 2, {1}), ElementsAre());
}

TEST_F(RowCacheTest, RowsThatAreUsedStay) {
  const size_t rows = 4;
  ps::RowCache cache({.bytes = rows * ps::RowCache::BytesOfRow(1), .versions_max = 100}, {1});
  Put(cache, 0, 1, {1, 2, 3, 4}, 5);
  EXPECT_THAT(Take(cache, 0, 1, {1, 3}), ElementsAre());
  Put(cache, 0, 2, {7, 8}, 6);
  EXPECT_THAT(Take(cache, 0, 2, {1, 2, 3, 4, 7, 8}), ElementsAre(1, 3));
}

// ---- A cache in front of servers ----------------------------------------------------------------

constexpr int64_t kHeight = 20000, kDim = 16;

class RowCachePulls : public pserver::PserverTest {
 protected:
  struct Run {
    std::vector<std::vector<float>> seen;  // one entry per pull: its rows, concatenated
    double received_per_step = 0;          // mean bytes of pull replies, per step of a trainer
    ps::PsCacheCounts counts;
  };
  // Trains two trainers, which take turns, with a table on two servers. The ids follow a Zipf law.
  Run Train(size_t cache_bytes, uint64_t versions, ps::PsMode mode = ps::PsMode::kSync,
            int steps = 60) {
    servers_.clear();
    endpoints_.clear();
    StartServers(2);
    Run run;
    std::atomic<uint64_t> received{0};
    std::unique_ptr<ps::PsClient> clients[2];
    const ps::PsTable table{.variable = "emb",
                            .height = kHeight,
                            .dim = kDim,
                            .init = ps::PsTable::InitKind::kUniform,
                            .a = -1,
                            .b = 1};
    for (int t : {0, 1}) {
      ps::PsOptions options;
      options.row_cache.bytes = cache_bytes;
      options.row_cache.versions = versions;
      options.callbacks.on_call = [&](const ps::PsCall& call) {
        if (call.call == rpc::PserverCall::kPull) received += call.received;
      };
      clients[t] = *Client(t, 2, options);
      EXPECT_TRUE(clients[t]->Configure({}, mode, {}, {table}).ok());
    }
    for (int t : {0, 1}) EXPECT_TRUE(clients[t]->InitOrFetch({}).ok());
    std::mt19937 random(1);
    const uint64_t before = received;
    for (uint64_t step = 0; step < static_cast<uint64_t>(steps); ++step) {
      for (int t : {0, 1}) {
        const std::vector<int64_t> ids = ZipfBatch(random);
        run.seen.push_back(Pull(*clients[t], step, mode == ps::PsMode::kSync, ids));
        std::vector<float> gradient = run.seen.back();
        for (float& g : gradient) g *= 0.1f;
        pserver::Answer<Status> pushed;
        clients[t]->Push(step, 0.5f, {}, pushed.Callback(), {{"emb", ids, gradient.data()}});
        EXPECT_TRUE(pushed.Get().ok());
      }
      // Simulates an evaluation, which pulls the same rows twice, with the version after the step.
      if (step % 20 != 19 || mode != ps::PsMode::kSync) continue;
      std::vector<int64_t> some(500);
      for (size_t i = 0; i < some.size(); ++i) some[i] = static_cast<int64_t>(i);
      run.seen.push_back(Pull(*clients[0], step + 1, true, some));
      run.seen.push_back(Pull(*clients[0], step + 1, true, some));
    }
    run.received_per_step = static_cast<double>(received - before) / (2 * steps);
    run.counts = clients[0]->row_cache();
    return run;
  }
  static std::vector<int64_t> ZipfBatch(std::mt19937& random) {
    std::set<int64_t> ids;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int i = 0; i < 512; ++i) {  // inverts the continuous Zipf law with exponent 1
      ids.insert(static_cast<int64_t>(std::pow(double{kHeight}, uniform(random))) - 1);
    }
    return {ids.begin(), ids.end()};
  }
  static std::vector<float> Pull(ps::PsClient& client, uint64_t step, bool exactly,
                                 const std::vector<int64_t>& ids) {
    std::vector<float> rows(ids.size() * kDim);
    ps::PsRows asked{.variable = "emb", .ids = ids, .to = {}};
    for (size_t i = 0; i < ids.size(); ++i) asked.to.push_back(rows.data() + i * kDim);
    pserver::Answer<StatusOr<uint64_t>> answer;
    client.PullRows({.version = exactly ? step : 0, .exactly = exactly}, {asked},
                    answer.Callback());
    const StatusOr<uint64_t> version = answer.Get();
    EXPECT_TRUE(version.ok()) << version.status();
    return rows;
  }
};

TEST_F(RowCachePulls, WithoutVersionsTheBitsAreTheSame) {
  const Run plain = Train(0, 0), exact = Train(4 << 20, 0);
  EXPECT_EQ(plain.seen, exact.seen);
  EXPECT_EQ(plain.counts.hits + plain.counts.misses, 0u);
  EXPECT_GE(exact.counts.hits, 3 * 500u) << "the second evaluations";
  EXPECT_LT(exact.received_per_step, plain.received_per_step);
}

TEST_F(RowCachePulls, OlderRowsSpareBytes) {
  const Run plain = Train(0, 0);
  double before = plain.received_per_step;
  for (const uint64_t versions : {2, 8, 32}) {
    const Run run = Train(4 << 20, versions);
    EXPECT_LT(run.received_per_step, 0.9 * before) << versions;
    RecordProperty("bytes_" + std::to_string(versions), static_cast<int>(run.received_per_step));
    before = run.received_per_step;
    // The mean difference from a run without a cache must be less than half of the mean value. This
    // shows that cached rows still follow the updates.
    double off = 0, all = 0;
    for (size_t i = 0; i < run.seen.size(); ++i) {
      for (size_t k = 0; k < run.seen[i].size(); ++k) {
        off += std::abs(run.seen[i][k] - plain.seen[i][k]);
        all += std::abs(plain.seen[i][k]);
      }
    }
    EXPECT_LT(off / all, 0.5) << versions;
    std::printf("row_cache_versions %d: %.0f bytes a step (%.0f without), %.1f %% hits, %.3f off\n",
                static_cast<int>(versions), run.received_per_step, plain.received_per_step,
                100.0 * static_cast<double>(run.counts.hits) /
                    static_cast<double>(run.counts.hits + run.counts.misses),
                off / all);
  }
}

TEST_F(RowCachePulls, LittleMemoryKeepsTheHotRows) {
  const Run small = Train(1000 * ps::RowCache::BytesOfRow(kDim), 32), large = Train(4 << 20, 32);
  EXPECT_LT(small.counts.hits, large.counts.hits);
  EXPECT_GT(small.counts.hits, large.counts.hits / 2);
}

// Asynchronous trainers do not know the current version. Therefore the cache counts the age of rows
// from the newest version that a reply has reported.
TEST_F(RowCachePulls, InASyncModeZeroKeepsNothing) {
  EXPECT_EQ(Train(4 << 20, 0, ps::PsMode::kASync, 10).counts.hits, 0u);
  EXPECT_GT(Train(4 << 20, 8, ps::PsMode::kASync, 10).counts.hits, 0u);
}

TEST_F(RowCachePulls, TooLittleMemoryIsRefused) {
  StartServers(1);
  auto client = *Client(0, 1, {.row_cache = {.bytes = 10}});
  const ps::PsTable table{.variable = "emb", .height = kHeight, .dim = kDim};
  EXPECT_THAT(std::string(client->Configure({}, ps::PsMode::kSync, {}, {table}).status().message()),
              HasSubstr("one row of table emb"));
}

TEST(RowCacheJob, TheJobSays) {
  EXPECT_EQ(PserverModeOptions({}).row_cache_bytes, 0);
  const PserverOptions options =
      PserverModeOptions({{"row_cache_mb", "3"}, {"row_cache_versions", "5"}});
  EXPECT_EQ(options.row_cache_bytes, 3 << 20);
  EXPECT_EQ(options.row_cache_versions, 5);
}

}  // namespace
}  // namespace tandem::trainer
