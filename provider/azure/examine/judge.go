package examine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"k8s.io/utils/ptr"

	"tenon.sh/provider"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/network"
)

const (
	checkAsker    = "azure identity"
	checkLocation = "azure location"
	checkGroup    = "azure resource group"
	checkRights   = "azure rights"
	checkQuotas   = "azure quotas"
	checkNetwork  = "azure network"
	checkImages   = "azure images"
	checkDisks    = "azure disks"
)

// fewAddresses is the number of free addresses below which there is a warning.
const fewAddresses = 32

func ok(check, object, format string, args ...any) provider.Finding {
	return provider.Finding{Level: provider.OK, Check: check, Object: object, Says: fmt.Sprintf(format, args...)}
}

func problem(check, object, says, do string) provider.Finding {
	return provider.Finding{Level: provider.Problem, Check: check, Object: object, Says: says, Do: do}
}

func warning(check, object, says, do string) provider.Finding {
	return provider.Finding{Level: provider.Warning, Check: check, Object: object, Says: says, Do: do}
}

// failed returns the finding for a failed call about an object with an ID. If Azure is only busy, it is a warning.
func failed(check, object, what string, err error, scope string) provider.Finding {
	var call *cloud.Error
	if errors.As(err, &call) {
		err = call // without the text that callers have added
	}
	f := problem(check, object, what+": "+line(err), "")
	switch {
	case cloud.Unknown(err):
		f.Do = "see to the credentials of whoever runs this: AZURE_CLIENT_ID, AZURE_TENANT_ID, and the federated credential of the service account"
	case cloud.Denied(err):
		f.Do = "grant " + scope + " to whoever runs this"
		if right, known := cloud.RightOf(call.Call); known {
			f.Do = fmt.Sprintf("grant %s (role %q, or that of deploy/azure) on %s to whoever runs this", right.Action, cloud.RoleOf(call.Call), scope)
		}
	case cloud.Passing(err):
		f.Level, f.Do = provider.Warning, "run this again"
	}
	return f
}

// named returns the finding for a resource that a setting names by its ID, after an attempt to read it.
func named(check, object, id, setting string, err error) provider.Finding {
	switch {
	case err == nil:
		return ok(check, object, "it is there")
	case cloud.NotFound(err):
		return problem(check, object, id+" does not exist", "make it, or correct "+setting)
	}
	f := failed(check, object, "it cannot be read", err, id)
	f.Do = cmp.Or(f.Do, "correct "+setting)
	return f
}

func judgeAsker(who cloud.Asker, err error) []provider.Finding {
	if err != nil {
		return []provider.Finding{problem(checkAsker, "", "there is no token for Azure: "+line(err),
			"see to the credentials of whoever runs this: AZURE_CLIENT_ID, AZURE_TENANT_ID, the pod's label azure.workload.identity/use, and the federated credential of the service account")}
	}
	name := cmp.Or(who.Name, "somebody whom the token does not name")
	if who.Object != "" {
		name += " (object " + who.Object + " of tenant " + who.Tenant + ")"
	}
	return []provider.Finding{ok(checkAsker, "", "Azure is asked as %s; the controller's own rights show when this runs in its pod: kubectl exec deploy/karpenter -- tenon doctor", name)}
}

func (x *Examiner) judgeSizes(n int, err error) []provider.Finding {
	object := "location " + x.Cloud.Location
	switch {
	case err != nil:
		return []provider.Finding{failed(checkLocation, object, "what it sells cannot be listed", err, x.subscriptionID())}
	case n == 0:
		return []provider.Finding{problem(checkLocation, object, "it sells no machines to subscription "+x.Cloud.Subscription,
			"see that LOCATION is a name of Azure's (eastus), and grant Microsoft.Compute/skus/read on "+x.subscriptionID())}
	}
	return []provider.Finding{ok(checkLocation, object, "it sells %d sizes of machines", n)}
}

func (x *Examiner) subscriptionID() string { return "/subscriptions/" + x.Cloud.Subscription }

// judgeRights lists the actions that are not allowed.
func judgeRights(object, scope string, actions []string, allowed []cloud.Permission) provider.Finding {
	var denied []string
	for _, action := range actions {
		if !cloud.Allows(allowed, action) {
			denied = append(denied, action)
		}
	}
	if len(denied) > 0 {
		return problem(checkRights, object, "not allowed: "+strings.Join(denied, ", "), "assign the role of deploy/azure/role.json on "+scope+" to whoever runs this")
	}
	return ok(checkRights, object, "what the controller does there is allowed")
}

