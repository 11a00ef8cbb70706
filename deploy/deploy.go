// Package deploy holds the manifests that Tenon needs in a cluster. The playground applies the same files as a real cluster, so that a fault in them
// shows in tests.
package deploy

//go:generate charts/copy-crds.sh
//go:generate cloudformation/generate.sh

import "embed"

// RBAC holds, in folder rbac, the service account that Tenon runs as and what it may do: rbac.yaml with the default settings, and
// settings.yaml with others, each role and binding with the label RightsFor. The namespace is kube-system.
//
//go:embed rbac
var RBAC embed.FS

// ManagementRBAC is what Tenon may do in a management cluster of Cluster API.
//
//go:embed clusterapi/rbac.yaml
var ManagementRBAC string

// RightsFor is the label that says which setting needs a role: the name of a feature gate, Devices or ClusterAutoscaler.
const RightsFor = "tenon.sh/rights-for"

// Namespace and ServiceAccount name the account of the manifests.
const (
	Namespace      = "kube-system"
	ServiceAccount = "tenon"
)
