// The error codes TD6xxx (security) and TD7xxx (running jobs).
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

// Errors that one end of a connection reports about the other end.
std::vector<ErrorCode> ConnectionErrors() {
  return {
      {6001, "a network address without TLS",
       "everyone with access to the network could read and change the data",
       "listening on 0.0.0.0 or an address of the host without certificates",
       "create certificates with tandem certs init and issue, and set --tls_dir; or listen on "
       "127.0.0.1; or use --insecure_allow_network in a trusted network",
       "0.0.0.0:0 is a network address, but status pages have no TLS [TD6001]; hint: listen on "
       "127.0.0.1, or allow network addresses with --insecure_allow_network"},
      {6002, "gradients over a network without encryption",
       "ranks on several hosts would exchange gradients in the clear",
       "ranks on several hosts without certificates; devices on several hosts, because NCCL does "
       "not encrypt",
       "create certificates with tandem certs init and issue, and set --tls_dir; or use "
       "--insecure_allow_network in a trusted network",
       "rendezvous at 240.0.0.1:7000: the connections between hosts are not encrypted, which is "
       "not allowed [TD6002]; hint: set --tls_dir (tandem certs issue), or "
       "--insecure_allow_network in a trusted network"},
      {6003, "a client without TLS at a server with TLS",
       "the server and the client cannot communicate",
       "the trainer or tool was started without tls_dir",
       "set --tls_dir=PKI/JOB/ROLE, as for the servers",
       "the server at 127.0.0.1:7000 uses TLS, but this client does not [TD6003]; hint: set "
       "tls_dir"},
      {6004, "a client with TLS at a server without TLS",
       "the server and the client cannot communicate",
       "the server was started without tls_dir; the address of another program",
       "set tls_dir for both or for neither",
       "the server at 127.0.0.1:7000 does not use TLS, but this client does [TD6004]; hint: set "
       "tls_dir for server and client, or for neither"},
      {6005, "a rejected certificate of a server",
       "the certificate has expired, or an authority issued it that this client does not trust",
       "two authorities (tandem certs init ran twice); an old ca.crt; a wrong clock",
       "compare the output of tandem certs show DIR of both sides; copy the same ca.crt to all "
       "hosts",
       "this client rejects the certificate of the server at 127.0.0.1:7000: certificate has "
       "expired [TD6005]; hint: check the clock of this machine, and renew the certificate with "
       "tandem certs issue"},
      {6006, "a server with another identity",
       "the certificate of the server names another host, role or job than expected",
       "a certificate without this host's name; an address of another job",
       "run tandem certs issue DIR --job=JOB --role=pserver --host=HOST for each host; check the "
       "address",
       "the certificate of the server at 127.0.0.1:7000 is for a, not for b [TD6006]; hint: run "
       "tandem certs issue DIR --job=JOB --role=pserver --host=b"},
      {6007, "a rejected certificate of a client",
       "the server requires a certificate of its authority, and got none or another one",
       "tls_dir is not set; certificates of another authority",
       "issue a certificate with the authority of the server; compare with tandem certs show",
       "the server at 127.0.0.1:7000 requires a certificate, but this client has none [TD6007]; "
       "hint: set tls_dir, or tls_cert and tls_key"},
  };
}

// Errors in the proof that both ends have the job's secret.
std::vector<ErrorCode> SessionErrors() {
  return {
      {6020, "a program without the secret at an address",
       "a client sends no data to a server that does not prove that it belongs to the job",
       "another secret file on one side, or none; another program uses the port of the server",
       "use the same secret file on both sides; ss -ltnp shows the program that listens",
       "the program that listens on 127.0.0.1:7000 does not have the secret of job \"lenet\" "
       "[TD6020]; hint: use the same secret file on both sides, and check which program uses the "
       "port"},
      {6021, "an unknown session",
       "sessions end with the server; a client then opens another session and repeats the call",
       "a client that does not follow proto/pserver.proto; a recorded call that is sent again",
       "open a session with OpenSession for each server, and use each counter once",
       "the session of the caller is unknown to this server [TD6021]"},
      {6022, "client and server of different versions",
       "the client uses a protocol that this server does not support; earlier versions sent a "
       "token with each call",
       "client and server are of different versions of Tandem",
       "run the same version on both sides; tandem version prints it",
       "the caller proves its identity with a token (metadata x-tandem-token), as earlier versions "
       "of Tandem do, but this server requires a session [TD6022]; hint: run the same version of "
       "Tandem on both sides"},
  };
}

