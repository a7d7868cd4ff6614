// TD1xxx: flags, job files, knobs, programs.
#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

// Errors on the command line.
std::vector<ErrorCode> FlagErrors() {
  return {
      {1001, "unknown command", "tandem has no command of this name",
       "a slip of the pen; a command of a newer version",
       "tandem help lists the commands; tandem completion bash completes them",
       "unknown command \"dmeo\" [TD1001]"},
      {1002, "unknown flag", "the program or command has no flag of this name",
       "a slip of the pen; a flag of the trainer that is given to tandemrun without -- before it",
       "PROGRAM --help lists its flags; tandemrun takes fields of the job too (--epochs=3), and "
       "other flags of tandem-trainer after --",
       "unknown flag \"--sevrers\" [TD1002]"},
      {1003, "a flag without its value", "the flag stands for nothing without a value",
       "the flag is last in the line, or \"=\" was left out", "--flag=VALUE; --help says which",
       "--epochs needs a value: N [TD1003]"},
      {1004, "a flag's value is no number, or out of range",
       "the flag takes a number, and this is none or none that is allowed",
       "a unit behind the number (30s), a fraction, a variable of the shell that is empty",
       "the message says what is allowed",
       "--servers: expected a whole number from 1 to 1024, got \"0\" [TD1004]"},
      {1005, "flags that do not go together",
       "each of the flags is right, and together they say nothing or two things",
       "flags of pserver mode beside those of collective mode; a flag whose effect needs another",
       "leave one of them away, or add the one that the message names",
       "--workers contradicts --mode=collective: it belongs to pserver mode [TD1005]"},
      {1006, "a word that is none of those allowed", "the flag takes one of a few words",
       "a slip of the pen", "the message lists the words",
       "--mode: expected local, pserver, collective or hybrid, got \"colective\" [TD1006]"},
      {1007, "an argument is missing", "the command does not know what it is to work on",
       "no job file, no folder, or no number of processes was given",
       "the hint shows a whole command; --help says more", "no job file given [TD1007]"},
      {1008, "a text file cannot be opened",
       "a job, strategy or program file is not there, is a folder, or may not be read",
       "another working folder: paths in a job file are relative to that file; rights",
       "ls -l FILE, as the user who runs the program",
       "cannot open none.pbtxt: No such file or directory [TD1008]"},
      {1009, "an address that is none", "an address says host and port, or where ranks meet",
       "the port was left out; IPv6 without [ ]; a space between addresses",
       "127.0.0.1:7000, [::1]:7000, host:port,host:port; of a rendezvous also file:///FOLDER or "
       "etcd://HOST:PORT/PREFIX",
       "address \"here\": expected HOST:PORT [TD1009]"},
      {1010, "more than the command takes", "nobody would read what stands there",
       "flags of the trainer without -- before them; a space inside a value; a value for a "
       "flag "
       "that has none",
       "leave it away, or put -- before it; --help says what the command takes",
       "unexpected argument \"now\" [TD1010]; hint: tandem-pserver --help"},
      {1011, "a value of another form", "the value is written in a form of its own",
       "a part was left out; a character that is not allowed",
       "as the message shows it; --help has an example",
       "--straggler: expected RANK:FACTOR as in 3:2.5, got \"x\" [TD1011]"},
      {1012, "a port of the status pages is taken",
       "with --status_port each process of the job serves a page on a port: the first trainer on "
       "the first, then the other trainers, then the pservers",
       "another job with this --status_port; a service that has one of the ports",
       "another --status_port; ss -ltnp shows who listens",
       "--status_port: 127.0.0.1:8000, where trainer 0 would show its page, is taken [TD1012]; "
       "hint: choose another --status_port: each process takes one port from there on"},
  };
}

