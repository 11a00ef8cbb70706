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
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			s := clusterOf(t, append([]string{"node a cpu=4 mem=8Gi zone=a", "node b cpu=4 mem=8Gi zone=b"}, strings.Split(c.lines, "\n")...)...)
			if got := landed(landOn(s, waiting(s), nil)); got != c.want {
				t.Errorf("landed as %q, want %q", got, c.want)
			}
		})
	}
}
