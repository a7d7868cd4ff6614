// TD2xxx: data, checkpoints, files; TD5xxx: devices and memory.
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

// Errors in training data.
std::vector<ErrorCode> SampleErrors() {
  return {
      {2001, "the data are not there", "the folder or file that the job names cannot be found",
       "data.dir of another machine; a data set that was never fetched; paths from another folder",
       "the message says where the data set comes from; --data.dir=DIR names another folder",
       "none: no such data folder [TD2001]; name the folder with --data.dir=DIR"},
      {2002, "a data file is damaged",
       "the file ends too early, goes on too long, or does not "
       "belong to its neighbour",
       "a download or copy that broke off; a full disk when it was written",
       "fetch it again; the message names file and offset",
       "cut.tfrecord: has damaged records [TD2002]"},
      {2003, "too many bad records",
       "records that cannot be read are skipped and counted, up to "
       "data.max_bad_records, which is 0 unless you say otherwise",
       "a header line in the data; another separator or label; a few damaged lines of many",
       "look at the file and offset that are named; --data.max_bad_records=N allows N of them",
       "train.csv: offset 17: 2 fields, but the first line names 3 columns; that is bad record 1 "
       "of this file, and max_bad_records is 0 [TD2003]"},
      {2004, "a label or id out of range",
       "a sample says a class or id that the model does not "
       "have",
       "data.*.classes or the model's rows are too small; labels that count from 1",
       "tandem data inspect JOB shows the ranges; make the model's last layer or table that large",
       "row 3 has the label 10; it must be in [0, 10) or ignore_index -100 [TD2004]"},
      {2005, "unknown data format", "data.format names none that Tandem reads",
       "a slip of the pen; a format that must be converted first",
       "docs/guides/prepare-data.md lists formats; tandem data convert writes tfrecord and "
       "recordio",
       "there is no data.format \"mnits\" [TD2005]; did you mean \"mnist\"?"},
      {2006, "too few samples", "an epoch would have no step, or a rank no sample",
       "a small data set beside a large batch; more ranks than samples in a batch",
       "a smaller global_batch_size, fewer ranks, or data.remainder: PAD",
       "8 samples do not fill one global batch of 64, and remainder is DROP [TD2006]: no step "
       "would be left; use a smaller batch or remainder: PAD"},
      {2007, "columns that are not there",
       "a csv's first line names its columns, and one that the "
       "job asks for is missing",
       "a slip of the pen; a file without a first line; files of several layouts",
       "head -1 FILE; data.csv.column in the job file",
       "train.csv:1: there is no column \"prize\" [TD2007]; did you mean \"price\"?"},
      {2008, "no batch in time", "the reader gave nothing for as long as a step may take",
       "a disk or network file system that hangs; decoding that needs more threads",
       "--data.reader_threads=N; the progress line says how long a step waits for data",
       "no batch within 2s [TD2008]: the reader is slower than the job allows (queue_capacity 4)"},
      {2009, "no file of records", "the file begins like neither tfrecord nor recordio",
       "another format; a file that is compressed",
       "name its format in a job file and inspect that; gunzip it first",
       "train.csv: offset 0: begins neither as a tfrecord nor as a recordio file [TD2009]"},
  };
}

