#include "trainer/config/rank_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Env = std::map<std::string, std::string>;

// Returns a text "source rank/size local_rank/local_size" for a rank.
std::string Text(const RankInfo& r) {
  return absl::StrFormat("%s %d/%d %d/%d", r.source, r.rank, r.size, r.local_rank, r.local_size);
}

Env With(Env env, const Env& more) {
  for (const auto& [name, value] : more) env[name] = value;
  return env;
}

const Env kTorchrun = {{"RANK", "3"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "10.0.0.1"},
                       {"MASTER_PORT", "29500"}};
const Env kMpirun = {{"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_SIZE", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
const Env kSrun = {{"SLURM_PROCID", "5"},
                   {"SLURM_NTASKS", "8"},
                   {"SLURM_LOCALID", "1"},
                   {"SLURM_JOB_ID", "77"},
                   {"SLURM_STEP_ID", "0"}};
const Env kFleet = {
    {"TRAINING_ROLE", "TRAINER"},          {"PADDLE_TRAINER_ID", "2"},
    {"PADDLE_TRAINERS_NUM", "3"},          {"PADDLE_TRAINER_ENDPOINTS", "a:6170,b:6170,b:6171"},
    {"PADDLE_CURRENT_ENDPOINT", "b:6171"}, {"PADDLE_PSERVERS_IP_PORT_LIST", "a:7000,b:7000"}};

TEST(RankEnv, EveryLauncher) {
  const struct {
    const char* what;
    Env env;
    const char* expected;
  } cases[] = {
      {"nothing", {{"HOME", "/root"}}, "none 0/1 0/1"},
      {"empty values are not set", {{"RANK", ""}, {"WORLD_SIZE", ""}}, "none 0/1 0/1"},
      {"own", {{"TANDEM_RANK", "1"}, {"TANDEM_SIZE", "2"}}, "TANDEM_* 1/2 0/1"},
      {"own, local",
       {{"TANDEM_RANK", "1"},
        {"TANDEM_SIZE", "2"},
        {"TANDEM_LOCAL_RANK", "1"},
        {"TANDEM_LOCAL_SIZE", "2"}},
       "TANDEM_* 1/2 1/2"},
      {"fleet", kFleet, "PADDLE_* 2/3 1/2"},
      {"fleet without a count",
       {{"PADDLE_TRAINER_ID", "1"}, {"PADDLE_TRAINER_ENDPOINTS", "h:1,h:2"}},
       "PADDLE_* 1/2 1/2"},
      {"fleet without endpoints",
       {{"PADDLE_TRAINER_ID", "1"}, {"PADDLE_TRAINERS_NUM", "2"}},
       "PADDLE_* 1/2 0/1"},
      {"torchrun", kTorchrun, "RANK 3/4 1/2"},
      {"torch without local", {{"RANK", "3"}, {"WORLD_SIZE", "4"}}, "RANK 3/4 0/1"},
      {"mpirun", kMpirun, "OMPI_* 2/3 0/1"},
      {"srun", kSrun, "SLURM_* 5/8 1/2"},
      {"srun without ids", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, "SLURM_* 0/2 0/1"},
      {"batch script's shell",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}},
       "none 0/1 0/1"},
      {"tandemrun under everything",
       With(With(With(kSrun, kMpirun), With(kTorchrun, kFleet)),
            {{"TANDEM_RANK", "0"}, {"TANDEM_SIZE", "9"}}),
       "TANDEM_* 0/9 0/1"},
      {"torchrun under srun", With(kSrun, kTorchrun), "RANK 3/4 1/2"},
      {"mpirun under Slurm", With(kSrun, kMpirun), "OMPI_* 2/3 0/1"},
      {"two that agree", With(kFleet, {{"RANK", "2"}, {"WORLD_SIZE", "3"}}), "PADDLE_* 2/3 1/2"},
  };
  for (const auto& c : cases) {
    const auto info = RankFromEnv(c.env);
    ASSERT_TRUE(info.ok()) << c.what << ": " << info.status();
    EXPECT_EQ(Text(*info), c.expected) << c.what;
  }
}

