package azuretest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Size is a size of machines, in Azure's list for the subscription.
type Size struct {
	Name, Family string // the family is the one of the quota
	CPUs         int
	// Usable is the number of usable CPUs of a constrained size; 0 means all.
	Usable    int
	MemoryGiB float64
	// Architecture is x64 if "", Generations is "V1,V2" if "".
	Architecture, Generations string
	// Controllers are the ways in which disks may be attached, in Azure's notation; "" means that they are not given.
	Controllers string
	GPUs        int
	// CachedDisk is in bytes, TempDisk and NVMeDisk in MiB: the places for an ephemeral disk.
	CachedDisk, TempDisk, NVMeDisk int64
	Placements                     string // of ephemeral disks
	Slow                           bool   // without accelerated networking
	Standard                       bool   // without premium disks
	Confidential                   bool
	NoSpot                         bool
	Zones                          []string
	// Restricted lists zones that the subscription may not use; "*" is the location.
	Restricted []string
	// Price, Spot and Windows are prices in USD per hour: on-demand, spot, and on-demand with Windows.
	Price, Spot, Windows float64
}

// sizes returns the initial sizes of a subscription: figures of Azure for eastus, of 2026-08.
func sizes() []Size {
	all, third := []string{"1", "2", "3"}, []string{"3"}
	return []Size{
		{Name: "Standard_B2s", Family: "standardBSFamily", CPUs: 2, MemoryGiB: 4, TempDisk: 8192, Placements: "CacheDisk", CachedDisk: 32212254720, Slow: true, NoSpot: true, Zones: all, Price: 0.0416, Windows: 0.0496},
		{Name: "Standard_D2_v2", Family: "standardDv2Family", CPUs: 2, MemoryGiB: 7, Generations: "V1", TempDisk: 102400, Standard: true, Zones: all, Price: 0.146, Spot: 0.028616, Windows: 0.229},
		{Name: "Standard_D2s_v5", Family: "standardDSv5Family", CPUs: 2, MemoryGiB: 8, Zones: all, Price: 0.096, Spot: 0.020266, Windows: 0.188},
		{Name: "Standard_D4s_v5", Family: "standardDSv5Family", CPUs: 4, MemoryGiB: 16, Zones: all, Price: 0.192, Spot: 0.040531, Windows: 0.376},
		{Name: "Standard_D8s_v5", Family: "standardDSv5Family", CPUs: 8, MemoryGiB: 32, Zones: all, Price: 0.384, Spot: 0.081062, Windows: 0.752},
		{Name: "Standard_D16s_v5", Family: "standardDSv5Family", CPUs: 16, MemoryGiB: 64, Zones: all, Price: 0.768, Spot: 0.162125, Windows: 1.504},
		{Name: "Standard_D2ps_v5", Family: "standardDPSv5Family", CPUs: 2, MemoryGiB: 8, Architecture: "Arm64", Generations: "V2", Zones: all, Price: 0.077, Spot: 0.016278},
		{Name: "Standard_D4pls_v6", Family: "StandardDplsv6Family", CPUs: 4, MemoryGiB: 8, Architecture: "Arm64", Generations: "V2", Zones: all, Price: 0.124, Spot: 0.040672},
		{Name: "Standard_D64s_v3", Family: "standardDSv3Family", CPUs: 64, MemoryGiB: 256, CachedDisk: 1717986918400, TempDisk: 524288, Placements: "CacheDisk,ResourceDisk", Zones: all, Price: 3.072, Spot: 0.602112, Windows: 6.016},
		{Name: "Standard_D128ds_v6", Family: "StandardDdsv6Family", CPUs: 128, MemoryGiB: 512, Generations: "V2", Controllers: "NVMe", NVMeDisk: 7208960, Placements: "NvmeDisk", Zones: all, Price: 7.973, Spot: 1.67911, Windows: 13.861},
		{Name: "Standard_E4s_v5", Family: "standardESv5Family", CPUs: 4, MemoryGiB: 32, Zones: all, Price: 0.252, Spot: 0.053071, Windows: 0.436},
		{Name: "Standard_E16-4ads_v5", Family: "standardEADSv5Family", CPUs: 16, Usable: 4, MemoryGiB: 128, Zones: all, Price: 1.048, Spot: 0.220709, Windows: 1.232},
		{Name: "Standard_DC2s_v3", Family: "standardDCSv3Family", CPUs: 2, MemoryGiB: 16, Generations: "V2", Confidential: true, Zones: third, Price: 0.192, Spot: 0.040282, Windows: 0.284},
		{Name: "Standard_NC24ads_A100_v4", Family: "StandardNCADSA100v4Family", CPUs: 24, MemoryGiB: 220, Generations: "V2", GPUs: 1, CachedDisk: 274877906944, TempDisk: 65536, NVMeDisk: 915527, Placements: "CacheDisk,ResourceDisk", Zones: third, Price: 3.673, Spot: 0.67877, Windows: 4.777},
	}
}