// Errors of sockets and addresses to which only the user of the job may have access.
std::vector<ErrorCode> SocketErrors() {
  return {
      {6023, "gradients and parameters over a network without encryption",
       "a client sends no data over a network without TLS, unless it is allowed",
       "pservers at network addresses, but neither tls_dir nor the flag that allows it",
       "create certificates with tandem certs init and issue, and set tls_dir on both sides; or "
       "use --insecure_allow_network in a trusted network (insecure_allow_network=True of the "
       "Python client)",
       "gradients and parameters would go to 10.0.0.7:7000 over the network without encryption "
       "[TD6023]; hint: set tls_dir (tandem certs issue), or insecure_allow_network in a trusted "
       "network"},
      {6024, "a socket path that is too long",
       "a path of a Unix-domain socket has at most 107 bytes", "a deep directory",
       "choose a directory with a shorter name, in XDG_RUNTIME_DIR or /tmp",
       "address \"unix:/a/very/long/path\": the path has 120 bytes, but a Unix-domain socket "
       "allows at most 107 bytes [TD6024]; hint: choose a directory with a shorter name"},
  };
}

// Errors between ranks and in their rendezvous.
std::vector<ErrorCode> RelayAndEtcdErrors() {
  return {
      {6025, "a program between two ranks",
       "the data received from a rank differ from the data that it sent, or were sent to another "
       "rank",
       "a program in the network that changes, repeats or relays data; damage in the network",
       "look for a program that relays connections between these hosts; start the job again",
       "rank 1 (10.0.0.2:4711): the received data differ from the data that the peer sent: they "
       "were altered, repeated or removed on the network [TD6025]; hint: look for a program that "
       "relays connections between these hosts"},
      {6030, "an etcd that denies access",
       "etcd has users, and this rank has none or one without the permission",
       "TANDEM_ETCD_USER is not set, or names a user without a role for the prefix; a wrong "
       "password",
       "set TANDEM_ETCD_USER and TANDEM_ETCD_PASSWORD_FILE; check with etcdctl user get USER and "
       "etcdctl role get ROLE",
       "etcd at 10.0.0.1:2379: etcdserver: permission denied (PERMISSION_DENIED) [TD6030]; hint: "
       "set TANDEM_ETCD_USER and TANDEM_ETCD_PASSWORD_FILE to a user that may read and write the "
       "prefix of the rendezvous"},
  };
}

