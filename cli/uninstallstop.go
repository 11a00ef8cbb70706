package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/engine/kube"
	"tenon.sh/uninstall"
)

// joinPatience is the time that started machines have to join the cluster before their controller is stopped.
const joinPatience = 5 * time.Minute

// awaitJoining waits until all machines that are started when it begins have registered nodes. Without a controller, a new node would keep the taint
// against pods.
func (w *winder) awaitJoining(ctx context.Context) error {
	if w.in.holder == "" && !w.in.deployed() {
		return nil // no controller registers them
	}
	patience, said := joinPatience, ""
	if t := w.options.timeout; t > 0 {
		patience = min(patience, t/2)
	}
	var wanted map[types.UID]bool
	for {
		inv, err := w.stock.take(ctx, classKindsOf(w.options.controller.CloudProvider))
		if err != nil {
			return err
		}
		var names []string
		first := wanted == nil
		if first {
			wanted = map[types.UID]bool{}
		}
		for _, c := range uninstall.Joining(inv) {
			if first || wanted[c.UID] { // machines may start all the time
				wanted[c.UID] = true
				names = append(names, c.Name)
			}
		}
		if len(names) == 0 || time.Since(w.began) > patience {
			return nil // ending names the remaining ones
		}
		if text := fmt.Sprintf("waiting up to %s for machines that have not joined the cluster yet: %s", patience, named("NodeClaim", names)); text != said {
			w.out.line("%s", text)
			said = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(windEvery):
		}
	}
}

// stopController scales the controller's Deployment, if there is one, to 0. It waits until the pods have ended, unless the Lease shows their
// end.
func (w *winder) stopController(ctx context.Context) error {
	d := w.in.deployment
	if d == nil {
		return nil
	}
	if w.in.deployed() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))
		if err := w.stock.Patch(ctx, d.DeepCopy(), patch); err != nil {
			return fmt.Errorf("scale Deployment %s/%s to 0: %w", d.Namespace, d.Name, err)
		}
		w.out.line("scaled Deployment %s/%s to 0", d.Namespace, d.Name)
	}
	return w.controllerEnded(ctx)
}

// controllerEnded waits until the pods of the controller's Deployment have ended. It does not wait for the pod that holds the Lease, because
// the removal waits for the Lease anyway. It waits for others, because a controller may lead by a Lease of another name, or without one.
func (w *winder) controllerEnded(ctx context.Context) error {
	d, said := w.in.deployment, ""
	holder, _, _ := strings.Cut(w.in.holder, "_")
	for {
		pods, err := w.controllerPods(ctx)
		if err != nil {
			return err
		}
		if len(pods) == 0 || slices.Contains(pods, holder) {
			return nil
		}
		text := fmt.Sprintf("%s of Deployment %s/%s to end: %s", count(len(pods), "pod"), d.Namespace, d.Name, strings.Join(pods, ", "))
		if t := w.options.timeout; t > 0 && time.Since(w.began) > t {
			return fmt.Errorf("gave up waiting for %s after %s: a controller that runs would terminate machines without claims. kubectl describe pod -n %s says why; run this again to go on", text, t, d.Namespace)
		}
		if text != said {
			w.out.line("waiting for %s", text)
			said = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(windEvery):
		}
	}
}

// controllerPods returns the sorted names of the pods of the controller's Deployment that have not ended.
func (w *winder) controllerPods(ctx context.Context) (names []string, err error) {
	d := w.in.deployment
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("look for the pods of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	var pods corev1.PodList
	if err := w.stock.List(ctx, &pods, client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("look for the pods of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !kube.IsTerminal(p) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
