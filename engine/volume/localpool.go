package volume

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
)

// stockPrefix starts the names of local pools, which are counted like the volumes of CSI drivers.
const stockPrefix = "storage class "

// A local pool holds the free volumes, each on the disk of one host, that suit a claim of a class that makes none: each claim takes one. Claims
// with different suitable volumes have different local pools, and take from every pool that contains all their suitable volumes.
type localPool struct {
	name    string
	class   string
	volumes bitset.Set     // indexes in the class's list of available volumes
	hosts   map[string]int // number of volumes by hostname
}

// isLocalPool reports whether the driver name is that of a local pool.
func isLocalPool(driver string) bool { return strings.HasPrefix(driver, stockPrefix) }

// LocalPoolText returns the local pool's name without its hash.
func LocalPoolText(name string) string {
	text, _, _ := strings.Cut(name, " #")
	return text
}

// indexLocalPools finds the local pools of all unbound claims whose class makes no volumes.
func (v *Volumes) indexLocalPools(s *engine.Snapshot) {
	known := map[string]bool{}
	for _, claim := range s.PersistentVolumeClaims {
		class := v.classes[claimClass(claim)]
		if claim.Spec.VolumeName != "" || class == nil || !makesNone(class) || len(v.available[class.Name]) == 0 || v.availableOf[class.Name] != nil {
			continue
		}
		if st := v.localPoolOf(claim, class); st != nil && !known[st.name] {
			known[st.name] = true
			v.stocks = append(v.stocks, st)
			v.limited[st.name] = true
		}
	}
}

// makesNone reports whether the class makes no volumes and binds existing ones when a node is chosen.
func makesNone(class *storagev1.StorageClass) bool {
	return (class.Provisioner == "" || class.Provisioner == noProvisioner) &&
		class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// localPoolOf returns the claim's local pool. It returns nil if a volume is reserved for the claim or several hosts can reach a suitable one.
func (v *Volumes) localPoolOf(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *localPool {
	if len(v.reserved[ClaimID{claim.Namespace, claim.Name}]) > 0 {
		return nil
	}
	available := v.available[class.Name]
	st := &localPool{class: class.Name, volumes: bitset.New(len(available)), hosts: map[string]int{}}
	var names []string
	at := 0
	for _, volume := range v.suiting(claim, class) {
		host := hostOf(volume)
		if host == "" {
			return nil
		}
		for available[at] != volume {
			at++
		}
		st.volumes.Add(at)
		st.hosts[host]++
		names = append(names, volume.Name)
	}
	slices.Sort(names)
	sum := fnv.New64a()
	for _, name := range names {
		sum.Write([]byte(name + "\n"))
	}
	st.name = fmt.Sprintf("%s%s #%016x", stockPrefix, class.Name, sum.Sum64())
	return st
}

// hostOf returns the only host that can reach the volume. It returns "" if there may be others.
func hostOf(volume *corev1.PersistentVolume) string {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil || len(volume.Spec.NodeAffinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, e := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}

// taken lists the claim's takes from local pools, in the form of attachments.
func (v *Volumes) taken(claim *corev1.PersistentVolumeClaim) []Attachment {
	class := v.classes[claimClass(claim)]
	if len(v.stocks) == 0 || claim.Spec.VolumeName != "" || class == nil || !makesNone(class) || v.availableOf[class.Name] != nil {
		return nil
	}
	mine := v.localPoolOf(claim, class)
	if mine == nil {
		return nil
	}
	var out []Attachment
	for _, st := range v.stocks {
		if st.class == mine.class && mine.volumes.Within(st.volumes) {
			out = append(out, Attachment{Driver: st.name, handle: claim.Namespace + "/" + claim.Name})
		}
	}
	return out
}