TEST(RankEnv, AddressesAndNames) {
  auto info = RankFromEnv(kFleet);
  ASSERT_TRUE(info.ok());
  EXPECT_THAT(info->trainers, ElementsAre("a:6170", "b:6170", "b:6171"));
  EXPECT_THAT(info->pservers, ElementsAre("a:7000", "b:7000"));
  EXPECT_EQ(info->rendezvous, "a:6170");
  info = RankFromEnv(kTorchrun);
  EXPECT_EQ(info->rendezvous, "10.0.0.1:29500");
  info = RankFromEnv(With(kTorchrun, {{"TANDEM_RENDEZVOUS", "[::1]:80"},
                                      {"TANDEM_LISTEN_HOST", "10.0.0.9"},
                                      {"TANDEM_ETCD_CA", "etcd.ca"},
                                      {"TANDEM_ETCD_CERT", "etcd.crt"},
                                      {"TANDEM_ETCD_KEY", "etcd.key"},
                                      {"TANDEM_ETCD_USER", "ranks"},
                                      {"TANDEM_ETCD_PASSWORD_FILE", "etcd.password"},
                                      {"TANDEM_JOB", "j"},
                                      {"TANDEM_SECRET_FILE", "/run/secret"},
                                      {"TANDEM_PSERVERS", "c:1"}}));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->rendezvous, "[::1]:80");
  EXPECT_EQ(info->listen_host, "10.0.0.9");
  EXPECT_EQ(info->etcd.tls.ca, "etcd.ca");
  EXPECT_EQ(info->etcd.tls.cert, "etcd.crt");
  EXPECT_EQ(info->etcd.tls.key, "etcd.key");
  EXPECT_EQ(info->etcd.user, "ranks");
  EXPECT_EQ(info->etcd.password_file, "etcd.password");
  EXPECT_EQ(info->job, "j");
  EXPECT_EQ(info->secret_file, "/run/secret");
  EXPECT_THAT(info->pservers, ElementsAre("c:1"));
}

TEST(RankEnv, Pserver) {
  const Env env = {{"TRAINING_ROLE", "PSERVER"},
                   {"POD_IP", "b"},
                   {"PADDLE_PORT", "7000"},
                   {"PADDLE_PSERVERS_IP_PORT_LIST", "a:7000,b:7000"},
                   {"PADDLE_TRAINERS_NUM", "5"}};
  const auto info = RankFromEnv(env);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->role, Role::kPserver);
  EXPECT_EQ(Text(*info), "PADDLE_* 1/2 0/1");
  EXPECT_THAT(RankFromEnv(With(env, {{"POD_IP", "c"}})).status().message(),
              HasSubstr("c:7000, which is missing in PADDLE_PSERVERS_IP_PORT_LIST [TD1013]"));
  EXPECT_THAT(RankFromEnv(With(env, {{"PADDLE_PORT", ""}})).status().message(),
              HasSubstr("PADDLE_PORT is not set"));
}

TEST(RankEnv, UnusedOnesAreNoted) {
  const auto info = RankFromEnv(With(kSrun, kTorchrun));
  EXPECT_THAT(info->notes, ElementsAre("SLURM_PROCID=5 is not used: RANK has precedence"));
  const auto batch =
      RankFromEnv({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}});
  EXPECT_THAT(batch->notes,
              ElementsAre(HasSubstr("SLURM_PROCID=0 is not used: this is the shell")));
}

