#!/usr/bin/env bash
# A standalone Spark cluster on loopback: one master, two workers of one CPU each. Ends with Ctrl-C, or when its input ends.
#     fleet/spark-cluster.sh          prints the URL for `tussle fleet --engine spark --master URL`
set -euo pipefail
python=${TUSSLE_PYTHON:-python3}
home=$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
port=${1:-17077}
logs=$(mktemp -d)
pids=()
end() {
	kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$logs"
}
trap end EXIT
export SPARK_LOCAL_IP=127.0.0.1 SPARK_HOME=$home PYSPARK_PYTHON=$python
start() {
	"$home/bin/spark-class" "$@" >>"$logs/log" 2>&1 &
	pids+=($!)
}
start org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "$port" --webui-port $((port + 1))
for i in 1 2; do
	start org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --cores 1 --memory 1g --webui-port $((port + 1 + i)) \
		--work-dir "$logs/$i" "spark://127.0.0.1:$port"
done
for _ in $(seq 300); do
	[ "$(grep -c 'Registering worker' "$logs/log")" -ge 2 ] && break
	kill -0 "${pids[@]}" || { cat "$logs/log" >&2; exit 1; }
	sleep 0.5
done
echo "spark://127.0.0.1:$port"
cat >/dev/null
