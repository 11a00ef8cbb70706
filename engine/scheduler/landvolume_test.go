package scheduler_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario/scenariotest"
)

// standardClass is the default storage class, whose volumes are made in zone b.
const standardClass = `yaml
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: disk.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}]}]
end
`

// A replay keeps pods off the same nodes as kube-scheduler's volume plugins.
func TestPodsLandWhereTheirVolumesLetThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, lines, want string }{
		{"a node takes so many volumes, and those of its zone", `
node c cpu=4 mem=8Gi zone=c attach=disk.example.com:1
volume v zone=c claim=one
volume w zone=c claim=two
volume x zone=a claim=three
pod p cpu=1 disk=one
pod q cpu=1 disk=two
pod r cpu=1 disk=three`, "a: r; c: p; stranded: q"},
		{"an ephemeral volume whose claim is not made yet will have the default class", standardClass + `
yaml
apiVersion: v1
kind: Pod
metadata: {name: p, uid: p}
spec: {containers: [{name: app, image: app}], volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}]}
end
delete disk p-scratch`, "b: p"},
		{"an ephemeral volume's claim has to be the pod's own", `
storageclass fast wait
disk p-scratch-1 class=fast
pod p scratch=fast`, "stranded: p"},
		{"volumes of older kinds are attached by the driver that has taken over", `
storageclass old driver=kubernetes.io/aws-ebs wait zones=a
volume v driver=ebs.csi.aws.com zone=a claim=data
pod p cpu=2 disk=data
pod q cpu=1 scratch=old`, "a: p; stranded: q"},
		{"what is attaching counts by who attaches it", `
volume v driver=other.example.com
yaml
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: v}
spec: {attacher: ebs.csi.aws.com, nodeName: a, source: {persistentVolumeName: v}}
end
volume w driver=ebs.csi.aws.com zone=a claim=data
pod p disk=data`, "stranded: p"},
		{"a claim that is going, that is lost or that is not bound yet is of no use", `
volume v
volume w
volume x
disk going volume=v deleting
disk lost volume=w lost
disk half volume=x
yaml
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: half}
spec: {volumeName: x}
status: {phase: Pending}
end
pod p disk=going
pod q disk=lost
pod r disk=half`, "stranded: p q r"},
		{"nothing is made by a class that makes nothing, nor where its class allows no place", `
storageclass hand driver=kubernetes.io/no-provisioner wait
yaml
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nowhere}
provisioner: disk.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: []}]
end
pod p scratch=hand
pod q scratch=nowhere`, "stranded: p q"},
		{"a volume that is being made for a node holds its pod there", `
storageclass fast wait
disk here class=fast selected=b
disk gone class=fast selected=z
pods p x3 disk=here
pod q disk=gone`, "b: p-1 p-2 p-3; stranded: q"},
		{"the labels of a volume are read as kube-scheduler reads them", `
volume v labels=failure-domain.beta.kubernetes.io/zone:b__c claim=older
yaml
apiVersion: v1
kind: PersistentVolume
metadata: {name: w, labels: {topology.kubernetes.io/zone: "a__ b"}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: x, labels: {topology.kubernetes.io/zone: "c__"}}
end
disk spaced volume=w
disk unreadable volume=x
pod p disk=older
pod q disk=spaced select=zone:b
pod r disk=unreadable select=zone:a`, "a: r; b: p q"},
		{"the labels of an ephemeral volume say nothing", `
yaml
apiVersion: v1
kind: PersistentVolume
metadata: {name: v, labels: {topology.kubernetes.io/zone: b}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: p-scratch-1
  annotations: {pv.kubernetes.io/bind-completed: "yes"}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: default/p, controller: true}]
spec: {volumeName: v}
end
pod p scratch=fast select=zone:a`, "a: p"},
		{"fields of a volume's node affinity say nothing", `
yaml
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [z]}]}]}}}
end
disk data volume=v
pod p disk=data select=zone:b`, "b: p"},
		{"one pod at a time uses a claim that says so, wherever it runs", `
volume v
volume w
disk taken volume=v rwop
disk free volume=w rwop
pod old disk=taken node=b
pod next disk=taken
pods pair x2 disk=free`, "a: pair-1; stranded: next pair-2"},
		{"two pods share a disk that they name only where both read it", `
yaml
apiVersion: v1
kind: Pod
metadata: {name: old, uid: old}
spec:
  nodeName: a
  containers: [{name: app, image: app}]
  volumes: [{name: data, gcePersistentDisk: {pdName: one}}, {name: more, gcePersistentDisk: {pdName: two, readOnly: true}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: p, uid: p}
spec: {containers: [{name: app, image: app}], nodeSelector: {topology.kubernetes.io/zone: a}, volumes: [{name: data, gcePersistentDisk: {pdName: one, readOnly: true}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: q, uid: q}
spec: {containers: [{name: app, image: app}], nodeSelector: {topology.kubernetes.io/zone: a}, volumes: [{name: more, gcePersistentDisk: {pdName: two, readOnly: true}}]}
end`, "a: q; stranded: p"},
		{"a claim takes the smallest free volume of the node, and nobody else gets that", `
storageclass hand driver=kubernetes.io/no-provisioner wait
yaml
apiVersion: v1
kind: PersistentVolume
metadata: {name: large}
spec: {storageClassName: hand, accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}]}}}
end
volume small class=hand zone=a
pod p scratch=hand select=zone:a
pod q scratch=hand
pod r scratch=hand`, "a: p; b: q; stranded: r"},
		{"where no volume is free a class makes one as far as it may", `
storageclass fast wait zones=b
volume v class=fast zone=a
pod p scratch=fast select=zone:a
pod q scratch=fast select=zone:a
pod r scratch=fast`, "a: p; b: r; stranded: q"},
		{"each claim of a pod takes another volume", `
storageclass hand driver=kubernetes.io/no-provisioner wait
volume v class=hand zone=a
volume w class=hand zone=b
volume x class=hand zone=b
pod p scratch=hand,hand`, "b: p"},
		{"pods of one claim follow the first of them to its volume", `
storageclass fast wait
disk data class=fast rwx
node c cpu=1 mem=8Gi zone=c
pod p cpu=1 disk=data select=zone:c
pods q x2 cpu=1 disk=data
storageclass hand driver=kubernetes.io/no-provisioner wait
volume v class=hand zone=b
volume w class=hand zone in (a,c)
disk found class=hand
pod r priority=1 disk=found select=zone:a
pod s disk=found select=zone:b
pod t disk=found`, "a: r t; c: p; stranded: q-1 q-2 s"},
		{"a node that has not reported its limits yet takes what its type takes", `
pool general
type two cpu=2 mem=4Gi zones=c price=0.05 attach=slow.example.com:1
node starts pool=general type=two zone=c uninitialized
storageclass slow driver=slow.example.com wait zones=c
pods p x2 scratch=slow`, "starts: p-1; stranded: p-2"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t, append([]string{"node a cpu=4 mem=8Gi zone=a attach=ebs.csi.aws.com:1", "node b cpu=4 mem=8Gi zone=b"}, strings.Split(c.lines, "\n")...)...)
			if got := scenariotest.Landed(landOn(s, scenariotest.Waiting(s), nil)); got != c.want {
				t.Errorf("landed as %q, want %q", got, c.want)
			}
		})
	}
}

func TestAClaimThatOnePodUsesAtATimeIsFreeForThatPodWhereverItMoves(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "node a cpu=4 mem=8Gi", "node b cpu=4 mem=8Gi", "volume v", "disk data volume=v rwop", "pod p disk=data node=a")
	if got := scenariotest.Landed(landOn(s, s.Pods, map[string]bool{"a": true})); got != "b: p" {
		t.Errorf("landed as %q", got)
	}
	if got := scenariotest.Landed(landOn(s, s.Pods, nil)); strings.Contains(got, "stranded") {
		t.Errorf("while its node stays, landed as %q", got)
	}
	waits := *s.Pods[0]
	waits.Name, waits.UID, waits.Spec.NodeName = "q", "q", ""
	r := scheduler.Replay{Snapshot: s, Pods: []*corev1.Pod{&waits}, On: func(n *corev1.Node) bool { return n.Name == "b" }}
	if got := scenariotest.Landed(r.Land()); got != "stranded: q" {
		t.Errorf("while the other pod runs on a node that takes no part, landed as %q", got)
	}
}