// SetSizes replaces the sizes.
func (s *Subscription) SetSizes(list ...Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = list
}

// Restrict forbids the subscription a size in some zones; "*" is the location.
func (s *Subscription) Restrict(name string, zones ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sizes {
		if s.sizes[i].Name == name {
			s.sizes[i].Restricted = zones
		}
	}
}

func (s *Subscription) size(name string) (Size, bool) {
	for _, size := range s.sizes {
		if strings.EqualFold(size.Name, name) {
			return size, true
		}
	}
	return Size{}, false
}

// arch and generations return the size's own value, or the default.
func (s Size) arch() string {
	if s.Architecture == "" {
		return "x64"
	}
	return s.Architecture
}

func (s Size) generations() string {
	if s.Generations == "" {
		return "V1,V2"
	}
	return s.Generations
}

func (s *Subscription) listSKUs(c *Call) answer {
	values := []any{}
	if filter := c.Query.Get("$filter"); filter != "" && !strings.Contains(filter, "'"+Location+"'") {
		return ok(object{"value": values})
	}
	for _, size := range s.sizes {
		values = append(values, size.sku())
	}
	// Azure's list contains resources that are not machines.
	values = append(values, object{"resourceType": "disks", "name": "Premium_LRS", "tier": "Premium", "size": "P10", "locations": []string{Location}, "restrictions": []any{}})
	return s.page(c, values, 1000)
}

func (s Size) sku() object {
	capabilities := []any{}
	add := func(name, value string) { capabilities = append(capabilities, object{"name": name, "value": value}) }
	title := func(b bool) string { return map[bool]string{true: "True", false: "False"}[b] }
	usable := s.Usable
	if usable == 0 {
		usable = s.CPUs
	}
	add("vCPUs", strconv.Itoa(s.CPUs))
	add("vCPUsAvailable", strconv.Itoa(usable))
	add("MemoryGB", strconv.FormatFloat(s.MemoryGiB, 'f', -1, 64))
	add("GPUs", strconv.Itoa(s.GPUs))
	add("CpuArchitectureType", s.arch())
	add("HyperVGenerations", s.generations())
	if s.Controllers != "" {
		add("DiskControllerTypes", s.Controllers)
	}
	add("AcceleratedNetworkingEnabled", title(!s.Slow))
	add("PremiumIO", title(!s.Standard))
	add("LowPriorityCapable", title(!s.NoSpot))
	add("EncryptionAtHostSupported", title(!s.Standard))
	add("EphemeralOSDiskSupported", title(s.Placements != ""))
	add("MaxResourceVolumeMB", strconv.FormatInt(s.TempDisk, 10))
	add("UltraSSDAvailable", "False")
	if s.Placements != "" {
		add("SupportedEphemeralOSDiskPlacements", s.Placements)
	}
	if s.CachedDisk > 0 {
		add("CachedDiskBytes", strconv.FormatInt(s.CachedDisk, 10))
	}
	if s.NVMeDisk > 0 {
		add("NvmeDiskSizeInMiB", strconv.FormatInt(s.NVMeDisk, 10))
	}
	if s.Confidential {
		add("ConfidentialComputingType", "SGX")
	}
	restrictions := []any{}
	if slices.Contains(s.Restricted, "*") {
		restrictions = append(restrictions, object{"type": "Location", "values": []string{Location}, "reasonCode": "NotAvailableForSubscription", "restrictionInfo": object{"locations": []string{Location}}})
	} else if len(s.Restricted) > 0 {
		restrictions = append(restrictions, object{"type": "Zone", "values": []string{Location}, "reasonCode": "NotAvailableForSubscription", "restrictionInfo": object{"locations": []string{Location}, "zones": s.Restricted}})
	}
	return object{
		"resourceType": "virtualMachines", "name": s.Name, "tier": "Standard", "size": strings.TrimPrefix(s.Name, "Standard_"), "family": s.Family, "locations": []string{Location},
		"locationInfo": []any{object{"location": Location, "zones": s.Zones, "zoneDetails": []any{}}}, "capabilities": capabilities, "restrictions": restrictions,
	}
}

