package volume

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
)

const ebs = "ebs.csi.aws.com"

// attachWorld has a node with room for four EBS volumes, and claims whose volumes are attached in different ways.
const attachWorld = `
kind: CSINode
metadata: {name: node}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: x, allocatable: {count: 4}}, {name: free.example.com, nodeID: x}]}
---
kind: StorageClass
metadata: {name: ebs}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
kind: StorageClass
metadata: {name: in-tree}
provisioner: kubernetes.io/aws-ebs
volumeBindingMode: WaitForFirstConsumer
---
kind: StorageClass
metadata: {name: free}
provisioner: free.example.com
volumeBindingMode: WaitForFirstConsumer
---
kind: PersistentVolume
metadata: {name: pv-one}
spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}}
---
kind: PersistentVolume
metadata: {name: pv-two}
spec: {awsElasticBlockStore: {volumeID: "aws://us-east-1a/vol-2"}}
---
kind: PersistentVolume
metadata: {name: pv-three}
spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol-3}}
---
kind: PersistentVolume
metadata: {name: pv-nfs}
spec: {nfs: {server: s, path: /}}
---
kind: PersistentVolumeClaim
metadata: {name: new}
spec: {storageClassName: ebs}
---
kind: PersistentVolumeClaim
metadata: {name: new-in-tree}
spec: {storageClassName: in-tree}
---
kind: PersistentVolumeClaim
metadata: {name: new-free}
spec: {storageClassName: free}
`

func attachWorldWith(rest string) string {
	return attachWorld + boundClaims("one", "two", "three", "nfs") + rest
}

func TestVolumesThatAPodAttaches(t *testing.T) {
	t.Parallel()
	v := volumesOf(enginetest.ReadObjects(t, attachWorldWith("")))
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"a volume that is there", usingClaims(t, "one"), "[{ebs.csi.aws.com vol-1}]"},
		{"a volume of an older kind", usingClaims(t, "two"), "[{ebs.csi.aws.com vol-2}]"},
		{"a volume that will be made", usingClaims(t, "new"), "[{ebs.csi.aws.com default/new}]"},
		{"a class of an older kind", usingClaims(t, "new-in-tree"), "[{ebs.csi.aws.com default/new-in-tree}]"},
		{"a driver without a limit", usingClaims(t, "new-free"), "[]"},
		{"a volume that nobody attaches", usingClaims(t, "nfs"), "[]"},
		{"a claim that is missing", usingClaims(t, "absent", "one"), "[{ebs.csi.aws.com vol-1}]"},
		{"one volume twice", usingClaims(t, "three", "one", "one"), "[{ebs.csi.aws.com vol-1} {ebs.csi.aws.com vol-3}]"},
		{"a disk that the pod names itself", enginetest.PodWith(t, `volumes: [{name: v, awsElasticBlockStore: {volumeID: "aws:///vol-9"}}]`), "[{ebs.csi.aws.com vol-9}]"},
		{"a disk whose name cannot be read", enginetest.PodWith(t, `volumes: [{name: v, awsElasticBlockStore: {volumeID: "aws:///disk-9"}}]`), "[]"},
		{"an ephemeral volume", enginetest.PodWith(t, `volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: ebs}}}}]`), "[{ebs.csi.aws.com default/pod-v}]"},
		{"no volumes", enginetest.PodWith(t, `{}`), "[]"},
	} {
		if got := fmt.Sprint(v.attached(c.pod)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestVolumesOfOtherKindsGoByTheirCSIDriver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ volume, want string }{
		{`{spec: {gcePersistentDisk: {pdName: d}}}`, "{pd.csi.storage.gke.io projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d}"},
		{`{metadata: {labels: {topology.kubernetes.io/zone: r-1-a}}, spec: {gcePersistentDisk: {pdName: d}}}`, "{pd.csi.storage.gke.io projects/UNSPECIFIED/zones/r-1-a/disks/d}"},
		{`{metadata: {labels: {topology.kubernetes.io/zone: r-1-a__r-1-b}}, spec: {gcePersistentDisk: {pdName: d}}}`, "{pd.csi.storage.gke.io projects/UNSPECIFIED/regions/r-1/disks/d}"},
		{`{spec: {azureDisk: {diskName: d, diskURI: /subscriptions/d}}}`, "{disk.csi.azure.com /subscriptions/d}"},
		{`{spec: {cinder: {volumeID: d}}}`, "{cinder.csi.openstack.org d}"},
		{`{spec: {portworxVolume: {volumeID: d}}}`, "{pxd.portworx.com d}"},
		{`{spec: {hostPath: {path: /d}}}`, "{ }"},
	} {
		volume := &corev1.PersistentVolume{}
		enginetest.Parse(t, c.volume, volume)
		if got := fmt.Sprint(volumeAttachment(volume)); got != c.want {
			t.Errorf("%s: %s, want %s", c.volume, got, c.want)
		}
	}
	for _, c := range []struct{ volume, want string }{
		{`{gcePersistentDisk: {pdName: d}}`, "{pd.csi.storage.gke.io projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d}"},
		{`{azureDisk: {diskName: d, diskURI: /subscriptions/d}}`, "{disk.csi.azure.com /subscriptions/d}"},
		{`{cinder: {volumeID: d}}`, "{cinder.csi.openstack.org d}"},
		{`{portworxVolume: {volumeID: d}}`, "{pxd.portworx.com d}"},
		{`{emptyDir: {}}`, "{ }"},
	} {
		source := &corev1.VolumeSource{}
		enginetest.Parse(t, c.volume, source)
		if got := fmt.Sprint(inlineAttachment(source)); got != c.want {
			t.Errorf("%s in a pod: %s, want %s", c.volume, got, c.want)
		}
	}
	for provisioner, driver := range map[string]string{
		"kubernetes.io/aws-ebs": ebs, "kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/azure-disk": "disk.csi.azure.com",
		"kubernetes.io/cinder": "cinder.csi.openstack.org", "kubernetes.io/portworx-volume": "pxd.portworx.com",
		"kubernetes.io/azure-file": "", "csi.example.com": "csi.example.com",
	} {
		if got := provisionerDriver(provisioner); got != driver {
			t.Errorf("%s is made by %q, want %q", provisioner, got, driver)
		}
	}
}