// Errors in a job file, in its strategy, or in flags that override them.
std::vector<ErrorCode> SettingErrors() {
  return {
      {1101, "there is no such field, setting or knob",
       "nothing of this name can be set in this place",
       "a slip of the pen; a field in the wrong message; a knob of another framework",
       "tandem lint JOB shows all mistakes at once; docs/reference/knobs.md lists knobs and their "
       "other "
       "spellings",
       "bad.pbtxt:2:1: error: JobConfig has no field \"epoch\" [TD1101]"},
      {1102, "given twice", "one setting has two values, and neither goes before the other",
       "a line that was copied; a flag in a script and once more behind it", "keep one of them",
       "--epochs given twice: --epochs=1 and --epochs=2 [TD1102]"},
      {1103, "a value of the wrong type", "the field takes another kind of value",
       "quotes around a number, or none around a text; a list where one value is expected",
       "the message says what is expected, tandem knobs explain NAME what it means",
       "bad.pbtxt:6:7: error: seed expects an integer, got \"1.5\" [TD1103]"},
      {1104, "a value out of range", "the value can have no effect, or none that anybody wants",
       "a unit was mistaken: MB for bytes, ms for seconds", "the hint says what is allowed",
       "fuse_grad_size_in_MB is out of range: 100000 is more than 65536 MB [TD1104]"},
      {1105, "the text is not well formed", "from here on nobody knows what belongs to what",
       "a brace or quote that is never closed; \"=\" for \":\"",
       "look at the line, and the one before it",
       "open.pbtxt:2:6: error: this message is never closed [TD1105]"},
      {1106, "the job lacks something that it needs",
       "a job needs a model, data and a batch size, each said once",
       "an empty file; both of two ways to say the same",
       "begin with deploy/examples/lenet.pbtxt; docs/start/first-job.md builds a job step by step",
       "data.dir is missing: where is the training data? [TD1106]"},
      {1107, "a setting without effect in this mode", "Tandem refuses what it would have to ignore",
       "a strategy of another mode; a knob of servers in a job that has none",
       "remove it, or choose a mode that the hint names; docs/reference/knobs.md lists the modes "
       "of each "
       "knob",
       "a_sync: true has no effect with mode=collective (contradictions.pbtxt:1:1) [TD1107]"},
      {1108, "settings that exclude each other", "no program could do both",
       "a strategy that was put together from two", "keep one of them; the message says why",
       "dgc and localsgd (contradictions.pbtxt:3:1) exclude each other: localsgd sends no "
       "gradients [TD1108]"},
      {1109, "not built yet", "Tandem knows the setting and cannot do it yet",
       "a knob or flag of the reference that nobody has built here",
       "leave it away; docs/reference/knobs.md says what is built",
       "--http_port is not built yet [TD1109]"},
      {1110, "the name of several settings", "a short name fits more than one setting",
       "k_steps, of which localsgd, geo and gradient_merge have one each",
       "write the path that is meant, as in --strategy.localsgd_configs.k_steps=4",
       "\"k_steps\" is the name of several settings [TD1110]; write one of: "
       "strategy.a_sync_configs.k_steps, strategy.localsgd_configs.k_steps"},
      {1111, "no test data", "a job evaluates at its end, and the job names no data for that",
       "test_file, test_list or test_share was left out",
       "name a file with test_file, or where the format has it a share with test_share",
       "data.csv: there are no test data, on which a job evaluates at its end [TD1111]; hint: set "
       "test_file"},
      {1112, "no loss", "training minimises one number, which the program names as its loss",
       "no loss: in the program file; a loss of each sample instead of their mean",
       "loss: \"VARIABLE\" of a variable f32[1]; op mean makes one number of many",
       "program \"\": loss \"losses\" is f32[64,1], expected f32[1] [TD1112]; hint: take its mean "
       "with op mean"},
      {1113, "mode hybrid for a network of one kind of gradients",
       "hybrid keeps tables with sparse gradients on pservers and reduces dense gradients among "
       "the ranks: a network needs both",
       "a network without tables (an image classifier); tables that are dense (sparse=0)",
       "--mode=collective without sparse gradients, --mode=pserver without dense ones; model "
       "argument sparse=1 or distributed=1",
       "mode hybrid is for networks with sparse and dense gradients, and this one has 0 and 4 "
       "[TD1113]; hint: --mode=collective"},
  };
}

// Errors in the network's program.
std::vector<ErrorCode> ProgramErrors() {
  return {
      {1201, "the zoo has no such model", "model.zoo names a network that Tandem does not know",
       "a slip of the pen; a network that is written as a program",
       "tandem-trainer --list_models; a network of your own: model { program: \"FILE\" }",
       "the zoo has no model \"lenett\" [TD1201]; did you mean \"lenet\"? (models: lenet, mlp)"},
      {1202, "an argument that the model does not take",
       "models have arguments (model.arg), each with a range",
       "an argument of another model; a value that is no number",
       "the message lists the arguments; tandem-trainer --list_models shows defaults",
       "model \"lenet\" has no argument \"chanels\" [TD1202]; did you mean \"channels\"? "
       "(arguments: channels, hidden)"},
      {1203, "unknown optimizer", "optimizer.type names none that is built",
       "a slip of the pen; a name of another framework", "the message lists all",
       "unknown optimizer \"momentun\" [TD1203]; did you mean \"momentum\"? (there are: sgd, "
       "momentum)"},
      {1204, "unknown operator", "a program uses an operator that Tandem does not have",
       "a slip of the pen; a program of another framework",
       "docs/reference/operators.md lists operators; tandem import reads ONNX and says what it "
       "lacks",
       "unknown operator \"meen\" [TD1204]; did you mean \"mean\"?"},
      {1205, "unknown variable", "a program reads what nothing before it gives",
       "a slip of the pen; operators in the wrong order",
       "operators run in the order of the file: what one reads, an earlier one writes",
       "program \"\": loss \"los\" is no variable [TD1205]; did you mean \"loss\"?"},
      {1206, "a slot or attribute that the operator does not have, or lacks",
       "operators name their inputs, outputs and attributes", "a slip of the pen; capital letters",
       "docs/reference/operators.md lists slots and attributes",
       "program.pbtxt op #0 (mean): there is no slot \"x\" (there are: X) [TD1206]; did you mean "
       "\"X\"?"},
      {1207, "shapes or types that do not fit together",
       "an operator cannot be applied to what it is given",
       "a layer with the wrong width; images in another layout; a label of another type",
       "the message shows the shape of each input; tandem graph JOB shows the whole program",
       "matmul (program.pbtxt op #1): X is f32[-1,8], Y is f32[4,2]; trans_x=0, trans_y=0; inner "
       "dimensions 8 and 4 differ [TD1207]"},
      {1208, "the program and the data do not fit",
       "each field of the data feeds the data variable "
       "of its name",
       "a program for other data; another name or shape of a field",
       "tandem data inspect JOB shows the fields; name and shape the program's data variables so",
       "the program reads data variable \"x\", which the data does not have [TD1208]"},
      {1209, "nothing to train", "no gradient leads from the loss to a parameter",
       "the loss is made of data alone; an operator without a gradient is in between",
       "tandem graph JOB shows what the loss is made of",
       "the loss \"loss\" depends on no parameter [TD1209]"},
      {1210, "a number is not finite",
       "check_nan_inf found a NaN or an infinity, and names the "
       "operator that made it",
       "a learning rate that is too high; a log or division of zero; 16-bit overflow",
       "lower optimizer.learning_rate, clip gradients (clip_norm), or scale the loss (amp)",
       "check_nan_inf: not finite is conv_1.out[0] of f32[8,16,10,10] [TD1210]; all inputs are "
       "finite"},
  };
}

