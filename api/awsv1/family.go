package awsv1

import (
	"fmt"
	"slices"
	"strings"
)

// Families of images.
const (
	FamilyAL2          = "AL2"
	FamilyAL2023       = "AL2023"
	FamilyBottlerocket = "Bottlerocket"
	FamilyCustom       = "Custom"
	FamilyWindows2019  = "Windows2019"
	FamilyWindows2022  = "Windows2022"
	FamilyWindows2025  = "Windows2025"
)

// Families returns all families, sorted by name.
func Families() []string {
	return []string{FamilyAL2, FamilyAL2023, FamilyBottlerocket, FamilyCustom, FamilyWindows2019, FamilyWindows2022, FamilyWindows2025}
}

// AliasLatest is the version of an alias that is always the newest image.
const AliasLatest = "latest"

// An Alias names images that are published for EKS.
//
// +kubebuilder:object:generate=false
type Alias struct {
	Family  string // as in Families
	Version string // AliasLatest, or as published: v20250505, 1.36.0
}

// ParseAlias reads family@version. The API server refuses all other texts, but objects may be older than its rules.
func ParseAlias(text string) (Alias, error) {
	name, version, found := strings.Cut(text, "@")
	if !found || version == "" || strings.Contains(version, "@") {
		return Alias{}, fmt.Errorf("alias %q: want a family and a version, family@version", text)
	}
	i := slices.IndexFunc(Families(), func(f string) bool { return f != FamilyCustom && strings.ToLower(f) == name })
	if i < 0 {
		return Alias{}, fmt.Errorf("alias %q: there is no family %q that has aliases", text, name)
	}
	family := Families()[i]
	if IsWindows(family) && version != AliasLatest {
		return Alias{}, fmt.Errorf("alias %q: the version of a Windows alias can only be %s", text, AliasLatest)
	}
	return Alias{Family: family, Version: version}, nil
}

// Alias returns the alias by which the class selects its images. found is false if there is none.
func (c *EC2NodeClass) Alias() (alias Alias, found bool, err error) {
	for _, t := range c.Spec.AMISelectorTerms {
		if t.Alias != "" {
			alias, err = ParseAlias(t.Alias)
			return alias, true, err
		}
	}
	return Alias{}, false, nil
}

// Family returns the family of the class's machines: the one that the class names, else that of its alias, else Custom.
func (c *EC2NodeClass) Family() string {
	if c.Spec.AMIFamily != nil {
		return *c.Spec.AMIFamily
	}
	if alias, found, err := c.Alias(); found && err == nil {
		return alias.Family
	}
	return FamilyCustom
}

// IsWindows reports whether machines of a family run Windows.
func IsWindows(family string) bool { return strings.HasPrefix(family, "Windows") }
