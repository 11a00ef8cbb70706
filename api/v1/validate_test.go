package v1_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

func template() *v1.NodePool {
	return &v1.NodePool{Spec: v1.NodePoolSpec{Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{
		NodeClassRef: &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
	}}}}
}

func withLabel(key, value string) *v1.NodePool {
	pool := template()
	pool.Spec.Template.Labels = map[string]string{key: value}
	return pool
}

func withTaints(taints, startup []v1.Taint) *v1.NodePool {
	pool := template()
	pool.Spec.Template.Spec.Taints = taints
	pool.Spec.Template.Spec.StartupTaints = startup
	return pool
}

func require(key string, operator v1.Operator, values ...string) *v1.NodePool {
	pool := template()
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: key, Operator: operator, Values: values}}
	return pool
}

func requireMin(minValues int, key string, values ...string) *v1.NodePool {
	pool := require(key, v1.In, values...)
	pool.Spec.Template.Spec.Requirements[0].MinValues = &minValues
	return pool
}

func TestRuntimeValidation(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	noSchedule := v1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	noExecute := v1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
	tests := map[string]struct {
		pool *v1.NodePool
		want string // part of the error; "" if valid
	}{
		"plain":                             {template(), ""},
		"unknown label":                     {withLabel("team", "a"), ""},
		"kubernetes label":                  {withLabel("node-role.kubernetes.io/worker", ""), ""},
		"kops label":                        {withLabel("kops.k8s.io/instancegroup", "a"), ""},
		"capacity type label":               {withLabel(v1.CapacityTypeLabelKey, "spot"), ""},
		"AWS label":                         {withLabel("karpenter.k8s.aws/instance-family", "c5"), ""},
		"other domain with the same ending": {withLabel("notkarpenter.sh/a", "b"), ""},
		"over-long label key":               {withLabel("x/"+long, "a"), "spec.template.metadata.labels[x/" + long + "]: key: name part must be no more than 63"},
		"label value":                       {withLabel("team", "a b"), `spec.template.metadata.labels[team]: value "a b"`},
		"pool label":                        {withLabel(v1.NodePoolLabelKey, "a"), "spec.template.metadata.labels[karpenter.sh/nodepool]"},
		"hostname label":                    {withLabel("kubernetes.io/hostname", "a"), "spec.template.metadata.labels[kubernetes.io/hostname]"},
		"restricted domain":                 {withLabel("karpenter.sh/foo", "a"), "label domain karpenter.sh is reserved"},
		"restricted sub-domain":             {withLabel("x.karpenter.sh/foo", "a"), "label domain x.karpenter.sh is reserved"},
		"unknown AWS label":                 {withLabel("karpenter.k8s.aws/foo", "a"), "label domain karpenter.k8s.aws is reserved"},

		"same key, other effects":     {withTaints([]v1.Taint{noSchedule, noExecute}, nil), ""},
		"same taint twice":            {withTaints([]v1.Taint{noSchedule, noSchedule}, nil), "spec.template.spec.taints[1]: same key and effect (a:NoSchedule) as spec.template.spec.taints[0]"},
		"same taint at startup":       {withTaints([]v1.Taint{noSchedule}, []v1.Taint{noSchedule}), "spec.template.spec.startupTaints[0]: same key and effect"},
		"taint without effect":        {withTaints([]v1.Taint{{Key: "a"}}, nil), ""},
		"taint with an unknown one":   {withTaints([]v1.Taint{{Key: "a", Effect: "No"}}, nil), "spec.template.spec.taints[0].effect"},
		"over-long taint key":         {withTaints([]v1.Taint{{Key: long, Effect: "NoSchedule"}}, nil), "spec.template.spec.taints[0].key"},
		"taint value with a space":    {withTaints([]v1.Taint{{Key: "a", Value: "b c", Effect: "NoSchedule"}}, nil), "spec.template.spec.taints[0].value"},
		"empty taint key, at startup": {withTaints(nil, []v1.Taint{{Effect: "NoSchedule"}}), "spec.template.spec.startupTaints[0].key"},

		"In":                          {require("team", v1.In, "a"), ""},
		"NotIn without values":        {require("team", v1.NotIn), ""},
		"Exists":                      {require("team", v1.Exists), ""},
		"DoesNotExist":                {require("team", v1.DoesNotExist), ""},
		"Gte":                         {require("team", v1.Gte, "0"), ""},
		"well-known label":            {require("topology.kubernetes.io/zone", v1.In, "a"), ""},
		"older name of a label":       {require("beta.kubernetes.io/arch", v1.In, "amd64"), ""},
		"node class label":            {require("karpenter.kwok.sh/kwoknodeclass", v1.In, "a"), ""},
		"In without values":           {require("team", v1.In), "spec.template.spec.requirements[0].values for key team: operator In needs"},
		"Gt with two values":          {require("team", v1.Gt, "1", "2"), "spec.template.spec.requirements[0].values"},
		"Lt with text":                {require("team", v1.Lt, "a"), "spec.template.spec.requirements[0].values"},
		"Lte with a negative number":  {require("team", v1.Lte, "-1"), "spec.template.spec.requirements[0].values"},
		"unknown operator":            {require("team", "Like", "a"), "spec.template.spec.requirements[0].operator"},
		"pool key":                    {require(v1.NodePoolLabelKey, v1.Exists), "spec.template.spec.requirements[0].key"},
		"hostname":                    {require("kubernetes.io/hostname", v1.Exists), "spec.template.spec.requirements[0].key"},
		"key of a restricted domain":  {require("karpenter.sh/registered", v1.Exists), "spec.template.spec.requirements[0].key"},
		"over-long key":               {require(long, v1.Exists), "spec.template.spec.requirements[0].key"},
		"over-long value":             {require("team", v1.In, "a", long), "spec.template.spec.requirements[0].values[1]"},
		"known capacity types":        {require(v1.CapacityTypeLabelKey, v1.In, "spot", "on-demand"), ""},
		"one unknown capacity type":   {require(v1.CapacityTypeLabelKey, v1.In, "spot", "cheap"), ""},
		"only unknown capacity types": {require(v1.CapacityTypeLabelKey, v1.In, "cheap"), "none is one of on-demand, reserved, spot"},
		"unknown networking":          {require("karpenter.azure.com/sku-networking-accelerated", v1.In, "yes"), "none is one of false, true"},
		"unknown premium storage":     {require("karpenter.azure.com/sku-storage-premium-capable", v1.In, "yes"), "none is one of false, true"},
		"unknown ultra SSD":           {require("karpenter.azure.com/sku-storage-ultra-ssd", v1.In, "yes"), "none is one of false, true"},
		"unknown maker of GPUs":       {require("karpenter.azure.com/sku-gpu-manufacturer", v1.In, "intel"), "none is one of amd, nvidia"},
		"unknown placement":           {require("karpenter.azure.com/placement-scope", v1.In, "global"), "none is one of regional, zonal"},
		"unknown mode of AKS":         {require("kubernetes.azure.com/mode", v1.In, "User"), "none is one of system, user"},
		"unknown priority of sets":    {require("kubernetes.azure.com/scalesetpriority", v1.In, "low"), "none is one of regular, spot"},
		"unknown priority of AKS":     {require("kubernetes.azure.com/priority", v1.In, "low"), "none is one of regular, spot"},
		"unknown system of AKS":       {require("kubernetes.azure.com/os-sku", v1.In, "Ubuntu2404"), "none is one of AzureLinux, Ubuntu"},
		"FIPS that is not":            {require("kubernetes.azure.com/fips_enabled", v1.In, "false"), "none is one of true"},
		"what images are chosen by":   {require("karpenter.azure.com/sku-hyperv-generation", v1.Exists), "label domain karpenter.azure.com is reserved"},
		"unknown tenancy":             {require("karpenter.k8s.aws/instance-tenancy", v1.In, "host"), "none is one of dedicated, default"},

		"minValues":                          {requireMin(2, "team", "a", "b"), ""},
		"minValues above the values":         {requireMin(3, "team", "a", "b"), "minValues asks for 3"},
		"minValues counts different values":  {requireMin(2, "team", "a", "a"), "minValues asks for 2"},
		"minValues counts known values only": {requireMin(2, v1.CapacityTypeLabelKey, "spot", "cheap"), "only 1 of"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.pool.RuntimeValidate()
			if test.want == "" && err != nil {
				t.Errorf("unexpected error: %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestRuntimeValidationListsEveryViolationInOneLine(t *testing.T) {
	t.Parallel()
	pool := require("team", v1.In)
	pool.Spec.Template.Labels = map[string]string{"karpenter.sh/b": "x", "karpenter.sh/a": "x"}
	pool.Spec.Template.Spec.Taints = []v1.Taint{{Effect: "No"}}
	err := pool.RuntimeValidate()
	if err == nil {
		t.Fatal("no error")
	}
	at := -1
	for _, part := range []string{"labels[karpenter.sh/a]", "labels[karpenter.sh/b]", "taints[0].key", "taints[0].effect", "requirements[0].values"} {
		i := strings.Index(err.Error(), part)
		if i <= at {
			t.Errorf("%q is missing or out of order in: %v", part, err)
		}
		at = i
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

func TestOldLabelNamesMeanTheNewOnes(t *testing.T) {
	t.Parallel()
	for old, want := range map[string]string{
		"failure-domain.beta.kubernetes.io/zone":   "topology.kubernetes.io/zone",
		"failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
		"beta.kubernetes.io/arch":                  "kubernetes.io/arch",
		"beta.kubernetes.io/os":                    "kubernetes.io/os",
		"beta.kubernetes.io/instance-type":         "node.kubernetes.io/instance-type",
		"team":                                     "team",
	} {
		if got := v1.NormalizeLabel(old); got != want {
			t.Errorf("%s means %s, want %s", old, got, want)
		}
	}
}

func TestNoZoneOfAzuresDisksMeansTheZoneOfMachinesInNone(t *testing.T) {
	t.Parallel()
	const disks, zone = "topology.disk.csi.azure.com/zone", "topology.kubernetes.io/zone"
	given := []string{"eastus-1", "", ""}
	for _, test := range []struct{ key, want string }{{disks, "eastus-1 0 0"}, {zone, "eastus-1 0 0"}, {"team", "eastus-1  "}, {"topology.ebs.csi.aws.com/zone", "eastus-1  "}} {
		if got := strings.Join(v1.NormalizeValues(test.key, given), " "); got != test.want {
			t.Errorf("%s: %q", test.key, got)
		}
	}
	if given[1] != "" {
		t.Error("what was given has changed")
	}
	if v1.ValueAs(disks, "0") != "" || v1.ValueAs(disks, "eastus-1") != "eastus-1" || v1.ValueAs("topology.ebs.csi.aws.com/zone", "0") != "0" {
		t.Error("the label of disks has another value than the driver gives it")
	}
}