func TestSharedVolumesAreNotCountedByThePod(t *testing.T) {
	t.Parallel()
	pod := func(name, node, claims string) string {
		return fmt.Sprintf("---\nkind: Pod\nmetadata: {name: %s}\nspec: {nodeName: %q, volumes: [%s]}\n", name, node, claims)
	}
	claim := func(name string) string {
		return fmt.Sprintf("{name: %s, persistentVolumeClaim: {claimName: %s}}", name, name)
	}
	v := volumesOf(enginetest.ReadObjects(t, attachWorldWith(pod("a", "", claim("one")+", "+claim("new"))+pod("b", "node", claim("one")))))
	got := v.Of(usingClaims(t, "one", "new", "three"))
	if fmt.Sprint(got.Shared) != "[{ebs.csi.aws.com vol-1}]" || len(got.Attach) != 3 {
		t.Errorf("shared are %v of %v", got.Shared, got.Attach)
	}
}

func TestRoomForVolumesOnANode(t *testing.T) {
	t.Parallel()
	attaching := func(volume, node string) string {
		return fmt.Sprintf("---\nkind: VolumeAttachment\nmetadata: {name: %s-%s}\nspec: {attacher: ebs.csi.aws.com, nodeName: %s, source: {persistentVolumeName: %s}}\n", volume, node, node, volume)
	}
	small := &engine.InstanceType{Name: "small", AttachLimits: map[string]int{ebs: 2, "free.example.com": 1, "slow.example.com": 5}}
	for _, c := range []struct {
		name, rest, node string
		expected         *engine.InstanceType
		claims           []string // of the pods on the node, one each
		driver           string
		want             int64
	}{
		{"nothing attached", "", "node", nil, nil, ebs, 4},
		{"a volume of each pod", "", "node", nil, []string{"one", "two", "new"}, ebs, 1},
		{"a volume of several pods counts once", "", "node", nil, []string{"one", "one", "one"}, ebs, 3},
		{"a volume that is still attaching counts", attaching("pv-three", "node"), "node", nil, []string{"one"}, ebs, 2},
		{"a volume that a pod has attached counts once", attaching("pv-one", "node"), "node", nil, []string{"one"}, ebs, 3},
		{"a volume attached elsewhere does not count", attaching("pv-three", "other"), "node", nil, nil, ebs, 4},
		{"an attachment of a volume that is gone does not count", attaching("pv-gone", "node"), "node", nil, nil, ebs, 4},
		{"more than there is room for", attaching("pv-three", "node"), "node", nil, []string{"one", "two", "new", "new-in-tree"}, ebs, -1},
		{"a driver that gives no count has no limit", "", "node", small, nil, "free.example.com", capacity.Most},
		{"a node without a CSINode has no limit", "", "other", nil, []string{"one"}, ebs, capacity.Most},
		{"a node that is starting has its type's limit", "", "other", small, []string{"one"}, ebs, 1},
		{"what the node says goes before its type", "", "node", small, nil, ebs, 4},
		{"a driver that the node has not reported yet", "", "node", small, nil, "slow.example.com", 5},
	} {
		s := enginetest.ReadObjects(t, attachWorldWith(c.rest))
		if c.expected != nil {
			s.Classes = []engine.Class{{InstanceTypes: []engine.InstanceType{*c.expected}}}
		}
		var pods []*corev1.Pod
		for _, claim := range c.claims {
			pods = append(pods, usingClaims(t, claim))
		}
		on := volumesOf(s).AttachedTo(c.node, c.expected, pods)
		if got := on.Free(c.driver); got != c.want {
			t.Errorf("%s: room for %d, want %d", c.name, got, c.want)
		}
		for _, pod := range pods {
			for _, a := range volumesOf(s).attached(pod) {
				if len(on.Limits) > 0 && !on.InUse[a] {
					t.Errorf("%s: %v is not in use", c.name, a)
				}
			}
		}
	}
	unlearned := &Volumes{}
	if unlearned.FreeOn(small, ebs) != 2 || unlearned.FreeOn(small, "other.example.com") != capacity.Most {
		t.Error("a new machine does not take as many volumes as its type says")
	}
}

