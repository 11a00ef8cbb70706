{{- /* Values of Karpenter's older charts. Helm drops what a chart does not know without a word, and a queue that nobody reads is missed late. */ -}}

{{- define "karpenter.oldValues" -}}
{{- $now := dict
  "settings.aws.clusterName" "settings.clusterName"
  "settings.aws.clusterEndpoint" "settings.clusterEndpoint"
  "settings.aws.clusterCABundle" "settings.clusterCABundle"
  "settings.aws.interruptionQueueName" "settings.interruptionQueue"
  "settings.aws.isolatedVPC" "settings.isolatedVPC"
  "settings.aws.reservedENIs" "settings.reservedENIs"
  "settings.aws.vmMemoryOverheadPercent" "settings.vmMemoryOverheadPercent"
  "settings.aws.defaultInstanceProfile" "spec.instanceProfile or spec.role of each EC2NodeClass"
  "settings.aws.tags" "spec.tags of each EC2NodeClass"
  "settings.aws.enableENILimitedPodDensity" "spec.kubelet.maxPods of each EC2NodeClass"
  "settings.aws.enablePodENI" "nothing: it is known from the cluster"
  "settings.aws.nodeNameConvention" "nothing: nodes have their private DNS names"
  "settings.aws.assumeRoleARN" "nothing: give the service account that role"
  "settings.aws.assumeRoleDuration" "nothing: give the service account that role"
  "settings.interruptionQueueName" "settings.interruptionQueue"
  "settings.assumeRoleARN" "nothing: give the service account that role"
  "settings.assumeRoleDuration" "nothing: give the service account that role"
  "settings.featureGates.drift" "nothing: drift is always on; hold it back with spec.disruption.budgets of NodePools"
  "settings.featureGates.driftEnabled" "nothing: drift is always on; hold it back with spec.disruption.budgets of NodePools"
  "clusterName" "settings.clusterName"
  "clusterEndpoint" "settings.clusterEndpoint"
  "aws.defaultInstanceProfile" "spec.instanceProfile or spec.role of each EC2NodeClass"
  "controller.logLevel" "logLevel"
  "controller.batchMaxDuration" "settings.batchMaxDuration"
  "controller.batchIdleDuration" "settings.batchIdleDuration"
-}}
{{- $found := list -}}
{{- range $old := keys $now | sortAlpha -}}
{{- $at := $.Values -}}
{{- range splitList "." $old -}}
{{- if kindIs "map" $at -}}{{- $at = get $at . -}}{{- else -}}{{- $at = "" -}}{{- end -}}
{{- end -}}
{{- if or $at (kindIs "bool" $at) -}}
{{- $found = append $found (printf "%s is now %s" $old (get $now $old)) -}}
{{- end -}}
{{- end -}}
{{- if $found -}}
{{- fail (printf "these values are of older charts and would be dropped: %s" (join "; " $found)) -}}
{{- end -}}
{{- end -}}
