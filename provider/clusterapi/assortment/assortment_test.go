package assortment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

const capacity = contract.CapacityPrefix

// source returns a MachineDeployment with annotations for its machines, after edits.
func source(annotations map[string]string, edits ...func(*assortment.Source)) *assortment.Source {
	d := &contract.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workers", Annotations: map[string]string{}}}
	d.Spec.ClusterName = "prod"
	d.Spec.Template.Spec.InfrastructureRef = contract.Reference{Kind: "DevMachineTemplate", Name: "workers"}
	for key, value := range annotations {
		if !strings.Contains(key, "/") {
			key = capacity + key
		}
		d.Annotations[key] = value
	}
	s := &assortment.Source{Deployment: d, Cluster: &contract.Cluster{}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

var sized = map[string]string{"cpu": "4", "memory": "16Gi"}

// with returns the annotations of sized and further ones.
func with(more ...string) map[string]string {
	out := map[string]string{"cpu": "4", "memory": "16Gi"}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// template adds an infrastructure template to the source.
func template(kind string, fields map[string]any) func(*assortment.Source) {
	return func(s *assortment.Source) {
		object := map[string]any{"kind": kind, "spec": map[string]any{"template": map[string]any{"spec": fields}}}
		if status, ok := fields["status"]; ok {
			object["status"] = status
			delete(fields, "status")
		}
		s.Template = &unstructured.Unstructured{Object: object}
	}
}

// node adds a running node to the source.
func node(labels map[string]string) func(*assortment.Source) {
	return func(s *assortment.Source) {
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("60")},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7500m"), "memory": resource.MustParse("31Gi"), "pods": resource.MustParse("60")},
		}}
	}
}

func builtIn(machineType string) *engine.InstanceType {
	if machineType != "m5.large" {
		return nil
	}
	return &engine.InstanceType{
		Name: machineType, Labels: map[string][]string{corev1.LabelArchStable: {"amd64"}},
		Capacity:  corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("29")},
		Offerings: []engine.Offering{{Zone: "a", CapacityType: "on-demand", Price: 0.096}, {Zone: "a", CapacityType: "spot", Price: 0.035}, {Zone: "b", CapacityType: "spot", Price: 0.03}},
	}
}

func text(m *assortment.Machines) string {
	pods := m.Capacity[corev1.ResourcePods]
	return fmt.Sprintf("%s %s %s cpu=%s mem=%s pods=%s arch=%s", m.Type, m.Zone, m.CapacityType, m.Capacity.Cpu(), m.Capacity.Memory(), pods.String(), m.Labels[corev1.LabelArchStable])
}