// Errors of checkpoints, models and output files.
std::vector<ErrorCode> FileErrors() {
  return {
      {2101, "no checkpoint", "the folder holds no whole checkpoint",
       "another folder; a job that ended before its first checkpoint",
       "ls DIR: a checkpoint is a folder step-N with a manifest; checkpoint.every_steps",
       "none: no checkpoint is there [TD2101]"},
      {2102, "a checkpoint is damaged", "a file is not what its manifest says",
       "a full disk; a file that was copied in part or changed",
       "restore the file; a job takes the newest checkpoint that is whole by itself",
       "step-200/model.safetensors: has 512 bytes, the manifest says 246824 [TD2102]"},
      {2103, "all checkpoints are damaged", "none of those in the folder can be gone on from",
       "a disk that fails; files that were changed by hand",
       "restore one of them from elsewhere, or choose an empty checkpoint.dir to start anew",
       "ck: none of 1 checkpoints can be used [TD2103]; the newest: ck/step-8: no manifest. Choose "
       "another folder or remove them to start anew"},
      {2104, "the folder has other checkpoints",
       "going on would write among checkpoints that this job does not go on from",
       "checkpoint.resume: false in a folder that is used; one folder for two jobs, perhaps at the "
       "same time",
       "another checkpoint.dir, or empty this one, or leave checkpoint.resume alone",
       "ck holds checkpoints of job \"a\", not of \"b\" [TD2104]"},
      {2105, "the checkpoint does not fit the model",
       "a tensor has another shape or type than the "
       "program wants, or none of them is known",
       "the network was changed; a checkpoint of another job",
       "change the job back, or begin with an empty checkpoint.dir",
       "checkpoint ck: \"fc_0.w_0\" is f32[84,10], the program wants f32[120,10] [TD2105]"},
      {2106, "a file or folder cannot be read or written",
       "the system said no; the message ends "
       "with its reason",
       "a folder that is not there; rights; a path with a file in the middle",
       "mkdir -p the folder, as the user who runs the program; ls -ld shows rights",
       "none/model.npz.new: cannot be created (No such file or directory) [TD2106]"},
      {2107, "the disk is full", "nothing was written half: what was there before is whole",
       "checkpoints of many steps; logs; the update log of a server",
       "make room, or name a folder on another disk; checkpoint.keep holds fewer",
       "log /var/lib/tandem: 1048576 bytes free, 268435456 needed [TD2107]; nothing was written"},
      {2108, "no ONNX model", "the file cannot be read as one",
       "another format; a download that broke off",
       "fetch or export it again; tandem import takes .onnx alone",
       "job.pbtxt: this is no ONNX model, or it is damaged [TD2108]"},
      {2109, "something else is there already", "what is there is not to be overwritten",
       "the command was run before; a folder that is used for other things",
       "another folder; or remove what is there, if nobody needs it",
       "mine/pserver is there and not of an earlier demo [TD2109]; hint: another --dir"},
      {2110, "the checkpoint store failed",
       "the system refused to read or write a file of a server's data folder; nothing is "
       "acknowledged from then on, and the server ends with exit code 201",
       "a disk that fails; too few file descriptors; a folder that was removed while in use",
       "start the server again: it reads what the folder holds; tandemrun --max_restarts does",
       "cannot sync the update log of data/shard-0: IO error: fdatasync: Input/output error "
       "[TD2110]"},
      {2111, "a server's checkpoint is damaged", "a file of values is not what was written",
       "a disk that fails; a file that was changed or copied in part",
       "restore a copy of the folder, or move it away to start without this checkpoint",
       "data/shard-0/values-1 is damaged: record 12: CRC32C [TD2111]"},
      {2112, "rows outside memory are gone",
       "the system refused to read or write a file of the folder with rows that are not in memory; "
       "the server ends with exit code 201",
       "the folder was removed while in use; a disk that fails",
       "start the server again: rows come back from its checkpoint and log",
       "cannot read the cold rows in database/cold-rows-0: IO error: No such file or directory "
       "[TD2112]"},
  };
}

