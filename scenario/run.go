package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/replacement"
)

// command is a command of a scenario.
type command struct {
	verb    string
	options engine.Options
	effort  bool // the command has effort=
	cost    bool
	why     bool
	claims  bool
	life    lifeWords
}

func isCommand(words []word) bool {
	switch words[0].text {
	case "provision", "disrupt", "drift", "progress", "resize", "deletion-costs", "check", "apply", "life":
		return true
	}
	return false
}

func readCommand(words []word) (command, error) {
	c := command{verb: words[0].text}
	r := &reader{of: c.verb, words: words[1:]}
	if c.verb == "life" {
		if !r.more() {
			return c, words[0].errorf("write whose: life NAME")
		}
		c.life.name = r.next().text
	}
	for r.more() {
		if err := c.word(r); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *command) word(r *reader) (err error) {
	w := r.next()
	if c.verb == "life" {
		if handled, err := c.life.word(w); handled || err != nil {
			return err
		}
	}
	opt := &c.options
	switch key, _ := w.cut(); key {
	case "preferences":
		opt.Preferences, err = chosen(w, map[string]engine.PreferencePolicy{
			"respect": engine.Respect, "ignore": engine.Ignore, "weighted": engine.Weighted,
		})
	case "preference-share":
		opt.PreferenceShare, err = w.share()
	case "default-spread":
		var spread corev1.TopologySpreadConstraint
		spread, err = w.spreadConstraint(nil)
		if err == nil && (spread.LabelSelector != nil || spread.MatchLabelKeys != nil) {
			err = w.errorf("which pods a default spread counts follows from their owners and services")
		}
		opt.DefaultConstraints = append(opt.DefaultConstraints, spread)
	case "scheduler":
		var profile engine.SchedulerProfile
		profile, err = w.schedulerProfile()
		opt.Profiles = append(opt.Profiles, profile)
	case "spot-spread-share":
		if opt.SpotSpreadShare = -1; !strings.HasSuffix(w.text, "=-1") {
			opt.SpotSpreadShare, err = w.share()
		}
	case "largest-cpu":
		opt.LargestCPU, err = w.number()
	case "max-pods-per-node":
		opt.MaxPodsPerNode, err = w.number()
	case "buffer-limits":
		opt.BufferLimits, err = w.resources()
	case "min-memory-for-pods":
		opt.MinMemoryForPods, err = w.bytes()
		if err == nil && opt.MinMemoryForPods == 0 {
			opt.MinMemoryForPods = -1 // zero would be the default
		}
	case "threads":
		opt.Threads, err = w.number()
	case "min-values":
		opt.MinValues, err = chosen(w, map[string]engine.MinValuesPolicy{"strict": engine.Strict, "besteffort": engine.BestEffort})
	case "effort":
		c.effort = true
		opt.Effort, err = w.number()
	case "max-types":
		opt.MaxTypes, err = w.number()
	case "price-band":
		opt.PriceBand, err = w.price()
	case "spot-to-spot":
		opt.SpotToSpot = true
	case "terminate-first-drift":
		opt.TerminateFirstDrift = true
	case "no-nominations":
		opt.NoNominations = true
	case "cost":
		c.cost = true
	case "why":
		c.why = true
	case "claims":
		c.claims = true
	default:
		return r.unknown(w, "preferences= preference-share= spot-spread-share= default-spread= scheduler= largest-cpu= max-pods-per-node= min-memory-for-pods= buffer-limits= min-values= effort= "+
			"max-types= price-band= threads= spot-to-spot terminate-first-drift no-nominations cost why; apply has claims; "+
			"life has no-nominations machine-gone pod-left= brief-pod-left= unseen=")
	}
	return err
}

// chosen returns the choice for the word's value, in any case.
func chosen[T any](w word, choices map[string]T) (T, error) {
	_, value := w.cut()
	choice, ok := choices[strings.ToLower(value)]
	if !ok {
		return choice, w.errorf("%q is none of %s", value, strings.Join(slices.Sorted(maps.Keys(choices)), ", "))
	}
	return choice, nil
}

// Run executes the whole scenario and returns its text with the present results of the commands. If all expected results are right, the text
// is unchanged.
func (f *File) Run() string {
	b := newBuilder()
	plan := &engine.Plan{}
	var out strings.Builder
	for i, p := range f.parts {
		out.WriteString(p.source)
		err := b.buildAll(p.statements)
		if p.command == nil {
			if err != nil {
				fmt.Fprintf(&out, "error: %v\n", err)
			}
			continue
		}
		answer := ""
		if err != nil {
			answer = fmt.Sprintf("error: %v\n", err)
		} else {
			answer, plan = b.run(*p.command, plan)
		}
		out.WriteString(answer)
		if p.want == "" && i+1 < len(f.parts) && strings.TrimSpace(f.parts[i+1].source) != "" && f.parts[i+1].source[0] != '\n' {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// run executes one command on the present cluster. last is the plan of the command before.
func (b *builder) run(c command, last *engine.Plan) (string, *engine.Plan) {
	s := b.take()
	switch c.verb {
	case "provision":
		plan := provisioning.Plan(s, c.options, nil)
		return c.print(plan), plan
	case "disrupt":
		plan := disruption.Plan(s, c.options, nil)
		return c.print(plan), plan
	case "progress":
		return printOrders(replacement.Progress(s, c.options, nil)), last
	case "resize":
		return printResizings(disruption.Resize(s, c.options)), last
	case "deletion-costs":
		return printDeletionCosts(disruption.RankDeletionCosts(s, c.options, nil)), last
	case "check":
		return printChecks(s, last), last
	case "drift":
		answer := lookForDrift(s)
		b.snapshot.NodeClaims = s.NodeClaims
		return answer, last
	case "life":
		return b.live(c), last
	}
	if c.claims {
		b.snapshot = *WriteDown(s, last)
	} else {
		b.snapshot = *CarryOut(s, last)
	}
	return fmt.Sprintf("nodes %d, claims %d, pods without a node %d\n", len(b.snapshot.Nodes), len(b.snapshot.NodeClaims),
		waiting(&b.snapshot)), last
}

func waiting(s *engine.Snapshot) int {
	n := 0
	for _, p := range s.Pods {
		if kube.IsPending(p) {
			n++
		}
	}
	return n
}

func (c command) print(plan *engine.Plan) string {
	text := Print(plan)
	if c.why {
		text += printWhy(plan)
	}
	if c.cost {
		text += printCost(plan.Cost)
	}
	return text
}

// clone returns a copy that shares the objects but not the lists.
func clone(s *engine.Snapshot) engine.Snapshot {
	out := *s
	out.Pods = slices.Clone(s.Pods)
	out.Nodes = slices.Clone(s.Nodes)
	out.DaemonSets = slices.Clone(s.DaemonSets)
	out.PodDisruptionBudgets = slices.Clone(s.PodDisruptionBudgets)
	out.LimitRanges = slices.Clone(s.LimitRanges)
	out.RuntimeClasses = slices.Clone(s.RuntimeClasses)
	out.NodePools = slices.Clone(s.NodePools)
	out.NodeClaims = slices.Clone(s.NodeClaims)
	out.NodeOverlays = slices.Clone(s.NodeOverlays)
	out.ProvisioningRequests = slices.Clone(s.ProvisioningRequests)
	out.PodGroups = slices.Clone(s.PodGroups)
	out.CapacityBuffers = slices.Clone(s.CapacityBuffers)
	out.PodTemplates = slices.Clone(s.PodTemplates)
	out.Deployments = slices.Clone(s.Deployments)
	out.ResourceQuotas = slices.Clone(s.ResourceQuotas)
	out.PersistentVolumes = slices.Clone(s.PersistentVolumes)
	out.PersistentVolumeClaims = slices.Clone(s.PersistentVolumeClaims)
	out.StorageClasses = slices.Clone(s.StorageClasses)
	out.CSINodes = slices.Clone(s.CSINodes)
	out.CSIDrivers = slices.Clone(s.CSIDrivers)
	out.CSIStorageCapacities = slices.Clone(s.CSIStorageCapacities)
	out.VolumeAttachments = slices.Clone(s.VolumeAttachments)
	out.Namespaces = slices.Clone(s.Namespaces)
	out.Services = slices.Clone(s.Services)
	out.ReplicaSets = slices.Clone(s.ReplicaSets)
	out.StatefulSets = slices.Clone(s.StatefulSets)
	out.ReplicationControllers = slices.Clone(s.ReplicationControllers)
	out.DeviceClasses = slices.Clone(s.DeviceClasses)
	out.ResourceClaims = slices.Clone(s.ResourceClaims)
	out.ResourceClaimTemplates = slices.Clone(s.ResourceClaimTemplates)
	out.ResourceSlices = slices.Clone(s.ResourceSlices)
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		out.Classes[i].InstanceTypes = slices.Clone(out.Classes[i].InstanceTypes)
	}
	return out
}
