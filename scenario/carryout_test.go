package scenario_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// offering returns one of the world's offerings.
func offering(zone, capacity, reservation string) engine.LaunchOffering {
	return engine.LaunchOffering{OfferingID: engine.OfferingID{InstanceType: "t", Zone: zone, CapacityType: capacity, Reservation: reservation}}
}

func podID(name string) engine.PodID { return engine.PodID{Namespace: "default", Name: name} }

// The test covers the effects of the volume controllers and of the cloud until a plan is complete.
func TestCarryingOutBindsDisksAndUsesReservationsUp(t *testing.T) {
	t.Parallel()
	before := parse(t, `
pool p
type t cpu=4 mem=8Gi zones=a,b price=1 attach=disk.example.com:5 offer=(zone=b reserved=r1 slots=1 price=0.1)
storageclass made wait
storageclass local driver=kubernetes.io/no-provisioner wait
storageclass now
volume here class=local zone=b
volume there class=local zone=a
disk fresh class=made
disk found class=local
disk stuck class=now
pod db cpu=1 disk=fresh,found,stuck scratch=made
pod web cpu=1
`).Snapshot
	reserved := []engine.LaunchOffering{offering("b", "reserved", "r1"), offering("b", "on-demand", "")}
	after := scenario.CarryOut(before, &engine.Plan{Launches: []engine.Launch{
		{Name: "p-1", NodePool: "p", InstanceTypes: []string{"t"}, Offerings: reserved, Pods: []engine.PodID{podID("db")}},
		{Name: "p-2", NodePool: "p", InstanceTypes: []string{"t"}, Offerings: reserved, Pods: []engine.PodID{podID("web")}},
	}})
	bound := map[string]*corev1.PersistentVolume{}
	for _, v := range after.PersistentVolumes {
		if v.Spec.ClaimRef != nil {
			bound[v.Spec.ClaimRef.Name] = v
		}
	}
	if len(bound) != 3 || bound["found"].Name != "here" || bound["stuck"] != nil {
		t.Errorf("bound: %v", bound)
	}
	for _, claim := range []string{"fresh", "db-scratch-1"} {
		if v := bound[claim]; v == nil || v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "b" {
			t.Errorf("%s has no volume in the zone of its pod: %+v", claim, v)
		}
	}
	if got := after.Nodes[0].Labels["karpenter.sh/capacity-type"] + " " + after.Nodes[1].Labels["karpenter.sh/capacity-type"]; got != "reserved on-demand" {
		t.Errorf("capacity types: %s", got)
	}
	if len(after.CSINodes) != 2 || *after.CSINodes[0].Spec.Drivers[0].Allocatable.Count != 5 {
		t.Errorf("CSINodes: %+v", after.CSINodes)
	}
	if slots := slotsOf(after, "r1"); slots != 0 {
		t.Errorf("reservation r1 has %d machines left", slots)
	}
	for _, c := range before.PersistentVolumeClaims {
		if c.Spec.VolumeName != "" {
			t.Errorf("the snapshot before was changed: %s is bound", c.Name)
		}
	}
	if slotsOf(before, "r1") != 1 {
		t.Error("the snapshot before was changed: the reservation is used up")
	}
	gone := scenario.CarryOut(after, &engine.Plan{Disruptions: []engine.Disruption{{Nodes: []string{"p-1"}}}})
	if len(gone.CSINodes) != 1 || slotsOf(gone, "r1") != 1 {
		t.Errorf("after the node has gone: %d CSINodes, %d machines left in r1", len(gone.CSINodes), slotsOf(gone, "r1"))
	}
}

func slotsOf(s *engine.Snapshot, reservation string) int {
	for _, o := range s.Classes[0].InstanceTypes[0].Offerings {
		if o.Reservation == reservation {
			return o.Slots
		}
	}
	return -1
}

