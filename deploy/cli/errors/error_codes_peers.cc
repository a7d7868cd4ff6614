// The error codes TD3xxx (ranks, collective mode) and TD4xxx (parameter servers).
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {

namespace {

// Errors of machines and processes.
std::vector<ErrorCode> ProcessErrors() {
  return {
      {3011, "ranks with different settings",
       "the settings of the ranks differ, so nothing was trained",
       "ranks that were started by hand from different job files or flags; different data on one "
       "host",
       "give all ranks one job file, as tandemrun does; the message names the first difference",
       "the settings of the ranks differ: rank 1 has global_batch_size 64, rank 0 has 32 [TD3011]; "
       "hint: give all ranks the same job file and flags"},
      {3012, "an unresponsive process",
       "other processes waited for it for --step_timeout_ms; tandemrun killed it and could not "
       "restart it",
       "the process was stopped (SIGSTOP), hangs or swaps, or an evaluation takes longer",
       "restart such processes with --max_restarts=N, a pserver also needs --pserver_data_dir; or "
       "raise --step_timeout_ms",
       "did not reply for 4.0 s and was killed [TD3012]"},
      {3013, "ranks of different versions",
       "all ranks of a job must speak the same version of their protocol",
       "another build or package on one of the hosts", "install the same version on all hosts",
       "the peer speaks version 3 of the handshake between ranks, this program speaks version 4 "
       "[TD3013]; hint: install the same version of Tandem on all hosts"},
      {3014, "an announcement of an earlier rank 0",
       "a rank read the address of an earlier rank 0, and connected to the current rank 0",
       "the rank read the announcement just before it was renewed; an old announcement was "
       "restored",
       "nothing: the rank reads the announcement again; if the error persists, check the write "
       "permissions of the directory or etcd",
       "rank 1 used the rendezvous announcement of another process, not of this rank 0 [TD3014]"},
      {3015, "another command on one of the hosts",
       "all tandemruns of a job on several hosts must have the same settings; the leading one "
       "refuses a tandemrun with others",
       "another number of hosts, ranks or servers, another mode or --max_restarts on one host",
       "run the same command on each host",
       "node-b runs tandemrun with 2 trainers, the leading one with 4 trainers [TD3015]; hint: run "
       "the same command on each host"},
      {3016, "a lost host",
       "the tandemrun of a host has ended, or has sent nothing for --host_timeout_s, and the job "
       "cannot continue without its processes",
       "the host or its network failed; its tandemrun was killed or stopped (SIGSTOP)",
       "check the host and start the job again; let ranks return with --max_restarts, or continue "
       "without them with --hosts=MIN:MAX",
       "host 1 (node-b at 10.0.0.2): its tandemrun has sent nothing for 5.0 s "
       "[TD3016]"},
  };
}

}  // namespace

std::vector<ErrorCode> RankErrors() {
  std::vector<ErrorCode> all = {
      {3001, "rank 0 cannot be reached",
       "this rank cannot connect to the address at which the ranks meet",
       "rank 0 is not running yet; a wrong --rendezvous; a firewall",
       "check the log of rank 0; ping its host; raise --start_timeout_ms",
       "rank 1 of 2 cannot reach rank 0 at 127.0.0.1:7000 within 300ms (Connection refused) "
       "[TD3001]; hint: check that this peer runs, and that its address is right"},
      {3002, "missing ranks", "the job starts when all ranks have joined, and some have not",
       "a process that was never started or ended at once; a different number of ranks",
       "check the logs of the ranks that the message names",
       "rank 0 of 2 at 127.0.0.1:7000: rank 1 did not join within 2s [TD3002]; hint: read the logs "
       "of these ranks, and check that these ranks use this address"},
      {3003, "a mode without its other processes",
       "the trainer was started alone, but its job needs servers or other ranks",
       "tandem-trainer was started by hand, without tandemrun",
       "start the job with tandemrun, or set the addresses yourself",
       "mode PSERVER needs pservers, but none are given [TD3003]; hint: start the job with "
       "tandemrun --servers=N, or set --pservers=HOST:PORT,..."},
      {3004, "ranks that run different operations",
       "two ranks communicate differently at the same point of the program",
       "job files or flags that differ between ranks; different versions",
       "give all ranks the same job file and flags, as tandemrun does",
       "ranks do not run the same operation: rank 1 runs allreduce, this rank runs broadcast; all "
       "ranks must make the same calls in the same order [TD3004]"},
      {3005, "a lost rank",
       "the connection to a rank broke, or the rank ended while others needed it",
       "the rank was killed (memory) or failed, or its host or network failed",
       "find the first failure with tandem events LOG_DIR; --max_restarts replaces lost ranks",
       "rank 1 is lost: its connection closed unexpectedly (Connection reset by peer) [TD3005]; "
       "hint: look at its log"},
      {3006, "an unresponsive rank",
       "a rank sent or received nothing within the time limit of a step",
       "the rank is stopped, swaps, or is much slower; a network that loses all packets",
       "run tandem status LOG_DIR for the slowest rank; raise --step_timeout_ms",
       "the receive from rank 1 timed out, because this peer sends no data [TD3006]"},
      {3007, "a rank of another job",
       "the caller is not of this job, or expects another number of ranks",
       "two jobs at one address; different --nproc on the hosts",
       "use another port for one of the jobs, and the same numbers on all hosts",
       "this job has 2 ranks, but the caller expects 4 [TD3007]"},
      {3008, "two processes with the same rank",
       "a second process joined with the rank of another one",
       "the same TANDEM_RANK or RANK on two hosts; an old process that still runs",
       "number the ranks from 0 without gaps; stop the old process",
       "rank 1 is already connected from 10.0.0.2:6170 [TD3008]"},
      {3009, "a rank cannot listen",
       "another program uses the address, or the host does not have this address",
       "an old process that still runs; an address of another host",
       "run ss -ltnp to find the program that uses the port; choose another port, or leave the "
       "choice to the system",
       "rank 0 cannot listen on 127.0.0.1:7000: Address already in use [TD3009]; hint: choose "
       "another port, or end the program that uses it"},
      {3010, "a rendezvous directory that cannot be used",
       "rank 0 announces its address in a file that all ranks must read and lock",
       "the directory does not exist on this host; missing permissions; a file system without "
       "locks",
       "use a directory on NFS 4 or another file system with locks, or tcp://HOST:PORT",
       "cannot write /none/job: No such file or directory [TD3010]; hint: create the directory, "
       "and give this process the right to write in it"},
  };
  for (ErrorCode& code : ProcessErrors()) all.push_back(code);
  return all;
}

namespace {

// Errors of a pserver's state, and of data that it received.
std::vector<ErrorCode> ServerStateErrors() {
  return {
      {4010, "a damaged directory of a server",
       "data that the server acknowledged to trainers are missing",
       "a disk that fails; files that were removed or copied in part",
       "restore a copy of the directory; or move the directory away, and restore all servers from "
       "an earlier checkpoint",
       "data/0: the acknowledged checkpoint of version 40 is missing [TD4010]"},
      {4011, "a server without checkpoints",
       "the server was started without a directory for checkpoints",
       "--data_dir is missing (tandemrun: --pserver_data_dir)", "start the server with a directory",
       "this server writes no checkpoints, because it was started without a directory [TD4011]"},
      {4012, "durability that the server cannot give",
       "the durability of pushes needs a directory, or other settings of the server or the client",
       "--durability without --data_dir (tandemrun: --pserver_data_dir); a client that does not "
       "retransmit pushes",
       "set the directory, or the durability that the hint names",
       "--durability=replayable needs a directory [TD4012]; hint: set --pserver_data_dir=DIR"},
      {4013, "a gradient that is not finite", "the server rejected the push",
       "a learning rate that is too high; damaged data",
       "find the operator with --check_nan_inf=true; nonfinite_gradients: Skip skips such steps",
       "trainer 0 step 3: gradient of w, element 3 is NaN; the server rejected the push [TD4013]; "
       "hint: set the knob nonfinite_gradients to another policy"},
      {4014, "trainers with different settings",
       "the settings of this trainer differ from those of the running trainers",
       "trainers that were started by hand from different job files or flags; different data on "
       "one host; a new job on servers of a job that still runs",
       "give all trainers one job file, as tandemrun does; the message names the first difference",
       "the settings of the trainers differ: trainer 1 has global_batch_size 64, trainer 0 has 32 "
       "[TD4014]; hint: give all trainers the same job file and flags, or start another job after "
       "the trainers of this job have ended (a killed trainer counts as ended after 60 s without a "
       "call)"},
      {4015, "a push for another step",
       "in sync mode a server accepts only pushes for its current step; a trainer that waited for "
       "a later step when the server was restored would wait forever",
       "tandem restore while trainers ran; a client that counts steps differently, or does not "
       "start with the version of init_or_fetch",
       "restart the trainers, which start at the step of the servers; in your own client push step "
       "N if the version is N",
       "trainer 0 pushes for step 8, but this server is at step 6 (was it restored?) [TD4015]"},
      {4016, "too many waiting pushes",
       "more bytes of pushes wait for the write-ahead log or for a checkpoint than allowed",
       "a disk that is slower than the trainers",
       "use a faster disk, push less often, or raise --keep_pushes_mb",
       "the write-ahead log is too slow: 4294967000 bytes of pushes are waiting, and 1048576 more "
       "bytes arrived, but at most 4294967296 bytes may wait [TD4016]"},
      {4017, "the initial parameters are being written",
       "the server already received the initial parameters, and writes its first checkpoint",
       "trainer 0 was restarted in the meantime",
       "start the trainer again when the checkpoint is written",
       "the server is already writing the initial parameters to its directory [TD4017]"},
  };
}

// Errors of calls to pservers, and of their replies.
std::vector<ErrorCode> ServerCallErrors() {
  return {
      {4020, "a global snapshot that does not exist, or whose number is used",
       "global snapshots have ascending numbers, and the servers know the existing ones",
       "a number of another job, or of a snapshot that newer ones replaced; a program that chooses "
       "numbers itself",
       "list the snapshots with tandem restore --list; tandem save --snapshot chooses the number",
       "snapshot 7 does not exist on all 3 servers; these snapshots do: 4, 5 [TD4020]; hint: run "
       "tandem restore --list to see the snapshots"},
      {4021, "tables that another mode does not support",
       "a checkpoint has rows of is_distributed tables, which only pservers store, but the job "
       "stores its tables elsewhere; or the other way round",
       "the same checkpoint.dir with another mode, or with is_distributed changed",
       "resume with pservers and the same tables, or start with another checkpoint.dir",
       "ck/step-00000100/tables.rows: the checkpoint has tables that only pservers store, which "
       "this mode does not support [TD4021]; hint: resume with --servers=N, or start with another "
       "checkpoint.dir"},
      {4022, "gradients that are too old for momentum",
       "in a_sync mode servers apply gradients many updates after the pull of their parameters; "
       "with momentum such a job converges badly or not at all",
       "small models with very short steps; several trainers without a bound",
       "set a_sync_configs.max_staleness=4, or use an optimizer without momentum (sgd), or sync "
       "mode",
       "warning: gradients are 23.4 updates old when the servers apply them, above 5 with momentum "
       "with momentum 0.9: the job may not converge [TD4022]; hint: set "
       "--a_sync_configs.max_staleness=4"},
      {4023, "a call without a time limit",
       "timeout_ms is the time for which the server may wait, and it is 0",
       "your own client does not set the field",
       "set timeout_ms to at least 1 in every WaitInit, Pull and Barrier",
       "timeout_ms is 0, expected at least 1 [TD4023]; hint: set the time for which the server may "
       "wait, in milliseconds"},
      {4024, "no incarnation left for a trainer",
       "each start of a trainer has a higher incarnation, and the highest is already used",
       "your own client chooses incarnations itself",
       "start the pservers with empty directories, and resume from the checkpoint of the trainers",
       "trainer 0: the servers already use the highest incarnation 18446744073709551615 [TD4024]; "
       "hint: start the pservers with empty directories, and resume from the checkpoint of the "
       "trainers"},
      {4025, "a call without a reply",
       "the server replied before, but did not reply to this call within the time limit",
       "the server was killed and was not restarted; its host failed or is stopped",
       "run tandem status --pservers=LIST; check the log of the server; start it again at its "
       "address with its directory, and the calls continue",
       "pserver 0 (127.0.0.1:7000): no reply to Pull within 62.0 s [TD4025]"},
      {4026, "a step without all gradients",
       "in sync mode servers update parameters after each trainer pushed all variables and tables; "
       "this trainer requested the update without having pushed all",
       "a parameter without a gradient (grad is None in PyTorch) was not pushed",
       "push the named variables, too: zeros if there is no gradient, no rows for a table",
       "step 0 of sync mode is incomplete: no gradient of \"fc.b\" was pushed [TD4026]; hint: push "
       "all configured variables and tables, with zeros or no rows where there is no gradient"},
      {4027, "threads of the trainer slow servers on its host",
       "OpenMP threads of PyTorch wait for work in a busy loop, so a server on the same host lacks "
       "processors",
       "a Python trainer and its servers on one host, without OMP_WAIT_POLICY=passive",
       "start Python with OMP_WAIT_POLICY=passive (tandemrun does it for its trainers), or with "
       "OMP_NUM_THREADS=1",
       "2 OpenMP threads of torch wait in a busy loop, which slows pserver 127.0.0.1:7000 on this "
       "host [TD4027]; hint: start Python with OMP_WAIT_POLICY=passive"},
  };
}

// Errors of primaries and their standbys.
std::vector<ErrorCode> ReplicationErrors() {
  return {
      {4028, "a primary and a standby do not fit together",
       "a standby server copies the write-ahead log of its primary; both need the same number of "
       "standbys and durability logged, and each standby needs a different number",
       "a primary without standbys or without durability logged; two standbys with one number; a "
       "replica that joins while too few standbys follow the primary",
       "start primary and standbys with durability logged and the same number of standbys, and "
       "number the standbys from 1; start the standbys that are away",
       "a server with 1 standbys has no member 2 [TD4028]; hint: number its members from 0 to 1"},
      {4029, "a server is not the newest primary",
       "each promotion of a standby begins a term; a server of an earlier term, or with fewer "
       "entries than its standby, must not replace the state of a newer one",
       "a primary that continues after its standby was promoted; a primary that lost its directory "
       "and was started again; a standby that has no state yet",
       "stop the old primary, or start it as a standby of the promoted server; promote a standby "
       "that has a state",
       "a standby was promoted: it has term 2, and this server has term 1 [TD4029]; hint: stop "
       "this "
       "server, or start it as a standby of the promoted server"},
      {4030, "a server whose newest state is unknown",
       "tandemrun makes the member with the latest state the primary, but the members have too few "
       "states to know it, or states of different jobs",
       "directories that were deleted or exchanged while the job was stopped; directories of two "
       "jobs",
       "put the directories of all members back; or remove all of them, and start the job from a "
       "checkpoint",
       "1 of 3 members of pserver 0 have its complete state, but 2 are needed to know all "
       "acknowledged "
       "pushes [TD4030]; hint: put the directories of the other members back, or start the job "
       "from a checkpoint"},
      {4031, "fewer standbys than before",
       "the directory of the pservers has the state of a standby that this job would not start; "
       "this standby may have pushes that the others lack",
       "a smaller --standbys than in the last run, or none",
       "use the same number of standbys; remove the directory only if its member was not the last "
       "primary",
       "state/pserver-0.member-1 is the state of a standby, and this job has 0 standbys for each "
       "pserver [TD4031]; hint: use --standbys=1 or more as before, or remove this directory if it "
       "has no newer state than the others"},
      {4032, "a standby that cannot become the primary",
       "tandem promote ends the primary only if a standby has its state, and if tandemrun can "
       "restart the ended process as a standby",
       "a standby that is restarting or copies the checkpoint; no restart is left "
       "(--max_restarts); a job that ends",
       "run tandem status LOG_DIR to see the standbys, and run the command again when they follow; "
       "start the job with a higher --max_restarts",
       "pserver 0 has 0 standbys that follow its primary, but a promotion needs 1 (member 1: "
       "following, lacks 90 log entries of 3600 bytes and 2.4 s) [TD4032]; hint: "
       "run tandem status log-job, and try again when the standbys follow"},
      {4038, "a job that cannot lose pushes",
       "with --replication=async a server acknowledges a push before its standbys have it, so the "
       "loss of its disk may lose the newest pushes; sync training, streams and moves of rows need "
       "every acknowledged push",
       "--replication=async in a sync job or a job that reads a stream; tandem rebalance and "
       "tandem drain in a job with --replication=async",
       "use --replication=quorum, which is the default",
       "--replication=async of the pserver does not support streams, because it may lose steps "
       "[TD4038]; hint: use --replication=quorum"},
  };
}

// Errors of readers and read replicas.
std::vector<ErrorCode> ReaderErrors() {
  return {
      {4033, "a replica that cannot do what was requested",
       "a read replica copies the write-ahead log of a server, and answers only reads; trainers, "
       "checkpoints and moves use the server that it follows",
       "the address of a replica in --pservers of a trainer or of tandem save; a replica without "
       "--durability=logged",
       "use the addresses of the pservers; start the replica with --durability=logged and "
       "--data_dir",
       "this server is a replica, which does not answer SaveCheckpoint [TD4033]; hint: call its "
       "primary"},
      {4034, "a table or variable that the servers do not have",
       "a read names a table or a dense variable that no trainer has configured",
       "a misspelled name; the name of a table where a dense variable is meant, or the reverse; a "
       "table without is_distributed, which the servers store as a dense variable",
       "run tandem vars LOG_DIR to see the names",
       "this server has no table \"embedding\" [TD4034]"},
      {4035, "rows that no named server serves",
       "a reader knows the servers that it was given and those that joined them, and none of them "
       "serves these rows; a Redis client knows one server",
       "one of several pservers, or replicas of some of the pservers; a pserver that joined the "
       "job later; rows that move for longer than the time limit",
       "name all pservers of the job, or one replica of each pserver",
       "none of the named servers serves some of the rows: a server of the job is not named, or "
       "rows move between servers [TD4035]"},
      {4036, "a table that cannot be followed",
       "the change stream of a table needs the log of its server, and an optimizer that changes "
       "only rows with a gradient",
       "a server without --durability=logged; an optimizer such as adam without lazy_mode, or with "
       "weight decay, which changes all rows in each step",
       "start the servers with --durability=logged; set lazy_mode of the optimizer; read the rows "
       "again and again with tandem read instead",
       "this server has no log, so its tables cannot be followed [TD4036]; hint: start it with "
       "--durability=logged"},
      {4037, "a position of another table or job",
       "the token by which a follower continues was not made by a follower of this table",
       "a token file of another table or job; a damaged file",
       "give the token of this table; without a token, the follower begins with all rows",
       "the position is one of table a of job x, expected table b of job x [TD4037]"},
      {4041, "a command of a Redis client that the server rejects",
       "servers with --resp_listen answer some reading commands of Redis, and limit the size of "
       "commands and replies, the memory for them, and the number of connections",
       "a command that writes, or that the server does not have; more arguments or bytes than the "
       "limit in the message; a client that does not receive its replies, or that sends no AUTH",
       "use the commands that the guide to read replicas lists; divide large commands",
       "unknown command 'SET', because this server only answers reads [TD4041]; hint: COMMAND "
       "lists the commands"},
      {4042, "a request of a reader beyond a limit",
       "readers are no part of a job, so a server limits what they may request: 1024 waiting "
       "pulls, and 16 MiB for a pull or a page of a table by a caller with role reader",
       "many readers that wait for a version; one request for millions of rows",
       "request fewer rows at once; let readers use read replicas",
       "1024 pulls of readers already wait, which is the maximum [TD4042]; hint: try again later, "
       "or use a read replica"},
      {4043, "a damaged message",
       "a request to a pserver or its reply does not have the checksum that its sender computed, "
       "so "
       "the receiver did not use the message; the client repeats the call",
       "memory or network hardware that changes bits; a proxy that changes messages",
       "check the memory and the network of both hosts if the message repeats; use TLS",
       "the request Push is damaged: its CRC-32 is 2f2dd74b, but its sender computed 2f2dd74f "
       "[TD4043]; hint: if this happens again, check the memory and the network of both hosts, or "
       "use TLS"},
  };
}

}  // namespace

std::vector<ErrorCode> PserverErrors() {
  std::vector<ErrorCode> rows = {
      {4001, "a server does not reply",
       "the client called the server repeatedly until the time limit of a start",
       "the server is not running, or starts slowly from a large checkpoint; a wrong --pservers",
       "run tandem status LOG_DIR; check the log of the server; raise --start_timeout_ms",
       "pserver 0 (127.0.0.1:1) did not reply within 3 s [TD4001]; hint: check that this pserver "
       "runs and that its address is right"},
      {4002, "a server of another job", "the caller and the server are of different jobs",
       "two jobs at one address; another --name; an old server",
       "use the same --job and --name everywhere, and another port for the other job",
       "the caller is of job \"k\", but this server serves job \"j\" [TD4002]"},
      {4003, "a different number of trainers",
       "a server waits for the number of trainers that it was started with",
       "--trainers of the server and --workers of the job differ",
       "use the same number for all processes, as tandemrun does",
       "the caller has 2 trainers, but this server was started for 4 trainers [TD4003]"},
      {4004, "trainers with different configurations",
       "all trainers must configure the same variables, optimizer and mode",
       "job files or flags that differ between trainers; a server of a job with other settings",
       "use one job file for all trainers; restart the servers with new directories for a new job",
       "the configuration of trainer 1 differs: learning rate schedule [TD4004]"},
      {4005, "a server without configuration",
       "the server was restarted and has no checkpoint to restore",
       "the server crashed, and had no directory or no checkpoint yet",
       "use --data_dir (tandemrun: --pserver_data_dir) with --durability=logged, and start the job "
       "again",
       "no trainer has configured this server yet; it may have been restarted without a checkpoint "
       "[TD4005]; hint: start servers with --durability=logged or replayable, so that a restarted "
       "server keeps its state"},
      {4006, "a lost trainer",
       "in sync mode all trainers wait for each other, and one made no call",
       "the trainer was killed, or its host failed",
       "check its log; --max_restarts restarts lost trainers",
       "trainer 1 is lost: no call for 60.0 s (it has not pushed yet); the other trainers wait for "
       "this trainer at step 12 [TD4006]"},
      {4007, "a wait for trainers timed out",
       "a step, a barrier or a move of rows waits for trainers; the message names them",
       "a trainer that is slow, stopped, replaced or evaluates; a step_timeout_ms that is too "
       "short",
       "run tandem status LOG_DIR for the missing trainers; raise --step_timeout_ms",
       "barrier \"save\": timed out after 30.0 s: trainer 2 did not arrive [TD4007]"},
      {4008, "a trainer that was replaced",
       "another process has the rank of this trainer, and the servers reject calls of the old one",
       "a supervisor restarted the trainer while the old process still ran; two processes with one "
       "rank",
       "stop the old process; run one process per trainer",
       "trainer 1 was restarted as incarnation 2, so calls of incarnation 1 are rejected [TD4008]"},
      {4009, "a port that is in use", "another program listens on this address",
       "an old process that still runs; another job; with \"Too many open files\" the limit ulimit "
       "-n",
       "run ss -ltnp to find the program; choose another port, or port 0",
       "cannot listen on 127.0.0.1:7000: address in use [TD4009]"},
  };
  for (const auto part : {ServerStateErrors, ServerCallErrors, ReplicationErrors, ReaderErrors}) {
    const std::vector<ErrorCode> more = part();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace tandem::deploy