func TestWhatNodesSayOfTypesThatNoNodeIsOf(t *testing.T) {
	t.Parallel()
	const other = "other.example.com"
	ref := v1.NodeClassReference{Group: "g", Kind: "k", Name: "c"}
	types := []engine.InstanceType{
		{Name: "shared", AttachLimits: map[string]int{ebs: 26}, AttachShared: map[string]int{ebs: 2}},
		{Name: "large", AttachLimits: map[string]int{ebs: 31}}, {Name: "small", AttachLimits: map[string]int{ebs: 4}}, {Name: "plain"},
	}
	pool := &v1.NodePool{}
	pool.Name, pool.Spec.Template.Spec.NodeClassRef = "p", &ref
	type node struct {
		kind, pool, driver string
		count              int32
	}
	for _, c := range []struct {
		rule                 string
		nodes                []node
		driver               string
		shared, large, small int
		plain                int // -1 is no limit
	}{
		{"no node: the catalog", nil, ebs, 26, 31, 4, -1},
		{"as much as the catalog says", []node{{"large", "p", ebs, 31}}, ebs, 26, 31, 4, 31},
		{"less, for interfaces have come", []node{{"shared", "p", ebs, 24}}, ebs, 24, 31, 4, 24},
		{"less than that", []node{{"shared", "p", ebs, 23}}, ebs, 23, 23, 4, 23},
		{"less where nothing is shared", []node{{"large", "p", ebs, 30}}, ebs, 26, 30, 4, 30},
		{"the lowest of several types", []node{{"large", "p", ebs, 20}, {"shared", "p", ebs, 10}}, ebs, 10, 20, 4, 10},
		{"what most nodes of a type say", []node{{"large", "p", ebs, 20}, {"large", "p", ebs, 20}, {"large", "p", ebs, 3}}, ebs, 20, 20, 4, 20},
		{"more than the catalog", []node{{"small", "p", ebs, 40}}, ebs, 26, 31, 40, 40},
		{"of a machine with other disks", []node{{"large", "", ebs, 25}}, ebs, 26, 25, 4, 25},
		{"a type of which the catalog says nothing", []node{{"plain", "p", ebs, 7}}, ebs, 26, 31, 4, 7},
		{"a driver of which it says nothing", []node{{"small", "p", other, 9}, {"large", "p", other, 16}}, other, 9, 16, 9, 9},
		{"no room at all is no lesson", []node{{"large", "p", ebs, 0}}, ebs, 26, 31, 4, -1},
	} {
		s := &engine.Snapshot{NodePools: []*v1.NodePool{pool}, Classes: []engine.Class{{Ref: ref, InstanceTypes: types}}}
		for i, n := range c.nodes {
			name := fmt.Sprint("n", i)
			object := &corev1.Node{}
			object.Name, object.Labels = name, map[string]string{corev1.LabelInstanceTypeStable: n.kind, v1.NodePoolLabelKey: n.pool}
			csi := &storagev1.CSINode{}
			csi.Name = name
			csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: n.driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &n.count}}}
			s.Nodes, s.CSINodes = append(s.Nodes, object), append(s.CSINodes, csi)
		}
		limits := LearnLimits(s, kube.NewTypeIndex(s))
		for i, want := range []int{c.shared, c.large, c.small, c.plain} {
			got, ok := limits.of(&types[i], c.driver)
			if !ok {
				got = -1
			}
			if in, listed := limits.All(&types[i])[c.driver]; got != want || listed != ok || ok && in != got {
				t.Errorf("%s: %s takes %d (%d), want %d", c.rule, types[i].Name, got, in, want)
			}
		}
	}
}
