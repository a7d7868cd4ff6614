// A reader finds the servers to which rows and variables have moved since it was connected.
#include "pserver/client/reader.h"

#include <numeric>

#include "pserver/client/carrier/grpc_ps_channel.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "tests/unit/pserver/replica_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class ReaderTest : public ReplicaTest {
 protected:
  // Starts a server and a client that has pushed rows to it. The server has dense variables too.
  void StartJob() {
    StartPrimary("a");
    first_ = endpoints_;
    client_ = *Client(0, 1);
    CHECK(client_->Configure(model_.variables, ps::PsMode::kASync, {"adagrad", {}}, {kTable}).ok());
    CHECK(client_->InitOrFetch(model_.Tensors()).ok());
    for (uint64_t step = 0; step < 20; ++step) {
      PushRows(*client_, step, static_cast<int64_t>(step) * 20);
    }
    ids_.resize(400);
    std::iota(ids_.begin(), ids_.end(), 0);
  }
  // Moves row buckets 0 to 99 and all slices from a server to another one, which may join the job.
  void Move(int source, int target) {
    const auto channel = *ps::GrpcPsChannel::Connect(first_, {});
    ps::BucketMigrator migrator(*channel, first_, {});
    ASSERT_TRUE(migrator.Add(endpoints_[1]).ok());
    const auto now = migrator.Where();
    ASSERT_TRUE(now.ok()) << now.status();
    ps::BucketTransfer transfer{.source = source, .target = target, .buckets = {}};
    for (const int bucket : (*now)[static_cast<size_t>(source)].buckets) {
      if (bucket < 100 || bucket >= kRowBuckets) transfer.buckets.push_back(bucket);
    }
    ASSERT_GT(transfer.buckets.size(), 100u) << "no slice moves";
    const Status moved = migrator.Run({transfer}, [](const ps::MoveProgress&) {});
    ASSERT_TRUE(moved.ok()) << moved;
    channel->Close();
  }
  // Expects that the reader reads all rows and variables as `rows` and `dense` have them.
  void ExpectReads(ps::Reader& reader, const ps::Reader::Rows& rows, const ps::Reader::Dense& dense,
                   size_t servers) {
    const auto found = reader.ReadRows("emb", ids_);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->values, rows.values);
    EXPECT_EQ(found->versions.size(), servers);
    const auto again = reader.ReadDense();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->variables, dense.variables);
    EXPECT_TRUE(reader.ReadRows("emb", ids_, found->versions).ok());
    EXPECT_TRUE(reader.ReadDense(rows.versions).ok()) << "versions of the named server";
  }

  Model model_;
  std::unique_ptr<ps::PsClient> client_;
  std::vector<std::string> first_;  // addresses of the servers with which the job began
  std::vector<int64_t> ids_;
};

TEST_F(ReaderTest, AServerThatJoinsLaterIsRead) {
  StartJob();
  const auto reader = ReaderOf(first_), dense_reader = ReaderOf(first_);
  const auto rows = reader->ReadRows("emb", ids_);
  const auto dense = reader->ReadDense();
  ASSERT_TRUE(rows.ok() && dense.ok()) << rows.status() << dense.status();
  ASSERT_EQ(dense->variables.size(), model_.variables.size());
  StartPrimary("b", 1);
  Move(0, 1);
  const auto later = dense_reader->ReadDense();
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->variables, dense->variables);
  ExpectReads(*reader, *rows, *dense, 2);
  ExpectReads(*ReaderOf(first_), *rows, *dense, 2);
  ExpectReads(*ReaderOf(endpoints_), *rows, *dense, 2);
  // The server gives all back and stops.
  Move(1, 0);
  ExpectReads(*reader, *rows, *dense, 2);
  servers_.pop_back();
  ExpectReads(*reader, *rows, *dense, 2);
  ExpectReads(*ReaderOf(first_), *rows, *dense, 1);
}

TEST_F(ReaderTest, AReaderOfReplicasReadsAServerThatJoins) {
  StartJob();
  const auto replica = ReplicaOf(first_[0], "r");
  const auto reader = ReaderOf({Await(*replica, 20)});
  const auto rows = reader->ReadRows("emb", ids_);
  const auto dense = reader->ReadDense();
  ASSERT_TRUE(rows.ok() && dense.ok()) << rows.status() << dense.status();
  StartPrimary("b", 1);
  Move(0, 1);
  // The replica receives the moves with the log, so the reader may see the state before them.
  PushRows(*client_, 20, 0);
  const auto now = ReaderOf(endpoints_)->ReadRows("emb", ids_);
  ASSERT_TRUE(now.ok()) << now.status();
  (void)Await(*replica, 21);
  const auto found = reader->ReadRows("emb", ids_, {21});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->values, now->values);
  EXPECT_EQ(found->versions.size(), 2u);
}

TEST_F(ReaderTest, AJoinedServerThatDoesNotReplyIsNamed) {
  StartJob();
  StartPrimary("b", 1);
  Move(0, 1);
  const auto reader = ps::Reader::Connect(first_, {.timeout = std::chrono::seconds(1)});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::string address = endpoints_[1];
  servers_.pop_back();
  const Status status = (*reader)->ReadRows("emb", ids_).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(address));
}

}  // namespace
}  // namespace tandem::pserver
