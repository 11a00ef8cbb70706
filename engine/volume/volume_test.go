package volume

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// volumesOf indexes the snapshot's volumes, with all of its pods.
func volumesOf(s *engine.Snapshot) *Volumes {
	return NewVolumes(s, s.Pods, kube.LimitedDrivers(s), kube.NewTypeIndex(s))
}

const volumeWorld = `
kind: Node
metadata: {name: node-a, labels: {kubernetes.io/hostname: host-a}}
---
kind: StorageClass
metadata: {name: wait}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
kind: StorageClass
metadata: {name: zones}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
- matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [b]}]
- matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [c]}]
---
kind: StorageClass
metadata: {name: nowhere}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: []}]
---
kind: StorageClass
metadata: {name: now}
provisioner: csi.example.com
volumeBindingMode: Immediate
---
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
kind: PersistentVolume
metadata: {name: pv-plain}
spec: {csi: {driver: csi.example.com, volumeHandle: plain}}
---
kind: PersistentVolume
metadata: {name: pv-b}
spec: {csi: {driver: csi.example.com, volumeHandle: b}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [b]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-ab}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{}, {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}, {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}, {matchExpressions: [{key: x, operator: Near}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-unreadable}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{}, {matchExpressions: [{key: x, operator: Near}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-fields}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [x]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-labels, labels: {failure-domain.beta.kubernetes.io/zone: b__c, topology.kubernetes.io/region: r}}
spec: {csi: {driver: csi.example.com, volumeHandle: labels}}
---
kind: PersistentVolume
metadata: {name: pv-both, labels: {topology.kubernetes.io/zone: b__c}}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-host-a}
spec: {local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [host-a]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-host-gone}
spec: {hostPath: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gone]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-host-gone-zone}
spec: {local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gone]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-csi-host}
spec: {csi: {driver: csi.example.com, volumeHandle: h}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gone]}]}]}}}
---
kind: PersistentVolume
metadata: {name: pv-leaving, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {csi: {driver: csi.example.com, volumeHandle: leaving}}
---
kind: PersistentVolumeClaim
metadata: {name: wait}
spec: {storageClassName: wait}
---
kind: PersistentVolumeClaim
metadata: {name: zones}
spec: {storageClassName: zones}
---
kind: PersistentVolumeClaim
metadata: {name: nowhere}
spec: {storageClassName: nowhere}
---
kind: PersistentVolumeClaim
metadata: {name: now}
spec: {storageClassName: now}
---
kind: PersistentVolumeClaim
metadata: {name: no-class}
spec: {storageClassName: ""}
---
kind: PersistentVolumeClaim
metadata: {name: class-gone}
spec: {storageClassName: gone}
---
kind: PersistentVolumeClaim
metadata: {name: old-class, annotations: {volume.beta.kubernetes.io/storage-class: zones}}
spec: {storageClassName: gone}
---
kind: PersistentVolumeClaim
metadata: {name: lost}
spec: {volumeName: pv-plain}
status: {phase: Lost}
---
kind: PersistentVolumeClaim
metadata: {name: leaving, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {storageClassName: wait}
---
kind: PersistentVolumeClaim
metadata: {name: binding}
spec: {volumeName: pv-plain, storageClassName: wait}
---
kind: PersistentVolumeClaim
metadata: {name: chosen, annotations: {volume.kubernetes.io/selected-node: node-a}}
spec: {storageClassName: zones}
---
kind: PersistentVolumeClaim
metadata: {name: chosen-gone, annotations: {volume.kubernetes.io/selected-node: node-x}}
spec: {storageClassName: zones}
---
kind: PersistentVolumeClaim
metadata: {name: other-ephemeral}
spec: {storageClassName: wait}
---
kind: PersistentVolumeClaim
metadata: {name: pod-mine, ownerReferences: [{apiVersion: v1, kind: Pod, name: pod, uid: uid, controller: true}]}
spec: {storageClassName: zones}
---
kind: PersistentVolumeClaim
metadata: {name: pod-foreign}
spec: {storageClassName: zones}
`

