{{- /* The container's resources. If the user names no memory, memory is limited all the same. The request is said as well, because
Kubernetes would take the limit for it. */ -}}

{{- define "karpenter.resources" -}}
{{- $resources := deepCopy (.Values.controller.resources | default dict) -}}
{{- $limits := $resources.limits | default dict -}}
{{- $requests := $resources.requests | default dict -}}
{{- $limit := .Values.controller.memoryLimit -}}
{{- if and $limit (not (hasKey $limits "memory")) (not (hasKey $requests "memory")) -}}
{{- $_ := set $resources "limits" (set $limits "memory" $limit) -}}
{{- $_ := set $resources "requests" (set $requests "memory" "256Mi") -}}
{{- end -}}
{{- with $resources -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
