#!/bin/sh
# Prints which of the groups of tests that make test leaves out a change has to pass, for `make test-GROUP`: one of eight sets by turns, by
# the number of commits, and the first group whose files the commits of the last four hours have changed: the others' turn will come.
set -eu
cd "$(dirname "$0")/.."
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
	echo "tools/neighbours.sh: whose turn it is follows from the number of commits: fetch them all (git fetch --unshallow)" >&2
	exit 1
fi
commits=$(git rev-list --count HEAD)
case $((commits % 8)) in
0) turn="clusterapi" ;;
1) turn="deploy keda" ;;
2) turn="draws" ;;
3) turn="argo" ;;
4) turn="vpa descheduler" ;;
5) turn="prometheus kueue" ;;
6) turn="browser" ;;
7) turn="aws" ;;
esac

folders() {
	case $1 in
	argo) echo 'endtoend/argo' ;;
	aws) echo 'endtoend/aws|provider/aws/' ;;
	browser) echo 'dashboard/' ;;
	clusterapi) echo 'endtoend/clusterapi|provider/clusterapi/' ;;
	deploy) echo 'deploy/|api/' ;;
	descheduler) echo 'endtoend/descheduler' ;;
	draws) echo 'engine/|explore/|oracle/|simulator/' ;;
	keda) echo 'endtoend/keda' ;;
	kueue) echo 'endtoend/kueue' ;;
	prometheus) echo 'endtoend/prometheus|deploy/monitoring/' ;;
	vpa) echo 'endtoend/vpa' ;;
	esac
}

files=$(git log --since="$(($(git log -1 --format=%ct) - 14400))" --format= --name-only)
changed=0
for group in draws deploy argo aws browser clusterapi descheduler keda kueue prometheus vpa; do
	case " $turn " in *" $group "*) continue ;; esac
	if [ "$changed" -lt 1 ] && echo "$files" | grep -qE "^($(folders "$group"))"; then
		turn="$turn $group" changed=$((changed + 1))
	fi
done
echo "$turn"
