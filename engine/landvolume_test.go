package engine_test

import (
	"strings"
	"testing"
)

// standardClass is the class of claims that name none, whose volumes are made in zone b.
const standardClass = `yaml
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: disk.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}]}]
end
`

// A replay keeps pods away from where kube-scheduler's volume plugins do.
func TestPodsLandWhereTheirVolumesLetThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, lines, want string }{
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
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			s := clusterOf(t, append([]string{"node a cpu=4 mem=8Gi zone=a attach=ebs.csi.aws.com:1", "node b cpu=4 mem=8Gi zone=b"}, strings.Split(c.lines, "\n")...)...)
			if got := landed(landOn(s, waiting(s), nil)); got != c.want {
				t.Errorf("landed as %q, want %q", got, c.want)
			}
		})
	}
}
