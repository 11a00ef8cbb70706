package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/uninstall"
)

// tell prints the remaining objects if they have changed. If they have not changed for windSlowly, it prints the reasons.
func (w *winder) tell(ctx context.Context, err error) {
	text := w.left() + " left"
	if err != nil && !errors.Is(err, errChanged) {
		text += "; " + oneLine(err)
	}
	if text == w.said && time.Since(w.saidAt) < windSlowly {
		return
	}
	if text == w.said {
		for _, line := range w.holdups(ctx) {
			w.out.line("  %s", line)
		}
	} else {
		w.out.line("%s", text)
	}
	w.said, w.saidAt = text, time.Now()
}

// left counts the remaining objects.
func (w *winder) left() string {
	inv, nodes := w.last, 0
	for _, n := range inv.Nodes {
		if slices.Contains(n.Finalizers, v1.TerminationFinalizer) {
			nodes++
		}
	}
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{{len(inv.Pools), "NodePool"}, {len(inv.Claims), "NodeClaim"}, {nodes, "held Node"}, {len(inv.Machines), "machine without claim"}} {
		if p.n > 0 {
			parts = append(parts, count(p.n, p.noun))
		}
	}
	for _, c := range inv.Classes {
		parts = append(parts, c.Ref.Kind+" "+c.Ref.Name)
	}
	if len(parts) == 0 {
		return "nothing but a last look at the cloud is"
	}
	return strings.Join(parts, ", ")
}

// holdups names, for some claims, the pods that they wait for.
func (w *winder) holdups(ctx context.Context) (lines []string) {
	for _, c := range w.last.Claims {
		if len(lines) == 3 {
			return append(lines, "…")
		}
		var pods corev1.PodList
		if c.Status.NodeName == "" || w.stock.List(ctx, &pods, client.MatchingFields{"spec.nodeName": c.Status.NodeName}) != nil {
			continue
		}
		var names []string
		for i := range pods.Items {
			if p := &pods.Items[i]; !kube.OwnedByDaemonSet(p) && !kube.IsTerminal(p) {
				names = append(names, p.Namespace+"/"+p.Name)
			}
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("%s waits for %s: %s; kubectl describe node %s says why", c.Name, count(len(names), "pod"), strings.Join(names[:min(3, len(names))], ", "), c.Status.NodeName))
		}
	}
	return lines
}

// except names the objects that remain because they are not the autoscaler's.
func (w *winder) except() string {
	held := 0
	for _, h := range uninstall.Strangers(w.last) {
		if len(h.By) > 0 {
			held++
		}
	}
	var parts []string
	if n := uninstall.Others(w.last); n > 0 {
		parts = append(parts, count(n, "machine")+" of another provider")
	}
	if held > 0 {
		parts = append(parts, count(held, "object")+" that others hold")
	}
	if len(parts) == 0 {
		return ""
	}
	return ", except " + strings.Join(parts, " and ") + ", left alone"
}

// loose names the objects that the user must check: nodes that will join later, and nodes without a known machine.
func (w *winder) loose() (lines []string) {
	var absent []string
	for id := range w.absent {
		if !uninstall.Joined(w.last, engine.MachineID(id)) {
			absent = append(absent, id)
		}
	}
	if len(absent) > 0 {
		lines = append(lines, fmt.Sprintf("Not in the cluster yet: %s. Nodes that join now stay closed for pods, until you open them: kubectl taint node NAME %s-",
			named("machine", absent), v1.UnregisteredTaintKey))
	}
	if len(w.nameless) > 0 {
		lines = append(lines, "Without a provider ID, so that nobody can tell which machine it is, and let go: "+named("Node", slices.Collect(maps.Keys(w.nameless)))+
			". If there is no such machine: kubectl delete node NAME")
	}
	return lines
}

// strangers returns an error that names objects which others hold.
func (w *winder) strangers() error {
	var held []string
	for _, h := range uninstall.Strangers(w.last) {
		held = append(held, heldText(h))
	}
	if len(held) == 0 {
		return nil
	}
	return fmt.Errorf("not touched, because it is not the autoscaler's: %s", strings.Join(held, "; "))
}
