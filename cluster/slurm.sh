#!/usr/bin/env bash
# Run a command on a Ray cluster made of the nodes of a Slurm job. The job has the exit code of the command.
#
#   sbatch cluster/slurm.sh gscl-scale run --config FILE --run /shared/runs/NAME --set runtime.engine=ray
#
# Five minutes before the time limit, and on scancel --batch --signal=TERM, the command saves a checkpoint and ends. The
# same sbatch command resumes from there. gscl-scale must be on the PATH of all nodes (load a module below, or activate
# an environment), and all nodes must see the same run folder.
#SBATCH --job-name=gscl-scale
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@300
set -uo pipefail

say() { echo "slurm.sh: $*" >&2; }
if (($# == 0)); then
  say "no command; expected: sbatch slurm.sh gscl-scale VERB ...; give one"
  exit 2
fi
if [[ -z ${SLURM_JOB_ID:-} || -z ${SLURM_JOB_NODELIST:-} ]]; then
  say "SLURM_JOB_NODELIST is not set: this is no Slurm job; start it with sbatch"
  exit 2
fi

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}  # where this script runs
# The head's address as the last node resolves it: its own name may be a loopback address to the head itself.
ip=$(srun --overlap --nodes=1 --ntasks=1 --nodelist="${nodes[-1]}" getent ahostsv4 "$head" | awk 'NR == 1 { print $1 }')
port=$(python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
if [[ -z $ip || -z $port ]]; then
  say "the address of $head was not found from ${nodes[-1]}; see whether 'getent ahostsv4 $head' answers there"
  exit 1
fi

# Anyone on the network can reach the ports of Ray, so Ray has a token. Only this job knows it; no command line has it.
RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
RAY_ADDRESS=$ip:$port
export RAY_AUTH_MODE RAY_AUTH_TOKEN
steps=()
driver=
told=0

stop_all() {
  trap '' TERM INT
  ((${#steps[@]})) && kill -TERM "${steps[@]}" 2>/dev/null
  wait
}
stop_driver() {
  told=1
  say "told to stop"
  if [[ -n $driver ]]; then kill -TERM "$driver" 2>/dev/null; else exit 143; fi
}
trap stop_all EXIT
trap stop_driver TERM INT

# start_ray NODE OPTIONS: run Ray on a node with the cores that Slurm allocated there, until it is stopped
start_ray() {
  local node=$1
  shift
  # shellcheck disable=SC2016  # the number of cores is that of the node
  srun --overlap --cpu-bind=none --nodes=1 --ntasks=1 --nodelist="$node" \
    bash -c 'exec ray start --block --num-cpus="${SLURM_CPUS_ON_NODE:-1}" "$@"' start \
    --disable-usage-stats --dashboard-agent-listen-port=0 "$@" >"ray-$SLURM_JOB_ID-$node.log" 2>&1 &
  steps+=($!)
}

start_ray "$head" --head --node-ip-address="$ip" --port="$port" \
  --include-dashboard=false --temp-dir="/tmp/ray-$SLURM_JOB_ID"
for ((try = 0; try < 120; try++)); do
  ray health-check --address="$RAY_ADDRESS" >/dev/null 2>&1 && break
  if ! kill -0 "${steps[0]}" 2>/dev/null || ((try == 119)); then
    say "Ray did not start on $head; see ray-$SLURM_JOB_ID-$head.log"
    exit 1
  fi
  sleep 1
done
for node in "${nodes[@]:1}"; do
  start_ray "$node" --address="$RAY_ADDRESS" --temp-dir="/tmp/ray-$SLURM_JOB_ID"
done

# A training requests all its processes at once, so wait until all nodes have joined.
export RAY_ADDRESS
python - "${#nodes[@]}" <<'PYTHON' &
import logging, sys, time
import ray
wanted, until = int(sys.argv[1]), time.monotonic() + 180
ray.init(log_to_driver=False, logging_level=logging.ERROR)
while (joined := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > until:
        sys.exit(f"slurm.sh: {joined} of {wanted} nodes have joined within 3 minutes; see the files ray-*.log")
    time.sleep(1)
PYTHON
steps+=($!)
wait $! || exit 1
say "Ray runs on ${#nodes[@]} nodes: ${nodes[*]}"

"$@" &
driver=$!
while :; do  # a signal interrupts wait while the command is still ending
  told=0
  wait "$driver"
  code=$?
  ((told)) || break
done
say "the command ended with exit code $code"
exit "$code"