// familiesOf returns the quotas of the families of the machines, in lower case. Spot machines do not count against them.
func familiesOf(machines []*armcompute.VirtualMachine, sizes []*armcompute.ResourceSKU) (out []string) {
	families := map[string]string{}
	for _, s := range sizes {
		families[strings.ToLower(ptr.Deref(s.Name, ""))] = strings.ToLower(ptr.Deref(s.Family, ""))
	}
	for _, m := range machines {
		p := m.Properties
		if p == nil || p.HardwareProfile == nil || p.Priority != nil && *p.Priority == armcompute.VirtualMachinePriorityTypesSpot {
			continue
		}
		if family := families[strings.ToLower(string(ptr.Deref(p.HardwareProfile.VMSize, "")))]; family != "" && !slices.Contains(out, family) {
			out = append(out, family)
		}
	}
	return out
}

// The quotas beside those of families, in lower case.
const (
	regionalQuota = "cores"
	spotQuota     = "lowprioritycores"
)

// judgeQuotas checks the quotas of all machines, of spot machines, and of families in use.
func (x *Examiner) judgeQuotas(usages []*armcompute.Usage, families []string, err error) (out []provider.Finding) {
	object := "location " + x.Cloud.Location
	if err != nil {
		f := failed(checkQuotas, object, "they cannot be looked at: machines are asked for that Azure refuses", err, x.subscriptionID())
		return []provider.Finding{f}
	}
	looked := 0
	for _, u := range usages {
		if u == nil || u.Name == nil || u.CurrentValue == nil || u.Limit == nil || *u.Limit < 0 {
			continue
		}
		name := strings.ToLower(ptr.Deref(u.Name.Value, ""))
		if name != regionalQuota && name != spotQuota && !slices.Contains(families, name) {
			continue
		}
		looked++
		if f := judgeQuota(u, name); f.Level != "" {
			out = append(out, f)
		}
	}
	if looked > 0 && len(out) == 0 {
		out = append(out, ok(checkQuotas, object, "the quotas of cores, of spot cores and of %d families in use have room", len(families)))
	}
	return out
}

// judgeQuota returns a finding if at least nine tenths of a quota are in use. Otherwise it returns the zero value.
func judgeQuota(u *armcompute.Usage, name string) provider.Finding {
	used, limit := int64(*u.CurrentValue), *u.Limit
	object := "quota " + ptr.Deref(u.Name.LocalizedValue, ptr.Deref(u.Name.Value, name))
	const do = "ask Azure for a larger quota (Portal: Quotas, Compute), or let pools use other sizes"
	switch {
	case limit == 0 && name == spotQuota:
		return warning(checkQuotas, object, "it is 0: no spot machine can be started", do)
	case used >= limit && name == regionalQuota:
		return problem(checkQuotas, object, fmt.Sprintf("all %d cores are in use: no machine can be started on demand", limit), do)
	case used >= limit:
		return warning(checkQuotas, object, fmt.Sprintf("all %d cores are in use: no more of its machines can be started", limit), do)
	case used*10 >= limit*9:
		return warning(checkQuotas, object, fmt.Sprintf("%d of %d cores are in use", used, limit), do)
	}
	return provider.Finding{}
}

// judgeSubnet counts the free addresses.
func judgeSubnet(object string, subnet *network.Subnet) provider.Finding {
	const do = "enlarge it, or name another in spec.vnetSubnetID"
	all, used := subnet.Addresses()
	free := all - used
	switch {
	case all == 0:
		return ok(checkNetwork, object, "it is there")
	case free <= 0:
		return problem(checkNetwork, object, fmt.Sprintf("all %d addresses are in use: no machine can be started", all), do)
	case free < fewAddresses:
		return warning(checkNetwork, object, fmt.Sprintf("%d of %d addresses are free", free, all), do)
	}
	return ok(checkNetwork, object, "%d of %d addresses are free", free, all)
}

func judgeImage(object, id string, found int, wrong image.Problem, err error) provider.Finding {
	object += ": image"
	switch {
	case err != nil:
		return failed(checkImages, object, "it cannot be read", err, cmp.Or(id, "the gallery"))
	case wrong.Reason != "":
		return problem(checkImages, object, wrong.Message, "")
	}
	return ok(checkImages, object, "%d images can be used", found)
}

// line returns an error in one line.
func line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
