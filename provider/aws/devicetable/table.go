// Package devicetable holds the devices that drivers will publish on a machine of an EC2 type: NVIDIA's driver for GPUs, and DRANET for EFA
// interfaces. It is for machines that do not exist yet; the devices of a running node are known from its ResourceSlices.
package devicetable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tenon.sh/engine/device"
	"tenon.sh/provider/aws/size"
)

// For returns a function that returns the expected devices of a type, for a class with these settings. The class's condition reports a bad
// annotation.
func For(s *size.Settings) func(*size.Figures) []device.Template {
	sharing, err := SharingOf(s.Claims.Sharing)
	if gpus := s.Claims.NVIDIA && err == nil; gpus || s.Claims.EFA {
		return func(f *size.Figures) []device.Template {
			return slices.DeleteFunc(Pools(f, sharing), func(t device.Template) bool {
				// A class that lists its interfaces gets only those.
				return t.Driver == GPUDriver && !gpus || t.Driver == EFADriver && (!s.Claims.EFA || s.Interfaces != nil)
			})
		}
	}
	return func(*size.Figures) []device.Template { return nil }
}

// Pools lists the expected devices of a machine with these figures, in the order of drivers. GPUs without a row in the table are not listed.
func Pools(f *size.Figures, sharing Sharing) []device.Template {
	row := rowOf(f.Name)
	var out []device.Template
	if f.EFA > 0 {
		out = append(out, efas(f, row))
	}
	if row.product != "" && len(f.GPUs) > 0 {
		out = append(out, row.pool(max(1, f.GPUs[0].Count), sharing))
	}
	return out
}

func rowOf(name string) gpu {
	if row, ok := gpus[name]; ok {
		return row
	}
	family, _, _ := strings.Cut(name, ".")
	return gpus[family]
}

func (g *gpu) pool(count int, sharing Sharing) device.Template {
	out := device.Template{Driver: GPUDriver, Pool: gpuPool}
	for i := range count {
		shape := device.Shape{Driver: GPUDriver, Attributes: map[string]device.Value{
			"type": text("gpu"), "brand": text("Nvidia"), "productName": text(g.product), "architecture": text(g.architecture),
			// One driver serves all GPUs of a machine; its version depends on the image.
			"driverVersion": alike("driver"), "cudaDriverVersion": alike("cuda"),
		}, Capacities: map[string]device.Capacity{}}
		if g.compute != "" {
			shape.Attributes["cudaComputeCapability"] = device.Value{Kind: device.Version, Text: g.compute}
		}
		if g.roots != unseen {
			shape.Attributes[pcieRoot] = alike(g.root(i))
		}
		if g.mebibytes > 0 {
			shape.Capacities["memory"] = device.Capacity{Amount: g.mebibytes * mebibyte}
		}
		sharing.apply(&shape)
		out.Devices = append(out.Devices, device.Expected{Name: "gpu-" + strconv.Itoa(i), Shape: shape})
	}
	return out
}

// root returns the name of the root that GPU i is behind.
func (g *gpu) root(i int) string {
	switch g.roots {
	case together:
		i = 0
	case inPairs:
		i /= 2
	}
	return "root-" + strconv.Itoa(i)
}

// efas lists every interface that the type can have, because all are attached if a claim asks for one.
func efas(f *size.Figures, g gpu) device.Template {
	out := device.Template{Driver: EFADriver, Pool: efaPool}
	for i := range f.EFA {
		shape := device.Shape{Driver: EFADriver, Attributes: map[string]device.Value{
			"pciDevice": text("Elastic Fabric Adapter (EFA)"), "pciVendor": text("Amazon.com, Inc."), "rdma": {Kind: device.Truth, Text: "true"},
			"pciSubsystem": alike("efa"), // the generation, which is the same for all of the type
		}}
		switch {
		case g.efas > 0:
			shape.Attributes[pcieRoot] = alike(g.root(i / g.efas))
		case g.efasApart:
			shape.Attributes[pcieRoot] = alike(fmt.Sprintf("efa-root-%d", i))
		}
		out.Devices = append(out.Devices, device.Expected{Name: "efa-" + strconv.Itoa(i), Shape: shape})
	}
	return out
}

func text(s string) device.Value { return device.Value{Kind: device.Text, Text: s} }

func alike(group string) device.Value { return device.Value{Kind: device.Alike, Text: group} }
