#!/usr/bin/env bash
# A standalone Spark cluster on loopback: one master, two workers of one CPU each. Ends with Ctrl-C, or when its input ends.
#     fleet/spark-cluster.sh [PORT]   prints the URL for `tussle fleet --engine spark --master URL`
set -euo pipefail
python=${TUSSLE_PYTHON:-python3}
home=$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
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
# Ready when its log has that line N times. Starting a JVM takes minutes where many others run.
await() {
	for _ in $(seq 1200); do
		[ "$(grep -c "$1" "$logs/log")" -ge "$2" ] && return
		kill -0 "${pids[@]}" || break
		sleep 0.5
	done
	cat "$logs/log" >&2
	exit 1
}
start org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "${1:-0}" --webui-port 0
await 'Starting Spark master at' 1
url=$(sed -n 's/.*Starting Spark master at \(spark:[^ ]*\).*/\1/p' "$logs/log")
for i in 1 2; do
	start org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --cores 1 --memory 1g --webui-port 0 \
		--work-dir "$logs/$i" "$url"
done
await 'Registering worker' 2
echo "$url"
cat >/dev/null