// Errors from other users' files and from limits of the host.
std::vector<ErrorCode> HostErrors() {
  return {
      {2113, "a folder or file that is not your own",
       "it belongs to another user, others may write it, or a link stands in its place: what it "
       "says, and what is written there, would be another user's",
       "a folder in a place that all users write (/tmp); a folder made by another user; umask 002",
       "a folder of your own; run the command as the owner; chmod go-w FOLDER",
       "folder log-j belongs to user nobody (65534), expected root [TD2113]; hint: run this as "
       "that "
       "user, or name a folder of your own"},
      {2114, "too many open files", "the process has as many files open as it may",
       "a low ulimit -n; thousands of data files; a flood of connections",
       "ulimit -n NUMBER before the start, with a larger one (systemd: LimitNOFILE)",
       "job.secret: cannot be opened (Too many open files) [TD2114]: this process may have 16 "
       "files "
       "open; hint: ulimit -n NUMBER, with a larger one"},
      {2115, "a file is too large for its process", "the process may not write files of that size",
       "ulimit -f", "ulimit -f unlimited before the start (systemd: LimitFSIZE)",
       "state.safetensors: cannot be written (File too large) [TD2115]: a file of this process may "
       "have 2048000 bytes; hint: ulimit -f unlimited"},
      {2116, "memory or threads ran out",
       "the system refused the process more memory, or another thread; it ends with exit code 74",
       "ulimit -v or ulimit -u; a container that is too small; a large batch",
       "raise the limit that the message names, or give the job less: a smaller batch, fewer "
       "threads (tandem lint --memory JOB)",
       "the memory ran out: 199000000 bytes of address space are in use, the limit of this process "
       "is 204800000 bytes (ulimit -v) [TD2116]"},
      {2117, "the log folder lacks lines",
       "tandemrun could not write to a log or to events.jsonl; the job itself goes on",
       "a full disk; ulimit -f; a folder that was removed",
       "make room, or --log_dir on another disk",
       "lines of logs or events of ./log-j are lost: No space left on device [TD2117]; the job "
       "goes "
       "on"},
      {2118, "a server's data directory is damaged",
       "a record of the directory, or an entry of the update log in it, is missing or is not what "
       "was written",
       "a disk that fails; a directory that was changed or copied in part",
       "restore a copy of the directory, or move it away to start without it",
       "entry 12 of the update log is damaged: CRC32C [TD2118]; hint: restore a copy of the "
       "directory, or move it away to start without it"},
      {2119, "a data directory of another version",
       "the record of a checkpoint has a format that this program does not read",
       "a newer version of Tandem wrote the directory",
       "start the version of Tandem that wrote it; or move the directory away to start without it",
       "data/shard-0: record meta has format 4; this program reads formats 2 and 3 [TD2119]; hint: "
       "start the version of Tandem that wrote it"},
  };
}

}  // namespace

std::vector<ErrorCode> DataErrors() {
  std::vector<ErrorCode> all = SampleErrors();
  for (const auto part : {FileErrors, HostErrors}) {
    const std::vector<ErrorCode> rows = part();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

std::vector<ErrorCode> MachineErrors() {
  return {
      {5001, "the CUDA module cannot be used",
       "kernels for devices are in a module of their own, "
       "which is not there or of another build",
       "Tandem was built without nvcc; programs and module of two builds",
       "tandem doctor says what is missing; build with -DTANDEM_CUDA=ON, install both from one "
       "build; --place=cpu",
       "the CUDA module cannot be opened: libtandem_cuda.so: cannot open shared object file "
       "[TD5001]; hint: ./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda, or --place=cpu"},
      {5002, "no such device", "the machine shows fewer CUDA devices than the job asks for",
       "no driver; CUDA_VISIBLE_DEVICES; a container without devices",
       "nvidia-smi; tandem doctor; --place=cpu",
       "place cuda:3: there are only 2 CUDA devices [TD5002]"},
      {5003, "no kernel for this place",
       "an operator cannot be computed there, or not with these "
       "types and shapes",
       "an operator without a CUDA kernel; 16-bit types that it does not take",
       "docs/reference/operators.md lists kernels; --place=cpu, or another operator or type",
       "there are no kernels on cuda:0 for: auc [TD5003]"},
      {5004, "the device's memory is full", "the job needs more than the device has free",
       "a batch that is too large; another program on the device; gpu_memory_limit_mb",
       "a smaller batch, recompute, amp or sharding; tandem lint --memory JOB says what is needed",
       "no memory for 1048576 bytes on cuda:0: gpu_memory_limit_mb allows 1000000, of which 900000 "
       "are in use [TD5004]"},
      {5005, "the machine's memory is too small", "parameters and optimizer state alone take more",
       "a table with too many rows; an optimizer with two slots",
       "tables on pservers (is_distributed), sharding over ranks, or an optimizer with fewer slots",
       "parameters and state take 96.0 GB, this machine has 16.0 GB [TD5005]; the largest is "
       "\"emb\" f32[100000000,64]"},
  };
}

}  // namespace tandem::deploy