// The quotas beside those of families.
const (
	RegionalQuota = "cores"
	SpotQuota     = "lowPriorityCores"
)

// SetQuota sets the largest number of cores in use: of a family, of all on-demand machines or of all spot machines. The initial quotas are
// very large.
func (s *Subscription) SetQuota(name string, cores int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotas[name] = cores
}

func (s *Subscription) limit(quota string) int {
	if limit, set := s.quotas[quota]; set {
		return limit
	}
	return 1_000_000
}

// used returns the number of cores that count against each quota.
func (s *Subscription) used() map[string]int {
	used := map[string]int{RegionalQuota: 0, SpotQuota: 0}
	for _, size := range s.sizes {
		used[size.Family] += 0
	}
	for _, r := range s.resources {
		if r.machine.spot {
			used[SpotQuota] += r.machine.cores
		} else if r.kind == vmKind {
			used[RegionalQuota] += r.machine.cores
			used[r.machine.family] += r.machine.cores
		}
	}
	return used
}

func (s *Subscription) listUsages(c *Call) answer {
	values := []any{}
	used := s.used()
	for _, name := range sortedKeys(used) {
		shown := map[string]string{RegionalQuota: "Total Regional vCPUs", SpotQuota: "Total Regional Spot vCPUs"}[name]
		if shown == "" {
			shown = name + " vCPUs"
		}
		values = append(values, object{"unit": "Count", "currentValue": used[name], "limit": s.limit(name), "name": object{"value": name, "localizedValue": shown}})
	}
	return s.page(c, values, 1000)
}

// beyond returns a fault that names the quota that a machine would exceed, nil if there is none.
func (s *Subscription) beyond(size Size, spot bool) *Fault {
	used := s.used()
	quotas := []struct{ name, shown string }{{size.Family, size.Family + " Cores"}, {RegionalQuota, "Total Regional Cores"}}
	if spot {
		quotas = quotas[:1]
		quotas[0].name, quotas[0].shown = SpotQuota, "LowPriorityCores"
	}
	for _, q := range quotas {
		if limit := s.limit(q.name); used[q.name]+size.CPUs > limit {
			return &Fault{Code: "OperationNotAllowed", Message: fmt.Sprintf("Operation could not be completed as it results in exceeding approved %s quota. Additional details - Deployment Model: Resource Manager, Location: %s, Current Limit: %d, Current Usage: %d, Additional Required: %d, (Minimum) New Limit Required: %d. Submit a request for Quota increase.",
				q.shown, Location, limit, used[q.name], size.CPUs, used[q.name]+size.CPUs)}
		}
	}
	return nil
}

// Offering selects offerings; "" as a field means any, and zone "0" no zone.
type Offering struct{ Size, Zone, CapacityType string }

