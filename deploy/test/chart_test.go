package charttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestTheCommandOfTheGettingStartedGuideRendersEveryObject(t *testing.T) {
	t.Parallel()
	got := names(render(t, gettingStarted()))
	want := []string{
		"ClusterRole /karpenter", "ClusterRole /karpenter-admin", "ClusterRole /karpenter-core",
		"ClusterRoleBinding /karpenter", "ClusterRoleBinding /karpenter-core",
		"Deployment kube-system/karpenter", "NetworkPolicy kube-system/karpenter", "PodDisruptionBudget kube-system/karpenter",
		"Role kube-system/karpenter", "Role kube-system/karpenter-dns",
		"RoleBinding kube-system/karpenter", "RoleBinding kube-system/karpenter-dns",
		"Service kube-system/karpenter", "ServiceAccount kube-system/karpenter",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestHelmFindsNothingToComplainAbout(t *testing.T) {
	t.Parallel()
	values, err := gettingStarted().values()
	if err != nil {
		t.Fatal(err)
	}
	lint := action.NewLint()
	lint.Strict = true
	result := lint.Run([]string{"../charts/karpenter", "../charts/karpenter-crd"}, values)
	for _, err := range result.Errors {
		t.Error(err)
	}
	if result.TotalChartsLinted != 2 {
		t.Errorf("%d charts looked at", result.TotalChartsLinted)
	}
}

func deployment(t *testing.T, r release, name string) *appsv1.Deployment {
	t.Helper()
	out := &appsv1.Deployment{}
	object := find(t, render(t, r), "Deployment", name)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, out, true); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheControllerRunsTwiceApartAndWithoutPrivileges(t *testing.T) {
	t.Parallel()
	d := deployment(t, gettingStarted(), "karpenter")
	selector := map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
	if !maps.Equal(d.Spec.Selector.MatchLabels, selector) {
		t.Errorf("selector %v: an upgrade of Karpenter's release would be refused", d.Spec.Selector.MatchLabels)
	}
	if *d.Spec.Replicas != 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%d replicas, strategy %v", *d.Spec.Replicas, d.Spec.Strategy)
	}
	pod := d.Spec.Template.Spec
	spread := pod.TopologySpreadConstraints
	if len(spread) != 1 || spread[0].TopologyKey != "topology.kubernetes.io/zone" || spread[0].WhenUnsatisfiable != corev1.DoNotSchedule || !maps.Equal(spread[0].LabelSelector.MatchLabels, selector) {
		t.Errorf("spread %v", spread)
	}
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(apart) != 1 || apart[0].TopologyKey != "kubernetes.io/hostname" || !maps.Equal(apart[0].LabelSelector.MatchLabels, selector) {
		t.Errorf("anti-affinity %v", apart)
	}
	own := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	if own.Key != "karpenter.sh/nodepool" || own.Operator != corev1.NodeSelectorOpDoesNotExist {
		t.Errorf("it may run on nodes that it started: %v", own)
	}
	if pod.PriorityClassName != "system-cluster-critical" || *pod.SecurityContext.FSGroup != 65532 || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("priority class %q, security context %v", pod.PriorityClassName, pod.SecurityContext)
	}
	c := pod.Containers[0]
	s := c.SecurityContext
	if !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.RunAsGroup != 65532 || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context of the container: %v", s)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.Name != "controller" {
		t.Errorf("container %s, probes %v %v", c.Name, c.LivenessProbe, c.ReadinessProbe)
	}
	if c.Resources.Limits.Memory().String() != "1Gi" || c.Resources.Requests.Cpu().String() != "1" {
		t.Errorf("resources %v", c.Resources)
	}
}

// environment is what the container is told; a reference is written as its field.
func environment(d *appsv1.Deployment) map[string]string {
	out := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		switch {
		case e.ValueFrom == nil:
			out[e.Name] = e.Value
		case e.ValueFrom.FieldRef != nil:
			out[e.Name] = e.ValueFrom.FieldRef.FieldPath
		case e.ValueFrom.ResourceFieldRef != nil:
			out[e.Name] = e.ValueFrom.ResourceFieldRef.Resource
		}
	}
	return out
}

