#!/usr/bin/env bash
# Writes the manual page of a program to stdout, from what the program itself says: --help, and of
# tandem that of every command.
#   page.sh PROGRAM VERSION
set -euo pipefail
program=$1 version=$2
name=$(basename "$program")
case $name in
  tandem) section=1 summary="looks after training jobs and their files" ;;
  tandemrun) section=1 summary="starts a training job on this host" ;;
  tandem-pserver) section=8 summary="one parameter server of a training job" ;;
  tandem-trainer) section=8 summary="one trainer of a training job" ;;
  *) echo "page.sh: $name has no manual page" >&2; exit 2 ;;
esac

# Text as roff: no word begins a request, no dash becomes a hyphen.
roff() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/" -e "s/'/\\\\(aq/g" -e 's/`/\\(ga/g' -e 's/\^/\\(ha/g' -e 's/~/\\(ti/g'; }
# What --help says before the flags, as it stands there.
usage() { awk '/^  --[a-z]/ { exit } { print }' <<<"$1" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | roff; }
# "  --flag=VALUE   what it does", and lines that go on, as a list.
flags() {
  awk '/^  --[a-z]/ { found = 1
         line = substr($0, 3); at = index(line, " ")
         flag = at ? substr(line, 1, at - 1) : line; text = at ? substr(line, at) : ""
         sub(/^ */, "", text); printf "@TP %s\n%s\n", flag, text; next }
       found && NF { sub(/^ */, ""); print }' <<<"$1" | roff |
    sed 's/^@TP \(.*\)$/.TP\n.B \1/'
}
describe() {
  printf '.nf\n%s\n.fi\n' "$(usage "$1")"
}

printf '.TH %s %s "" "Tandem %s" "Tandem"\n' "$(tr a-z A-Z <<<"$name" | roff)" "$section" "$version"
printf '.SH NAME\n%s \\- %s\n' "$(roff <<<"$name")" "$summary"
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
cat <<'EOF'
.SH EXIT STATUS
.TP
.B 0
It is done.
.TP
.B 1
It failed.
.TP
.B 2
A wrong flag, job file or strategy.
.TP
.B 65
Bad data, or a bad model.
.TP
.B 69
A service is absent, or a port is taken.
.TP
.B 74
Input or output failed.
.TP
.B 77
A certificate, a token, or the rights of a file.
.TP
.B 78
The configuration.
.TP
.B 200
A peer was lost: worth another try.
.PP
.B tandem explain
.I CODE
says more.
.SH SEE ALSO
EOF
others=()
for other in tandem:1 tandemrun:1 tandem-pserver:8 tandem-trainer:8; do
  [ "${other%:*}" = "$name" ] || others+=("$(roff <<<"${other%:*}"):${other#*:}")
done
for i in "${!others[@]}"; do
  comma=,
  [ "$i" -lt $((${#others[@]} - 1)) ] || comma=
  printf '.BR %s (%s)%s\n' "${others[$i]%:*}" "${others[$i]#*:}" "$comma"
done