TEST(RankEnv, ErrorsNameTheVariable) {
  const struct {
    Env env;
    const char* expected;
  } cases[] = {
      {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK=\"x\", expected a whole number from 0"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK=\"-1\""},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE=\"0\", expected a whole number from 1"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, "WORLD_SIZE=\"99999999999\""},
      {{{"RANK", "1.5"}, {"WORLD_SIZE", "2"}}, "RANK=\"1.5\""},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 and WORLD_SIZE=2 contradict"},
      {{{"RANK", "2"}}, "RANK is set, but WORLD_SIZE is not"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set, but RANK is not"},
      {With(kTorchrun, {{"LOCAL_RANK", "2"}}), "environment: LOCAL_RANK=2"},
      {With(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=\"5\""},
      {With(kTorchrun, {{"RANK", "0"}}), "LOCAL_RANK=1, expected at most RANK=0"},
      {With(kTorchrun, {{"MASTER_PORT", ""}}), "MASTER_ADDR is set, but MASTER_PORT is not"},
      {With(kTorchrun, {{"MASTER_PORT", "70000"}}), "\"10.0.0.1:70000\" is not an address"},
      {With(kFleet, {{"PADDLE_TRAINERS_NUM", "4"}}), "names 3 trainers, but PADDLE_TRAINERS_NUM=4"},
      {With(kFleet, {{"PADDLE_TRAINER_ID", ""}}),
       "PADDLE_TRAINERS_NUM is set, but PADDLE_TRAINER_ID"},
      {With(kFleet, {{"PADDLE_CURRENT_ENDPOINT", "a:6170"}}), "PADDLE_CURRENT_ENDPOINT=a:6170"},
      {With(kFleet, {{"PADDLE_TRAINER_ENDPOINTS", "a:1,b:1,a:1"}}), "names a:1 twice"},
      {With(kFleet, {{"PADDLE_PSERVERS_IP_PORT_LIST", "a:7000,"}}),
       "PADDLE_PSERVERS_IP_PORT_LIST: \"\""},
      {With(kFleet, {{"TRAINING_ROLE", "WORKER"}}), "TRAINING_ROLE=\"WORKER\""},
      {With(kFleet, {{"RANK", "1"}, {"WORLD_SIZE", "3"}}),
       "PADDLE_TRAINER_ID names rank 2 of 3, but RANK"},
      {{{"TANDEM_RANK", "1"}}, "TANDEM_RANK is set, but TANDEM_SIZE is not"},
      {{{"TANDEM_RENDEZVOUS", "localhost"}}, "TANDEM_RENDEZVOUS: \"localhost\" is not an address"},
      {{{"TANDEM_RENDEZVOUS", "file://here"}},
       "TANDEM_RENDEZVOUS: rendezvous \"file://here\" names no"},
      {{{"TANDEM_RENDEZVOUS", "::1:80"}}, "TANDEM_RENDEZVOUS"},
      {{{"SLURM_PROCID", "3"}}, "SLURM_PROCID is set, but SLURM_NTASKS is not"},
      {With(kMpirun, {{"OMPI_COMM_WORLD_RANK", "3"}}), "OMPI_COMM_WORLD_RANK=3"},
  };
  for (const auto& c : cases) {
    const Status status = RankFromEnv(c.env).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.expected;
    EXPECT_THAT(status.message(), HasSubstr(c.expected));
  }
}

TEST(RankEnv, TheLastRanksAreHeterWorkers) {
  const auto with = [](const char* heter_workers) {
    return RankFromEnv(
        {{"TANDEM_RANK", "3"}, {"TANDEM_SIZE", "4"}, {"TANDEM_HETER_WORKERS", heter_workers}});
  };
  ASSERT_TRUE(with("2").ok());
  EXPECT_EQ(with("2")->heter_workers, 2);
  EXPECT_EQ(with("2")->workers(), 2);
  EXPECT_EQ(with("1")->workers(), 3);
  EXPECT_EQ(with("")->workers(), 4);
  EXPECT_THAT(std::string(with("3").status().message()),
              HasSubstr("TANDEM_HETER_WORKERS=3 of 4 ranks"));
  EXPECT_THAT(std::string(with("4").status().message()),
              HasSubstr("TANDEM_HETER_WORKERS=4 of 4 ranks"));
  EXPECT_THAT(std::string(with("two").status().message()), HasSubstr("expected a whole number"));
}

}  // namespace
}  // namespace tandem::trainer