// Errors of permissions and certificates.
std::vector<ErrorCode> CertificateErrors() {
  return {
      {6008, "an expired certificate, or one that is not valid yet",
       "a certificate is valid only for a certain time",
       "the certificate was not renewed; a wrong clock of this machine",
       "issue a new one with tandem certs issue, which running processes load without a restart; "
       "check the clock with date",
       "certificate \"CN = pserver of j\" expired on 2026-01-01 [TD6008]; hint: issue a new "
       "certificate with tandem certs issue"},
      {6009, "a call that the role does not allow",
       "the role of the certificate (trainer, pserver, observer, reader, admin) does not allow the "
       "call",
       "tandem save with an observer's certificate; a certificate of another job",
       "issue the certificate that the hint names; docs/project/threat-model.md lists the rights "
       "of each role",
       "SaveCheckpoint: the caller has role observer of job \"j\", but the call needs role trainer "
       "or admin [TD6009]; hint: run tandem certs issue DIR --job=j --role=admin"},
      {6010, "a certificate for another role or job",
       "the role or the job of the certificate differs from this process",
       "tls_dir names the directory of another role", "set --tls_dir=PKI/JOB/ROLE of this process",
       "certificate pki/j/trainer/tls.crt is for role trainer of job \"j\", but this process is a "
       "pserver [TD6010]; hint: run tandem certs issue DIR --job=JOB --role=pserver"},
      {6011, "a missing or wrong proof of the secret",
       "the caller did not prove that it belongs to the job",
       "no secret file; another name of the job",
       "use the same TANDEM_SECRET_FILE and the same --name or --job for all processes",
       "the call has no proof of the job's secret [TD6011]; hint: set TANDEM_SECRET_FILE=FILE, or "
       "--secret_file of tandem"},
      {6012, "a secret that other users can read",
       "the permissions of a key or secret file allow access to other users",
       "a copied file with wide permissions", "run chmod 600 FILE",
       "other users may read or change job.secret (mode 644) [TD6012]; hint: run chmod 600 "
       "job.secret"},
      {6013, "a missing secret", "all processes of the job need the same secret",
       "TANDEM_SECRET_FILE is not set, or names a file that does not exist or is too short",
       "run openssl rand -hex 32 > job.secret; chmod 600 job.secret; copy the file to each host",
       "secret file none does not exist [TD6013]"},
      {6014, "two different secrets in one job",
       "the secret of a rank differs, and the rank is rejected",
       "a file that was created again on one host; another program at this port",
       "copy one secret file to all hosts; check which program listens on the address",
       "the secret of the caller for job \"lenet\" differs from the secret of this rank [TD6014]"},
      {6015, "a TLS file that cannot be used",
       "a certificate, key or authority is missing, or not in PEM format",
       "a wrong --tls_dir; files that were not issued yet",
       "check with ls DIR and tandem certs show DIR", "cannot open TLS file pki/none [TD6015]"},
      {6028, "a process of another user",
       "a log directory names a process that this user must not signal", "a job of another user",
       "run the command as the user who started the job",
       "cannot signal tandemrun (pid 4711): Operation not permitted [TD6028]"},
      {6029, "a certificate with an invalid date", "the validity of the certificate cannot be read",
       "a damaged file; a program that writes invalid certificates",
       "issue a new one with tandem certs issue; check with openssl x509 -noout -dates -in FILE",
       "field notAfter of the certificate is not a valid date [TD6029]; hint: issue a new one with "
       "tandem certs issue"},
  };
}

}  // namespace

