package awstest

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Image is an image of EC2. The front answers for a test's images, because moto does not store most of their properties.
type Image struct {
	ID, Name, Owner string // Owner "" is the account itself
	// Architecture is x86_64 or arm64; "" means x86_64.
	Architecture        string
	Created, Deprecated time.Time
	Tags                map[string]string
}

// Kubernetes is the version of the tests' clusters and of the published images.
const Kubernetes = "1.34"

const amazon = "801119661308"

// publishedImage is an image that AWS publishes for EKS, with the SSM parameters that name it.
type publishedImage struct {
	Image
	parameters []string
}

// publishedImages returns the images that exist in all accounts.
func publishedImages() (out []publishedImage) {
	add := func(id, name, arch string, parameters ...string) {
		created := time.Date(2026, 5, 5, 0, 0, len(out), 0, time.UTC)
		out = append(out, publishedImage{Image{ID: id, Name: name, Owner: amazon, Architecture: arch, Created: created}, parameters})
	}
	const version = "v20260505"
	for i, v := range []struct{ arch, variant string }{{"x86_64", "standard"}, {"arm64", "standard"}, {"x86_64", "nvidia"}, {"arm64", "nvidia"}, {"x86_64", "neuron"}} {
		name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", v.arch, v.variant, Kubernetes, version)
		folder := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/", Kubernetes, v.arch, v.variant)
		add(fmt.Sprintf("ami-a12023000000000%02d", i), name, v.arch, folder+"recommended/image_id", folder+name+"/image_id")
	}
	for i, v := range []struct{ suffix, arch string }{{"", "x86_64"}, {"", "arm64"}, {"-nvidia", "x86_64"}, {"-nvidia", "arm64"}} {
		folder := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/", Kubernetes, v.suffix, v.arch)
		add(fmt.Sprintf("ami-b0771e000000000%02d", i), fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v1.50.0-abcdef", Kubernetes, v.suffix, v.arch), v.arch,
			folder+"latest/image_id", folder+"1.50.0/image_id")
	}
	for i, year := range []string{"2019", "2022"} {
		name := fmt.Sprintf("Windows_Server-%s-English-Core-EKS_Optimized-%s", year, Kubernetes)
		add(fmt.Sprintf("ami-5171d0000000000%02d", i), name+"-2026.05.05", "x86_64", "/aws/service/ami-windows-latest/"+name+"/image_id")
	}
	// The last version of Kubernetes with images of AL2.
	for i, v := range []struct{ suffix, arch string }{{"", "x86_64"}, {"-arm64", "arm64"}, {"-gpu", "x86_64"}} {
		add(fmt.Sprintf("ami-a12000000000000%02d", i), fmt.Sprintf("amazon-eks%s-node-1.32-%s", v.suffix, version), v.arch,
			fmt.Sprintf("/aws/service/eks/optimized-ami/1.32/amazon-linux-2%s/recommended/image_id", v.suffix))
	}
	return out
}

// writeImages writes the published images in moto's format. It omits their dates: moto reads the file once for each account, and fails the
// second time on dates that it has converted itself.
func writeImages() (file string, err error) {
	type seed struct {
		ID           string `json:"ami_id"`
		Name         string `json:"name"`
		Owner        string `json:"owner_id"`
		Architecture string `json:"architecture"`
		State        string `json:"state"`
		Public       bool   `json:"public"`
		Kind         string `json:"image_type"`
		Location     string `json:"image_location"`
		Description  string `json:"description"`
		Root         string `json:"root_device_type"`
		RootName     string `json:"root_device_name"`
		Sriov        string `json:"sriov"`
		Virtual      string `json:"virtualization_type"`
		Hypervisor   string `json:"hypervisor"`
	}
	var seeds []seed
	for _, image := range publishedImages() {
		seeds = append(seeds, seed{image.ID, image.Name, image.Owner, image.Architecture, "available", true,
			"machine", "amazon/" + image.Name, image.Name, "ebs", "/dev/xvda", "simple", "hvm", "xen"})
	}
	text, err := json.Marshal(seeds)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "images-*.json")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.Write(text)
	return f.Name(), err
}

// publishedParameter returns the value of a published SSM parameter, "" if there is none of that name.
func publishedParameter(name string) string {
	for _, image := range publishedImages() {
		if slices.Contains(image.parameters, name) {
			return image.ID
		}
	}
	return ""
}

// selects reports whether an image passes filters of DescribeImages.
func (i *Image) selects(filters map[string][]string, owners []string) bool {
	if len(owners) > 0 && !slices.Contains(owners, i.Owner) && !(i.Owner == amazon && slices.Contains(owners, "amazon")) && !(i.Owner == "" && slices.Contains(owners, "self")) {
		return false
	}
	for name, values := range filters {
		have, ok := "", true
		switch {
		case name == "image-id":
			have = i.ID
		case name == "name":
			have = i.Name
		case name == "state":
			have = "available"
		case strings.HasPrefix(name, "tag:"):
			have, ok = i.Tags[strings.TrimPrefix(name, "tag:")], true
		case name == "tag-key":
			if _, ok = i.Tags[values[0]]; ok {
				continue
			}
		default:
			ok = false
		}
		matches := func(pattern string) bool { m, _ := path.Match(pattern, have); return m }
		if !ok || !slices.ContainsFunc(values, matches) {
			return false
		}
	}
	return true
}

// motoImage is the published image from which moto starts all machines.
const motoImage = "ami-a1202300000000000"
