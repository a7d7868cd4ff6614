#!/usr/bin/env bash
# Writes the manual page of a program to stdout. The page contains the program's --help (for tandem
# also that of every command), and the tables of exit codes and environment variables in
# docs/reference.
#   page.sh PROGRAM VERSION
set -euo pipefail
program=$1 version=$2
reference=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../docs/reference" && pwd)
name=$(basename "$program")
case $name in
  tandem) section=1 summary="looks after training jobs and their files" ;;
  tandemrun) section=1 summary="starts a training job on this host" ;;
  tandem-pserver) section=8 summary="one parameter server of a training job" ;;
  tandem-trainer) section=8 summary="one trainer of a training job" ;;
  *) echo "page.sh: $name has no manual page" >&2; exit 2 ;;
esac

# Escapes text for roff: no word begins a request, and no dash becomes a hyphen.
roff() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/" -e "s/'/\\\\(aq/g" -e 's/`/\\(ga/g' -e 's/\^/\\(ha/g' -e 's/~/\\(ti/g'; }
# Prints the part of --help before the flags, unchanged.
usage() { awk '/^  --[a-z]/ { exit } { print }' <<<"$1" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | roff; }
# Formats "  --flag=VALUE   what it does" and its continuation lines as a list.
flags() {
  awk '/^  --[a-z]/ { found = 1
         line = substr($0, 3); at = index(line, " ")
         flag = at ? substr(line, 1, at - 1) : line; text = at ? substr(line, at) : ""
         sub(/^ */, "", text); printf "@TP %s\n%s\n", flag, text; next }
       found && NF { sub(/^ */, ""); print }' <<<"$1" | roff |
    sed 's/^@TP \(.*\)$/.TP\n.B \1/'
}
# Formats rows of a table of docs/reference/PAGE as a list: the rows that match PATTERN, with the
# columns of the name and of the text (0: the last one).
rows() {
  awk -F' *[|] *' -v name="$3" -v text="$4" "/$2/"' {
         gsub(/`/, ""); printf "@TP %s\n%s\n", $name, text ? $text : $(NF - 1) }' "$reference/$1" |
    roff | sed 's/^@TP \(.*\)$/.TP\n.B \1/'
}
# Prints "file|description" for the program.
files() {
  case $name in
    tandem | tandemrun)
      echo "LOG_DIR/job.json|the processes of a job, their addresses and files"
      echo "LOG_DIR/events.jsonl|start, exit and restart of processes; moves and snapshots"
      echo "LOG_DIR/workerlog.N, serverlog.N, heterlog.N|output of each process"
      echo "LOG_DIR/job.secret|a link to the job's secret while tandemrun runs"
      ;;
    tandem-pserver)
      echo "DATA_DIR|checkpoints and the update log of this server"
      echo "/etc/tandem/pserver.env|settings of the systemd unit"
      ;;
    tandem-trainer)
      echo "job.pbtxt|the job file: JobConfig in text form"
      echo "checkpoint.dir/step-N|a checkpoint: parameters, optimizer state and a manifest"
      echo "/etc/tandem/trainer.env|settings of the systemd unit"
      ;;
  esac
}
# Prints "description|command" for the program.
examples() {
  case $name in
    tandem)
      echo "Check a job file|tandem lint job.pbtxt"
      echo "Watch a running job|tandem top LOG_DIR"
      echo "Explain an error code|tandem explain TD2102"
      echo "Move rows to a new pserver|tandem rebalance LOG_DIR --add=HOST:PORT"
      ;;
    tandemrun)
      echo "Parameters on two servers|tandemrun --servers=2 --workers=2 job.pbtxt"
      echo "Gradients reduced among two ranks|tandemrun --mode=collective --nproc=2 job.pbtxt"
      echo "Replace killed processes|tandemrun --servers=2 --workers=2 --max_restarts=3 --pserver_data_dir=state job.pbtxt"
      ;;
    tandem-pserver)
      echo "A server for one trainer|tandem-pserver --listen=127.0.0.1:7000 --job=mine --trainers=1"
      echo "A server whose pushes survive a crash|tandem-pserver --listen=127.0.0.1:7000 --job=mine --trainers=1 --data_dir=state --durability=logged"
      ;;
    tandem-trainer)
      echo "Check a job and print what differs from the defaults|tandem-trainer --job_file=job.pbtxt --check"
      echo "Train in one process|tandem-trainer --job_file=job.pbtxt --mode=local"
      ;;
  esac
}
describe() {
  printf '.nf\n%s\n.fi\n' "$(usage "$1")"
}

printf '.TH %s %s "" "Tandem %s" "Tandem"\n' "$(tr a-z A-Z <<<"$name" | roff)" "$section" "$version"
printf '.SH NAME\n%s \\- %s\n' "$(roff <<<"$name")" "$summary"
printf '.SH SYNOPSIS\n.B %s\n' "$(roff <<<"$name")"
case $name in
  tandem) printf '.I COMMAND\n[\n.I ARGUMENTS\n]\n' ;;
  tandemrun) printf '[\n.I FLAGS\n]\n.I JOB\n[\n.I FIELDS\n] [\\-\\- \n.I TRAINER FLAGS\n]\n' ;;
  *) printf '[\n.I FLAGS\n]\n' ;;
esac
help=$("$program" --help)
printf '.SH DESCRIPTION\n'
describe "$help"
if [ "$name" = tandem ]; then
  printf '.SH COMMANDS\n'
  for command in $(awk '/^  [a-z]/ { print $1 }' <<<"$help"); do
    case $command in help | version) continue ;; esac
    text=$("$program" "$command" --help)
    printf '.SS tandem %s\n' "$command"
    describe "$text"
    flags "$text"
  done
else
  printf '.SH OPTIONS\n'
  flags "$help"
fi
printf '.SH EXIT STATUS\n'
# "| code | name | meaning | restart |"
rows exit-codes.md '^\| [0-9]+ \|' 2 4
printf '.PP\n.B tandem explain\n.I CODE\nsays more.\n'
printf '.SH ENVIRONMENT\n'
# The meaning is the last column.
rows environment.md '^\| `' 2 0
printf '.SH FILES\n'
files | while IFS='|' read -r file text; do
  printf '.TP\n.I %s\n%s\n' "$(roff <<<"$file")" "$(roff <<<"$text")"
done
printf '.SH EXAMPLES\n'
examples | while IFS='|' read -r text example; do
  printf '%s:\n.PP\n.nf\n.RS\n%s\n.RE\n.fi\n.PP\n' "$(roff <<<"$text")" "$(roff <<<"$example")"
done
printf '.SH SEE ALSO\n'
others=()
for other in tandem:1 tandemrun:1 tandem-pserver:8 tandem-trainer:8; do
  [ "${other%:*}" = "$name" ] || others+=("$(roff <<<"${other%:*}"):${other#*:}")
done
for i in "${!others[@]}"; do
  comma=,
  [ "$i" -lt $((${#others[@]} - 1)) ] || comma=
  printf '.BR %s (%s)%s\n' "${others[$i]%:*}" "${others[$i]#*:}" "$comma"
done