// boundClaims adds a claim bound to each volume of the world: claim "b" of volume "pv-b".
func boundClaims(names ...string) string {
	text := ""
	for _, name := range names {
		text += fmt.Sprintf("---\nkind: PersistentVolumeClaim\nmetadata: {name: %s, annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {volumeName: pv-%s, storageClassName: gone}\n", name, name)
	}
	return text
}

func usingClaims(t *testing.T, claims ...string) *corev1.Pod {
	text := "volumes:\n"
	for i, name := range claims {
		text += fmt.Sprintf("- {name: v%d, persistentVolumeClaim: {claimName: %s}}\n", i, name)
	}
	return enginetest.PodWith(t, text)
}

func TestPlacesOfVolumes(t *testing.T) {
	t.Parallel()
	v := volumesOf(enginetest.ReadObjects(t, volumeWorld+boundClaims("plain", "b", "ab", "unreadable", "fields", "labels", "both",
		"host-a", "host-gone", "host-gone-zone", "csi-host", "missing")+`---
kind: PersistentVolumeClaim
metadata: {name: of-leaving, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {volumeName: pv-leaving}
`))
	const zone, region, host = `"topology.kubernetes.io/zone"`, `"topology.kubernetes.io/region"`, `"kubernetes.io/hostname"`
	for _, c := range []struct{ claims, places, problem string }{
		{"wait", ``, ""},
		{"zones", zone + ` In "b" "c"`, ""},
		{"old-class", zone + ` In "b" "c"`, ""},
		{"chosen", `"metadata.name" In "node-a"&` + zone + ` In "b" "c"`, ""},
		{"plain", ``, ""}, // its class is gone, which does not matter any more
		{"b", zone + ` In "b"`, ""},
		{"ab", zone + ` In "a" "b"`, ""},
		{"fields", ``, ""},
		{"labels", region + ` DoesNotExist&` + zone + ` DoesNotExist | ` + region + ` In "r"&` + zone + ` In "b" "c"`, ""},
		{"both", zone + ` In "b"`, ""},
		{"host-a", host + ` In "host-a"`, ""},
		{"host-gone", ``, ""},
		{"host-gone-zone", zone + ` In "a"`, ""},
		{"csi-host", host + ` In "gone"`, ""},
		{"zones b", zone + ` In "b"`, ""},
		{"zones ab", zone + ` In "b"`, ""},
		{"b b wait", zone + ` In "b"`, ""},
		{"host-a b", host + ` In "host-a"&` + zone + ` In "b"`, ""},

		{"absent", ``, "default/absent: it does not exist"},
		{"wait absent", ``, "default/absent: it does not exist"},
		{"lost", ``, "default/lost: it is lost: its volume pv-plain is gone"},
		{"leaving", ``, "default/leaving: it is being deleted"},
		{"binding", ``, "default/binding: it is not bound to its volume pv-plain yet"},
		{"missing", ``, "default/missing: its volume pv-missing does not exist"},
		{"of-leaving", ``, "default/of-leaving: its volume pv-leaving is being deleted"},
		{"unreadable", ``, "default/unreadable: the node affinity of its volume pv-unreadable matches no node"},
		{"now", ``, "default/now: it is not bound yet, and its storage class now binds volumes before pods are placed"},
		{"no-class", ``, "default/no-class: it is not bound and names no storage class"},
		{"class-gone", ``, "default/class-gone: it is not bound, and its storage class gone does not exist"},
		{"nowhere", ``, "default/nowhere: the allowed topologies of its storage class nowhere match no node"},
		{"chosen-gone", ``, "default/chosen-gone: its volume is being made for node node-x, which is gone"},
		{"ab csi-host b host-a", ``, "default/host-a: its volume is nowhere where the pod's other volumes are"},
	} {
		got := v.Of(usingClaims(t, strings.Fields(c.claims)...))
		if problem := problemText(got.Problem); problem != c.problem {
			t.Errorf("%s: problem %q, want %q", c.claims, problem, c.problem)
		}
		if places := termsText(got.Alternatives); places != c.places {
			t.Errorf("%s: %s, want %s", c.claims, places, c.places)
		}
	}
}

