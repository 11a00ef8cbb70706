#!/bin/sh
# Writes karpenter.yaml from karpenter.yaml.in: a line that is only @FILE becomes that policy of the Terraform module, with
# CloudFormation's names of its variables, so that the policies are written down once.
set -eu
cd "$(dirname "$0")"
awk -v policies=../terraform/karpenter/policies '
	NR == 1 { print "# Written by generate.sh from karpenter.yaml.in and the policies of the Terraform module. Do not edit." }
	/^ *@[a-z-]+\.json$/ {
		indent = $0; sub(/@.*/, "", indent)
		file = $0; sub(/.*@/, policies "/", file)
		while ((got = (getline line < file)) > 0) {
			gsub(/\$\{partition\}/, "${AWS::Partition}", line)
			gsub(/\$\{region\}/, "${AWS::Region}", line)
			gsub(/\$\{account\}/, "${AWS::AccountId}", line)
			gsub(/\$\{dns_suffix\}/, "${AWS::URLSuffix}", line)
			gsub(/\$\{cluster\}/, "${ClusterName}", line)
			gsub(/\$\{node_role_arn\}/, "${KarpenterNodeRole.Arn}", line)
			gsub(/\$\{queue_arn\}/, "${KarpenterInterruptionQueue.Arn}", line)
			gsub(/\$\{oidc_issuer\}/, "${OIDCIssuer}", line)
			gsub(/\$\{namespace\}/, "${Namespace}", line)
			gsub(/\$\{service_account\}/, "${ServiceAccount}", line)
			print indent line
		}
		if (got < 0) { print "cannot read " file > "/dev/stderr"; exit 1 }
		close(file)
		next
	}
	{ print }
' karpenter.yaml.in >karpenter.yaml.new
mv karpenter.yaml.new karpenter.yaml