// capacity is the number of machines that are left of some offerings.
type capacity struct {
	Offering
	left int
	code string
}

// Limit leaves a number of machines for all matching offerings together. Requests beyond it are refused with code, AllocationFailed if "".
// SkuNotAvailable refuses the call itself; other codes end the operation of an accepted call. A later Limit for the same offering replaces an
// earlier one.
func (s *Subscription) Limit(o Offering, machines int, code string) {
	if code == "" {
		code = "AllocationFailed"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = slices.DeleteFunc(s.capacity, func(c *capacity) bool { return c.Offering == o })
	s.capacity = append(s.capacity, &capacity{o, machines, code})
}

// place takes the capacity for a machine, or returns the reason why there is none. A fault with Async is for the operation's end.
func (s *Subscription) place(size Size, body object, spot bool) *Fault {
	if fault := s.beyond(size, spot); fault != nil {
		return fault
	}
	zone, kind := zoneOf(body), "on-demand"
	if zone == "" {
		zone = "0"
	}
	if spot {
		kind = "spot"
	}
	var takes []*capacity
	for _, c := range s.capacity {
		fits := (c.Size == "" || c.Size == size.Name) && (c.Zone == "" || c.Zone == zone) && (c.CapacityType == "" || c.CapacityType == kind)
		switch {
		case fits && c.left == 0:
			return &Fault{Code: c.code, Message: refusalText(c.code, size.Name), Async: c.code != "SkuNotAvailable"}
		case fits:
			takes = append(takes, c)
		}
	}
	for _, c := range takes {
		c.left--
	}
	return nil
}

// refusalText returns Azure's message for a code.
func refusalText(code, size string) string {
	switch code {
	case "SkuNotAvailable":
		return fmt.Sprintf("The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: %s' is currently not available in location '%s'. Please try another size or deploy to a different location or different zone. See https://aka.ms/azureskunotavailable for details.", size, Location)
	case "ZonalAllocationFailed":
		return "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone. Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance"
	case "AllocationFailed":
		return "Allocation failed. We do not have sufficient capacity for the requested VM size in this region. Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance"
	case "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest":
		return "Create or update operations for VM failed because of constraints that could not be satisfied. Constraints applied are: VM Size, Networking Constraints (such as Accelerated Networking or IPv6), Low Priority Virtual Machines."
	}
	return "There is not enough capacity (" + code + ")."
}

// checkVM returns the size of a machine, or the mistake in its description.
func (s *Subscription) checkVM(c *Call, body object) (Size, *Fault) {
	bad := func(code, format string, args ...any) (Size, *Fault) {
		return Size{}, &Fault{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
	}
	name := textAt(body, "properties.hardwareProfile.vmSize")
	size, known := s.size(name)
	switch {
	case !known:
		return bad("InvalidParameter", "The value %s provided for the VM size is not valid. The valid sizes in the current region are listed by the resource SKUs.", name)
	case len(c.name()) > 64 || len(textAt(body, "properties.osProfile.computerName")) > 64:
		return bad("InvalidParameter", "Linux VM name may only contain 1-64 characters, letters, numbers, and '-', '.', '_'.")
	case len(textAt(body, "properties.osProfile.customData")) > 87380:
		return bad("InvalidParameter", "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.")
	case textAt(body, "properties.osProfile.adminUsername") == "" && at(body, "properties.osProfile") != nil:
		return bad("InvalidParameter", "Required parameter 'adminUsername' is missing (null).")
	}
	if fault := s.checkImage(size, body); fault != nil {
		return Size{}, fault
	}
	if fault := s.checkNICs(c.Path, body); fault != nil {
		return Size{}, fault
	}
	zone := zoneOf(body)
	if slices.Contains(size.Restricted, "*") || zone != "" && slices.Contains(size.Restricted, zone) || !hasZone(size, zone) {
		return Size{}, &Fault{Code: "SkuNotAvailable", Message: refusalText("SkuNotAvailable", name)}
	}
	return size, nil
}