func problemText(r engine.Reason) string {
	if r.OK() {
		return ""
	}
	return r.Key + ": " + r.Have
}

func TestEphemeralVolumes(t *testing.T) {
	t.Parallel()
	world := volumeWorld + boundClaims("labels") + `---
kind: PersistentVolumeClaim
metadata: {name: pod-bound, annotations: {pv.kubernetes.io/bind-completed: "yes"}, ownerReferences: [{apiVersion: v1, kind: Pod, name: pod, uid: uid, controller: true}]}
spec: {volumeName: pv-labels}
`
	const standard = `---
kind: StorageClass
metadata: {name: old-standard, creationTimestamp: "2025-01-01T00:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: csi.example.com
---
kind: StorageClass
metadata: {name: standard, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [s]}]}]
`
	const zone = `"topology.kubernetes.io/zone"`
	for _, c := range []struct{ name, world, volume, places, problem string }{
		{"its claim is there", world, `{name: mine, ephemeral: {}}`, zone + ` In "b" "c"`, ""},
		{"its claim is bound; the labels of the volume do not count", world, `{name: bound, ephemeral: {}}`, ``, ""},
		{"its claim belongs to another", world, `{name: foreign, ephemeral: {}}`, ``, "default/pod-foreign: it was not made for the pod, whose ephemeral volume foreign needs a claim of this name"},
		{"its claim will be made", world, `{name: new, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: zones}}}}`, zone + ` In "b" "c"`, ""},
		{"its claim will have the newest default class", world + standard, `{name: new, ephemeral: {volumeClaimTemplate: {spec: {}}}}`, zone + ` In "s"`, ""},
		{"its claim will have no class", world, `{name: new, ephemeral: {volumeClaimTemplate: {spec: {}}}}`, ``, "default/pod-new: it is not bound and names no storage class"},
		{"its claim refuses a class", world + standard, `{name: new, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: ""}}}}`, ``, "default/pod-new: it is not bound and names no storage class"},
		{"its class is gone", world, `{name: new, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: gone}}}}`, ``, "default/pod-new: it is not bound, and its storage class gone does not exist"},
		{"it has no template", world, `{name: new, ephemeral: {}}`, ``, "default/pod-new: the pod's ephemeral volume has no template to make it from"},
	} {
		got := volumesOf(enginetest.ReadObjects(t, c.world)).Of(enginetest.PodWith(t, "volumes: ["+c.volume+"]"))
		if termsText(got.Alternatives) != c.places || problemText(got.Problem) != c.problem {
			t.Errorf("%s: %s, problem %q", c.name, termsText(got.Alternatives), problemText(got.Problem))
		}
	}
}

