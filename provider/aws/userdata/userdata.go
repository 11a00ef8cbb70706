// Package userdata writes what a machine of EC2 reads when it boots: how to join the cluster, as whom, and with which
// kubelet. Each family of images wants another text, and the user's own text is merged into it. Everything here is a
// function of values. Which image, which class and which numbers are resolved elsewhere; encoding the text for EC2 is too.
package userdata

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Family names what kind of system an image holds, as in spec.amiFamily of an EC2NodeClass.
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

// Limit is how many bytes of user data EC2 takes, before they are encoded.
const Limit = 16384

// Input is what the text is made of. The zero value of a field means that there is none.
type Input struct {
	Family Family

	ClusterName string
	Endpoint    string // https://…
	CABundle    string // base64, as kubeconfigs hold it
	ServiceCIDR string // needed by AL2023 only
	KubeDNS     string // address of the cluster's DNS, used if Kubelet names none

	Labels map[string]string // as LabelsFor returns them
	Taints []corev1.Taint    // as TaintsFor returns them

	// Kubelet is spec.kubelet of the class as JSON is decoded, with numbers in place of expressions. MaxPods is the number
	// of pods that holds for the machine's type and replaces what Kubelet says.
	Kubelet map[string]any
	MaxPods int32

	RAID0 bool   // instanceStorePolicy: the local disks become one
	Text  string // the user's own, spec.userData

	// BottlerocketVersion is that of the image, such as 1.46.0 or v1.20.3, or "latest"; empty if nobody knows.
	BottlerocketVersion string
}

// Output is what a machine is given.
type Output struct {
	Text string
	// Dropped lists what the user wrote and the system has no place for, in order of name. The machine starts without it.
	Dropped []string
}

// Render writes the text. The error is a single line about what the user can change.
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

// TooLargeError says that EC2 would refuse the text.
type TooLargeError struct {
	Size int // of the whole text, in bytes
	Own  int // how many of them are the user's
}

// Error is one line.
func (e TooLargeError) Error() string {
	return fmt.Sprintf("user data is %d bytes and EC2 takes %d at most: shorten spec.userData, which is %d of them, for instance by fetching a script at boot",
		e.Size, Limit, e.Own)
}

// LabelsFor are the labels that a node gives itself when it registers. Those that a kubelet may not set are left to
// whoever completes the registered node.
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
		// The kubelet registers with all taints of its claim, so those of a registered node are the claim's to begin with.
		out["karpenter.sh/do-not-sync-taints"] = "true"
	}
	return out
}

// closedToKubelets says whether the API server's NodeRestriction plugin may refuse a label, by its domain.
func closedToKubelets(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"}, func(closed string) bool {
		return domain == closed || strings.HasSuffix(domain, "."+closed)
	})
}

// TaintsFor are the taints that a node registers with: those of its claim, and one that keeps pods away until the node
// is completed.
func TaintsFor(taints, startup []corev1.Taint) []corev1.Taint {
	out := slices.Concat(taints, startup)
	unregistered := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
	if !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.MatchTaint(&unregistered) }) {
		out = append(out, unregistered)
	}
	return out
}
