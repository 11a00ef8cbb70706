package azuretest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Image is an image from which machines start.
type Image struct {
	// ID is one of
	//   /subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/galleries/GALLERY/images/NAME
	//   /subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/images/NAME
	//   /CommunityGalleries/GALLERY/images/NAME
	//   publisher:offer:sku
	ID string
	// Architecture is x64 if "", Generation V2 if "", System Linux if "". Unsaid means that Azure does not give the architecture.
	Architecture, Generation, System string
	Unsaid                           bool
	// NVMe means that the image can start with disks that are attached by NVMe.
	NVMe bool
	// Specialized means that it is a copy of one machine.
	Specialized bool
	// Region is the region of a managed image, Location if "".
	Region string
	// Versions are the versions of an image in a gallery or the marketplace.
	Versions []Version
	// Plan means that a machine has to name a plan. Unaccepted means that the plan's terms have not been accepted.
	Plan, Unaccepted bool
}

// Version is a version of an image.
type Version struct {
	Name      string
	Published time.Time
	Excluded  bool   // from being the latest
	State     string // the provisioning state, Succeeded if ""; only in galleries
	// Regions are the regions in which a gallery has the image, by Azure's display names, such as "East US". If it is empty, Azure's answers do not
	// contain the regions.
	Regions []string
}

