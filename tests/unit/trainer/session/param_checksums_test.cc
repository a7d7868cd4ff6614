#include "trainer/session/param_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "collective/host/host_communicator.h"
#include "collective/host/inproc.h"
#include "kernels/graph/builder.h"
#include "proto/job.pb.h"
#include "tests/support/temp_dir.h"
#include "trainer/job/job.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/reader/open.h"
#include "trainer/session/session.h"

namespace tandem::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ParamChecksumDueTest, EveryNthStepAndTheLastStepAreDue) {
  EXPECT_FALSE(ParamChecksumDue(0, 9, 1, /*last=*/true));
  EXPECT_FALSE(ParamChecksumDue(5, 3, 1, false));
  EXPECT_TRUE(ParamChecksumDue(5, 4, 1, false));
  EXPECT_FALSE(ParamChecksumDue(5, 5, 1, false));
  EXPECT_TRUE(ParamChecksumDue(5, 5, 1, true));
  EXPECT_TRUE(ParamChecksumDue(5, 6, 3, false));  // steps 4 to 6
  EXPECT_FALSE(ParamChecksumDue(5, 7, 3, false));
}

std::string Compared(const std::vector<int64_t>& by_rank) {
  return ToString(CompareParamChecksums(by_rank));
}

TEST(CompareParamChecksumsTest, RanksThatDifferFromTheMajorityAreNamed) {
  EXPECT_EQ(Compared({}), "OK");
  EXPECT_EQ(Compared({7}), "OK");
  EXPECT_EQ(Compared({7, 7, 7}), "OK");
  EXPECT_THAT(Compared({7, 0xabcdef12, 7}),
              HasSubstr("rank 1 of 3 has wrong parameters: the checksum is abcdef12 on rank 1, and "
                        "00000007 on the other 2 ranks [TD1222]"));
  EXPECT_THAT(Compared({9, 7, 7, 8, 7}),
              AllOf(HasSubstr("ranks 0, 3 of 5"), HasSubstr("on the other 3 ranks")));
  EXPECT_THAT(Compared({1, 2}),
              HasSubstr("no value is that of the majority (00000001 on rank 0; 00000002 on rank "
                        "1): one of the two ranks has wrong parameters [TD1222]"));
  EXPECT_THAT(Compared({1, 2, 2, 1}),
              AllOf(HasSubstr("00000001 on ranks 0, 3; 00000002 on ranks 1, 2"),
                    HasSubstr("at least one of these ranks")));
  std::vector<int64_t> many(41, 5);
  for (size_t i = 0; i < 20; ++i) many[i] = static_cast<int64_t>(10 + i);
  EXPECT_THAT(Compared(many), AllOf(HasSubstr("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more of 41"),
                                    Not(HasSubstr("on rank 9"))));
}