func TestSettingsBecomeEnvironmentVariables(t *testing.T) {
	t.Parallel()
	got := environment(deployment(t, gettingStarted(), "karpenter"))
	want := map[string]string{
		"TENON_CLOUD_PROVIDER": "aws", "KUBERNETES_MIN_VERSION": "1.19.0-0", "KARPENTER_SERVICE": "karpenter",
		"SYSTEM_NAMESPACE": "metadata.namespace", "CPU_REQUESTS": "requests.cpu", "MEMORY_LIMIT": "limits.memory",
		"LOG_LEVEL": "info", "LOG_OUTPUT_PATHS": "stdout", "LOG_ERROR_OUTPUT_PATHS": "stderr",
		"METRICS_PORT": "8080", "HEALTH_PROBE_PORT": "8081",
		"BATCH_MAX_DURATION": "10s", "BATCH_IDLE_DURATION": "1s", "PREFERENCE_POLICY": "Respect", "MIN_VALUES_POLICY": "Strict",
		"CLUSTER_NAME": "demo", "INTERRUPTION_QUEUE": "demo", "VM_MEMORY_OVERHEAD_PERCENT": "0.075", "RESERVED_ENIS": "0",
		"AMI_REFRESH_INTERVAL": "1m", "SUBNET_REFRESH_INTERVAL": "1m", "AWS_FEATURE_GATES": "NodeClassCEL=false", "IGNORE_DRA_REQUESTS": "true",
		"FEATURE_GATES": "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false,ProvisioningRequest=false,PodDeletionCostManagement=false",
	}
	if !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if got[name] != want[name] {
				t.Errorf("%s is %q, want %q", name, got[name], want[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if _, ok := got[name]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

func TestEveryValueOfKarpentersChartHasItsEffect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ set, kind, name, want string }{
		{"nameOverride=other", "Deployment", "karpenter-other", `"app.kubernetes.io/name":"other"`},
		{"fullnameOverride=full", "Deployment", "full", `"app.kubernetes.io/name":"karpenter"`},
		{"additionalLabels.a=b", "Role", "karpenter", `"a":"b"`},
		{"additionalAnnotations.a=b", "ClusterRoleBinding", "karpenter-core", `"annotations":{"a":"b"}`},
		{"imagePullPolicy=Always", "Deployment", "karpenter", `"imagePullPolicy":"Always"`},
		{"imagePullSecrets[0].name=s", "Deployment", "karpenter", `"imagePullSecrets":[{"name":"s"}]`},
		{"service.annotations.a=b", "Service", "karpenter", `"annotations":{"a":"b"}`},
		{"serviceAccount.name=sa", "ServiceAccount", "sa", `"name":"sa"`},
		{"serviceAccount.name=sa", "RoleBinding", "karpenter-dns", `"name":"sa","namespace":"kube-system"`},
		{`serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn`, "ServiceAccount", "karpenter", `"eks.amazonaws.com/role-arn":"arn"`},
		{"additionalClusterRoleRules[0].apiGroups[0]=g,additionalClusterRoleRules[0].resources[0]=r,additionalClusterRoleRules[0].verbs[0]=get", "ClusterRole", "karpenter-core", `{"apiGroups":["g"],"resources":["r"],"verbs":["get"]}`},
		{"replicas=3", "Deployment", "karpenter", `"replicas":3`},
		{"revisionHistoryLimit=1", "Deployment", "karpenter", `"revisionHistoryLimit":1`},
		{"strategy.rollingUpdate.maxUnavailable=0", "Deployment", "karpenter", `"maxUnavailable":0`},
		{"podLabels.a=b", "Deployment", "karpenter", `"a":"b"`},
		{"podAnnotations.a=b", "Deployment", "karpenter", `"annotations":{"a":"b"}`},
		{"podDisruptionBudget.name=pdb", "PodDisruptionBudget", "pdb", `"maxUnavailable":1`},
		{"podDisruptionBudget.maxUnavailable=2", "PodDisruptionBudget", "karpenter", `"maxUnavailable":2`},
		{"podSecurityContext.fsGroup=1", "Deployment", "karpenter", `"fsGroup":1,`},
		{"priorityClassName=p", "Deployment", "karpenter", `"priorityClassName":"p"`},
		{"terminationGracePeriodSeconds=9", "Deployment", "karpenter", `"terminationGracePeriodSeconds":9`},
		{"hostNetwork=true", "Deployment", "karpenter", `"hostNetwork":true`},
		{"schedulerName=s", "Deployment", "karpenter", `"schedulerName":"s"`},
		{"dnsPolicy=Default", "Deployment", "karpenter", `"dnsPolicy":"Default"`},
		{"dnsConfig.nameservers[0]=1.1.1.1", "Deployment", "karpenter", `"nameservers":["1.1.1.1"]`},
		{"initContainers[0].name=i", "Deployment", "karpenter", `"initContainers":[{"name":"i"}]`},
		{"nodeSelector.a=b", "Deployment", "karpenter", `"nodeSelector":{"a":"b","kubernetes.io/os":"linux"}`},
		{"tolerations[0].key=k", "Deployment", "karpenter", `"tolerations":[{"key":"k"}]`},
		{"topologySpreadConstraints=null", "ServiceAccount", "karpenter", `karpenter`},
		{"extraVolumes[0].name=v", "Deployment", "karpenter", `"volumes":[{"name":"v"}]`},
		{"controller.containerName=c", "Deployment", "karpenter", `"containerName":"c","divisor":"1m"`},
		{"controller.image.repository=r,controller.image.tag=1.2", "Deployment", "karpenter", `"image":"r:1.2"`},
		{"controller.image.digest=sha256:abc", "Deployment", "karpenter", `@sha256:abc"`},
		{"controller.env[0].name=E,controller.env[0].value=v", "Deployment", "karpenter", `{"name":"E","value":"v"}`},
		{"controller.envFrom[0].configMapRef.name=m", "Deployment", "karpenter", `"envFrom":[{"configMapRef":{"name":"m"}}]`},
		{"controller.securityContext.seLinuxOptions.level=l", "Deployment", "karpenter", `"seLinuxOptions":{"level":"l"}`},
		{"controller.extraVolumeMounts[0].name=v", "Deployment", "karpenter", `"volumeMounts":[{"name":"v"}]`},
		{"controller.sidecarContainer[0].name=s,controller.sidecarVolumeMounts[0].name=v", "Deployment", "karpenter", `{"name":"s","volumeMounts":[{"name":"v"}]}`},
		{"controller.resources.requests.cpu=2", "Deployment", "karpenter", `"requests":{"cpu":2,"memory":"1Gi"}`},
		{"controller.metrics.port=9000", "Service", "karpenter", `"port":9000`},
		{"controller.healthProbe.port=9001", "Deployment", "karpenter", `"containerPort":9001,"name":"http"`},
		{"logLevel=debug", "Deployment", "karpenter", `{"name":"LOG_LEVEL","value":"debug"}`},
		{"logOutputPaths={stdout,/tmp/x}", "Deployment", "karpenter", `{"name":"LOG_OUTPUT_PATHS","value":"stdout,/tmp/x"}`},
		{"settings.schedulerConfig=x", "Deployment", "karpenter", `{"name":"SCHEDULER_CONFIG","value":"x"}`},
		{"settings.nodeOverheadPrice=0.0125", "Deployment", "karpenter", `{"name":"TENON_NODE_OVERHEAD_PRICE","value":"0.0125"}`},
		{`settings.bufferLimits.memory=400Gi,settings.bufferLimits.cpu=2000000,settings.bufferLimits.nvidia\.com/gpu=8`, "Deployment", "karpenter", `{"name":"TENON_BUFFER_LIMITS","value":"cpu=2000000,memory=400Gi,nvidia.com/gpu=8"}`},
		{"settings.minMemoryForPods=1Gi", "Deployment", "karpenter", `{"name":"TENON_MIN_MEMORY_FOR_PODS","value":"1Gi"}`},
		{"settings.nominatePods=false", "Deployment", "karpenter", `{"name":"TENON_NOMINATE_PODS","value":"false"}`},
		{"settings.clusterAutoscalerGrace=15m", "Deployment", "karpenter", `{"name":"TENON_CLUSTER_AUTOSCALER_GRACE","value":"15m"}`},
		{"settings.ignoreDRARequests=false", "Deployment", "karpenter", `{"name":"IGNORE_DRA_REQUESTS","value":"false"}`},
		{"settings.disableClusterStateObservability=true", "Deployment", "karpenter", `{"name":"DISABLE_CLUSTER_STATE_OBSERVABILITY","value":"true"}`},
		{"settings.clusterEndpoint=https://x", "Deployment", "karpenter", `{"name":"CLUSTER_ENDPOINT","value":"https://x"}`},
		{"settings.clusterCABundle=Y2E=", "Deployment", "karpenter", `{"name":"CLUSTER_CA_BUNDLE","value":"Y2E="}`},
		{"settings.isolatedVPC=true", "Deployment", "karpenter", `{"name":"ISOLATED_VPC","value":"true"}`},
		{"settings.eksControlPlane=true", "Deployment", "karpenter", `{"name":"EKS_CONTROL_PLANE","value":"true"}`},
		{"settings.vmMemoryOverheadPercent=0", "Deployment", "karpenter", `{"name":"VM_MEMORY_OVERHEAD_PERCENT","value":"0"}`},
		{"settings.enableZonalShift=true", "Deployment", "karpenter", `{"name":"ENABLE_ZONAL_SHIFT","value":"true"}`},
		{"settings.reservedENIs=1", "Deployment", "karpenter", `{"name":"RESERVED_ENIS","value":"1"}`},
		{"settings.disableDryRun=true", "Deployment", "karpenter", `{"name":"DISABLE_DRY_RUN","value":"true"}`},
		{"settings.featureGates.staticCapacity=true", "Deployment", "karpenter", `StaticCapacity=true,`},
		{"settings.featureGates.nodeRepair=null", "Deployment", "karpenter", `SpotToSpotConsolidation=false,NodeOverlay=false,`},
		{"settings.enableDRA=true", "Deployment", "karpenter", `{"name":"IGNORE_DRA_REQUESTS","value":"false"}`},
		{"settings.enableDRA=true", "Deployment", "karpenter", `"NodeClassCEL=false,DRAEFA=true,DRANVIDIAGPU=true"`},
		{"settings.awsFeatureGates.draEFA=true", "Deployment", "karpenter", `"NodeClassCEL=false,DRAEFA=true"`},
		{"settings.awsFeatureGates.draEFA=true", "Deployment", "karpenter", `{"name":"IGNORE_DRA_REQUESTS","value":"false"}`},
		{"settings.awsFeatureGates.nodeClassCEL=true", "Deployment", "karpenter", `"NodeClassCEL=true"`},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			object := find(t, render(t, gettingStarted().with(test.set)), test.kind, test.name)
			if got := text(t, object); !strings.Contains(got, test.want) {
				t.Errorf("%s is not in\n%s", test.want, got)
			}
		})
	}
}

