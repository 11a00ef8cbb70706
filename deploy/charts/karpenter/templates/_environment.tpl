{{- /* What the controller is told. Flags have environment variables; what is not set is left to their defaults. */ -}}

{{- define "karpenter.environment" -}}
{{- include "karpenter.oldValues" . -}}
{{- $aws := eq .Values.settings.cloudProvider "aws" -}}
{{- if and (eq .Values.settings.cloudProvider "azure") (not .Values.settings.clusterName) -}}
{{- fail "settings.clusterName is empty: what is made in Azure is told by this name from what other clusters have, --set settings.clusterName=NAME" -}}
{{- end -}}
{{- if and $aws (not .Values.settings.clusterName) -}}
{{- fail "settings.clusterName is empty: name the cluster as EKS knows it, with --set settings.clusterName=NAME" -}}
{{- end -}}
- name: TENON_CLOUD_PROVIDER
  value: {{ .Values.settings.cloudProvider | quote }}
- name: KUBERNETES_MIN_VERSION
  value: 1.19.0-0
- name: KARPENTER_SERVICE
  value: {{ include "karpenter.fullname" . }}
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: CPU_REQUESTS
  valueFrom:
    resourceFieldRef:
      containerName: {{ .Values.controller.containerName }}
      divisor: 1m
      resource: requests.cpu
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ .Values.controller.containerName }}
      divisor: "0"
      resource: limits.memory
{{- $values := list
  (list "LOG_LEVEL" .Values.logLevel)
  (list "LOG_OUTPUT_PATHS" (join "," .Values.logOutputPaths))
  (list "LOG_ERROR_OUTPUT_PATHS" (join "," .Values.logErrorOutputPaths))
  (list "METRICS_PORT" .Values.controller.metrics.port)
  (list "HEALTH_PROBE_PORT" .Values.controller.healthProbe.port)
-}}
{{- if .Values.dashboard.enabled -}}
{{- $values = append $values (list "TENON_DASHBOARD_PORT" .Values.dashboard.port) -}}
{{- if .Values.dashboard.certificateSecret -}}
{{- $values = concat $values (list
  (list "TENON_DASHBOARD_TLS_CERT_FILE" "/etc/karpenter/dashboard/tls.crt")
  (list "TENON_DASHBOARD_TLS_PRIVATE_KEY_FILE" "/etc/karpenter/dashboard/tls.key")
) -}}
{{- end -}}
{{- end -}}
{{- $bufferLimits := list -}}
{{- range $name, $amount := .Values.settings.bufferLimits -}}
{{- $bufferLimits = append $bufferLimits (printf "%s=%s" $name (toString $amount)) -}}
{{- end -}}
{{- with .Values.settings -}}
{{- $values = concat $values (list
  (list "BATCH_MAX_DURATION" .batchMaxDuration)
  (list "BATCH_IDLE_DURATION" .batchIdleDuration)
  (list "PREFERENCE_POLICY" .preferencePolicy)
  (list "MIN_VALUES_POLICY" .minValuesPolicy)
  (list "SCHEDULER_CONFIG" .schedulerConfig)
  (list "TENON_NODE_OVERHEAD_PRICE" (.nodeOverheadPrice | toString | eq "0" | ternary "" (.nodeOverheadPrice | toString)))
  (list "TENON_MIN_MEMORY_FOR_PODS" (.minMemoryForPods | toString | eq "256Mi" | ternary "" (toString .minMemoryForPods)))
  (list "TENON_BUFFER_LIMITS" (join "," $bufferLimits))
  (list "TENON_COMMITMENTS_FILE" (empty .commitments | ternary "" "/etc/karpenter/commitments/commitments.yaml"))
  (list "TENON_NOMINATE_PODS" (.nominatePods | toString | eq "true" | ternary "" "false"))
  (list "TENON_CLUSTER_AUTOSCALER_GRACE" (has (.clusterAutoscalerGrace | toString) (list "0" "0s") | ternary "" .clusterAutoscalerGrace))
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" .disableClusterStateObservability)
) -}}
{{- if and (eq .cloudProvider "clusterapi") .clusterAPI.kubeconfigSecret -}}
{{- $values = append $values (list "CLUSTER_API_KUBECONFIG" "/etc/karpenter/cluster-api/value") -}}
{{- end -}}
{{- if eq .cloudProvider "azure" -}}
{{- $values = concat $values (list
  (list "CLUSTER_CA_BUNDLE" .clusterCABundle)
  (list "CLUSTER_NAME" .clusterName)
  (list "CLUSTER_ENDPOINT" .clusterEndpoint)
  (list "VM_MEMORY_OVERHEAD_PERCENT" (.vmMemoryOverheadPercent | toString))
  (list "PROVISION_MODE" .azure.provisionMode)
  (list "JOIN_TOKENS" (.azure.joinTokens | toString | eq "true" | ternary "true" ""))
) -}}
{{- end -}}
{{- if $aws -}}
{{- $values = concat $values (list
  (list "CLUSTER_CA_BUNDLE" .clusterCABundle)
  (list "CLUSTER_NAME" .clusterName)
  (list "CLUSTER_ENDPOINT" .clusterEndpoint)
  (list "ISOLATED_VPC" .isolatedVPC)
  (list "EKS_CONTROL_PLANE" .eksControlPlane)
  (list "VM_MEMORY_OVERHEAD_PERCENT" (.vmMemoryOverheadPercent | toString))
  (list "INTERRUPTION_QUEUE" .interruptionQueue)
  (list "ENABLE_ZONAL_SHIFT" .enableZonalShift)
  (list "RESERVED_ENIS" .reservedENIs)
  (list "DISABLE_DRY_RUN" .disableDryRun)
  (list "AMI_REFRESH_INTERVAL" .amiRefreshInterval)
  (list "SUBNET_REFRESH_INTERVAL" .subnetRefreshInterval)
  (list "AWS_FEATURE_GATES" (include "karpenter.awsFeatureGates" $))
) -}}
{{- end -}}
{{- end -}}
{{- range $values -}}
{{- if index . 1 }}
- name: {{ index . 0 }}
  value: {{ index . 1 | toString | quote }}
{{- end -}}
{{- end }}
- name: IGNORE_DRA_REQUESTS
  value: {{ include "karpenter.ignoreDRARequests" . | quote }}