TEST(ParamChecksumTest, EachBitOfAParameterCounts) {
  graph::ProgramBuilder b("two", 2);
  b.Fc(b.Fc(b.Data("x", DType::kF32, {2}), 2, graph::Act::kNone), 2, graph::Act::kNone);
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  CpuDevice device;
  exec::Scope scope(device);
  for (const graph::Var* const var : program->VarsOf(graph::VarKind::kParam)) {
    const auto tensor = scope.Declare(var->name, var->desc);
    ASSERT_TRUE(tensor.ok());
    std::memset(tensor->data(), 0, tensor->bytes());
  }
  const uint32_t zero = *ParamChecksum(*program, scope);
  EXPECT_EQ(*ParamChecksum(*program, scope), zero);
  std::set<uint32_t> sums = {zero};
  size_t bits = 0;
  for (const auto& [name, tensor] : scope.tensors()) {
    auto* const data = static_cast<uint8_t*>(tensor.data());
    for (size_t bit = 0; bit < tensor.bytes() * 8; ++bit, ++bits) {
      data[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      sums.insert(*ParamChecksum(*program, scope));
      data[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
  }
  EXPECT_GT(bits, 300u);
  EXPECT_EQ(sums.size(), bits + 1);  // the same value in another parameter is another checksum
}

constexpr int kRanks = 3, kSteps = 4;
constexpr char kJob[] = R"(
name: "sums"
mode: COLLECTIVE
model { zoo: "mlp" arg { name: "hidden" value: "6" } arg { name: "classes" value: "4" }
        arg { name: "image" value: "1,4,4" } }
data { format: "synthetic" synthetic { image: 1 image: 4 image: 4 classes: 4 samples: 120 } }
optimizer { type: "momentum" learning_rate: 0.1 }
global_batch_size: 12
eval_every_epochs: 0
steps_max: 4
threads: 1
log_every_steps: 1
)";

// A flip of one rank.
struct Flip {
  enum class Kind : uint8_t { kNothing, kParam, kGradient, kMessage, kRingMessage };
  Kind kind = Kind::kNothing;
  int64_t step = 0;
  // Messages: numbers of a byte that the rank receives from its peers in the job, and of a bit.
  // Otherwise modulo the number of variables, and of bits.
  uint64_t which = 0, bit = 0;
};

bool IsMessage(Flip::Kind kind) {
  return kind == Flip::Kind::kMessage || kind == Flip::Kind::kRingMessage;
}

void FlipBit(void* data, size_t bytes, uint64_t bit) {
  static_cast<uint8_t*>(data)[bit / 8 % bytes] ^= static_cast<uint8_t>(1 << bit % 8);
}

// Flips one bit of what a rank receives from its peers. The streams have no checksum, like those of
// a job without a secret.
class FlippingTransport final : public collective::Transport {
 public:
  // `received`: gets the number of bytes that the rank has received.
  FlippingTransport(std::unique_ptr<collective::Transport> below, Flip flip, uint64_t* received)
      : below_(std::move(below)), flip_(flip), received_(*received) {}
  int rank() const override { return below_->rank(); }
  int size() const override { return below_->size(); }
  std::string PeerName(int peer) const override { return below_->PeerName(peer); }
  StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                           std::span<const std::byte> body) override {
    return below_->TrySend(peer, head, body);
  }
  StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head,
                           std::span<std::byte> body) override {
    TD_ASSIGN_OR_RETURN(const size_t bytes, below_->TryRecv(peer, head, body));
    const uint64_t at = flip_.which - received_;  // wraps around before the present bytes
    if (IsMessage(flip_.kind) && at < bytes) {
      std::byte& byte = at < head.size() ? head[at] : body[at - head.size()];
      byte ^= std::byte{1} << flip_.bit % 8;
    }
    received_ += bytes;
    return bytes;
  }
  Status Wait(int send_to, std::span<const int> recv_from, Time deadline) override {
    return below_->Wait(send_to, recv_from, deadline);
  }
  void Abort(const Status& status) override { below_->Abort(status); }
  Status Health() const override { return below_->Health(); }

 private:
  const std::unique_ptr<collective::Transport> below_;
  const Flip flip_;
  uint64_t& received_;
};