func TestNamesFollowTheRelease(t *testing.T) {
	t.Parallel()
	r := gettingStarted()
	r.name = "autoscaler"
	find(t, render(t, r), "Deployment", "autoscaler-karpenter")
	r.name = "karpenter-blue"
	d := deployment(t, r, "karpenter-blue")
	if d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] != "karpenter-blue" {
		t.Errorf("%v", d.Spec.Selector.MatchLabels)
	}
}

func TestAServiceMonitorIsMadeWhereItsKindExists(t *testing.T) {
	t.Parallel()
	r := gettingStarted().with("serviceMonitor.enabled=true", "serviceMonitor.additionalLabels.a=b", "serviceMonitor.sampleLimit=5",
		"serviceMonitor.endpointConfig.interval=30s", "serviceMonitor.metricRelabelings[0].action=drop")
	has := func(r release) bool {
		return slices.ContainsFunc(render(t, r), func(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceMonitor" })
	}
	if has(r) {
		t.Error("made where nobody serves the kind: the installation would fail")
	}
	r.apis = []string{"monitoring.coreos.com/v1/ServiceMonitor"}
	monitor := text(t, find(t, render(t, r), "ServiceMonitor", "karpenter"))
	for _, want := range []string{`"a":"b"`, `"sampleLimit":5`, `"interval":"30s","metricRelabelings":[{"action":"drop"}],"path":"/metrics","port":"http-metrics"`, `"matchNames":["kube-system"]`} {
		if !strings.Contains(monitor, want) {
			t.Errorf("%s is not in\n%s", want, monitor)
		}
	}
	r = gettingStarted()
	r.apis = []string{"monitoring.coreos.com/v1/ServiceMonitor"}
	if has(r) {
		t.Error("made without being asked for")
	}
}

// opened are the ports of the chart's NetworkPolicy, each with who reaches it.
func opened(t *testing.T, r release) []string {
	t.Helper()
	policy := &networkingv1.NetworkPolicy{}
	object := find(t, render(t, r), "NetworkPolicy", "karpenter")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, policy, true); err != nil {
		t.Fatal(err)
	}
	pods := deployment(t, r, "karpenter").Spec.Template.Labels
	for key, value := range policy.Spec.PodSelector.MatchLabels {
		if pods[key] != value {
			t.Errorf("the policy selects pods with %s=%s, and the controller's have %q", key, value, pods[key])
		}
	}
	if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		t.Errorf("the policy is about %v: what the controller reaches is not restricted", policy.Spec.PolicyTypes)
	}
	var out []string
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			from := "all"
			if len(rule.From) > 0 {
				from = rule.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
			}
			out = append(out, fmt.Sprintf("%s %s from %s", port.Port, *port.Protocol, from))
		}
	}
	return out
}

