package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/expression"
	"tenon.sh/provider/aws/images"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/size"
)

// awsRegion is the region whose prices are built in.
const awsRegion = "us-east-1"

// AWS returns the built-in "aws" catalog: the instance types of EC2 with their on-demand prices in us-east-1, as nodes with Amazon Linux 2023
// and default settings would report them. Every type is sold in three zones, on demand and spot. The spot prices are not EC2's: see
// spotPrice.
//
// Types without a price are left out, as are types that cannot run Amazon Linux 2023.
func AWS() []engine.InstanceType { return DefaultEC2(UsualZones(awsRegion)) }

// EC2Type returns an instance type of the catalog that the function AWS returns. It returns nil if that catalog does not have the type.
func EC2Type(name string) *engine.InstanceType { return ec2Types()[name] }

var ec2Types = sync.OnceValue(func() map[string]*engine.InstanceType {
	out := map[string]*engine.InstanceType{}
	types := AWS()
	for i := range types {
		out[types[i].Name] = &types[i]
	}
	return out
})

// DefaultEC2 returns the same catalog as the function AWS, but for other zones.
func DefaultEC2(zones []Zone) []engine.InstanceType {
	types, err := EC2(DefaultClass(), zones)
	if err != nil {
		panic(fmt.Sprintf("the built-in catalog of EC2: %v", err)) // the input is always the same, so a test would fail
	}
	return types
}

// DefaultClass returns the class that is assumed if no class is known: its nodes run Amazon Linux 2023 with default settings.
func DefaultClass() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{
		AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: strings.ToLower(awsv1.FamilyAL2023) + "@" + awsv1.AliasLatest}},
	}}
}

// EC2 returns the catalog that the AWS provider would return for a class in these zones, from the built-in figures of AWS. Types and prices
// are those of us-east-1 and of Linux, whatever the region and the operating system. If the figures lack a property (whether a type nests
// virtualization), the type is assumed to have the property that the class demands. The error describes a mistake in the class.
func EC2(class *awsv1.EC2NodeClass, zones []Zone) ([]engine.InstanceType, error) {
	managed, err := kubelet.Read(class.Spec.Kubelet)
	if err != nil {
		return nil, err
	}
	if problems := append(kubelet.Invalid(class.Spec.Kubelet), kubelet.Unsupported(class.Family(), class.Spec.Kubelet, &managed)...); len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	var calculator *expression.Calculator
	if len(kubelet.Expressions(&managed)) > 0 {
		calculator = expression.New()
	}
	figures, prices := BuiltIn()
	settings, demands := size.SettingsOf(class, managed, size.DefaultMemoryOverhead, 0), size.DemandsOf(class, "")
	sizes, err := assortment.Sizes(figures, &settings, calculator, nil)
	if err != nil {
		return nil, err
	}
	labels := assortment.Labels(figures, awsRegion, settings.Family)
	places := placesOf(zones, labels)
	offerings := assortment.Offerings(figures, nil, builtInPrices(prices), places)
	return assortment.Select(figures, &demands, imageKinds(class), labels, sizes, func(i int) []engine.Offering {
		if _, priced := prices[figures[i].Name]; !priced {
			return nil
		}
		return offerings[i]
	}), nil
}

// placesOf returns the labels of a machine's place, by zone. If there is only one region, the types have its label, not the places.
func placesOf(zones []Zone, labels []map[string][]string) (out []assortment.Place) {
	var regions []string
	for _, z := range zones {
		out = append(out, assortment.Place{Zone: z.Name, ZoneID: z.ID, Region: RegionOf(z.Name)})
		regions = append(regions, RegionOf(z.Name))
	}
	slices.Sort(regions)
	regions = slices.Compact(regions)
	for i := range labels {
		labels[i][corev1.LabelTopologyRegion] = regions
	}
	for i := range out {
		if len(regions) == 1 {
			out[i].Region = ""
		}
	}
	return out
}

// imageKinds returns the kinds of machines for which the class has images. If the class's status has images, their kinds are returned. Otherwise,
// the kinds follow from the class's alias. Without images and alias, it returns nil.
func imageKinds(class *awsv1.EC2NodeClass) (out []images.Requirements) {
	for _, image := range class.Status.AMIs {
		out = append(out, image.Requirements)
	}
	if alias, found, err := class.Alias(); len(out) == 0 && found && err == nil {
		out = images.Kinds(alias)
	}
	return out
}

// builtInPrices are the on-demand prices of BuiltIn by type, and spot prices that are computed from them.
type builtInPrices map[string]float64

func (p builtInPrices) OnDemand(kind string) (float64, bool) {
	price, known := p[kind]
	return price, known
}

func (p builtInPrices) Spot(kind, zone string) (float64, bool) {
	price, known := p[kind]
	return spotPrice(kind, zone, price), known
}

// EC2Traits returns the traits that machines of a class should have, by its status. started has the types of the class's machines.
func EC2Traits(class *awsv1.EC2NodeClass, types []engine.InstanceType, started map[string]bool) []engine.Trait {
	return assortment.Traits(class, types, started)
}

// Unoffered returns the reason why no catalog of EC2 has a type or family of this name, "" if one has.
func Unoffered(name string) string {
	figures, prices := BuiltIn()
	known := false
	for i := range figures {
		family, _, _ := strings.Cut(figures[i].Name, ".")
		if figures[i].Name != name && family != name {
			continue
		}
		if _, priced := prices[figures[i].Name]; priced {
			return ""
		}
		known = true
	}
	if known {
		return "no price of it is known in " + awsRegion
	}
	return "no figures of it are built in"
}