// Forwards to the parts of a mode, and flips one bit: of a parameter before a step, or of a sum of
// gradients when this rank has received it.
class FlippingMode final : public Membership, public StepHooks, public exec::CommHandler {
 public:
  FlippingMode(TrainingMode inner, Flip flip) : inner_(std::move(inner)), flip_(flip) {}
  TrainingMode mode() {
    TrainingMode mode = inner_;
    mode.membership = this;
    mode.steps = this;
    mode.training = this;
    return mode;
  }

  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap& state,
                         int64_t step, const Stop& stop) override {
    scope_ = &scope;
    for (const graph::Var* const var : program.VarsOf(graph::VarKind::kParam)) {
      params_.push_back(var->name);
    }
    return inner_.membership->Join(program, scope, state, step, stop);
  }
  StatusOr<bool> Stopping(bool mine) override { return inner_.membership->Stopping(mine); }
  StatusOr<std::vector<int64_t>> ValuesOfRanks(int64_t value) override {
    return inner_.membership->ValuesOfRanks(value);
  }
  Status Finish() override { return inner_.membership->Finish(); }
  void Abort(const Status& why) override { inner_.membership->Abort(why); }
  void ReleaseDeviceResources() override { inner_.membership->ReleaseDeviceResources(); }

  Status BeginStep(int64_t step, float learning_rate) override {
    step_ = step;
    started_ = 0;
    if (flip_.kind == Flip::Kind::kParam && flip_.step == step) {
      const Tensor& param = *scope_->Find(params_[flip_.which % params_.size()]);
      FlipBit(param.data(), param.bytes(), flip_.bit);
    }
    return inner_.steps->BeginStep(step, learning_rate);
  }

  StatusOr<int> Register(const exec::CommNode& node) override {
    TD_ASSIGN_OR_RETURN(const int index, inner_.training->Register(node));
    nodes_.resize(std::max(nodes_.size(), static_cast<size_t>(index) + 1));
    nodes_[static_cast<size_t>(index)] = node;
    return index;
  }
  void Start(int index, int64_t step, exec::CommDone* done) override {
    const bool here = flip_.kind == Flip::Kind::kGradient && step_ == flip_.step &&
                      started_++ == flip_.which % nodes_.size();
    if (!here) return inner_.training->Start(index, step, done);
    relay_.node = &nodes_[static_cast<size_t>(index)];
    relay_.flip = flip_;
    relay_.done = done;
    inner_.training->Start(index, step, &relay_);
  }
  Duration timeout() const override { return inner_.training->timeout(); }

 private:
  struct Relay final : public exec::CommDone {
    void Complete(Status status) override {
      const exec::CommTensor& out = node->out[flip.bit / 64 % node->out.size()];
      FlipBit(out.data, out.desc.bytes(), flip.bit);
      done->Complete(std::move(status));
    }
    const exec::CommNode* node = nullptr;
    Flip flip;
    exec::CommDone* done = nullptr;
  };
  const TrainingMode inner_;
  const Flip flip_;
  exec::Scope* scope_ = nullptr;
  std::vector<std::string> params_;
  std::vector<exec::CommNode> nodes_;
  Relay relay_;
  int64_t step_ = 0;
  uint64_t started_ = 0;
};

// The ends of all ranks.
struct Ends {
  std::vector<Status> status;
  std::vector<std::string> sha256;
  std::vector<uint64_t> received;  // bytes from peers
  std::string output;              // the output of rank 0
};

class FlippedRanksTest : public testing::Test {
 protected:
  FlippedRanksTest() { std::ofstream(dir_ / "job.pbtxt") << kJob; }
  void Load(const Settings& settings) {
    JobSources sources;
    sources.path = dir_ / "job.pbtxt";
    sources.overrides = settings;
    auto job = LoadJob(sources, kRanks);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = std::make_unique<EffectiveJob>(*std::move(job));
    data_ = *reader::OpenData(config().data(), "", /*with_test=*/false);
  }
  const JobConfig& config() const { return *job_->config; }

  // Runs the job on three ranks. Rank `flipped` has the flip. `ring`: sums pass from rank to rank
  // whatever their size.
  Ends Run(int flipped, Flip flip, bool ring = false) {
    auto world = collective::MakeInprocTransports(kRanks);
    collective::HostCommunicatorConfig memory;
    memory.operation_timeout = std::chrono::seconds(5);
    if (ring) memory.rule.pair_bytes_max = memory.rule.direct_bytes_max = 64;
    Ends ends{std::vector<Status>(kRanks), std::vector<std::string>(kRanks),
              std::vector<uint64_t>(kRanks), ""};
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        std::vector<std::unique_ptr<collective::Communicator>> own;
        const auto at = static_cast<size_t>(r);
        const Flip mine = r == flipped ? flip : Flip{};
        own.push_back(std::make_unique<collective::HostCommunicator>(
            std::make_unique<FlippingTransport>(std::move(world[at]), mine, &ends.received[at]),
            memory));
        const StatusOr<SessionResult> result =
            RunRank(r, std::move(own), mine, r == 0 ? &ends.output : nullptr);
        ends.status[static_cast<size_t>(r)] = result.status();
        if (result.ok()) ends.sha256[static_cast<size_t>(r)] = result->params_sha256;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  }

