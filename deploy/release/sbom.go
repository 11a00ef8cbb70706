package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// A contents lists the modules that one program was linked from, by its own build info.
type contents struct {
	version, label, hash string // of the program: its SHA-256
	created              time.Time
	modules              []module // with Go's standard library, sorted
}

type module struct{ path, version string }

// purl names a module in the way that scanners look it up.
func (m module) purl() string {
	namespace, name := path.Split(m.path)
	p := packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, m.version, nil, "")
	_ = p.Normalize() // it leaves a name that it cannot read as it is
	return p.ToString()
}

// modulesOf reads the modules that a program was linked from.
func modulesOf(content []byte) (out []module, goVersion string, err error) {
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, "", fmt.Errorf("read the build info of the program: %w", err)
	}
	for _, d := range info.Deps {
		if d.Replace != nil && d.Replace.Version != "" { // a module that is replaced by a folder keeps its name
			d = d.Replace
		}
		out = append(out, module{d.Path, d.Version})
	}
	out = append(out, module{"stdlib", strings.TrimPrefix(info.GoVersion, "go")})
	slices.SortFunc(out, func(a, b module) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	return out, info.GoVersion, nil
}

func (c *contents) program() module { return module{"tenon.sh", "v" + c.version} }

// spdx lists the contents in the form of SPDX 2.3.
func (c *contents) spdx() ([]byte, error) {
	main := spdx.ElementID("Package-tenon")
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      program + "-" + c.version + "-" + c.label,
		DocumentNamespace: "https://tenon.sh/spdx/" + program + "-" + c.version + "-" + c.label + "-" + c.hash,
		CreationInfo:      &spdx.CreationInfo{Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "tenon.sh/deploy/release"}}, Created: c.created.Format(time.RFC3339)},
		Relationships:     []*spdx.Relationship{relation("DOCUMENT", "DESCRIBES", main)},
	}
	root := spdxPackage(main, program, c.version, c.program().purl())
	root.PackageLicenseDeclared, root.PrimaryPackagePurpose = "Apache-2.0", "APPLICATION"
	root.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: c.hash}}
	document.Packages = append(document.Packages, root)
	for i, m := range c.modules {
		id := spdx.ElementID(fmt.Sprintf("Package-module-%d", i+1))
		document.Packages = append(document.Packages, spdxPackage(id, m.path, m.version, m.purl()))
		document.Relationships = append(document.Relationships, relation(main, "DEPENDS_ON", id))
	}
	var out bytes.Buffer
	err := spdxjson.Write(document, &out, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
	return out.Bytes(), err
}

func spdxPackage(id spdx.ElementID, name, version, purl string) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: purl}},
	}
}

func relation(from spdx.ElementID, kind string, to spdx.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to))}
}

// cyclonedx lists the contents in the form of CycloneDX 1.6.
func (c *contents) cyclonedx() ([]byte, error) {
	bom := cyclonedx.NewBOM()
	main := c.program().purl()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: c.created.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: main, Type: cyclonedx.ComponentTypeApplication, Name: program, Version: c.version, PackageURL: main,
			Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: c.hash}},
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	var components []cyclonedx.Component
	var needs []string
	for _, m := range c.modules {
		purl := m.purl()
		components = append(components, cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: purl})
		needs = append(needs, purl)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main, Dependencies: &needs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}