func TestVolumesThatWaitForAClaim(t *testing.T) {
	t.Parallel()
	volume := func(name, host, rest string) string {
		return fmt.Sprintf(`---
kind: PersistentVolume
metadata: {name: %s, labels: {kind: fast}}
spec: {local: {path: /x}, capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], storageClassName: local, %s nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}
status: {phase: Available}
`, name, rest, host)
	}
	claim := func(spec string) string {
		return "---\nkind: PersistentVolumeClaim\nmetadata: {name: c, uid: c}\nspec: {" + spec + "}\n"
	}
	const need = `storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}`
	const none = "default/c: its storage class local makes no volumes, and none that suits is free"
	for _, c := range []struct{ name, volumes, claim, places, problem string }{
		{"where one is", volume("one", "h1", ""), need, `"kubernetes.io/hostname" In "h1"`, ""},
		{"where any of them is", volume("one", "h1", "") + volume("two", "h2", ""), need, `"kubernetes.io/hostname" In "h1" "h2"`, ""},
		{"none", "", need, "", none},
		{"too small", volume("one", "h1", ""), `storageClassName: local, resources: {requests: {storage: 11Gi}}`, "", none},
		{"another way of access", volume("one", "h1", ""), `storageClassName: local, accessModes: [ReadWriteMany]`, "", none},
		{"another mode", volume("one", "h1", "volumeMode: Block,"), need, "", none},
		{"other labels", volume("one", "h1", ""), need + `, selector: {matchLabels: {kind: slow}}`, "", none},
		{"the right labels", volume("one", "h1", ""), need + `, selector: {matchLabels: {kind: fast}}`, `"kubernetes.io/hostname" In "h1"`, ""},
		{"kept for another claim", volume("one", "h1", "claimRef: {namespace: default, name: d},"), need, "", none},
		{"kept for this claim", volume("one", "h1", "claimRef: {namespace: default, name: c},") + volume("two", "h2", "claimRef: {namespace: default, name: d},"), need, `"kubernetes.io/hostname" In "h1"`, ""},
		{"kept for an older claim of the same name", volume("one", "h1", "claimRef: {namespace: default, name: c, uid: older},"), need, "", none},
		{"a class that makes volumes too", volume("one", "h1", "claimRef: {namespace: default, name: c},"), `storageClassName: wait`, "", ""},
	} {
		got := volumesOf(enginetest.ReadObjects(t, volumeWorld+c.volumes+claim(c.claim))).Of(usingClaims(t, "c"))
		if termsText(got.Alternatives) != c.places || problemText(got.Problem) != c.problem {
			t.Errorf("%s: %s, problem %q", c.name, termsText(got.Alternatives), problemText(got.Problem))
		}
	}
}

func TestVolumesThatExcludeOtherPods(t *testing.T) {
	t.Parallel()
	const claim = `---
kind: PersistentVolumeClaim
metadata: {name: once}
spec: {storageClassName: wait, accessModes: [ReadWriteOncePod]}
`
	pod := func(name, node, phase string) string {
		return fmt.Sprintf(`---
kind: Pod
metadata: {name: %s, uid: %s}
spec: {nodeName: "%s", volumes: [{name: v, persistentVolumeClaim: {claimName: once}}, {name: w, persistentVolumeClaim: {claimName: once}}]}
status: {phase: %s}
`, name, name, node, phase)
	}
	const busy = "default/once: only one pod may use it at a time (ReadWriteOncePod), and default/a does"
	for _, c := range []struct {
		name, pods, of string
		once           int
		problem        string
	}{
		{"nobody else", pod("pod", "", "Pending"), "pod", 0, ""},
		{"another waits", pod("pod", "", "Pending") + pod("a", "", "Pending"), "pod", 1, ""},
		{"another runs", pod("pod", "", "Pending") + pod("b", "n", "Running") + pod("a", "n", "Running"), "pod", 0, busy},
		{"another has ended", pod("pod", "", "Pending") + pod("a", "n", "Succeeded"), "pod", 0, ""},
		{"the one that runs has to move", pod("pod", "", "Pending") + pod("a", "n", "Running"), "a", 1, ""},
	} {
		s := enginetest.ReadObjects(t, volumeWorld+claim+c.pods)
		v := volumesOf(s)
		for _, p := range s.Pods {
			if p.Name != c.of {
				continue
			}
			if got := v.Of(p); len(got.Once) != c.once || problemText(got.Problem) != c.problem {
				t.Errorf("%s: %v, problem %q", c.name, got.Once, problemText(got.Problem))
			}
		}
	}
}