 private:
  StatusOr<SessionResult> RunRank(int r,
                                  std::vector<std::unique_ptr<collective::Communicator>> world,
                                  Flip flip, std::string* output) {
    SessionOptions options;
    options.rank.rank = r;
    options.rank.size = kRanks;
    options.global_batch = 12;
    options.train = data_.train.get();
    options.progress.format = LogFormat::kPlain;
    options.sink = [output](std::string_view text) {
      if (output != nullptr) output->append(text);
    };
    FlippingMode flipping(
        MakeCollectiveMode(CollectiveOptionsOf(config(), options.rank,
                                               CommonOptionsOf(config(), options.rank, {})),
                           std::move(world)),
        flip);
    TrainingMode mode = flipping.mode();
    mode.evaluation_part = EvaluationPart::kNone;
    TD_ASSIGN_OR_RETURN(auto session, Session::Make(config(), options, mode, clock_));
    return session->Run();
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<EffectiveJob> job_;
  reader::TrainAndTest data_;
};

TEST_F(FlippedRanksTest, TheRankWithAFlippedParameterIsNamed) {
  Load({{"param_checksums", "2"}});
  const Ends plain = Run(1, {});
  for (const Status& status : plain.status) ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(plain.output, HasSubstr("params="));
  EXPECT_EQ(Run(1, {}).sha256, plain.sha256);
  for (int rank = 0; rank < kRanks; ++rank) {
    // A bit of the exponent of a parameter before step 2 (of 1 to 4).
    const Ends ends = Run(rank, {Flip::Kind::kParam, 1, 0, 29});
    for (const Status& status : ends.status) {
      EXPECT_THAT(ToString(status),
                  AllOf(HasSubstr("step 2: param_checksums: rank " + std::to_string(rank) +
                                  " of 3 has wrong parameters"),
                        HasSubstr("[TD1222]")));
    }
    EXPECT_THAT(ends.output, AllOf(HasSubstr("step=1 "), Not(HasSubstr("step=2 "))));
  }
}

// The outcomes of flips.
struct Tally {
  int found = 0, harmless = 0, silent = 0;
};

// Random flips of one rank in parameters, in received sums of gradients, and in messages without a
// checksum. TANDEM_PARAM_FLIPS: their number.
TEST_F(FlippedRanksTest, FlipsAreFound) {
  Load({{"param_checksums", "1"}});
  const Ends direct = Run(0, {}), in_ring = Run(0, {}, /*ring=*/true);
  std::mt19937 random(5);
  const char* const count = std::getenv("TANDEM_PARAM_FLIPS");
  const std::pair<Flip::Kind, const char*> kinds[] = {
      {Flip::Kind::kParam, "weights of a rank"},
      {Flip::Kind::kGradient, "received gradients of a rank"},
      {Flip::Kind::kMessage, "messages of direct sums without a checksum"},
      {Flip::Kind::kRingMessage, "messages of sums in a ring without a checksum"}};
  for (const auto& [kind, name] : kinds) {
    Tally tally;
    const bool ring = kind == Flip::Kind::kRingMessage;
    const Ends& plain = ring ? in_ring : direct;
    for (int i = count != nullptr ? std::atoi(count) / 4 : 60; i > 0; --i) {
      const auto rank = random() % kRanks;
      Flip flip{kind, static_cast<int64_t>(random() % kSteps), random(), random()};
      if (IsMessage(kind)) flip.which %= plain.received[rank];
      const Ends ends = Run(static_cast<int>(rank), flip, ring);
      const std::string first = ToString(ends.status[0]);
      if (!ends.status[0].ok()) {
        if (!IsMessage(kind)) {
          EXPECT_THAT(first, HasSubstr(absl::StrCat("rank ", rank, " of 3 has wrong parameters")));
        }
        ++tally.found;
      } else {
        (ends.sha256 == plain.sha256 ? tally.harmless : tally.silent) += 1;
      }
    }
    std::printf("flips: %s: %d found, %d without effect, %d silent\n", name, tally.found,
                tally.harmless, tally.silent);
    EXPECT_GT(tally.found, 0) << name;
    // A parameter that changes before the gradients of its step are summed may change the sum, and
    // then be rounded to the same value as on the other ranks. A message that changes while
    // gradients are summed changes the sum on all ranks.
    if (kind == Flip::Kind::kGradient) {
      EXPECT_EQ(tally.silent, 0);
    }
  }
}

}  // namespace
}  // namespace tandem::trainer