- name: FEATURE_GATES
  value: {{ include "karpenter.featureGates" . | quote }}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "karpenter.awsFeatureGates" -}}
{{- $gates := .Values.settings.awsFeatureGates -}}
NodeClassCEL={{ $gates.nodeClassCEL | default false | toString | eq "true" }}
{{- range $name, $value := dict "DRAEFA" $gates.draEFA "DRANVIDIAGPU" $gates.draNVIDIAGPU -}}
{{- if or $.Values.settings.enableDRA (toString $value | eq "true") -}}
,{{ $name }}=true
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.ignoreDRARequests" -}}
{{- $s := .Values.settings -}}
{{- $gates := $s.awsFeatureGates -}}
{{- if $s.enableDRA -}}
{{- range $name, $value := dict "ignoreDRARequests" $s.ignoreDRARequests "awsFeatureGates.draNVIDIAGPU" $gates.draNVIDIAGPU "awsFeatureGates.draEFA" $gates.draEFA -}}
{{- if not (kindIs "invalid" $value) -}}
{{- fail (printf "settings.enableDRA says what settings.%s is: set one of the two" $name) -}}
{{- end -}}
{{- end -}}
false
{{- else if or (toString $gates.draNVIDIAGPU | eq "true") (toString $gates.draEFA | eq "true") -}}
false
{{- else if kindIs "invalid" $s.ignoreDRARequests -}}
true
{{- else -}}
{{ $s.ignoreDRARequests | toString }}
{{- end -}}
{{- end -}}

{{- define "karpenter.featureGates" -}}
{{- $gates := list -}}
{{- range $name := list "reservedCapacity" "spotToSpotConsolidation" "nodeRepair" "nodeOverlay" "staticCapacity" "capacityBuffer" "provisioningRequest" "podDeletionCostManagement" "terminateFirstDrift" "terminateFirstRepair" -}}
{{- $value := get $.Values.settings.featureGates $name | toString -}}
{{- if has $value (list "true" "false") -}}
{{- $gates = append $gates (printf "%s%s=%s" (substr 0 1 $name | upper) (substr 1 -1 $name) $value) -}}
{{- end -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}
