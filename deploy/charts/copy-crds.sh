#!/bin/sh
# Copies the generated definitions of kinds to where the charts want them: karpenter-crd upgrades them, karpenter only
# brings them along for the first installation. What is for the simulated cloud stays away.
set -eu
cd "$(dirname "$0")"
for to in karpenter/crds karpenter-crd/files; do
	rm -rf "$to"
	mkdir -p "$to"
	for from in ../../api/crds/karpenter.sh_*.yaml ../../api/crds/karpenter.k8s.aws_*.yaml ../../api/crds/karpenter.azure.com_*.yaml ../../api/crds/karpenter.cluster.x-k8s.io_*.yaml ../../api/crds/autoscaling.x-k8s.io_*.yaml; do
		[ ! -f "$from" ] || cp "$from" "$to"
	done
done