// A Prometheus in any namespace scrapes as it does with Karpenter's chart, and so do the clients of containers that users add.
func TestTheNetworkPolicyOpensThePortsThatAreServed(t *testing.T) {
	t.Parallel()
	usual := []string{"8080 TCP from all", "8081 TCP from all"}
	for _, c := range []struct {
		set  []string
		want []string
	}{
		{nil, usual},
		{[]string{"networkPolicy=null"}, usual}, // values of before, which helm upgrade --reuse-values keeps
		{[]string{"controller.metrics.port=9000", "controller.healthProbe.port=9001"}, []string{"9000 TCP from all", "9001 TCP from all"}},
		{[]string{"dashboard.enabled=true"}, append(slices.Clone(usual), "8443 TCP from all")},
		{[]string{"controller.sidecarContainer[0].name=s", "controller.sidecarContainer[0].ports[0].containerPort=53", "controller.sidecarContainer[0].ports[0].protocol=UDP",
			"initContainers[0].name=i", "initContainers[0].ports[0].containerPort=54"}, append(slices.Clone(usual), "53 UDP from all", "54 TCP from all")},
		{[]string{`networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.kubernetes\.io/metadata\.name=monitoring`}, []string{"8080 TCP from monitoring", "8081 TCP from all"}},
	} {
		if got := opened(t, gettingStarted().with(c.set...)); !slices.Equal(got, c.want) {
			t.Errorf("%q opens %q, want %q", c.set, got, c.want)
		}
	}
	for _, o := range render(t, gettingStarted().with("networkPolicy.enabled=false")) {
		if o.GetKind() == "NetworkPolicy" {
			t.Error("it is made though it is turned off")
		}
	}
}

