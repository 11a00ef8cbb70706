{{- /* Where pods may run. Terms without a label selector mean these pods. */ -}}

{{- define "karpenter.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $these := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) -}}
{{- range list "podAffinity" "podAntiAffinity" -}}
{{- with get $affinity . -}}
{{- range .requiredDuringSchedulingIgnoredDuringExecution -}}
{{- if not .labelSelector -}}{{- $_ := set . "labelSelector" $these -}}{{- end -}}
{{- end -}}
{{- range .preferredDuringSchedulingIgnoredDuringExecution -}}
{{- with .podAffinityTerm -}}
{{- if not .labelSelector -}}{{- $_ := set . "labelSelector" $these -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "karpenter.topologySpreadConstraints" -}}
{{- $these := dict "matchLabels" (include "karpenter.selectorLabels" . | fromYaml) -}}
{{- $constraints := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $constraint := deepCopy . -}}
{{- if not $constraint.labelSelector -}}{{- $_ := set $constraint "labelSelector" $these -}}{{- end -}}
{{- $constraints = append $constraints $constraint -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