// Errors in models of other programs.
std::vector<ErrorCode> ImportErrors() {
  return {
      {1211, "numbers of a model in a file that may not be read",
       "an ONNX model names the files with its numbers, and is not trusted: a plain name of a "
       "regular file in the model's own folder is read",
       "a path or link as the file's name; a model that was put together by hand",
       "save the model again, with its numbers in a file beside it, or as one file",
       "external data: location is \"../secret\", expected the plain name of a file in the model's "
       "folder [TD1211]"},
      {1212, "the file with a model's numbers does not fit the model",
       "the model says where its numbers are in the file, and they are not there",
       "a file that was copied in part, or belongs to another export",
       "export the model again; copy MODEL.onnx and MODEL.onnx.data together",
       "external data: m.onnx.data has 10 bytes, the tensor needs 96 from byte 0 on [TD1212]"},
      {1213, "a tensor without elements", "a size of 0, which no operator of Tandem takes",
       "a model that was exported with an empty example", "export it with sizes of at least 1",
       "allowzero = 1 with the shape [-1,0,6], a tensor without elements [TD1213]"},
      {1214, "sizes that do not fit every batch",
       "a program takes any batch, and the model has sizes that cannot follow it",
       "a model that was exported for one batch size; a view that mixes samples",
       "torch.onnx.export(..., dynamic_shapes=...) makes the batch dynamic",
       "numbers of two samples would share a row [TD1214]"},
      {1215, "a node of ONNX that has no operator",
       "the model uses a node that Tandem does not read", "a layer that is not built here",
       "docs/guides/export-and-import.md lists the nodes that are read",
       "node 1, Einsum \"\": there is no operator for it [TD1215]"},
      {1216, "a model in the form of training",
       "batch normalisation in the form of training has other outputs",
       "the model was exported in training mode", "call model.eval() before torch.onnx.export",
       "the form of training [TD1216]; hint: export it after model.eval()"},
      {7014, "a node of ONNX that decides what is computed",
       "a program computes the same operators in every step",
       "a loop over tensors; nn.EmbeddingBag, which the exporter writes as a loop",
       "write the loop in Python over a known size, and nn.EmbeddingBag as nn.Embedding and a mean "
       "or sum",
       "node 3, Range \"\": it decides while the model runs what is computed [TD7014]"},
      {7015, "a form of an ONNX node that is not read",
       "the node is read, but not with these attributes or inputs",
       "an image resized by mode=\"bicubic\"; automatic pads; windows over volumes",
       "do what the hint of the message says; docs/guides/export-and-import.md lists the forms",
       "auto_pad = SAME_UPPER [TD7015]; hint: export the model with numbers as its pads"},
      {7016, "numbers of a model for one batch size",
       "the exporter computed numbers for the batch of its example and kept them",
       "torch.onnx.export without dynamic_shapes, of a model that repeats a parameter",
       "torch.onnx.export(..., dynamic_shapes=...) makes the batch dynamic",
       "it holds numbers for a batch of 8 alone: ... [TD7016]"},
  };
}

}  // namespace

std::vector<ErrorCode> JobErrors() {
  std::vector<ErrorCode> all = FlagErrors();
  for (const auto part : {SettingErrors, ProgramErrors, ImportErrors}) {
    const std::vector<ErrorCode> rows = part();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace tandem::deploy
