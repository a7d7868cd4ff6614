// use_thread_barrier: the replicas of an asynchronous trainer make one common push, instead of one
// push per replica. All replicas continue with the same parameters.
#include "common/base/endpoint.h"
#include "common/base/metrics.h"
#include "gmock/gmock.h"
#include "proto/job.pb.h"
#include "pserver/pserver.h"
#include "tests/knobs/knob_programs.h"
#include "trainer/job/job.h"
#include "trainer/session/local_replicas.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;

class ThreadBarrierTest : public KnobProgramTest {
 protected:
  static constexpr int kSteps = 6;

  struct Trained {
    double pushes = 0;
    std::string params_sha256;
  };
  // Runs a job with one server and one worker of `places_count` replicas, in this process.
  Trained Train(Overrides knobs, int places_count) {
    knobs.insert(knobs.end(), {{"mode", "pserver"},
                               {"steps_max", std::to_string(kSteps)},
                               {"cpu_num", std::to_string(places_count)},
                               {"threads", "1"}});
    const EffectiveJob job = Job(knobs);
    Metrics metrics;
    const auto server = pserver::Pserver::Start({}, metrics);
    EXPECT_TRUE(server.ok()) << server.status();
    SessionOptions options;
    options.rank.pservers = {ToString((*server)->endpoint())};
    options.sink = [](std::string_view) {};
    const RealClock clock;
    const auto places = LocalReplicas::Make(*job.config, options, {}, clock);
    EXPECT_TRUE(places.ok()) << places.status();
    const auto result = (*places)->Run();
    EXPECT_TRUE(result.ok()) << result.status();
    return {metrics.GetCounter("tandem_pserver_pushes_total", "").Value(), result->params_sha256};
  }
};

TEST_F(ThreadBarrierTest, OnePushForAllPlaces) {
  const Overrides async = {{"a_sync", "true"}};
  EXPECT_EQ(Train(async, 3).pushes, kSteps * 3);
  EXPECT_EQ(Train({{"a_sync", "true"}, {"use_thread_barrier", "true"}}, 3).pushes, kSteps);
}

// With one worker and the barrier, the half-async worker waits for its own push and pull, so its
// parameters are never stale. The test uses two replicas, because a sum of three values depends on
// the order.
TEST_F(ThreadBarrierTest, TheSumIsThatOfASynchronousJob) {
  const Overrides waiting = {
      {"a_sync", "true"}, {"a_sync_configs.half_async", "true"}, {"use_thread_barrier", "true"}};
  const std::string sync = Train({}, 2).params_sha256;
  EXPECT_EQ(Train(waiting, 2).params_sha256, sync);
}

TEST_F(ThreadBarrierTest, SaysWhereItChangesNothing) {
  const auto notes = [&](const Overrides& knobs) {
    JobSources sources;
    sources.path = job_;
    sources.overrides = knobs;
    const auto job = LoadJob(sources, 1);
    return job.ok() ? job->notes : std::string(job.status().message());
  };
  EXPECT_THAT(notes({{"mode", "pserver"}, {"use_thread_barrier", "true"}, {"cpu_num", "2"}}),
              HasSubstr("use_thread_barrier has no effect without a_sync"));
  EXPECT_THAT(notes({{"mode", "pserver"}, {"use_thread_barrier", "true"}, {"a_sync", "true"}}),
              HasSubstr("use_thread_barrier has no effect with one place"));
  EXPECT_THAT(notes({{"mode", "pserver"},
                     {"use_thread_barrier", "true"},
                     {"a_sync", "true"},
                     {"a_sync_configs.k_steps", "5"}}),
              HasSubstr("with geo every place updates separately"));
}

}  // namespace
}  // namespace tandem::trainer
