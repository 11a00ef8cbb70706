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

// AWS returns the built-in "aws" catalog: the instance types of EC2 with their on-demand prices in us-east-1, as nodes
// running Amazon Linux 2023 with default settings would report them. Every type is sold in three zones, on demand and
// spot. The spot prices are not EC2's: see spotPrice.
//
// Types without a price are left out, and those that Amazon Linux 2023 does not run on.
func AWS() []engine.InstanceType { return DefaultEC2(UsualZones(awsRegion)) }

// EC2Type finds an instance type in the catalog AWS; nil if it is not there.
func EC2Type(name string) *engine.InstanceType { return ec2Types()[name] }

var ec2Types = sync.OnceValue(func() map[string]*engine.InstanceType {
	out := map[string]*engine.InstanceType{}
	types := AWS()
	for i := range types {
		out[types[i].Name] = &types[i]
	}
	return out
})

// DefaultEC2 is the catalog AWS in other zones.
func DefaultEC2(zones []Zone) []engine.InstanceType {
	types, err := EC2(DefaultClass(), zones)
	if err != nil {
		panic(fmt.Sprintf("the built-in catalog of EC2: %v", err)) // it is the same every time
	}
	return types
}

// DefaultClass stands for a class of which nothing is known: its nodes run Amazon Linux 2023 with default settings.
func DefaultClass() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{
		AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: strings.ToLower(awsv1.FamilyAL2023) + "@" + awsv1.AliasLatest}},
	}}
}

// EC2 lists what can be bought with a class in these zones, as the AWS provider would, from the figures of AWS: whatever the
// region, types and prices are those of us-east-1, also of machines that run Windows. What the figures do not tell, whether a
// type nests virtualization for example, is taken to be as the class wants it. The error says what is wrong with the class.
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

// placesOf says what a machine in each zone is labelled with. The region is a label of the types where there is one only.
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

// imageKinds are the machines that the class's images are for: those that were found, or else those of its alias. Nothing is
// known of others.
func imageKinds(class *awsv1.EC2NodeClass) (out []images.Requirements) {
	for _, image := range class.Status.AMIs {
		out = append(out, image.Requirements)
	}
	if alias, found, err := class.Alias(); len(out) == 0 && found && err == nil {
		out = images.Kinds(alias)
	}
	return out
}

// builtInPrices are those of BuiltIn, and spot prices that follow from them.
type builtInPrices map[string]float64

func (p builtInPrices) OnDemand(kind string) (float64, bool) {
	price, known := p[kind]
	return price, known
}

func (p builtInPrices) Spot(kind, zone string) (float64, bool) {
	price, known := p[kind]
	return spotPrice(kind, zone, price), known
}

// EC2Traits are what the status of a class says of machines of the types that were started.
func EC2Traits(class *awsv1.EC2NodeClass, types []engine.InstanceType, started map[string]bool) []engine.Trait {
	return assortment.Traits(class, types, started)
}

// Unoffered says why no catalog made by EC2 has a type, or a family, of this name, "" if some has.
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
