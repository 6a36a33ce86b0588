#!/bin/bash
# A Slurm of several virtual nodes on one machine, for trials and tests; no systemd, all in one folder.
#   scripts/slurm.sh install               Debian's packages (root)
#   scripts/slurm.sh start FOLDER [NODES]  then: export SLURM_CONF=FOLDER/slurm.conf
#   scripts/slurm.sh stop FOLDER           also after a crash; removes the folder
set -euo pipefail

usage() { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
say() { echo "scripts/slurm.sh: $1" >&2; exit 1; }
export PATH=$PATH:/usr/sbin  # where Debian has the daemons

present() {
  local name
  for name in slurmctld slurmd munged sbatch; do
    command -v "$name" > /dev/null || return 1
  done
}

install() {
  present && return
  [ "$(id -u)" = 0 ] || say "Slurm is missing; as root: apt-get install slurmd slurmctld slurm-client munge"
  "$(dirname "$0")"/apt.sh slurmd slurmctld slurm-client munge
}

free_ports() {  # the first of $1 free ports in a row
  local base try
  for try in $(seq 50); do
    base=$((20000 + RANDOM % 10000))
    for port in $(seq "$base" $((base + $1 - 1))); do
      (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && continue 2
    done
    echo "$base"
    return
  done
  say "no free ports"
}

start() {
  local folder nodes base host
  folder=$1 nodes=${2:-4} host=$(hostname -s)
  present || say "Slurm is missing; run: scripts/slurm.sh install"
  [ ! -e "$folder/slurm.conf" ] || say "$folder is in use; run: scripts/slurm.sh stop $folder"
  mkdir -p "$folder"/{state,spool}
  folder=$(cd "$folder" && pwd)
  trap "failed '$folder'" EXIT  # a daemon that does not start leaves no others behind
  base=$(free_ports $((nodes + 1)))
  dd if=/dev/urandom bs=128 count=1 of="$folder/munge.key" 2> /dev/null
  chmod 400 "$folder/munge.key"
  cat > "$folder/slurm.conf" <<CONF
ClusterName=nodewise
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=5,sched_min_interval=200000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
KillWait=3
MinJobAge=3600
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/completed
NodeName=node[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base + 1))-$((base + nodes))] CPUs=2 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10
CONF
  export SLURM_CONF="$folder/slurm.conf"
  munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" 2> "$folder/munged.out"
  slurmctld -c
  for node in $(seq "$nodes"); do
    mkdir -p "$folder/spool/node$node"
    slurmd -N "node$node"
  done
  for try in $(seq 100); do
    [ "$(sinfo -h -p main -t idle -o %D 2> /dev/null)" = "$nodes" ] && trap - EXIT && return
    sleep 0.2
  done
  say "the nodes do not come up"
}

failed() {
  tail -qn 3 "$1"/*.log "$1"/munged.out 2> /dev/null >&2 || true
  stop "$1"
}

stop() {
  local folder=$1 file
  [ -e "$folder/slurm.conf" ] || return 0
  folder=$(cd "$folder" && pwd)
  SLURM_CONF="$folder/slurm.conf" timeout 5 scancel --me 2> /dev/null || true
  # Then the daemons and what is left of jobs: all carry the folder in their environment.
  for signal in TERM KILL; do
    for process in $(grep -lzxF "SLURM_CONF=$folder/slurm.conf" /proc/[0-9]*/environ 2> /dev/null); do
      process=${process#/proc/} process=${process%/environ}
      if grep -qz '^SLURM_JOB_ID=' "/proc/$process/environ" 2> /dev/null ||
        grep -qE '^(slurmd|slurmctld|slurmstepd|slurmscriptd|munged)' "/proc/$process/comm" 2> /dev/null; then
        kill -s "$signal" "$process" 2> /dev/null || true
      fi
    done
    for file in "$folder"/*.pid; do
      [ -e "$file" ] && kill -s "$signal" "$(cat "$file" 2> /dev/null)" 2> /dev/null || true
    done
    sleep 0.5
  done
  rm -rf "$folder"
}

case "${1:-}" in
  install) install ;;
  start) [ $# -ge 2 ] || usage; start "$2" "${3:-4}" ;;
  stop) [ $# -eq 2 ] || usage; stop "$2" ;;
  *) usage ;;
esac
