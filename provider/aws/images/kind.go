package images

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

const (
	amd64 = v1.ArchitectureAMD64
	arm64 = v1.ArchitectureARM64
)

// Requirements are the requirements of one kind of machine.
type Requirements = []corev1.NodeSelectorRequirement

// standard returns the requirements of machines without an accelerator.
func standard() Requirements {
	return Requirements{
		{Key: awsv1.AcceleratorCountLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist},
		{Key: awsv1.GPUCountLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist},
	}
}

func nvidia() Requirements {
	return Requirements{{Key: awsv1.GPUCountLabelKey, Operator: corev1.NodeSelectorOpExists}}
}

func neuron() Requirements {
	return Requirements{{Key: awsv1.AcceleratorCountLabelKey, Operator: corev1.NodeSelectorOpExists}}
}

func windows(build string) Requirements {
	return Requirements{
		{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"windows"}},
		{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{build}},
	}
}

// WindowsBuild returns the build number of a Windows family, "" for other families.
func WindowsBuild(family string) string {
	switch family {
	case awsv1.FamilyWindows2019:
		return "10.0.17763"
	case awsv1.FamilyWindows2022:
		return "10.0.20348"
	case awsv1.FamilyWindows2025:
		return "10.0.26100"
	}
	return ""
}

// kinds adds the architecture to each list of requirements.
func kinds(arch string, lists ...Requirements) (out []Requirements) {
	for _, list := range lists {
		out = append(out, WithArchitecture(list, arch))
	}
	return out
}

// WithArchitecture adds the architecture, and sorts the requirements in the order of a class's status.
func WithArchitecture(list Requirements, arch string) Requirements {
	list = append(slices.Clone(list), corev1.NodeSelectorRequirement{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}})
	slices.SortFunc(list, func(a, b corev1.NodeSelectorRequirement) int {
		return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// For returns the first image from which machines of a type can be started, or nil.
func For(amis []awsv1.AMI, t *engine.InstanceType) *awsv1.AMI {
	for i := range amis {
		if Fits(amis[i].Requirements, t.Labels) {
			return &amis[i]
		}
	}
	return nil
}

// Fits reports whether machines with these labels can meet the requirements of an image.
func Fits(list []corev1.NodeSelectorRequirement, labels map[string][]string) bool {
	for _, r := range list {
		values := labels[v1.NormalizeLabel(r.Key)]
		listed := func(v string) bool { return slices.Contains(r.Values, v) }
		fits := false
		switch r.Operator {
		case corev1.NodeSelectorOpIn:
			fits = slices.ContainsFunc(values, listed)
		case corev1.NodeSelectorOpNotIn:
			fits = len(values) == 0 || !slices.ContainsFunc(values, listed)
		case corev1.NodeSelectorOpExists:
			fits = len(values) > 0
		case corev1.NodeSelectorOpDoesNotExist:
			fits = len(values) == 0
		}
		if !fits {
			return false
		}
	}
	return true
}

// TextOf returns the same text for the same requirements.
func TextOf(list Requirements) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.Key + " " + string(r.Operator) + " " + strings.Join(r.Values, ",") + ";")
	}
	return b.String()
}
