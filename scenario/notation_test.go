package scenario_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

func asJSON(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each word for relations between pods has exactly this effect on the pod.
func TestWordsOfTopologyMakeTheirConstraints(t *testing.T) {
	t.Parallel()
	own := `"labelSelector":{"matchLabels":{"app":"web"}}`
	for _, c := range []struct{ words, want string }{
		{"spread=zone", `[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule",` + own + `}]`},
		{"spread=(hostname skew=2 soft min=3 affinity-policy=ignore taints-policy=honor match-keys=hash of=app:x)",
			`[{"maxSkew":2,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"x"}},` +
				`"minDomains":3,"nodeAffinityPolicy":"Ignore","nodeTaintsPolicy":"Honor","matchLabelKeys":["hash"]}]`},
		{"spread=(zone of=*) spread=(rack app in (x,y) tier exists)",
			`[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}},` +
				`{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchExpressions":` +
				`[{"key":"app","operator":"In","values":["x","y"]},{"key":"tier","operator":"Exists"}]}}]`},
		{"together=zone", `{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` + own + `,"topologyKey":"topology.kubernetes.io/zone"}]}}`},
		{"apart=hostname apart=(zone weight=10)",
			`{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` + own + `,"topologyKey":"kubernetes.io/hostname"}],` +
				`"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"podAffinityTerm":{` + own + `,"topologyKey":"topology.kubernetes.io/zone"}}]}}`},
		{"together=(rack of=app:db ns=blue,green match-keys=hash mismatch-keys=team) apart=(hostname of=tier:web all-ns)",
			`{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"db"}},"namespaces":["blue","green"],` +
				`"topologyKey":"rack","matchLabelKeys":["hash"],"mismatchLabelKeys":["team"]}]},` +
				`"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"tier":"web"}},` +
				`"topologyKey":"kubernetes.io/hostname","namespaceSelector":{}}]}}`},
		{"apart=(hostname ns-labels=team:a)",
			`{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` + own + `,"topologyKey":"kubernetes.io/hostname",` +
				`"namespaceSelector":{"matchLabels":{"team":"a"}}}]}}`},
	} {
		spec := parse(t, "pod web cpu=1 "+c.words).Snapshot.Pods[0].Spec
		got := asJSON(t, spec.TopologySpreadConstraints)
		if strings.HasPrefix(c.want, "{") {
			got = asJSON(t, spec.Affinity)
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.words, got, c.want)
		}
	}
}

func TestPortsHaveProtocolsAndAddresses(t *testing.T) {
	t.Parallel()
	pod := parse(t, "pod web port=8080 port=53/udp@10.0.0.1 container=(port=90) sidecar=(cpu=1 port=91/sctp)").Snapshot.Pods[0]
	var got []string
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, p := range c.Ports {
			got = append(got, c.Name+" "+asJSON(t, p))
		}
	}
	want := []string{
		`app {"hostPort":8080,"containerPort":8080,"protocol":"TCP"}`,
		`app {"hostPort":53,"containerPort":53,"protocol":"UDP","hostIP":"10.0.0.1"}`,
		`app-2 {"hostPort":90,"containerPort":90,"protocol":"TCP"}`,
		`sidecar-1 {"hostPort":91,"containerPort":91,"protocol":"SCTP"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestVolumesAndDisksBelongTogether(t *testing.T) {
	t.Parallel()
	s := parse(t, `
storageclass fast driver=ebs.csi.aws.com wait zones=a,b
storageclass now
volume v1 zone=a,b driver=ebs.csi.aws.com class=fast claim=data ns=blue attached=n1
volume v2 arch in (arm64) attaching=n2
disk loose class=fast selected=n1
disk tied volume=v2 rwop ns=blue
disk gone lost deleting
pods db x2 cpu=1 disk=loose,gone scratch=fast
`).Snapshot
	v1, v2 := s.PersistentVolumes[0], s.PersistentVolumes[1]
	if v1.Spec.CSI.Driver != "ebs.csi.aws.com" || v1.Spec.ClaimRef.Namespace != "blue" || v1.Status.Phase != corev1.VolumeBound ||
		!slices.Equal(v1.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values, []string{"a", "b"}) {
		t.Errorf("v1: %+v", v1.Spec)
	}
	if v2.Spec.ClaimRef.Name != "tied" || v2.Spec.ClaimRef.Namespace != "blue" || v2.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key != corev1.LabelArchStable {
		t.Errorf("v2: %+v", v2.Spec)
	}
	var claims []string
	for _, c := range s.PersistentVolumeClaims {
		claims = append(claims, c.Namespace+"/"+c.Name+"="+c.Spec.VolumeName+" "+string(c.Status.Phase))
	}
	want := []string{"blue/data=v1 Bound", "default/loose= Pending", "blue/tied=v2 Bound", "default/gone= Lost",
		"default/db-1-scratch-1= Pending", "default/db-2-scratch-1= Pending"}
	if !slices.Equal(claims, want) {
		t.Errorf("claims: %q\nwant %q", claims, want)
	}
	if a := s.VolumeAttachments; len(a) != 2 || !a[0].Status.Attached || a[1].Status.Attached || a[1].Spec.NodeName != "n2" {
		t.Errorf("attachments: %+v", a)
	}
	if *s.StorageClasses[0].VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || *s.StorageClasses[1].VolumeBindingMode != storagev1.VolumeBindingImmediate {
		t.Errorf("classes: %+v", s.StorageClasses)
	}
	var volumes []string
	for _, v := range s.Pods[0].Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	if !slices.Equal(volumes, []string{"disk-1", "disk-2", "scratch-1"}) {
		t.Errorf("volumes of db-1: %v", volumes)
	}
}

func TestNodesTakeAsManyVolumesAsTheirTypes(t *testing.T) {
	t.Parallel()
	s := parse(t, `
pool p
type t cpu=4 mem=8Gi price=1 attach=ebs.csi.aws.com:25,other.example.com:3 offer=(zone=a reserved=r1 slots=2 price=0.1)
node started pool=p type=t reserved=r1
node starting pool=p type=t uninitialized
node said pool=p type=t attach=ebs.csi.aws.com:1
node foreign cpu=1 attach=x.example.com:2
node plain cpu=1
`).Snapshot
	var got []string
	for _, c := range s.CSINodes {
		for _, d := range c.Spec.Drivers {
			got = append(got, c.Name+" "+d.Name+" "+asJSON(t, d.Allocatable))
		}
	}
	want := []string{`started ebs.csi.aws.com {"count":25}`, `started other.example.com {"count":3}`,
		`said ebs.csi.aws.com {"count":1}`, `foreign x.example.com {"count":2}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if o := s.Classes[0].InstanceTypes[0].Offerings[0]; o.Reservation != "r1" || o.Slots != 2 || o.CapacityType != "reserved" {
		t.Errorf("offering: %+v", o)
	}
	if s.Nodes[0].Labels["karpenter.k8s.aws/capacity-reservation-id"] != "r1" {
		t.Errorf("the node does not say which reservation it uses: %v", s.Nodes[0].Labels)
	}
}

