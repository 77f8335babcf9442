#!/bin/sh
# A program that is not there: prints how fast it was in its run number N of a session, in work per second.
#
#   program.sh SESSION GAIN [SEED]
#
# SESSION is a file that counts the runs of a session. Every run is a random bit off (about 1.5%), and the machine gets
# slower by a quarter of a percent with every run, as one that gets warm. GAIN multiplies the result: 1 for the program
# as it was, 1.02 for a change that makes it faster by 2%.
session=$1 gain=$2 seed=${3:-7}
n=$(cat "$session" 2>/dev/null || echo 0)
echo $((n + 1)) >"$session"
awk -v n="$n" -v gain="$gain" -v seed="$seed" 'BEGIN {
	srand(seed + n); rand()
	for (i = 0; i < 12; i++) noise += rand() # of 12 the deviation is 1
	printf "%.1f\n", 100000 * gain * (1 - 0.0025 * n) * (1 + 0.015 * (noise - 6))
}'