func TestWhatMachinesHaveIsBelievedOfTheFirstThatSaysIt(t *testing.T) {
	t.Parallel()
	aws := template("AWSMachineTemplate", map[string]any{"instanceType": "m5.large"})
	for name, c := range map[string]struct {
		source *assortment.Source
		want   string
	}{
		"annotations alone":        {source(sized), "workers  on-demand cpu=4 mem=16Gi pods=110 arch=amd64"},
		"annotations of all":       {source(with("maxPods", "40", "labels", "node.kubernetes.io/instance-type=metal,topology.kubernetes.io/zone=a,kubernetes.io/arch=arm64,karpenter.sh/capacity-type=spot")), "metal a spot cpu=4 mem=16Gi pods=40 arch=arm64"},
		"annotations and template": {source(sized, aws), "m5.large  on-demand cpu=4 mem=16Gi pods=110 arch=amd64"},
		"EC2's figures":            {source(nil, aws), "m5.large  on-demand cpu=2 mem=8Gi pods=29 arch=amd64"},
		"EC2's figures, spot":      {source(nil, template("AWSMachineTemplate", map[string]any{"instanceType": "m5.large", "spotMarketOptions": map[string]any{}})), "m5.large  spot cpu=2 mem=8Gi pods=29 arch=amd64"},
		"a running node":           {source(nil, node(map[string]string{corev1.LabelTopologyZone: "c", corev1.LabelInstanceTypeStable: "big"})), "big c on-demand cpu=8 mem=32Gi pods=60 arch=amd64"},
		"the template's status":    {source(nil, node(nil), template("DevMachineTemplate", map[string]any{"status": map[string]any{"capacity": map[string]any{"cpu": "16", "memory": "64Gi"}, "nodeInfo": map[string]any{"architecture": "arm64"}}})), "workers  on-demand cpu=8 mem=32Gi pods=60 arch=arm64"},
		"vSphere":                  {source(nil, template("VSphereMachineTemplate", map[string]any{"numCPUs": int64(4), "memoryMiB": int64(8192), "diskGiB": int64(50)})), "vsphere-4x8 on-demand"},
		"Azure":                    {source(sized, template("AzureMachineTemplate", map[string]any{"vmSize": "Standard_D4s_v5", "spotVMOptions": map[string]any{}})), "Standard_D4s_v5  spot"},
		"GCP":                      {source(sized, template("GCPMachineTemplate", map[string]any{"instanceType": "n2-standard-4", "preemptible": true})), "n2-standard-4  spot"},
		"failure domain":           {source(sized, func(s *assortment.Source) { s.Deployment.Spec.Template.Spec.FailureDomain = "rack-1" }), "workers rack-1"},
		"all Machines in one":      {source(sized, func(s *assortment.Source) { s.FailureDomains = []string{"rack-2"} }), "workers rack-2"},
		"Machines in several":      {source(sized, func(s *assortment.Source) { s.FailureDomains = []string{"rack-2", "rack-3"} }), "workers  on-demand"},
	} {
		m, err := assortment.Read(c.source, &clusterapiv1alpha1.ClusterAPINodeClass{}, builtIn)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range strings.Fields(c.want) {
			if !strings.Contains(text(m), part) {
				t.Errorf("%s: %q, want %q", name, text(m), c.want)
			}
		}
	}
}

func TestARunningNodeIsBelievedBeforeWhatIsSaidOfIt(t *testing.T) {
	t.Parallel()
	old := func(s *assortment.Source) { s.Outdated = true }
	for name, c := range map[string]struct {
		source       *assortment.Source
		cores, notes string
	}{
		"it has less":             {source(with("cpu", "16"), node(nil)), "8", "[node  has 8 of cpu, where 16 are said: no more is counted on; correct the annotation or the template]"},
		"it has what nobody says": {source(sized, node(nil)), "4", "[]"},
		"it has a little less":    {source(map[string]string{"cpu": "8", "memory": "34Gi", "maxPods": "60"}, node(nil)), "8", "[]"},
		"it has more":             {source(with("cpu", "4", "maxPods", "60"), node(nil)), "4", "[]"},
		"it is of an older form":  {source(with("cpu", "16"), node(nil), old), "16", "[]"},
	} {
		m, err := assortment.Read(c.source, &clusterapiv1alpha1.ClusterAPINodeClass{}, builtIn)
		if err != nil {
			t.Fatal(err)
		}
		if m.Capacity.Cpu().String() != c.cores || fmt.Sprint(m.Notes) != c.notes || m.Capacity.Memory().Cmp(resource.MustParse("32Gi")) > 0 {
			t.Errorf("%s: %s cores, %s of memory, notes %s", name, m.Capacity.Cpu(), m.Capacity.Memory(), m.Notes)
		}
	}
}