// AddImage adds or replaces an image. It returns its ID.
func (s *Subscription) AddImage(image Image) string {
	if image.Architecture == "" {
		image.Architecture = "x64"
	}
	if image.Generation == "" {
		image.Generation = "V2"
	}
	if image.System == "" {
		image.System = "Linux"
	}
	if strings.Contains(image.ID, "/providers/Microsoft.Compute/images/") {
		target := parseTarget(image.ID)
		s.Put(target.group, "Microsoft.Compute/images", target.name(), object{
			"hyperVGeneration": image.Generation, "storageProfile": object{"osDisk": object{"osType": image.System, "osState": image.state()}}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resources[strings.ToLower(image.ID)]; r != nil && image.Region != "" {
		r.body["location"] = image.Region
	}
	s.images[strings.ToLower(image.ID)] = image
	return image.ID
}

// image returns the image that a call asks for.
func (s *Subscription) image(c *Call) (Image, bool) {
	id := ""
	switch strings.TrimSuffix(c.kind, "/versions") {
	case galleryKind:
		id, _, _ = strings.Cut(c.id(), "/versions")
	case communityKind:
		id = "/CommunityGalleries/" + c.names[1] + "/images/" + c.names[2]
	default:
		id = c.names[1] + ":" + c.names[3] + ":" + c.names[4]
	}
	image, known := s.images[strings.ToLower(id)]
	return image, known
}

func (s *Subscription) getImage(c *Call) answer {
	image, known := s.image(c)
	if !known {
		return notFound(c)
	}
	properties := object{"osType": image.System, "osState": image.state(), "hyperVGeneration": image.Generation}
	if image.NVMe {
		properties["features"] = features()
	}
	if !image.Unsaid {
		properties["architecture"] = image.Architecture
	}
	if image.Plan {
		properties["purchasePlan"] = image.plan()
	}
	return ok(object{"id": image.ID, "name": c.name(), "location": Location, "properties": properties})
}

// features returns the features of an image that can start with disks that are attached by NVMe.
func features() []any { return []any{object{"name": "DiskControllerTypes", "value": "SCSI, NVMe"}} }

func (i Image) state() string {
	if i.Specialized {
		return "Specialized"
	}
	return "Generalized"
}

// plan returns the plan of an image that needs one. The images of galleries come from one of the marketplace.
func (i Image) plan() object {
	parts := strings.Split(i.ID, ":")
	if len(parts) != 3 {
		parts = []string{"publisher", "offer", "sku"}
	}
	return object{"publisher": parts[0], "product": parts[1], "name": parts[2]}
}

func (s *Subscription) listVersions(c *Call) answer {
	image, known := s.image(c)
	if !known {
		return notFound(c)
	}
	values := []any{}
	for _, v := range image.Versions {
		values = append(values, image.version(c.kind, v))
	}
	if c.kind == marketplaceKind+"/versions" {
		return ok(values) // no object, unlike other lists
	}
	return s.page(c, values, pageSize)
}

func (s *Subscription) getVersion(c *Call) answer {
	image, known := s.image(c)
	if known {
		for _, v := range image.Versions {
			if v.Name == c.name() {
				return ok(image.version(c.kind, v))
			}
		}
	}
	return notFound(c)
}

// version returns a version in the form of its kind of image.
func (i Image) version(kind string, v Version) object {
	published := v.Published.UTC().Format(time.RFC3339)
	out := object{"id": i.ID + "/versions/" + v.Name, "name": v.Name, "location": Location}
	switch strings.TrimSuffix(kind, "/versions") {
	case communityKind:
		out["identifier"] = object{"uniqueId": i.ID + "/versions/" + v.Name}
		out["properties"] = object{"publishedDate": published, "excludeFromLatest": v.Excluded}
	case marketplaceKind:
		properties := object{"architecture": i.Architecture, "hyperVGeneration": i.Generation, "osDiskImage": object{"operatingSystem": i.System}}
		if i.NVMe {
			properties["features"] = features()
		}
		if i.Plan {
			properties["plan"] = i.plan()
		}
		out["properties"] = properties
	default:
		profile := object{"publishedDate": published, "excludeFromLatest": v.Excluded}
		if len(v.Regions) > 0 {
			regions := []any{}
			for _, name := range v.Regions {
				regions = append(regions, object{"name": name, "regionalReplicaCount": 1})
			}
			profile["targetRegions"] = regions
		}
		out["properties"] = object{"provisioningState": cmp.Or(v.State, "Succeeded"), "publishingProfile": profile}
	}
	return out
}

// checkImage returns the reason why a machine of a size cannot start from its image, nil if it can.
func (s *Subscription) checkImage(size Size, body object) *Fault {
	id, version := "", ""
	for _, field := range []string{"id", "communityGalleryImageId", "sharedGalleryImageId"} {
		if text := textAt(body, "properties.storageProfile.imageReference."+field); text != "" {
			id, version, _ = strings.Cut(text, "/versions/")
		}
	}
	if id == "" {
		reference := "properties.storageProfile.imageReference."
		id = textAt(body, reference+"publisher") + ":" + textAt(body, reference+"offer") + ":" + textAt(body, reference+"sku")
		version = textAt(body, reference+"version")
	}
	image, known := s.images[strings.ToLower(id)]
	has := version == "" || version == "latest"
	for _, v := range image.Versions {
		has = has || v.Name == version
	}
	switch {
	case !known || !has:
		return &Fault{Status: http.StatusNotFound, Code: "ImageNotFound", Message: fmt.Sprintf("The Image '%s' with version '%s' cannot be found in '%s' region.", id, version, Location)}
	case image.Architecture != size.arch():
		return &Fault{Status: http.StatusBadRequest, Code: "InvalidParameter", Message: fmt.Sprintf("Cannot create a VM of size '%s' because this VM size only supports a CPU Architecture of '%s', but an image or disk with CPU Architecture '%s' was given.", size.Name, size.arch(), image.Architecture)}
	case size.Controllers == "NVMe" && !image.NVMe && !strings.HasPrefix(image.ID, "/CommunityGalleries/AKS"):
		return &Fault{Status: http.StatusBadRequest, Code: "InvalidParameter", Message: fmt.Sprintf("The VM size '%s' cannot boot with OS image or disk. Please check that disk controller types supported by the OS image or disk is one of the supported disk controller types for the VM size '%s'.", size.Name, size.Name)}
	case !strings.Contains(size.generations(), image.Generation):
		return &Fault{Status: http.StatusBadRequest, Code: "BadRequest", Message: fmt.Sprintf("The selected VM size '%s' cannot boot Hypervisor Generation '%s'. If this was a Create operation please check that the Hypervisor Generation of the Image matches the Hypervisor Generation of the selected VM Size.", size.Name, strings.TrimPrefix(image.Generation, "V"))}
	case image.Plan && at(body, "plan") == nil:
		return &Fault{Status: http.StatusBadRequest, Code: "VMMarketplaceInvalidInput", Message: "Creating a virtual machine from Marketplace image requires Plan information in the request."}
	case image.Unaccepted:
		return &Fault{Status: http.StatusBadRequest, Code: "MarketplacePurchaseEligibilityFailed", Message: "Marketplace purchase eligibility check returned errors. Legal terms have not been accepted for this item on this subscription."}
	}
	return nil
}
