package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// This file reads manifests for EKS Auto Mode, which has NodePools of karpenter.sh with a node class and labels of its own. Tenon plans for
// them like for other pools, but its controller does not serve them.

// autoModeGroup is the API group of Auto Mode's node class, and the domain of its labels.
const autoModeGroup = "eks.amazonaws.com"

const (
	autoModeKind = "NodeClass"
	// autoModeDisk is the default size of the nodes' disk for pods. autoModePods is the number of pods of a node.
	autoModeDisk, autoModePods = "80Gi", 110
)

func isAutoMode(ref v1.NodeClassReference) bool {
	return ref.Group == autoModeGroup && ref.Kind == autoModeKind
}

// autoModeClass returns an EC2NodeClass with the same machines as Auto Mode's class. They run Bottlerocket. IP addresses do not limit the
// number of pods, because each network interface has ranges of them.
func autoModeClass(u *unstructured.Unstructured) (*awsv1.EC2NodeClass, error) {
	disk := resource.MustParse(autoModeDisk)
	if u != nil {
		said, found, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "ephemeralStorage", "size")
		if err != nil {
			return nil, fmt.Errorf("spec.ephemeralStorage is no object")
		}
		if found {
			if disk, err = resource.ParseQuantity(fmt.Sprint(said)); err != nil || disk.Sign() <= 0 {
				return nil, fmt.Errorf("spec.ephemeralStorage.size is %v, want a quantity such as %s", said, autoModeDisk)
			}
		}
	}
	return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{
		AMISelectorTerms:    []awsv1.AMISelectorTerm{{Alias: strings.ToLower(awsv1.FamilyBottlerocket) + "@" + awsv1.AliasLatest}},
		BlockDeviceMappings: []awsv1.BlockDeviceMapping{{RootVolume: true, EBS: &awsv1.BlockDevice{VolumeSize: &disk}}},
		Kubelet:             &runtime.RawExtension{Raw: []byte(fmt.Sprintf(`{"maxPods":%d}`, autoModePods))},
	}}, nil
}

// autoModeTypes returns the types that Auto Mode starts, with its labels instead of the labels of Karpenter's provider. Auto Mode starts no
// types with one core, and none of the smallest sizes.
func autoModeTypes(types []engine.InstanceType) (out []engine.InstanceType) {
	for _, t := range types {
		size := t.Labels[awsv1.SizeLabelKey]
		cores := t.Labels[awsv1.CPULabelKey]
		if slices.ContainsFunc([]string{"nano", "micro", "small"}, func(s string) bool { return slices.Contains(size, s) }) ||
			slices.Contains(cores, strconv.Itoa(1)) {
			continue
		}
		t.Labels = autoModeLabels(t.Labels)
		out = append(out, t)
	}
	return out
}

func autoModeLabels(labels map[string][]string) map[string][]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key string, _ []string) bool { return strings.HasPrefix(key, ec2Labels) })
	for key, values := range labels {
		if name, found := strings.CutPrefix(key, ec2Labels+"instance-"); found {
			out[autoModeGroup+"/instance-"+name] = values
		}
	}
	out[autoModeGroup+"/compute-type"] = []string{"auto"}
	return out
}
