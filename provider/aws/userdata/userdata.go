// Package userdata writes the text that a machine of EC2 reads when it boots: how to join the cluster, and the kubelet's settings. Each
// family of images needs another text, into which the user's own text is merged. The package only converts values. Its callers resolve
// images, classes and numbers, and encode the text for EC2.
package userdata

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Family is the kind of system in an image, as in spec.amiFamily of an EC2NodeClass.
type Family string

// The families.
const (
	AL2          Family = "AL2"
	AL2023       Family = "AL2023"
	Bottlerocket Family = "Bottlerocket"
	Windows2019  Family = "Windows2019"
	Windows2022  Family = "Windows2022"
	Windows2025  Family = "Windows2025"
	Custom       Family = "Custom"
)

// Limit is the largest size of user data in bytes that EC2 accepts, before encoding.
const Limit = 16384

// Input holds the inputs of the text. The zero value of a field means that there is none.
type Input struct {
	Family Family

	ClusterName string
	Endpoint    string // https://…
	CABundle    string // base64, as in kubeconfigs
	ServiceCIDR string // needed by AL2023 only
	KubeDNS     string // address of the cluster's DNS, used if Kubelet has none

	Labels map[string]string // as LabelsFor returns them
	Taints []corev1.Taint    // as TaintsFor returns them

	// Kubelet is the class's spec.kubelet as decoded JSON, with numbers in place of expressions. MaxPods is the number of pods for the
	// machine's type; it replaces Kubelet's.
	Kubelet map[string]any
	MaxPods int32

	RAID0 bool   // instanceStorePolicy: the local disks become one
	Text  string // the user's own, spec.userData

	// BottlerocketVersion is the version of the image, such as 1.46.0 or v1.20.3, or "latest"; empty if it is not known.
	BottlerocketVersion string
}

// Output is the text for a machine.
type Output struct {
	Text string
	// Dropped lists the user's keys that the system does not accept, in order of name. The machine starts without them.
	Dropped []string
}

// Render writes the text. The error is a single line about a mistake that the user can correct.
func Render(in Input) (Output, error) {
	out, err := render(in)
	if err != nil {
		return Output{}, err
	}
	if len(out.Text) > Limit {
		return Output{}, TooLargeError{Size: len(out.Text), Own: len(in.Text)}
	}
	return out, nil
}

func render(in Input) (Output, error) {
	if in.Family == Custom {
		return Output{Text: in.Text}, nil
	}
	kubelet, err := ReadKubelet(in.Kubelet)
	if err != nil {
		return Output{}, err
	}
	if kubelet.ClusterDNS == nil && in.KubeDNS != "" {
		kubelet.ClusterDNS = []string{in.KubeDNS}
	}
	var text string
	switch in.Family {
	case AL2:
		text, err = renderAL2(in, kubelet)
	case AL2023:
		text, err = renderAL2023(in, kubelet)
	case Bottlerocket:
		return renderBottlerocket(in, kubelet)
	case Windows2019, Windows2022, Windows2025:
		text = renderWindows(in, kubelet)
	default:
		err = fmt.Errorf("write user data: AMI family %q is not known; it must be one of %s", in.Family, familyNames())
	}
	return Output{Text: text}, err
}

func familyNames() string {
	return "AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025 and Custom"
}

// TooLargeError means that EC2 would refuse the text.
type TooLargeError struct {
	Size int // of the whole text, in bytes
	Own  int // the user's part of it
}

// Error returns one line.
func (e TooLargeError) Error() string {
	return fmt.Sprintf("user data is %d bytes and EC2 takes %d at most: shorten spec.userData, which is %d of them, for instance by fetching a script at boot",
		e.Size, Limit, e.Own)
}

// LabelsFor returns the labels that a node sets on itself when it registers. Labels that a kubelet may not set are left out; the controller
// adds them to the registered node.
func LabelsFor(family Family, claim map[string]string, capacityType string) map[string]string {
	out := map[string]string{}
	for key, value := range claim {
		if !closedToKubelets(key) {
			out[key] = value
		}
	}
	if capacityType != "" {
		out["karpenter.sh/capacity-type"] = capacityType
	}
	if family != Custom {
		// The kubelet registers with all taints of its claim, so the node has them from the start.
		out["karpenter.sh/do-not-sync-taints"] = "true"
	}
	return out
}

// closedToKubelets reports whether the API server's NodeRestriction plugin may refuse a label, by its domain.
func closedToKubelets(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"}, func(closed string) bool {
		return domain == closed || strings.HasSuffix(domain, "."+closed)
	})
}

// TaintsFor returns the taints with which a node registers: those of its claim, and one that keeps pods away until the controller has
// completed the node.
func TaintsFor(taints, startup []corev1.Taint) []corev1.Taint {
	out := slices.Concat(taints, startup)
	unregistered := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
	if !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.MatchTaint(&unregistered) }) {
		out = append(out, unregistered)
	}
	return out
}