// A limit that the chart names must not be below what a user requests, nor come with a request that leaves a node no room for the controller.
func TestMemoryIsLimitedUnlessTheUserNamesSome(t *testing.T) {
	t.Parallel()
	none := gettingStarted()
	none.set = none.set[:2]
	for _, c := range []struct{ set, want string }{
		{"", "limit 2Gi, request 256Mi"},
		{"controller.resources.requests.cpu=1", "limit 2Gi, request 256Mi"},
		{"controller.resources.limits.cpu=1", "limit 2Gi, request 256Mi"},
		{"controller.memoryLimit=4Gi", "limit 4Gi, request 256Mi"},
		{"controller.memoryLimit=null", "limit 0, request 0"},
		{"controller.resources=null", "limit 2Gi, request 256Mi"},
		{"controller.resources.requests.memory=4Gi", "limit 0, request 4Gi"},
		{"controller.resources.limits.memory=1Gi", "limit 1Gi, request 0"},
	} {
		d := deployment(t, none.with(c.set), "karpenter")
		r := d.Spec.Template.Spec.Containers[0].Resources
		if got := fmt.Sprintf("limit %s, request %s", r.Limits.Memory(), r.Requests.Memory()); got != c.want {
			t.Errorf("%s: %s, want %s", c.set, got, c.want)
		}
		if strings.HasSuffix(c.set, "cpu=1") && r.Requests.Cpu().IsZero() && r.Limits.Cpu().IsZero() {
			t.Errorf("%s: the CPU is lost", c.set)
		}
	}
}

func TestAClusterWithoutANameIsRefused(t *testing.T) {
	t.Parallel()
	r := gettingStarted().with("settings.clusterName=")
	if _, err := r.render(); err == nil || !strings.Contains(err.Error(), "settings.clusterName is empty: name the cluster") {
		t.Errorf("%v", err)
	}
	if _, err := r.with("settings.cloudProvider=kwok").render(); err != nil {
		t.Errorf("a simulated cloud needs no name: %v", err)
	}
}