std::vector<ErrorCode> SecurityErrors() {
  std::vector<ErrorCode> all = ConnectionErrors();
  for (const std::vector<ErrorCode>& rows :
       {CertificateErrors(), SessionErrors(), SocketErrors(), RelayAndEtcdErrors()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

namespace {

// Errors of two jobs, or of two states of one job, that use the same directory.
std::vector<ErrorCode> DirErrors() {
  return {
      {7011, "a running job in the log directory",
       "a second job would overwrite the logs and the secret of the first",
       "the same command was run twice; jobs of one name in one directory",
       "stop the job with tandem drain LOG_DIR, or use another directory with --log_dir=DIR",
       "job j still runs in ./log-j (tandemrun, pid 4711) [TD7011]; hint: stop the job with tandem "
       "drain ./log-j, or choose another directory with --log_dir=DIR"},
      {7012, "checkpoints of different steps",
       "the servers and the trainers must continue from the same step, but their checkpoints are "
       "of different steps",
       "tandem save while trainers push: each server writes at its own time; a server or a trainer "
       "without its checkpoint",
       "restore all processes from checkpoints of one step; save while no trainer pushes, or use "
       "--checkpoint_every_steps of the pservers",
       "the pservers were not restored: sync mode needs checkpoints of one version, but the "
       "pservers have checkpoints of versions 17 and 18 [TD7012]; hint: run tandem save while no "
       "trainer pushes, or start the "
       "pservers with --checkpoint_every_steps"},
      {7013, "a launcher that ended unexpectedly",
       "tandemrun ended without a last event, and the kernel ended the job's processes on this "
       "host",
       "kill -9; memory shortage; the end of a login session that kills its processes",
       "start the job again, which resumes from its last checkpoint",
       "job j of ./log-j: tandemrun (pid 4711) ended unexpectedly, and the kernel ended the "
       "processes of the job on this host [TD7013]; hint: start the job again; tandem events "
       "./log-j shows "
       "the last event"},
      {7017, "a job whose number of processes is fixed",
       "tandem scale cannot change the number of workers or pservers of this job",
       "a job without --nproc=MIN:MAX; pservers without --durability and --pserver_data_dir",
       "start the job with the flags that the hint names",
       "job j is not elastic: its 2 workers cannot change [TD7017]; hint: start the job with "
       "tandemrun --nproc=MIN:MAX"},
      {7018, "a number of processes that was not reached",
       "the job did not get the requested number of workers or pservers",
       "a step or a move of rows that takes longer than --wait_s; another tandem scale; a process "
       "that cannot start",
       "run tandem events LOG_DIR, and repeat the command, which continues the change",
       "job j does not have 2 pservers after 60 s: it has 1 workers (0 more start or end) and 1 "
       "pservers [TD7018]; hint: run tandem events log-j, and repeat the command"},
  };
}

}  // namespace

std::vector<ErrorCode> RunningErrors() {
  std::vector<ErrorCode> all = {
      {7001, "a program that cannot be started", "tandemrun did not find a program of the job",
       "Tandem is not built; a wrong --trainer_bin or --pserver_bin",
       "build it with ./deploy/build.sh, or correct the path",
       "a program of the job is missing: trainer 0: cannot start ./none: No such file or directory "
       "[TD7001]; hint: build the program with ./deploy/build.sh, or name another program with "
       "--trainer_bin=FILE"},
      {7002, "a directory that is not the log directory of a job",
       "commands find a running job by its log directory",
       "another working directory; a directory of another name",
       "name the --log_dir of tandemrun; the default is log-JOB in the directory where it was "
       "started",
       "file none/events.jsonl does not exist [TD7002]; hint: name the log directory of the job "
       "(--log_dir of tandemrun, by default log-JOB)"},
      {7003, "a job that has ended", "no process of the job runs on this host",
       "the job has ended; it runs on another host",
       "run tandem events LOG_DIR to see how it ended",
       "job j of log directory log-a has ended, or runs on another host [TD7003]"},
      {7004, "a job without pservers", "the command works only for jobs with parameter servers",
       "a job of collective or local mode",
       "use checkpoint.dir in the job file: the trainers of such a job write checkpoints",
       "the job has no pservers: the trainers store all state [TD7004]; hint: let the trainers "
       "write checkpoints (checkpoint.dir)"},
      {7005, "a job without status pages", "the command reads the status pages of the trainers",
       "the job was started without --status_port",
       "start the job with tandemrun --status_port=8000",
       "the trainers of the job have no status pages [TD7005]; hint: start the job with tandemrun "
       "--status_port=8000, or set --status_pages=HOST:PORT"},
      {7006, "a job that does not end",
       "the job did not end within the time limit after the stop request",
       "a step or a checkpoint that takes long; a process that hangs",
       "run tandem events LOG_DIR; wait longer (--wait_s), or kill the job as the hint says",
       "job j has not ended within 1 s [TD7006]; hint: run tandem events log-b, or kill process "
       "4711 to end the job now"},
      {7007, "stopped on request", "a signal or tandem drain ended the job after a complete step",
       "Ctrl-C, SIGTERM of a supervisor, tandem drain",
       "nothing; with checkpoint.dir the same command resumes after this step",
       "training stopped on request after step 480 [TD7007]"},
      {7008, "nothing to work on",
       "the named directory, file or job contains nothing for this command",
       "another directory or job; a job without the needed setting",
       "do what the hint says to create the input",
       "directory prof contains no timeline.RANK.json [TD7008]; hint: train with "
       "--profile.dir=DIR"},
      {7009, "the program dot fails", "drawings are made by the program dot",
       "graphviz is not installed; the network is too large for it",
       "install it with apt-get install graphviz, or write the text with tandem graph --dot",
       "--svg needs the program dot, which is not installed [TD7009]; hint: install graphviz, or "
       "use --dot"},
      {7010, "no status page at an address",
       "a program listens on the address, but it is not a process of the job",
       "another port; a job that has ended",
       "use the pages that tandemrun --status_port=PORT printed",
       "127.0.0.1:8000 is not a status page of Tandem: no JSON [TD7010]; hint: set --status_pages "
       "to the addresses that tandemrun --status_port printed"},
  };
  const std::vector<ErrorCode> rows = DirErrors();
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace tandem::deploy
