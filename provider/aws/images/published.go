// Package images lists the images that AWS publishes for EKS, and the kinds of machines that an image is for. Package find looks up the
// images of a region and their IDs.
package images

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
)

// Published is an SSM parameter that names an image, with one list of requirements for each kind of machine that the image is for.
type Published struct {
	Parameter string
	Kinds     [][]corev1.NodeSelectorRequirement
}

// Unsupported returns the reason why there are no images of an alias for a version of Kubernetes, "" if there may be some.
func Unsupported(alias awsv1.Alias, kubernetes string) string {
	minor, err := minorOf(kubernetes)
	switch {
	case err != nil:
		return err.Error()
	case alias.Family == awsv1.FamilyAL2 && minor >= 33:
		return fmt.Sprintf("no images of AL2 are published for Kubernetes %s: the last was 1.32; use al2023", kubernetes)
	case alias.Family == awsv1.FamilyWindows2025 && minor < 35:
		return fmt.Sprintf("no images of Windows 2025 are published for Kubernetes %s: the first is 1.35", kubernetes)
	}
	return ""
}

// minorOf parses 34 out of "1.34".
func minorOf(kubernetes string) (int, error) {
	major, rest, _ := strings.Cut(kubernetes, ".")
	minor, err := strconv.Atoi(rest)
	if major != "1" || err != nil {
		return 0, fmt.Errorf("the cluster's version of Kubernetes, %q, is not of the form 1.34", kubernetes)
	}
	return minor, nil
}

// PublishedFor lists the parameters that AWS publishes for an alias.
func PublishedFor(alias awsv1.Alias, kubernetes string) []Published {
	switch alias.Family {
	case awsv1.FamilyAL2:
		return publishedAL2(alias.Version, kubernetes)
	case awsv1.FamilyAL2023:
		return publishedAL2023(alias.Version, kubernetes)
	case awsv1.FamilyBottlerocket:
		return publishedBottlerocket(alias.Version, kubernetes)
	}
	year := strings.TrimPrefix(alias.Family, "Windows")
	return []Published{{
		fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, kubernetes),
		kinds(amd64, windows(WindowsBuild(alias.Family))),
	}}
}

func publishedAL2(version, kubernetes string) (out []Published) {
	for _, v := range []struct {
		suffix, name string
		kinds        [][]corev1.NodeSelectorRequirement
	}{
		{"", "node", kinds(amd64, standard())},
		{"-arm64", "arm64-node", kinds(arm64, standard())},
		{"-gpu", "gpu-node", kinds(amd64, neuron(), nvidia())},
	} {
		image := "recommended"
		if version != awsv1.AliasLatest {
			image = fmt.Sprintf("amazon-eks-%s-%s-%s", v.name, kubernetes, version)
		}
		out = append(out, Published{fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/%s/image_id", kubernetes, v.suffix, image), v.kinds})
	}
	return out
}

func publishedAL2023(version, kubernetes string) (out []Published) {
	for _, v := range []struct {
		arch, variant string
		kinds         [][]corev1.NodeSelectorRequirement
	}{
		{"x86_64", "standard", kinds(amd64, standard())},
		{"arm64", "standard", kinds(arm64, standard())},
		{"x86_64", "nvidia", kinds(amd64, nvidia())},
		{"arm64", "nvidia", kinds(arm64, nvidia())},
		{"x86_64", "neuron", kinds(amd64, neuron())},
	} {
		image := "recommended"
		if version != awsv1.AliasLatest {
			image = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", v.arch, v.variant, kubernetes, version)
		}
		out = append(out, Published{fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", kubernetes, v.arch, v.variant, image), v.kinds})
	}
	return out
}

func publishedBottlerocket(version, kubernetes string) (out []Published) {
	version = strings.TrimPrefix(version, "v")
	for _, v := range []struct {
		suffix, arch string
		kinds        [][]corev1.NodeSelectorRequirement
	}{
		{"", "x86_64", kinds(amd64, standard(), neuron())},
		{"", "arm64", kinds(arm64, standard())},
		{"-nvidia", "x86_64", kinds(amd64, nvidia())},
		{"-nvidia", "arm64", kinds(arm64, nvidia())},
	} {
		out = append(out, Published{fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", kubernetes, v.suffix, v.arch, version), v.kinds})
	}
	return out
}

// Kinds returns the kinds of machines that an alias has images for, whatever the version of Kubernetes.
func Kinds(alias awsv1.Alias) (out []Requirements) {
	for _, p := range PublishedFor(alias, "") {
		out = append(out, p.Kinds...)
	}
	return out
}