// The list becomes a ConfigMap in the place where the controller looks for it, and a change of it starts no pod anew.
func TestCommitmentsBecomeAFileOfTheController(t *testing.T) {
	t.Parallel()
	with := func(amount string) release {
		return gettingStarted().with("settings.commitments[0].name=plan", "settings.commitments[0].amountPerHour="+amount, "settings.commitments[0].usedElsewhere=3")
	}
	d := text(t, find(t, render(t, with("12")), "Deployment", "karpenter"))
	for _, want := range []string{
		`{"name":"TENON_COMMITMENTS_FILE","value":"/etc/karpenter/commitments/commitments.yaml"}`,
		`{"mountPath":"/etc/karpenter/commitments","name":"commitments","readOnly":true}`, `{"configMap":{"name":"karpenter-commitments"},"name":"commitments"}`,
	} {
		if !strings.Contains(d, want) {
			t.Errorf("%s is not in\n%s", want, d)
		}
	}
	if other := text(t, find(t, render(t, with("13")), "Deployment", "karpenter")); other != d {
		t.Error("another amount changes the Deployment")
	}
	file := &corev1.ConfigMap{}
	object := find(t, render(t, with("12")), "ConfigMap", "karpenter-commitments")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, file, true); err != nil {
		t.Fatal(err)
	}
	if got, want := file.Data["commitments.yaml"], "commitments:\n  - amountPerHour: 12\n    name: plan\n    usedElsewhere: 3\n"; got != want || file.Namespace != "kube-system" {
		t.Errorf("in %s: %q, want %q", file.Namespace, got, want)
	}
}

// Helm drops values that a chart does not know without a word.
func TestValuesOfOlderChartsAreRefusedByName(t *testing.T) {
	t.Parallel()
	_, err := gettingStarted().with("settings.aws.interruptionQueueName=demo", "settings.aws.tags.a=b", "settings.aws.isolatedVPC=false", "clusterName=demo").render()
	for _, want := range []string{
		"settings.aws.interruptionQueueName is now settings.interruptionQueue", "settings.aws.tags is now spec.tags of each EC2NodeClass",
		"settings.aws.isolatedVPC is now settings.isolatedVPC", ": clusterName is now settings.clusterName",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q is not said", err, want)
		}
	}
}

func TestTheAccountCanBeOneThatExists(t *testing.T) {
	t.Parallel()
	objects := render(t, gettingStarted().with("serviceAccount.create=false", "serviceAccount.name=mine"))
	for _, o := range objects {
		if o.GetKind() == "ServiceAccount" {
			t.Errorf("it is made: %s", o.GetName())
		}
	}
	if d := text(t, find(t, objects, "Deployment", "karpenter")); !strings.Contains(d, `"serviceAccountName":"mine"`) {
		t.Errorf("%s", d)
	}
}

func TestSelectorsThatUsersWroteAreKept(t *testing.T) {
	t.Parallel()
	d := deployment(t, gettingStarted().with("topologySpreadConstraints[0].topologyKey=rack", "topologySpreadConstraints[0].maxSkew=2",
		"topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway", "topologySpreadConstraints[0].labelSelector.matchLabels.a=b",
		"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
		"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey=rack"), "karpenter")
	spec := d.Spec.Template.Spec
	if got := fmt.Sprint(spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels); got != "map[a:b]" {
		t.Error(got)
	}
	preferred := spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	if preferred.LabelSelector.MatchLabels["app.kubernetes.io/name"] != "karpenter" {
		t.Errorf("%v", preferred)
	}
}

// What enableDRA says nobody says otherwise beside it.
func TestDevicesAreSwitchedOnInOnePlace(t *testing.T) {
	t.Parallel()
	for _, beside := range []string{"settings.ignoreDRARequests=false", "settings.awsFeatureGates.draEFA=true", "settings.awsFeatureGates.draNVIDIAGPU=false"} {
		name, _, _ := strings.Cut(beside, "=")
		if _, err := gettingStarted().with("settings.enableDRA=true," + beside).render(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("enableDRA beside %s: %v", beside, err)
		}
	}
}
