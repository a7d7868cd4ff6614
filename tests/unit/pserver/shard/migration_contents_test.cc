// Tests the rows of tables with rules in event time that move between servers.
#include "pserver/shard/migration_contents.h"

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

class MigrationContentsTest : public PartsTest {
 protected:
  // Makes a server whose table "emb" removes rows without a gradient for 20 s of event time.
  std::unique_ptr<ShardState> Server(UpdatePolicy mode) {
    ShardConfig config = Config(mode);
    config.tables[0].rules = *ParseTableRules("shrink_every_s=10 ttl_s=20");
    const ParamsFactory factory(options_, backend_, device_);
    auto state = std::make_unique<ShardState>(options_, clock_, metrics_);
    state->SetUp(config, *factory.Make(config));
    CHECK(state->params
              ->Init(0, {{"w", 0, 4, FloatBuffer({1, 1, 1, 1})}}, {},
                     {{.variable = "emb", .ids = {}, .content = {}, .last = true}})
              .ok());
    return state;
  }
  // Makes the update of the next version, with a gradient for row `id` at second `s`.
  static void Update(ShardState& state, uint64_t id, int64_t s) {
    state.event_time_ms = std::max(state.event_time_ms, (1'700'000'000 + s) * 1000);
    SparseTable& table = Emb(state);
    ASSERT_TRUE(table.Begin(state.version, state.event_time_ms, false).ok());
    const std::vector<uint64_t> ids = {id};
    const std::vector<float> ones = {1, 1};
    const RowsGradient gradient[] = {{ids, ones.data()}};
    ASSERT_TRUE(table.Apply(gradient, 0.25f).ok());
    ++state.version;
  }
  static SparseTable& Emb(ShardState& state) { return state.params->tables().table(0); }
  static std::vector<uint64_t> Ids(ShardState& state) {
    std::vector<int> buckets;
    for (int b = 0; b < kRowBuckets; ++b) buckets.push_back(b);
    std::vector<uint64_t> ids = Emb(state).Rows(buckets, state.version)->ids;
    std::ranges::sort(ids);
    return ids;
  }
  // Moves all rows from `source` to `target`.
  static void Move(ShardState& source, ShardState& target, bool idle) {
    std::vector<BucketMove> all;  // without bucket 0, to which the slice belongs
    for (int b = 1; b < kRowBuckets; ++b) all.push_back({b, 1, 1});
    const StatusOr<BucketMigration> migration = PackMigration(source, {}, all, 1);
    ASSERT_TRUE(migration.ok()) << migration.status();
    for (int b = 0; b < kRowBuckets; ++b) target.params->Keep(b, false);
    const Status taken = UnpackMigration(*migration, idle, target);
    ASSERT_TRUE(taken.ok()) << taken;
    for (int b = 0; b < kRowBuckets; ++b) target.params->Keep(b, true);
  }
  static void DropRows(ShardState& state) {
    for (int b = 0; b < kRowBuckets; ++b) ASSERT_TRUE(Emb(state).DropBucket(b).ok());
  }
  // Trains the source for 25 s: row s + 1 has its gradients in second s.
  void TrainSource(ShardState& source, int updates_per_second) {
    for (int64_t s = 0; s < 25; ++s) {
      for (int i = 0; i < updates_per_second; ++i) Update(source, static_cast<uint64_t>(s) + 1, s);
    }
  }
  static std::vector<uint64_t> Range(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> ids;
    for (uint64_t id = begin; id < end; ++id) ids.push_back(id);
    return ids;
  }
};

TEST_F(MigrationContentsTest, ASyncServersCountTheirVersionsSeparately) {
  for (const bool empty : {false, true}) {
    SCOPED_TRACE(empty ? "a server that gave its rows away" : "a server with rows");
    const auto source = Server(UpdatePolicy::kASync), target = Server(UpdatePolicy::kASync);
    TrainSource(*source, 10);
    TrainSource(*target, 1);
    if (empty) DropRows(*target);
    Update(*source, 30, 24);
    ASSERT_NO_FATAL_FAILURE(Move(*source, *target, false));
    Update(*target, 40, 29);
    EXPECT_EQ(Ids(*target).size(), 27u);
    Update(*target, 40, 30);
    std::vector<uint64_t> rest = Range(11, 26);
    rest.insert(rest.end(), {30, 40});
    EXPECT_EQ(Ids(*target), rest) << "the rows of the seconds 0 to 9 go, as on the source";
  }
}

// A sync server that served no rows for some time has made no checks meanwhile. After it takes
// rows, it must not repeat the checks that the other servers have made.
TEST_F(MigrationContentsTest, ASyncServerThatReturnsHasTheChecksOfTheOthers) {
  const auto source = Server(UpdatePolicy::kSync), target = Server(UpdatePolicy::kSync);
  Update(*target, 900, -500);
  DropRows(*target);
  TrainSource(*source, 4);
  ASSERT_NO_FATAL_FAILURE(Move(*source, *target, true));
  EXPECT_EQ(target->version, source->version);
  EXPECT_EQ(target->event_time_ms, source->event_time_ms);
  EXPECT_EQ(Emb(*target).schedule().checks(), Emb(*source).schedule().checks());
  for (const int64_t s : {29, 30, 40, 41, 70}) {
    Update(*source, 40, s);
    Update(*target, 40, s);
    EXPECT_EQ(Ids(*target), Ids(*source)) << s;
    EXPECT_EQ(Emb(*target).schedule().checks(), Emb(*source).schedule().checks()) << s;
  }
  EXPECT_EQ(Ids(*target).size(), 1u);
}

// A server without rows has no valid checks. A slice that it sends must not change the checks.
TEST_F(MigrationContentsTest, ASliceBringsNoChecks) {
  for (const UpdatePolicy mode : {UpdatePolicy::kSync, UpdatePolicy::kASync}) {
    const auto source = Server(mode), target = Server(mode);
    Update(*source, 900, -500);
    DropRows(*source);
    TrainSource(*target, 1);
    DropRows(*target);
    Emb(*target).Keep(5, true);
    const RowChecks before = Emb(*target).schedule().checks();
    BucketMigration migration = *PackMigration(*source, {}, std::vector<BucketMove>{{1, 1, 1}}, 1);
    migration.moves = {{kRowBuckets + 7, 1, 1}};
    migration.slices = {{{"v", Shape{4}, 0, 4, kRowBuckets + 7}, {FloatBuffer({1, 2, 3, 4}), {}}}};
    const Status taken = UnpackMigration(migration, false, *target);
    ASSERT_TRUE(taken.ok()) << taken;
    EXPECT_EQ(Emb(*target).schedule().checks(), before);
  }
}

}  // namespace
}  // namespace tandem::pserver