// Manifests get the volumes and owners that they would have in a cluster.
func TestManifestsGetTheirClaimsAndOwners(t *testing.T) {
	t.Parallel()
	r := readBack(t, []byte(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, ports: [{containerPort: 80}]}]
      hostNetwork: true
      volumes: [{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-1}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-7}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, capacity: {storage: 2Gi}}
`))
	s := r.Snapshot
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, c := range s.PersistentVolumeClaims {
		claims[c.Name] = c
	}
	if len(claims) != 4 || claims["data-db-0"] == nil || claims["db-1-tmp"] == nil || *claims["data-db-0"].Spec.StorageClassName != "standard" {
		t.Errorf("claims: %v", claims)
	}
	if c := claims["data-db-1"]; c.Spec.VolumeName != "disk-7" || c.Status.Phase != corev1.ClaimBound || s.PersistentVolumes[0].Spec.ClaimRef.Name != "data-db-1" {
		t.Errorf("the claim is not bound to the volume of its class: %+v", c)
	}
	if len(s.StorageClasses) != 2 || len(s.StatefulSets) != 1 || len(s.ReplicaSets) != 1 {
		t.Errorf("classes %d, stateful sets %d, replica sets %d", len(s.StorageClasses), len(s.StatefulSets), len(s.ReplicaSets))
	}
	web := s.Pods[len(s.Pods)-1]
	if o := web.OwnerReferences[0]; o.Name != s.ReplicaSets[0].Name || o.UID != s.ReplicaSets[0].UID {
		t.Errorf("the Deployment's pod belongs to %+v, which is not there", o)
	}
	if p := s.Pods[0].Spec.Containers[0].Ports[0]; p.HostPort != 80 || p.Protocol != corev1.ProtocolTCP {
		t.Errorf("port in the node's network: %+v", p)
	}
}

// A snapshot of a live cluster has ReplicaSets without their templates, or only with requests. They do not add pods to the snapshot.
func TestOwnersFromAClusterStandForNoPods(t *testing.T) {
	t.Parallel()
	r := readBack(t, []byte(`
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, resourceVersion: "7"}
spec: {replicas: 3, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: shop, resourceVersion: "7"}
spec: {replicas: 3, selector: {matchLabels: {app: shop}}, template: {spec: {containers: [{name: app, resources: {requests: {cpu: "2"}}}]}}}
`))
	if len(r.Snapshot.Pods) != 0 || len(r.Snapshot.ReplicaSets) != 2 {
		t.Errorf("%d pods, %d replica sets", len(r.Snapshot.Pods), len(r.Snapshot.ReplicaSets))
	}
	for _, o := range r.Snapshot.ReplicaSets {
		if c := o.Spec.Template.Spec.Containers; o.Name == "shop" && (len(c) != 1 || c[0].Resources.Requests.Cpu().Value() != 2) {
			t.Errorf("of the template %+v is left", c)
		}
	}
}

// Templates are written only with their pods' requests and scheduling fields.
func TestTemplatesArePassedOnWithoutWhatNobodyNeeds(t *testing.T) {
	t.Parallel()
	r := readBack(t, []byte(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, resourceVersion: "7"}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {annotations: {note: secret}}
    spec:
      serviceAccountName: secret
      initContainers: [{name: first, image: secret, args: [secret], resources: {requests: {cpu: "1"}}}]
      containers: [{name: app, image: secret, env: [{name: KEY, value: secret}], resources: {requests: {cpu: "2"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: db, controller: true}]}
spec: {nodeName: n1, containers: [{name: app, image: x}]}
`))
	var out bytes.Buffer
	if err := scenario.Write(&out, r.Snapshot, engine.Options{}); err != nil || bytes.Contains(out.Bytes(), []byte("secret")) {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
	spec := readBack(t, out.Bytes()).Snapshot.StatefulSets[0].Spec.Template.Spec
	if spec.Containers[0].Resources.Requests.Cpu().Value() != 2 || spec.InitContainers[0].Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("what is left of the template is %+v", spec)
	}
}
