package userdata

import (
	"maps"
	"slices"
)

// keys are the names that a table of settings may have; "*" allows every name. If the entry of a name is nil, the setting may have any value.
// Otherwise, the setting has to be a table with the names in the entry.
type keys map[string]keys

// kubernetesKeys returns the keys of settings.kubernetes that Bottlerocket accepts.
func kubernetesKeys() keys {
	anything := keys{"*": nil}
	return keys{
		"api-server": nil, "cloud-provider": nil, "cluster-certificate": nil, "cluster-name": nil, "cluster-dns-ip": nil,
		"credential-providers": {"*": {"enabled": nil, "cache-duration": nil, "image-patterns": nil, "environment": anything}},
		"node-labels":          anything,
		"node-taints":          anything,
		"max-pods":             nil,
		"static-pods":          {"*": {"enabled": nil, "manifest": nil}},

		"eviction-hard": anything, "eviction-soft": anything, "eviction-soft-grace-period": anything,
		"eviction-max-pod-grace-period": nil,
		"kube-reserved":                 anything,
		"system-reserved":               anything,

		"allowed-unsafe-sysctls": nil, "server-tls-bootstrap": nil, "registry-qps": nil, "registry-burst": nil,
		"event-qps": nil, "event-burst": nil, "kube-api-qps": nil, "kube-api-burst": nil,
		"container-log-max-size": nil, "container-log-max-files": nil, "container-log-max-workers": nil,
		"container-log-monitor-interval": nil,

		"cpu-manager-policy": nil, "cpu-manager-policy-options": nil, "cpu-manager-reconcile-period": nil,
		"memory-manager-policy":          nil,
		"memory-manager-reserved-memory": {"*": {"enabled": nil, "memory": nil, "hugepages-2Mi": nil, "hugepages-1Gi": nil}},
		"topology-manager-scope":         nil,
		"topology-manager-policy":        nil,
		"topology-manager-policy-options": {
			"prefer-closest-numa-nodes": nil, "max-allowable-numa-nodes": nil,
		},

		"image-gc-high-threshold-percent": nil, "image-gc-low-threshold-percent": nil, "ids-per-pod": nil,
		"cpu-cfs-quota-enforced": nil, "shutdown-grace-period": nil, "shutdown-grace-period-for-critical-pods": nil,
		"cluster-domain": nil, "seccomp-default": nil, "pod-pids-limit": nil,
		"device-ownership-from-security-context": nil, "single-process-oom-kill": nil, "hostname-override-source": nil,
		"log-level": nil,
	}
}

// bootstrapCommandKeys returns the keys of settings.bootstrap-commands that Bottlerocket accepts.
func bootstrapCommandKeys() keys {
	return keys{"*": {"commands": nil, "mode": nil, "essential": nil}}
}

// droppedKeys collects the paths of dropped keys.
type droppedKeys struct{ names []string }

func (d *droppedKeys) add(path string) { d.names = append(d.names, path) }

// known returns a copy of a table with the allowed names only. For nil, it returns an empty table.
func known(value any, allowed keys, path string, dropped *droppedKeys) (table, error) {
	out := table{}
	if value == nil {
		return out, nil
	}
	from, ok := value.(table)
	if !ok {
		return nil, notATable(path)
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		below, ok := allowed[name]
		if !ok {
			below, ok = allowed["*"]
		}
		if !ok {
			dropped.add(path + "." + name)
			continue
		}
		if below == nil {
			out[name] = from[name]
			continue
		}
		sub, err := known(from[name], below, path+"."+name, dropped)
		if err != nil {
			return nil, err
		}
		out[name] = sub
	}
	return out, nil
}
