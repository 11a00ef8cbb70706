package clusterapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// Examiner checks a management cluster, and the MachineDeployments that node classes select there.
type Examiner struct {
	Connection *Connection
	// Client reads the workload cluster.
	Client client.Reader
	// Autoscalers are the Deployments of Cluster Autoscaler that run in either cluster.
	Autoscalers []*appsv1.Deployment
}

const (
	checkReach   = "management cluster"
	checkClasses = "machine deployments"
)

// Examine returns its findings, good and bad. It reads nothing from a cache.
func (x Examiner) Examine(ctx context.Context, classes []provider.Class) []provider.Finding {
	version, err := x.Connection.version(ctx)
	var live client.Client
	if err == nil {
		live, err = x.Connection.look(version)
	}
	if err != nil {
		return []provider.Finding{{Level: provider.Problem, Check: checkReach, Says: err.Error(),
			Do: "see to settings.clusterAPI.kubeconfigSecret and --cluster-api-kubeconfig; in the controller's pod these are its own: kubectl exec deploy/karpenter -- tenon doctor"}}
	}
	out := []provider.Finding{{Level: provider.OK, Check: checkReach, Says: "it serves " + contract.Group + " in " + version}}
	if version != contract.Versions[0] {
		out[0].Level, out[0].Says, out[0].Do = provider.Warning, out[0].Says+" only, which later releases of Cluster API do not serve any more", "upgrade Cluster API to 1.11 or later"
	}
	p, err := New(Config{
		Client: x.Client, Clock: clock.RealClock{}, May: func(what string) error { return fmt.Errorf("nothing is written: %s", what) },
		Management: func() (*Management, error) { return &Management{Live: live, Cached: live}, nil },
	})
	if err != nil {
		return append(out, provider.Finding{Level: provider.Problem, Check: checkReach, Says: err.Error()})
	}
	return append(out, p.examine(ctx, classes, x.Autoscalers)...)
}

// selectedDeployment is a MachineDeployment with the names of the classes that select it.
type selectedDeployment struct {
	*contract.MachineDeployment
	classes []string
}

func (s *selectedDeployment) object() string {
	return "MachineDeployment " + assortment.Key(s.MachineDeployment)
}

// Examine checks the MachineDeployments that classes select. Its findings have the words of the classes' conditions.
func (p *Provider) Examine(ctx context.Context, classes []provider.Class) []provider.Finding {
	return p.examine(ctx, classes, nil)
}

func (p *Provider) examine(ctx context.Context, classes []provider.Class, autoscalers []*appsv1.Deployment) (out []provider.Finding) {
	selected := map[string]*selectedDeployment{}
	for _, class := range classes {
		c, err := classOf(class)
		if err != nil {
			continue // a class of another cloud
		}
		object := "ClusterAPINodeClass " + c.Name
		f, err := p.find(ctx, c)
		if err != nil {
			out = append(out, provider.Finding{Level: provider.Problem, Check: checkClasses, Object: object, Says: err.Error(), Do: "correct the class, or the rights in the management cluster (deploy/clusterapi/rbac.yaml)"})
			continue
		}
		problem := problemOf(c, f)
		for _, says := range remarks(f, problem) {
			level := provider.Warning
			if says == problem {
				level = provider.Problem
			}
			out = append(out, provider.Finding{Level: level, Check: checkClasses, Object: object, Says: says})
		}
		var made []string
		for _, m := range f.Machines {
			made = append(made, fmt.Sprintf("%s (%s, zone %s, %s, %s cores, %s of memory, %.4f USD per hour)", m.Key, m.Type, m.Zone, m.CapacityType, m.Capacity.Cpu(), m.Capacity.Memory(), m.Price))
		}
		if problem == "" {
			out = append(out, provider.Finding{Level: provider.OK, Check: checkClasses, Object: object, Says: "machines can be made from " + strings.Join(made, ", ")})
		}
		for key, d := range f.Deployments {
			if selected[key] == nil {
				selected[key] = &selectedDeployment{MachineDeployment: d}
			}
			selected[key].classes = append(selected[key].classes, c.Name)
		}
	}
	var all []*selectedDeployment
	for _, key := range slices.Sorted(maps.Keys(selected)) {
		all = append(all, selected[key])
		out = append(out, selected[key].shared()...)
	}
	return append(out, examineAutoscalers(autoscalers, all)...)
}

// shared finds other classes that select the MachineDeployment, and other writers of its replicas.
func (s *selectedDeployment) shared() (out []provider.Finding) {
	if len(s.classes) > 1 {
		out = append(out, provider.Finding{Level: provider.Warning, Check: checkClasses, Object: s.object(),
			Says: "the ClusterAPINodeClasses " + strings.Join(s.classes, ", ") + " all select it, and each sets prices and reservations for the machines",
			Do:   "let spec.scalableResourceSelector, spec.namespaces or spec.clusterName keep them apart, if that is not meant"})
	}
	if who := applied(s.ManagedFields); len(who) > 0 {
		out = append(out, provider.Finding{Level: provider.Problem, Check: checkClasses, Object: s.object(),
			Says: strings.Join(who, ", ") + " applies spec.replicas, and sets it back each time: machines of NodeClaims go",
			Do:   "leave spec.replicas out of the manifest that it applies"})
	}
	return out
}

// applied returns the managers that apply the replicas of an object again and again. Managers that wrote them once in another way are not
// included.
func applied(fields []metav1.ManagedFieldsEntry) (out []string) {
	for _, f := range fields {
		if f.Operation == metav1.ManagedFieldsOperationApply && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:replicas"`) && !slices.Contains(out, f.Manager) {
			out = append(out, f.Manager)
		}
	}
	return out
}