func TestDisksThatPodsNameThemselves(t *testing.T) {
	t.Parallel()
	v := volumesOf(&engine.Snapshot{})
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`awsElasticBlockStore: {volumeID: x, readOnly: true}`, `awsElasticBlockStore: {volumeID: x, readOnly: true}`, true},
		{`awsElasticBlockStore: {volumeID: x}`, `awsElasticBlockStore: {volumeID: z}`, false},
		{`gcePersistentDisk: {pdName: x}`, `gcePersistentDisk: {pdName: x, readOnly: true}`, true},
		{`gcePersistentDisk: {pdName: x, readOnly: true}`, `gcePersistentDisk: {pdName: x, readOnly: true}`, false},
		{`gcePersistentDisk: {pdName: x}`, `awsElasticBlockStore: {volumeID: x}`, false},
		{`iscsi: {iqn: x, lun: 1}`, `iscsi: {iqn: x, lun: 2}`, true},
		{`iscsi: {iqn: x, readOnly: true}`, `iscsi: {iqn: x, readOnly: true}`, false},
		{`rbd: {monitors: [m1, m2], pool: p, image: i}`, `rbd: {monitors: [m2, m3], pool: p, image: i}`, true},
		{`rbd: {monitors: [m], pool: p, image: i}`, `rbd: {monitors: [m2], pool: p, image: i}`, false},
		{`rbd: {monitors: [m], pool: p, image: i}`, `rbd: {monitors: [m], pool: p, image: j}`, false},
		{`emptyDir: {}`, `emptyDir: {}`, false},
	} {
		a := v.Of(enginetest.PodWith(t, "volumes: [{name: v, "+c.a+"}]"))
		b := v.Of(enginetest.PodWith(t, "volumes: [{name: v, "+c.b+"}]"))
		got := false
		for _, x := range a.Disks {
			for _, y := range b.Disks {
				got = got || x.Conflicts(y)
			}
		}
		if got != c.want {
			t.Errorf("%s and %s conflict: %v", c.a, c.b, got)
		}
		var used Disks
		used.Add(a.Disks)
		if used.Conflict(b.Disks) != c.want {
			t.Errorf("%s conflicts with a node that uses %s: %v", c.b, c.a, !c.want)
		}
	}
}

func TestPodsWithEqualVolumesAreAlike(t *testing.T) {
	t.Parallel()
	world := volumeWorld
	for i := range 4 {
		world += fmt.Sprintf(`---
kind: PersistentVolumeClaim
metadata: {name: data-%d}
spec: {storageClassName: zones}
`, i)
	}
	world += `---
kind: CSINode
metadata: {name: node-a}
spec: {drivers: [{name: csi.example.com, nodeID: x, allocatable: {count: 3}}]}
---
kind: Pod
metadata: {name: other}
spec: {nodeName: node-a, volumes: [{name: v, persistentVolumeClaim: {claimName: data-3}}]}
---
kind: Pod
metadata: {name: mine}
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data-3}}]}
`
	v := volumesOf(enginetest.ReadObjects(t, world))
	key := func(spec *corev1.Pod) string {
		p := v.Of(spec)
		return p.Key()
	}
	if key(usingClaims(t, "data-0")) != key(usingClaims(t, "data-1")) || key(usingClaims(t, "data-0")) == "" {
		t.Error("pods with equal disks of their own are told apart")
	}
	if key(usingClaims(t, "data-0")) == key(usingClaims(t, "data-0", "data-1")) {
		t.Error("one disk and two disks are taken for the same")
	}
	if key(usingClaims(t, "data-0")) == key(usingClaims(t, "data-3")) {
		t.Error("a disk that is shared is taken for one that is not")
	}
	if key(usingClaims(t, "data-0")) == key(usingClaims(t, "wait")) {
		t.Error("disks in different places are taken for the same")
	}
	if key(enginetest.PodWith(t, `volumes: [{name: v, gcePersistentDisk: {pdName: d}}]`)) == key(enginetest.PodWith(t, `volumes: [{name: v, gcePersistentDisk: {pdName: d, readOnly: true}}]`)) {
		t.Error("reading a disk is taken for writing it")
	}
	if got := key(enginetest.PodWith(t, `volumes: [{name: v, emptyDir: {}}, {name: w, configMap: {name: c}}]`)); got != "" {
		t.Errorf("volumes that need nothing of a node read %q", got)
	}
}

func termsText(terms [][]requirement.Expression) string {
	var out []string
	for _, term := range terms {
		out = append(out, string(kube.AppendExpressions(nil, term)))
	}
	return strings.Join(out, " | ")
}