func TestWhatCannotBeReadTakesOutTheMachineDeploymentAndSaysWhy(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*assortment.Source{
		`memory is "16gb"`:                      source(map[string]string{"cpu": "4", "memory": "16gb"}),
		`cpu is "-1"`:                           source(map[string]string{"cpu": "-1", "memory": "1Gi"}),
		`maxPods is "many"`:                     source(with("maxPods", "many")),
		`gpu-count is "two"`:                    source(with("gpu-type", "nvidia.com/gpu", "gpu-count", "two")),
		"nothing says how many cores":           source(nil),
		"names no infrastructure template":      source(sized, func(s *assortment.Source) { s.Deployment.Spec.Template.Spec.InfrastructureRef.Name = "" }),
		`max-size is "ten"`:                     source(with(contract.MaxSizeAnnotation, "ten")),
		`min-size is "-1"`:                      source(with(contract.MinSizeAnnotation, "-1")),
		`price is "cheap"`:                      source(with(contract.PriceAnnotation, "cheap")),
		`price is "0"`:                          source(with(contract.PriceAnnotation, "0")),
		`price is "Inf"`:                        source(with(contract.PriceAnnotation, "Inf")),
		`price is "NaN"`:                        source(with(contract.PriceAnnotation, "NaN")),
		"capacity-type=preemptible: it must be": source(with("labels", "karpenter.sh/capacity-type=preemptible")),
		`instance type "a b" is no value`:       source(sized, template("OpenStackMachineTemplate", map[string]any{"flavor": "a b"})),
	} {
		if _, err := assortment.Read(s, &clusterapiv1alpha1.ClusterAPINodeClass{}, builtIn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestLabelsAndTaintsThatAreNoneArePassedOver(t *testing.T) {
	t.Parallel()
	s := source(with("labels", "team=a, broken ,=x,b=not valid", "taints", "dedicated=db:NoSchedule,nothing,a=b:Never"), func(s *assortment.Source) {
		s.Deployment.Spec.Template.Metadata.Labels = map[string]string{
			"node-role.kubernetes.io/worker": "", "sub.node.cluster.x-k8s.io/pool": "p", "other.example.com/x": "y", contract.MemberLabel: "",
		}
		s.Deployment.Spec.Template.Spec.Taints = []contract.Taint{{Key: "always", Effect: "NoExecute"}, {Key: "at-first", Effect: "NoSchedule", Propagation: "OnInitialization"}}
	})
	m, err := assortment.Read(s, &clusterapiv1alpha1.ClusterAPINodeClass{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{}
	for key := range m.Labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	want := []string{clusterapiv1alpha1.InstanceCPULabelKey, clusterapiv1alpha1.InstanceMemoryLabelKey, corev1.LabelArchStable, corev1.LabelOSStable, "node-role.kubernetes.io/worker", "sub.node.cluster.x-k8s.io/pool", "team"}
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("labels %v, want %v", keys, want)
	}
	if len(m.Taints) != 2 || m.Taints[0].Key != "always" || m.Taints[1].Key != "dedicated" || m.Taints[1].Value != "db" {
		t.Errorf("taints %v", m.Taints)
	}
	if len(m.Notes) != 5 {
		t.Errorf("notes %q, want one for each of five", m.Notes)
	}
}

func TestAPriceIsNeverNothing(t *testing.T) {
	t.Parallel()
	class := &clusterapiv1alpha1.ClusterAPINodeClass{Spec: clusterapiv1alpha1.ClusterAPINodeClassSpec{Prices: []clusterapiv1alpha1.Price{
		{InstanceType: "metal", CapacityType: v1.CapacityTypeSpot, Price: "0.1"}, {InstanceType: "metal", Price: "0.3"},
	}}}
	metal := "node.kubernetes.io/instance-type=metal"
	aws := template("AWSMachineTemplate", map[string]any{"instanceType": "m5.large"})
	spot := template("AWSMachineTemplate", map[string]any{"instanceType": "m5.large", "spotMarketOptions": map[string]any{}})
	for name, c := range map[string]struct {
		source    *assortment.Source
		want      float64
		estimated bool
	}{
		"annotation first": {source(with("labels", metal, contract.PriceAnnotation, "0.5")), 0.5, false},
		"list":             {source(with("labels", metal)), 0.3, false},
		"list, spot":       {source(with("labels", metal+",karpenter.sh/capacity-type=spot")), 0.1, false},
		"EC2's figures":    {source(nil, aws), 0.096, false},
		"EC2's spot":       {source(nil, spot), 0.03, false},
		"estimate":         {source(sized), 0.1912, true},
		"estimate, spot":   {source(with("labels", "karpenter.sh/capacity-type=spot")), 0.0765, true},
		"estimate, GPU":    {source(with("gpu-type", "nvidia.com/gpu", "gpu-count", "2")), 1.9912, true},
	} {
		m, err := assortment.Read(c.source, class, builtIn)
		if err != nil || m.Price != c.want || m.Estimated != c.estimated {
			t.Errorf("%s: %+v, %v; want %v", name, m, err, c.want)
		}
	}
}

func TestWhatANodeKeepsBack(t *testing.T) {
	t.Parallel()
	class := &clusterapiv1alpha1.ClusterAPINodeClass{Spec: clusterapiv1alpha1.ClusterAPINodeClassSpec{Overhead: &v1.Overhead{
		KubeReserved:   v1.ReservedResources{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")},
		SystemReserved: v1.ReservedResources{"cpu": resource.MustParse("50m")},
		EvictionHard:   map[string]v1.EvictionThreshold{"memory.available": "5%", "nodefs.available": "100%"},
	}}}
	for name, c := range map[string]struct {
		source            *assortment.Source
		class             *clusterapiv1alpha1.ClusterAPINodeClass
		cpu, memory, disk string
	}{
		"nothing said":   {source(with("ephemeral-disk", "100Gi")), &clusterapiv1alpha1.ClusterAPINodeClass{}, "0", "100Mi", "10Gi"},
		"the class":      {source(with("ephemeral-disk", "100Gi")), class, "150m", "1932735284", "0"},
		"a running node": {source(sized, node(nil)), class, "500m", "1Gi", "0"},
	} {
		m, err := assortment.Read(c.source, c.class, nil)
		if err != nil {
			t.Fatal(err)
		}
		cpu, memory, disk := m.Overhead[corev1.ResourceCPU], m.Overhead[corev1.ResourceMemory], m.Overhead[corev1.ResourceEphemeralStorage]
		if cpu.Cmp(resource.MustParse(c.cpu)) != 0 || memory.Cmp(resource.MustParse(c.memory)) != 0 || disk.Cmp(resource.MustParse(c.disk)) != 0 {
			t.Errorf("%s: cpu %s, memory %s, disk %s", name, cpu.String(), memory.String(), disk.String())
		}
	}
}

func TestOneTypeIsSoldInSeveralPlaces(t *testing.T) {
	t.Parallel()
	machines := func(key, zone, capacityType string, price float64, edits ...func(*assortment.Machines)) *assortment.Machines {
		m := &assortment.Machines{Key: key, Type: "metal", Zone: zone, CapacityType: capacityType, Price: price,
			Labels: map[string]string{corev1.LabelArchStable: "amd64"}, Capacity: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")}}
		for _, edit := range edits {
			edit(m)
		}
		return m
	}
	types, notes := assortment.Catalog([]*assortment.Machines{
		machines("d/c", "c", "on-demand", 0.3), machines("d/a", "a", "on-demand", 0.3), machines("d/b", "b", "on-demand", 0.3), machines("d/s", "a", "spot", 0.1),
		machines("d/a2", "a", "on-demand", 0.2), machines("d/a3", "a", "on-demand", 0.1, func(m *assortment.Machines) { m.Blocked = "paused" }),
		machines("d/t", "a", "on-demand", 0.05, func(m *assortment.Machines) { m.Taints = []corev1.Taint{{Key: "db", Effect: "NoSchedule"}} }),
		machines("d/l", "a", "on-demand", 0.05, func(m *assortment.Machines) { m.Labels["team"] = "a" }),
		machines("d/w", "w", "on-demand", 0.3, func(m *assortment.Machines) { m.Capacity["memory"] = resource.MustParse("8Gi") }),
	})
	if len(types) != 1 || len(types[0].Offerings) != 7 {
		t.Fatalf("%+v", types)
	}
	if types[0].Capacity.Memory().String() != "8Gi" || len(notes) != 1 || !strings.Contains(notes[0], "d/a and d/w both make metal") {
		t.Errorf("capacity %v, notes %q: want that of the smaller one, and a note", types[0].Capacity, notes)
	}
	if _, shared := types[0].Labels["team"]; shared {
		t.Error("a label of one MachineDeployment is on all machines of the type")
	}
	for _, o := range types[0].Offerings {
		if o.Zone == "a" && o.CapacityType == "on-demand" && len(o.Labels) == 0 && len(o.Taints) == 0 && (o.Price != 0.2 || o.SoldOut) {
			t.Errorf("in zone a: %+v, want the cheapest that can be had", o)
		}
	}
}

func TestReplicasAreLeftAloneWhereSomebodyHoldsThem(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for want, edit := range map[string]func(d *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster{
		"": func(_ *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster { return c },
		"Cluster prod is paused": func(_ *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster {
			c.Spec.Paused = true
			return c
		},
		"MachineDeployment is paused": func(d *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster {
			d.Spec.Paused = true
			return c
		},
		"is paused": func(d *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster {
			d.Annotations[contract.PausedAnnotation] = ""
			return c
		},
		"Cluster prod does not exist": func(*contract.MachineDeployment, *contract.Cluster) *contract.Cluster { return nil },
		"Cluster prod is being deleted": func(_ *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster {
			c.DeletionTimestamp = &now
			return c
		},
		"MachineDeployment is being deleted": func(d *contract.MachineDeployment, c *contract.Cluster) *contract.Cluster {
			d.DeletionTimestamp = &now
			return c
		},
	} {
		d := source(sized).Deployment
		cluster := edit(d, &contract.Cluster{})
		if got := assortment.Blocked(d, cluster); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestABoundedCatalogSellsNoMoreThanThereMayBe(t *testing.T) {
	t.Parallel()
	read := func(name string, annotations map[string]string, replicas int32, edits ...func(*assortment.Source)) *assortment.Machines {
		m, err := assortment.Read(source(annotations, append(edits, func(s *assortment.Source) {
			s.Deployment.Name, s.Deployment.Spec.Replicas = name, &replicas
		})...), &clusterapiv1alpha1.ClusterAPINodeClass{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	metal := with("labels", "node.kubernetes.io/instance-type=metal", contract.MaxSizeAnnotation, "5")
	paused := func(s *assortment.Source) { s.Deployment.Spec.Paused = true }
	free := with("labels", "node.kubernetes.io/instance-type=metal")
	room, full, held, unbounded := read("room", metal, 3), read("full", metal, 5), read("held", metal, 1, paused), read("unbounded", free, 9)
	types := assortment.BoundedCatalog([]*assortment.Machines{room, full, held, unbounded})
	types = room.WithMachine(types, engine.OfferingID{InstanceType: "metal", Zone: "prod", CapacityType: "on-demand"}, nil)
	types = room.WithMachine(types, engine.OfferingID{InstanceType: "metal", Zone: "elsewhere", CapacityType: "on-demand"}, nil)
	types = room.WithMachine(types, engine.OfferingID{InstanceType: "before", Zone: "prod", CapacityType: "on-demand"}, nil)
	var got []string
	for _, it := range types {
		for _, o := range it.Offerings {
			got = append(got, fmt.Sprintf("%s %s %s %q %d %t", it.Name, o.Labels[contract.DeploymentNameLabel], o.Zone, o.Reservation, o.Slots, o.SoldOut))
		}
	}
	want := []string{
		`before room prod "default/room" 2 true`,
		`metal full prod "default/full" 0 false`, `metal held prod "default/held" 4 true`, `metal room prod "default/room" 2 false`,
		`metal unbounded prod "" 0 false`, `metal room elsewhere "default/room" 2 true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