func TestOwnersAndNamespacesAreThereToBeAsked(t *testing.T) {
	t.Parallel()
	s := parse(t, `
namespace blue labels=team:a
service web select=tier:front
replicaset web ns=blue
statefulset db select=app:db,role:main
replicationcontroller old
deviceclass gpu resource=example.com/gpu
pod web-1 owner=ReplicaSet/web ns=blue
`).Snapshot
	if n := s.Namespaces[0]; n.Labels["team"] != "a" || n.Labels["kubernetes.io/metadata.name"] != "blue" {
		t.Errorf("namespace: %v", n.Labels)
	}
	got := asJSON(t, []any{s.Services[0].Spec.Selector, s.ReplicaSets[0].Spec.Selector, s.StatefulSets[0].Spec.Selector,
		s.ReplicationControllers[0].Spec.Selector, s.DeviceClasses[0].Spec.ExtendedResourceName})
	want := `[{"tier":"front"},{"matchLabels":{"app":"web"}},{"matchLabels":{"app":"db","role":"main"}},{"app":"old"},"example.com/gpu"]`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if s.Pods[0].OwnerReferences[0].UID != s.ReplicaSets[0].UID {
		t.Error("the pod does not belong to its ReplicaSet")
	}
}

func TestCommandsTakeTheOptionsOfTheEngine(t *testing.T) {
	t.Parallel()
	got := parse(t, "pool p\nprovision preferences=weighted preference-share=0.5 spot-spread-share=-1 default-spread=(zone skew=2 soft) default-spread=hostname largest-cpu=-1 "+
		"max-pods-per-node=30 min-memory-for-pods=1Ki min-values=BestEffort threads=2\n").Options
	if got.Preferences != engine.Weighted || got.PreferenceShare != 0.5 || got.SpotSpreadShare != -1 || len(got.DefaultConstraints) != 2 || got.DefaultConstraints[0].MaxSkew != 2 ||
		got.DefaultConstraints[0].LabelSelector != nil || got.LargestCPU != -1 || got.MaxPodsPerNode != 30 || got.MinMemoryForPods != 1024 || got.MinValues != engine.BestEffort || got.Threads != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsOfTopologyAndVolumesNameTheWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"pods a x300000", "more than can be planned: 200000"},
		{"pods a x9999999999999999999999", "this is no number of pods"},
		{"pod a spread=", "spread=: a label is missing"},
		{"pod a spread=(skew=2)", "the label comes first"},
		{"pod a spread=(zone weight=2)", "weight=2: spread has no such word"},
		{"pod a spread=(zone min=x)", `min=x: "x" is not a whole number`},
		{"pod a spread=(zone skew=99999999999)", "is too large"},
		{"pod a spread=(zone taints-policy=never)", "the policy is honor or ignore"},
		{"pod a apart=(zone skew=2)", "skew=2: together and apart have no such word"},
		{"pod a apart=(zone weight=101)", "a weight is from 1 to 100"},
		{"pod a apart=(zone app > 3)", "pods are selected with in, notin, exists and absent only"},
		{"pod a port=70000", "write a port as"},
		{"pod a port=80/icmp", "the protocol is tcp, udp or sctp"},
		{"type t price=1 attach=x", "is not a number of volumes"},
		{"type t price=1 offer=(zone=a reserved=r slots=-1)", "write how many machines are left"},
		{"disk d volume=v", `there is no volume "v" above`},
		{"disk d\ndisk d", "there is a disk of this name already"},
		{"volume v claim=d\nvolume w claim=d", "there is a disk d already"},
		{"storageclass s fast", "storageclass has no such word"},
		{"namespace n team=a", "namespace has no such word"},
		{"delete disk d", "there is no such disk"},
		{"life", "write whose: life NAME"},
		{"life n gone", "life has no such word"},
		{"patch node n ready", "there is no such object"},
		{"patch pod p deleting", "patch knows node, claim, pool"},
		{"node n machine=m", "there is no claim \"m\" above whose machine has been launched"},
		{"node n cpu=1\npatch node n steady", "patch has no such word"},
		{"provision preferences=often", `"often" is none of ignore, respect, weighted`},
		{"provision default-spread=(zone of=app:x)", "follows from their owners and services"},
		{"provision preference-share=NaN", "is not a share"},
		{"provision spot-spread-share=-2", "is not a share"},
	} {
		_, err := scenario.Parse(c.text)
		var syntax *scenario.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}
